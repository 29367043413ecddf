//! Room for tasks whose version uses other amounts of the capacities than the current one: while an update is unfinished, what fails is
//! replaced in its own version.
//!
//! Source: orchestration D7.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::capacity::Amounts;
use evenkeel_ids::TaskId;
use evenkeel_placement::place::{Buffer, FullNodes, Placed, Want, loading_tasks};
use evenkeel_planner_record::{
    report::Constraint,
    workload::{Slot, SpecVersion, Task},
};

use super::UnitPass;

/// Use of node capacities that a decision adds.
#[derive(Debug, Default)]
pub(super) struct AddedLoads {
    /// Instances that use what the current version does.
    current: BTreeMap<u32, u32>,
    /// Amounts that the other ones use.
    other: BTreeMap<u32, Amounts>,
}

impl<'a> UnitPass<'a> {
    /// Returns what a version uses, if the current one uses something else.
    pub fn other_loads_of(&self, spec: SpecVersion) -> Option<&'a Amounts> {
        let workload = self.facts.workload;
        workload.spec_loads.get(&spec.number).filter(|loads| **loads != workload.loads)
    }

    /// Counts a task that this decision has assigned to a node. `before`: how many instances the slot was there before, as to the capacities.
    pub(super) fn add_loads(&mut self, slot: &Slot, id: &TaskId, node: u32, before: u32) {
        let row = self.facts.table.node(node);
        if row.room.is_none() {
            return;
        }
        let more = loading_tasks(self.tasks(slot), &row.id).saturating_sub(before);
        let task = self.tasks(slot).iter().find(|task| task.id == *id);
        let Some(loads) = task.and_then(|task| self.other_loads_of(task.spec)) else {
            *self.loads.current.entry(node).or_default() += more;
            return;
        };
        let added = self.loads.other.entry(node).or_default();
        for (name, load) in loads {
            *added.entry(name.clone()).or_default() += load * f64::from(more);
        }
    }

    /// Returns what this decision adds to a node, in instances of the current version.
    pub(crate) fn added_load(&self, node: u32) -> u32 {
        let room = self.facts.table.node(node).room.as_ref();
        let others =
            self.loads.other.get(&node).zip(room).map_or(0, |(other, room)| room.instances_of(other));
        self.loads.current.get(&node).copied().unwrap_or(0).saturating_add(others)
    }

    /// Returns what this decision adds to all nodes, in instances of the current version.
    pub(super) fn added_loads(&self) -> BTreeMap<u32, u32> {
        let others = self.loads.other.keys().map(|node| (*node, self.added_load(*node)));
        let mut added = self.loads.current.clone();
        added.extend(others);
        added
    }

    /// Places one task of a version, as if an instance had left each of some nodes.
    pub fn place_one(&mut self, spec: SpecVersion, left: &[u32], want: Want, buffer: Buffer) -> Placed {
        let is_hard = self.facts.table.priorities().is_hard(Constraint::NodeCapacity);
        let Some(loads) = self.other_loads_of(spec).filter(|_| is_hard) else {
            return self.place_without(left, &[want], buffer);
        };
        let full = self.full_nodes(loads, buffer);
        let elimination = self.elimination_with(buffer, Some(full));
        // What the decision has added is in the nodes that are full.
        self.without(left, |pass| pass.place_beside(BTreeMap::new(), elimination, &[want]))
    }

    /// Returns the nodes without room for one more instance that uses such amounts.
    fn full_nodes(&self, loads: &Amounts, buffer: Buffer) -> FullNodes {
        let table = self.facts.table;
        let mut full =
            FullNodes { loads: loads.clone(), added: self.loads.other.clone(), ..FullNodes::default() };
        for (number, count) in &self.loads.current {
            let Some(room) = &table.node(*number).room else { continue };
            let added = full.added.entry(*number).or_default();
            for metric in &room.metrics {
                *added.entry(metric.name.to_string()).or_default() += metric.load * f64::from(*count);
            }
        }
        let is_full = |number: &u32| {
            let room = table.node(*number).room.as_ref();
            room.is_some_and(|room| full.is_full(*number, room, buffer))
        };
        let nodes = table.members().iter().filter(is_full).collect();
        FullNodes { nodes, ..full }
    }
}

/// Returns what the node of an instance has too little of for the current version in its place.
pub(crate) fn shortage(pass: &UnitPass<'_>, old: &Task) -> Option<String> {
    let loads = pass.facts.workload.spec_loads.get(&old.spec.number)?;
    pass.node_of(old)?.room.as_ref()?.shortage(|metric| loads.get(metric).copied().unwrap_or_default())
}
