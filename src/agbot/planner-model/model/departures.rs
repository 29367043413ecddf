//! Nodes that were deleted before anything confirmed that what ran there has stopped: it may run on until the agent has learned of the deletion.
//!
//! Source: orchestration A2 (deletion of a live node), C8.

use evenkeel_ids::NodeId;
use evenkeel_planner_record::{
    agreement::Agreement,
    departure::{Departure, Departures},
    report::Blocked,
    workload::{Task, Workload},
};
use jiff::Timestamp;

use super::Model;

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
    pub fn departing(&self, agreement: &Agreement, now: Timestamp) -> Option<Blocked> {
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
