//! Counts of an agbot's objects by state, for monitoring.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use evenkeel_ids::{GroupId, PolicyId};
use evenkeel_planner::agreement::{Agreement, AgreementState};
use evenkeel_planner::claims::Purpose;
use evenkeel_planner::facts::Availability;
use evenkeel_planner::model::{DecisionCounts, HealthCounts, Liveness, Model, NodeRecord, UnitRecord};
use evenkeel_planner::place::EliminationReport;
use evenkeel_planner::rolling::RolloutState;
use evenkeel_planner::workload::{SlotTasks, UnitId};
use jiff::Timestamp;

use crate::context::Context;
use crate::observe::inert::PolicyKind;

/// Counts by the name of a state.
pub type Counts = BTreeMap<&'static str, usize>;

/// The counts of an agbot at one instant.
///
/// # Shape
/// Every state of a map is present, also with 0. Several agbots of one database hold the same records and report the same counts of
/// agreements, rollouts, claims and nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Agreements that have not ended.
    pub agreements: Counts,
    /// Rollouts through HA groups.
    pub rollouts: Counts,
    /// Claims held, by purpose.
    pub claims: Counts,
    /// Nodes that are served.
    pub nodes: Counts,
    /// Policies that select nothing, by kind.
    pub inert_policies: Counts,
    /// Tasks, by policy and state; only those that there are.
    pub task_states: BTreeMap<(PolicyId, &'static str), usize>,
    /// The state of the update of each policy with tasks.
    pub update_states: Vec<(PolicyId, &'static str)>,
    /// Wanted instances without a node, by workload unit.
    pub unplaced: Vec<(UnitId, usize)>,
    /// Decisions of this agbot about each policy with tasks.
    pub decisions: BTreeMap<PolicyId, DecisionCounts>,
    /// First looks of this agbot at workload units that it took over.
    pub initial_passes: u64,
    /// Counts of the health checks and recoveries of this agbot.
    pub health: HealthCounts,
    /// Nodes that are blocked for a service version.
    pub blocklist_entries: usize,
    /// The claims held, with group and purpose.
    pub locks: Vec<(GroupId, &'static str)>,
    /// Inputs that wait for the planner.
    pub planner_queue: usize,
    /// Messages that could not be used.
    pub dropped_messages: u64,
}

impl Snapshot {
    pub(crate) fn of(context: &Context) -> Self {
        let now = context.now();
        let model = context.model();
        let agreements = model.agreements().filter(|agreement| agreement.is_live());
        Self {
            agreements: count(&["proposed", "finalized"], agreements.map(agreement_state)),
            rollouts: count(
                &["updating", "held", "completed", "abandoned"],
                model.rollouts().map(|rollout| rollout_state(&rollout.state)),
            ),
            claims: count(
                &["service-upgrade", "drain", "agent-upgrade"],
                model.claims().map(|claim| purpose(&claim.purpose)),
            ),
            nodes: count(
                &["up", "down", "never-heard", "paused", "draining"],
                model.nodes().map(|node| node_state(&model, node, now)),
            ),
            inert_policies: PolicyKind::ALL
                .into_iter()
                .map(|kind| (kind.word(), context.inert.count(kind)))
                .collect(),
            task_states: task_states(&model),
            update_states: model
                .workloads()
                .map(|record| (record.policy.clone(), record.update.state.word()))
                .collect(),
            unplaced: unplaced(&model),
            decisions: model.decision_counts().clone(),
            initial_passes: model.initial_passes(),
            health: health_counts(context, &model),
            blocklist_entries: model.blocklist().filter(|(_, entry)| entry.until.is_some()).count(),
            locks: model.claims().map(|claim| (claim.group.clone(), purpose(&claim.purpose))).collect(),
            planner_queue: context.queue_length(),
            dropped_messages: context.dropped_messages(),
        }
    }
}

fn count(states: &[&'static str], found: impl Iterator<Item = &'static str>) -> Counts {
    let mut counts: Counts = states.iter().map(|state| (*state, 0)).collect();
    for state in found {
        *counts.entry(state).or_default() += 1;
    }
    counts
}

fn task_states(model: &Model) -> BTreeMap<(PolicyId, &'static str), usize> {
    let mut counts = BTreeMap::new();
    for (unit_id, unit) in workload_units(model) {
        for task in unit.slots.values().flat_map(SlotTasks::iter) {
            *counts.entry((unit_id.policy.clone(), task.state.name())).or_default() += 1;
        }
    }
    counts
}

fn unplaced(model: &Model) -> Vec<(UnitId, usize)> {
    let reports =
        workload_units(model).filter_map(|(unit_id, unit)| Some((unit_id, unit.unplaced.as_ref()?)));
    let count = |report: &EliminationReport| report.requested.saturating_sub(report.placed) as usize;
    reports.map(|(unit_id, report)| (unit_id.clone(), count(report))).collect()
}

fn workload_units(model: &Model) -> impl Iterator<Item = (&UnitId, &UnitRecord)> {
    model.workloads().flat_map(|record| model.workload_units_of(&record.policy))
}

fn agreement_state(agreement: &Agreement) -> &'static str {
    match agreement.state {
        AgreementState::Proposed => "proposed",
        AgreementState::Finalized { .. } => "finalized",
        AgreementState::Ended { .. } => "ended",
    }
}

fn rollout_state(state: &RolloutState) -> &'static str {
    match state {
        RolloutState::Updating => "updating",
        RolloutState::Held { .. } => "held",
        RolloutState::Completed { .. } => "completed",
        RolloutState::Abandoned { .. } => "abandoned",
    }
}

fn purpose(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::ServiceUpgrade => "service-upgrade",
        Purpose::Drain => "drain",
        Purpose::AgentUpgrade { .. } => "agent-upgrade",
    }
}

/// Returns the state of a node; a silent node is down, whatever its availability.
fn node_state(model: &Model, node: &NodeRecord, now: Timestamp) -> &'static str {
    match (model.liveness(&node.facts.id, now), node.facts.availability) {
        (Liveness::NeverHeard, _) => "never-heard",
        (Liveness::Away { .. } | Liveness::Unheard { .. }, _) => "away",
        (Liveness::Down { .. }, _) => "down",
        (Liveness::Alive, Availability::Active) => "up",
        (Liveness::Alive, Availability::Pause) => "paused",
        (Liveness::Alive, Availability::Drain) => "draining",
    }
}

/// Returns what health checks and recoveries came to, with the checks that were broken themselves.
fn health_counts(context: &Context, model: &Model) -> HealthCounts {
    let counts = model.health_counts();
    let errors = counts.errors + context.broken_checks.load(Ordering::Relaxed);
    HealthCounts { errors, ..counts.clone() }
}
