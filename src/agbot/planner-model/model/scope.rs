//! The workload units of a workload, and those whose HA group is gone.
//!
//! Removing a group that a scope names ends nothing: what runs stays where it is, and nothing new starts. Only a user's stop, a smaller
//! number, or a change or deletion of the policy ends instances. Source: orchestration 1.3.

use std::collections::BTreeSet;

use evenkeel_ids::{GroupId, NodeId};
use evenkeel_planner_record::workload::{
    NodeScope, Part, SlotTasks, UnitId, Workload, WorkloadUnit, workload_units,
};

use super::Model;

impl Model {
    /// Returns the workload units that a workload has now.
    pub fn shape(&self, workload: &Workload) -> Vec<WorkloadUnit> {
        let selected = match workload.scope {
            NodeScope::Eligible => self.nodes_for(&workload.policy),
            _ => BTreeSet::new(),
        };
        let mut found = workload_units(&workload.policy, &workload.scope, &selected, &self.groups);
        if workload.scope == NodeScope::EveryGroup {
            let known = self.engine.units_of(&workload.policy).map(|(unit_id, _)| unit_id);
            let gone = known.filter(|unit_id| self.gone_group(unit_id).is_some());
            found.extend(gone.map(|unit_id| WorkloadUnit { id: unit_id.clone(), nodes: Vec::new() }));
        }
        for unit in found.iter_mut().filter(|unit| self.gone_group(&unit.id).is_some()) {
            unit.nodes = self.nodes_with_tasks(&unit.id).into_iter().collect();
        }
        found
    }

    /// Returns the HA group of a workload unit, if it does not exist.
    pub fn gone_group<'u>(&self, unit_id: &'u UnitId) -> Option<&'u GroupId> {
        match &unit_id.part {
            Part::Group(group) => Some(group).filter(|group| !self.groups.contains_key(*group)),
            Part::All => None,
        }
    }

    /// Returns the nodes that have instances of a workload unit, or are to have them. Without its group an instance is restarted where it was.
    pub(super) fn nodes_with_tasks(&self, unit_id: &UnitId) -> BTreeSet<NodeId> {
        let slots = self.engine.workload_units.get(unit_id).map(|unit| &unit.slots);
        let is_gone = self.gone_group(unit_id).is_some();
        let nodes_of = |tasks: &'_ SlotTasks| -> Vec<NodeId> {
            let last = tasks.iter().find(|task| task.node.is_some()).filter(|_| is_gone);
            let live = tasks.iter().filter(|task| !task.state.is_ended());
            live.chain(last).filter_map(|task| task.node.clone()).collect()
        };
        slots.into_iter().flatten().flat_map(|(_, tasks)| nodes_of(tasks)).collect()
    }
}
