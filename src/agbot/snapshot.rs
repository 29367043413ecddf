//! Counts of an agbot's objects by state, for monitoring.

use std::collections::BTreeMap;

use evenkeel_planner::agreement::{Agreement, AgreementState};
use evenkeel_planner::claims::Purpose;
use evenkeel_planner::facts::Availability;
use evenkeel_planner::model::{DecisionCounts, Liveness, Model, NodeRecord};
use evenkeel_planner::rolling::RolloutState;
use evenkeel_planner::supervise::UpdateState;
use evenkeel_planner::workload::{SlotTasks, TaskState};
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
    /// Tasks that have not ended.
    pub task_states: Counts,
    /// Updates of policies with tasks.
    pub update_states: Counts,
    /// Wanted instances without a node.
    pub unplaced: usize,
    /// Decisions of this agbot about policies with tasks.
    pub decisions: DecisionCounts,
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
            task_states: count(&TaskState::NAMES[..8], task_states(&model)),
            update_states: count(
                &UpdateState::ALL.map(UpdateState::word),
                model.workloads().map(|record| record.update.state.word()),
            ),
            unplaced: unplaced(&model),
            decisions: model.decision_counts(),
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

fn task_states(model: &Model) -> impl Iterator<Item = &'static str> {
    let parts = model.workloads().flat_map(|record| model.workload_units_of(&record.policy));
    let tasks = parts.flat_map(|(_, unit)| unit.slots.values().flat_map(SlotTasks::iter));
    tasks.filter(|task| !task.state.is_ended()).map(|task| task.state.name())
}

fn unplaced(model: &Model) -> usize {
    let parts = model.workloads().flat_map(|record| model.workload_units_of(&record.policy));
    let reports = parts.filter_map(|(_, unit)| unit.unplaced.as_ref());
    reports.map(|report| report.requested.saturating_sub(report.placed) as usize).sum()
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
        (Liveness::Down { .. }, _) => "down",
        (Liveness::Alive, Availability::Active) => "up",
        (Liveness::Alive, Availability::Pause) => "paused",
        (Liveness::Alive, Availability::Drain) => "draining",
    }
}
