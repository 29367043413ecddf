//! Adoption: the live agreements of a policy that gets `orchestration` become tasks.
//!
//! Source: orchestration 1.1-6.

use std::collections::BTreeMap;

use evenkeel_ids::{AgreementId, NodeId, TaskId};
use jiff::Timestamp;

use super::{Cause, DesiredState, Slot, SpecVersion, Task, TaskState, WorkloadUnit};
use crate::goal::Goal;

/// A live agreement of a workload without tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveAgreement {
    /// Its id.
    pub id: AgreementId,
    /// Its node.
    pub node: NodeId,
    /// Since when its instance is seen running; none when it is not.
    pub running_since: Option<Timestamp>,
}

/// Returns tasks for the live agreements of a workload unit; nothing is restarted by that.
///
/// # Shape
/// Slots are numbered in scope order, unless there is one for every node. Agreements of nodes outside the workload unit follow the
/// others, by node.
pub fn adopt(
    workload_unit: &WorkloadUnit,
    goal: &Goal,
    spec: SpecVersion,
    agreements: &[LiveAgreement],
    now: Timestamp,
) -> Vec<Task> {
    let positions: BTreeMap<&NodeId, usize> =
        workload_unit.nodes.iter().enumerate().map(|(position, node)| (node, position)).collect();
    let position = |node: &NodeId| positions.get(node).copied().unwrap_or(usize::MAX);
    let mut ordered: Vec<&LiveAgreement> = agreements.iter().collect();
    ordered.sort_by_key(|one| (position(&one.node), &one.node));
    let numbered = (1..).zip(ordered);
    numbered
        .map(|(number, agreement)| Task {
            id: TaskId::from_text(agreement.id.as_str()),
            unit_id: workload_unit.id.clone(),
            slot: goal.slot_of(number, &agreement.node),
            generation: 1,
            spec,
            node: Some(agreement.node.clone()),
            agreement: Some(agreement.id.clone()),
            desired: DesiredState::Running,
            state: if agreement.running_since.is_some() { TaskState::RUNNING } else { TaskState::Starting },
            seq: 0,
            cause: Cause::Scale,
            origin: None,
            created_at: now,
            start_at: now,
            desired_at: Some(now),
            state_at: now,
            running_at: agreement.running_since,
            ended_at: None,
            is_end_requested: None,
            restarts: super::NodeRestarts::default(),
            health: super::TaskHealth::default(),
        })
        .collect()
}

impl Goal {
    /// Returns the slot of an instance on a node: the node, if there is one on every node.
    fn slot_of(&self, number: u32, node: &NodeId) -> Slot {
        if self.is_per_node() { Slot::Node(node.clone()) } else { Slot::Number(number) }
    }
}
