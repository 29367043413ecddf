//! Counts of an agbot's objects by state, for monitoring.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use evenkeel_ids::{GroupId, PolicyId};
use evenkeel_planner_model::model::{DecisionCounts, HealthCounts, Liveness, Model, UnitRecord};
use evenkeel_planner_record::agreement::{Agreement, AgreementState};
use evenkeel_planner_record::claims::Purpose;
use evenkeel_planner_record::facts::Availability;
use evenkeel_planner_record::node_record::NodeRecord;
use evenkeel_planner_record::report::EliminationReport;
use evenkeel_planner_record::workload::UpdateState;
use evenkeel_planner_record::workload::{SlotTasks, UnitId};
use jiff::Timestamp;

use crate::{context::Context, inert::PolicyKind};

/// The state of a rollout whose policy, group or target is gone.
const ABANDONED: &str = "abandoned";

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
    /// Rollouts through HA groups, and updates of policies with tasks.
    pub rollouts: Counts,
    /// Claims held, by purpose.
    pub claims: Counts,
    /// Nodes that are served.
    pub nodes: Counts,
    /// Policies that select nothing, by kind.
    pub inert_policies: Counts,
    /// Organizations whose newest state is not known, because they could not be read.
    pub unread_orgs: Vec<String>,
    /// Tasks, by policy and state; only those that there are.
    pub task_states: BTreeMap<(PolicyId, &'static str), usize>,
    /// The state of the update of each policy with tasks or rollouts.
    pub update_states: BTreeMap<PolicyId, UpdateState>,
    /// Wanted instances without a node, by workload unit.
    pub unplaced: Vec<(UnitId, usize)>,
    /// Instances and workload units in error, by policy; only those that there are.
    pub workload_errors: BTreeMap<PolicyId, usize>,
    /// Decisions of this agbot about each policy with tasks.
    pub decisions: BTreeMap<PolicyId, DecisionCounts>,
    /// First reconciliations by this agbot of workload units that it took over.
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
            rollouts: rollouts(&model),
            claims: count(
                &["service-upgrade", "drain", "agent-upgrade"],
                model.claims().map(|claim| purpose(&claim.purpose)),
            ),
            nodes: count(
                &["up", "down", "away", "never-heard", "paused", "draining"],
                model.nodes().map(|node| node_state(&model, node, now)),
            ),
            inert_policies: PolicyKind::ALL
                .into_iter()
                .map(|kind| (kind.word(), context.inert.count(kind)))
                .collect(),
            unread_orgs: context.reading.unread.names(),
            task_states: task_states(&model),
            update_states: update_states(&model),
            unplaced: unplaced(&model),
            workload_errors: workload_errors(&model, now),
            decisions: model.decision_counts().clone(),
            initial_passes: model.initial_passes(),
            health: health_counts(context, &model),
            blocklist_entries: model.blocklist().filter(|(_, entry)| entry.until.is_some()).count(),
            locks: model.claims().map(|claim| (claim.group.clone(), purpose(&claim.purpose))).collect(),
            planner_queue: context.queue_length(),
            dropped_messages: context.mailbox.dropped(),
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

/// Counts what is reported to be in error, and instances without a task that keep exiting.
fn workload_errors(model: &Model, now: Timestamp) -> BTreeMap<PolicyId, usize> {
    let mut counts = model.workload_errors(now);
    for policy in model.crash_looping_policies(now) {
        *counts.entry(policy).or_default() += 1;
    }
    counts
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

/// Returns what the list of rollouts counts: those through HA groups, and the updates of policies with tasks.
fn rollouts(model: &Model) -> Counts {
    let started = UpdateState::ALL.into_iter().filter(|state| *state != UpdateState::None);
    let words: Vec<&str> = started.map(UpdateState::word).chain([ABANDONED]).collect();
    let of_groups =
        model.rollouts().map(|rollout| rollout.update_state().map_or(ABANDONED, UpdateState::word));
    let of_tasks = model.workloads().map(|record| record.update.state);
    let of_tasks = of_tasks.filter(|state| *state != UpdateState::None).map(UpdateState::word);
    count(&words, of_groups.chain(of_tasks))
}

/// Returns the state of the updates of each policy; of several rollouts the one that needs most attention.
fn update_states(model: &Model) -> BTreeMap<PolicyId, UpdateState> {
    let of_tasks = model.workloads().map(|record| (record.policy.clone(), record.update.state));
    let mut states: BTreeMap<PolicyId, UpdateState> = of_tasks.collect();
    for rollout in model.rollouts() {
        let Some(state) = rollout.update_state() else { continue };
        let known = states.entry(rollout.policy.clone()).or_default();
        if state.weight() > known.weight() {
            *known = state;
        }
    }
    states
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
