//! Nodes that were deleted before anything confirmed that what ran there has stopped: it may run on until the agent has learned of the deletion.
//!
//! Source: orchestration A2 (deletion of a live node), C8.

use std::collections::BTreeMap;

use evenkeel_ids::{NodeId, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Model;
use crate::{
    agreement::Agreement,
    health::fenced_at,
    reconcile::UnitSettings,
    report::Blocked,
    time::later,
    workload::{DesiredState, SlotTasks, Task, Workload},
};

/// The departure of a node whose agent has not confirmed that it stopped everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// When the node was deleted.
    pub deleted_at: Timestamp,
    /// Its last heartbeat.
    pub seen_at: Timestamp,
    /// Seconds without contact after which its guardian has killed a task.
    pub leases: BTreeMap<TaskId, u32>,
}

/// The departures that are not confirmed.
pub type Departures = BTreeMap<NodeId, Departure>;

impl Departure {
    /// Returns why a task may still run on the node.
    ///
    /// An agent that learns of the deletion stops everything. Otherwise the node counts as dead when a silent one would, and what runs there
    /// has had the time to stop; one that was down already counted as dead before. That is not certain, so where the policy asks for fencing
    /// only the agent's word, or a user's, counts, or the end of a lease on a node that was down: one that was alive may have renewed it. The
    /// deletion withdraws no permit: a task whose replacement was allowed to run before holds nothing.
    pub(crate) fn may_still_run(
        &self,
        (task, tasks): (&Task, &SlotTasks),
        workload: &Workload,
        settings: UnitSettings,
        now: Timestamp,
    ) -> Option<Blocked> {
        let is_fencing = workload.health.as_ref().is_some_and(|policy| policy.recovery.is_fencing());
        let node = task.node.clone()?;
        let silent_secs = settings.node_down_after_secs.saturating_add(settings.old_task_timeout_secs);
        let was_down = self.deleted_at >= later(self.seen_at, settings.node_down_after_secs);
        let lease_secs = self.leases.get(&task.id).filter(|_| was_down);
        let until = match (is_fencing, lease_secs) {
            (true, lease_secs) => lease_secs.map(|secs| fenced_at(*secs, self.seen_at)),
            (false, _) if was_down => Some(self.deleted_at),
            (false, _) => Some(later(self.deleted_at, silent_secs)),
        };
        let is_ended = task.state.is_ended() || is_replaced(task, tasks) || !is_alone(task, workload);
        let is_over = is_ended || until.is_some_and(|until| now >= until);
        (!is_over).then_some(Blocked::NodeDeparting { node, since: self.deleted_at, until })
    }
}

impl Model {
    /// Takes over which deleted nodes of an organization have not confirmed their end.
    pub(super) fn put_departures(&mut self, org: &str, nodes: &Departures) {
        let is_over = |node: &&NodeId| node.org() == org && !nodes.contains_key(*node);
        let over: Vec<NodeId> = self.departures.keys().filter(is_over).cloned().collect();
        for node in &over {
            self.departures.remove(node);
        }
        // What was seen on the node may count again, or not yet: both are decided about now.
        let is_changed =
            |(node, departure): &(&NodeId, &Departure)| self.departures.get(*node) != Some(*departure);
        let changed: Vec<NodeId> = nodes.iter().filter(is_changed).map(|(node, _)| node.clone()).collect();
        for node in over.into_iter().chain(changed) {
            self.touched.insert(node.clone());
            let policies: Vec<_> = self.engine.pairs_of(&node).map(|(_, policy)| policy.clone()).collect();
            for policy in policies {
                let workload_units: Vec<_> =
                    self.engine.units_of(&policy).map(|(unit_id, _)| unit_id.clone()).collect();
                self.engine.touched.extend(workload_units.into_iter().map(|unit_id| (unit_id, None)));
            }
        }
        self.departures.extend(nodes.iter().map(|(node, departure)| (node.clone(), departure.clone())));
    }

    /// Returns why the instance of an agreement that may run once only may still run on a node that was deleted.
    pub(crate) fn departing(&self, agreement: &Agreement, now: Timestamp) -> Option<Blocked> {
        let (task, workload) = (self.task_of(agreement)?, self.workload_of(&agreement.policy)?);
        self.departing_task(task, workload, now)
    }

    /// Returns why a task that may run once only may still run on a node that was deleted.
    pub(crate) fn departing_task(&self, task: &Task, workload: &Workload, now: Timestamp) -> Option<Blocked> {
        let departure = self.departures.get(task.node.as_ref()?)?;
        let settings = self.unit_settings(task.unit_id.policy.org());
        let tasks = self.workload_unit(&task.unit_id)?.tasks(&task.slot);
        departure.may_still_run((task, tasks), workload, settings, now)
    }
}

/// Returns whether a newer task of its slot was allowed to run in place of a task.
fn is_replaced(task: &Task, tasks: &SlotTasks) -> bool {
    let mut newer = tasks.iter().filter(|one| one.generation > task.generation);
    newer.any(|one| one.desired == DesiredState::Running || one.running_at.is_some())
}

/// Returns whether a task must have ended before another one takes its place.
fn is_alone(task: &Task, workload: &Workload) -> bool {
    workload.goal.is_exclusive() || task.health.supervision.lease_secs.is_some()
}
