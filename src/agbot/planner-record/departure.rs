//! The departure of a node: it was deleted before anything confirmed that what ran there has stopped, and may run on until the agent has learned
//! of the deletion.
//!
//! Source: orchestration A2 (deletion of a live node), C8.

use std::collections::BTreeMap;

use evenkeel_ids::{NodeId, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    health::fenced_at,
    report::Blocked,
    settings::UnitSettings,
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
    pub fn may_still_run(
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

/// Returns whether a newer task of its slot was allowed to run in place of a task.
fn is_replaced(task: &Task, tasks: &SlotTasks) -> bool {
    let mut newer = tasks.iter().filter(|one| one.generation > task.generation);
    newer.any(|one| one.desired == DesiredState::Running || one.running_at.is_some())
}

/// Returns whether a task must have ended before another one takes its place.
fn is_alone(task: &Task, workload: &Workload) -> bool {
    workload.goal.is_exclusive() || task.health.supervision.lease_secs.is_some()
}
