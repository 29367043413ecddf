//! The capacities of nodes, and what the tasks on them use.
//!
//! A change of one task costs one row of each workload unit whose instances use capacities and that has the node. Source: orchestration 1.7,
//! D7.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use evenkeel_domain::orchestration::capacity::Amounts;
use evenkeel_ids::{NodeId, OrgId, PolicyId, TaskId};
use evenkeel_placement::place::{Buffer, Metric, NodeRoom, loading};
use evenkeel_planner_record::{
    node_record::NodeRecord,
    workload::{Slot, SlotTasks, Task, UnitId, Workload},
};
use jiff::Timestamp;

use super::Model;

/// Capacities that a node without its own has by a property: the name, the property, and what one of it is.
const BY_PROPERTY: [(&str, &str, f64); 2] =
    [("memoryMb", "openhorizon.memory", 1.0), ("cpuMilli", "openhorizon.cpu", 1000.0)];

/// Use of one capacity of a node by tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct UsedCapacity {
    /// The name of the capacity.
    pub name: String,
    /// Amount that the tasks use.
    pub amount: f64,
    /// Amount that tasks may use while the buffer is kept free.
    pub usable: f64,
}

/// A capacity of all nodes of an organization that are not down.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CapacitySum {
    /// Amount that tasks use.
    pub used: f64,
    /// Amount that tasks may use while the buffer is kept free.
    pub usable: f64,
}

/// The capacities of the nodes of organizations, summed up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CapacitySums(BTreeMap<(OrgId, String), CapacitySum>);

impl CapacitySums {
    /// Returns the capacities of an organization, by name.
    pub fn of(&self, org: &OrgId) -> impl Iterator<Item = (&str, CapacitySum)> {
        let of_org = self.0.iter().filter(move |((one, _), _)| one == org);
        of_org.map(|((_, name), sum)| (name.as_str(), *sum))
    }
}

/// Returns what instances may use of a capacity of which a share is kept free.
fn usable(capacity: f64, kept: f64) -> f64 {
    let usable = capacity * (1.0 - kept);
    // Whole capacities have whole shares; those below one are shared as they are.
    if kept > 0.0 && usable >= 1.0 { usable.floor() } else { usable }
}

impl Model {
    /// Returns what the capacities of a node leave for instances of a workload; none when nothing limits it there.
    pub(crate) fn room_on(&self, workload: &Workload, record: &NodeRecord) -> Option<Box<NodeRoom>> {
        let versions = workload.spec_loads.values().chain([&workload.loads]);
        let names: BTreeSet<&String> = versions.flat_map(|loads| loads.keys()).collect();
        if names.is_empty() {
            return None;
        }
        let node = &record.facts.id;
        let buffer = self.org_settings(node.org()).capacity_buffer();
        let limited = names.into_iter().filter_map(|name| {
            let load = workload.loads.get(name).copied().unwrap_or_default();
            let capacity = capacity(record, name)?;
            let used = self.used(node, name, false);
            let usable = usable(capacity, buffer.share(name));
            Some(Metric { name: name.as_str().into(), used, load, capacity, usable })
        });
        let metrics: Vec<Metric> = limited.collect();
        let mut using = metrics.iter().filter(|one| workload.loads.contains_key(&*one.name));
        let over = using.find(|one| self.used(node, &one.name, true) > one.capacity);
        let surplus = over.and_then(|one| self.largest(node, &one.name));
        (!metrics.is_empty()).then(|| Box::new(NodeRoom { metrics, surplus }))
    }

    /// Returns what tasks use of the capacities of a node, as far as they are limited.
    pub fn used_capacities(&self, node: &NodeId) -> Vec<UsedCapacity> {
        let Some(record) = self.nodes.get(node).filter(|_| !self.engine.limited.is_empty()) else {
            return Vec::new();
        };
        let policies = self.engine.pairs_of(node).filter_map(|(_, policy)| self.loads_of(policy));
        let names: BTreeSet<&String> = policies.flat_map(|loads| loads.keys()).collect();
        let buffer = self.org_settings(node.org()).capacity_buffer();
        let used = names.into_iter().filter_map(|name| {
            let usable = usable(capacity(record, name)?, buffer.share(name));
            Some(UsedCapacity { name: name.clone(), amount: self.used(node, name, false), usable })
        });
        used.collect()
    }

    /// Adds the capacities of up to `count` nodes after the given one that a workload uses anywhere. Returns the last node that was visited;
    /// none at the end.
    ///
    /// # Source
    /// Orchestration D2.
    pub fn add_capacities(
        &self,
        after: Option<&NodeId>,
        count: usize,
        now: Timestamp,
        sums: &mut CapacitySums,
    ) -> Option<NodeId> {
        let names: BTreeSet<&String> = self
            .engine
            .limited
            .iter()
            .filter_map(|policy| self.loads_of(policy))
            .flat_map(|loads| loads.keys())
            .collect();
        if names.is_empty() {
            return None;
        }
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        for (node, record) in self.nodes.range::<NodeId, _>((start, Bound::Unbounded)).take(count) {
            last = Some(node.clone());
            let Ok(org) = node.org().parse::<OrgId>() else { continue };
            if self.is_down(node, now) {
                continue;
            }
            let buffer = self.org_settings(node.org()).capacity_buffer();
            for name in &names {
                let Some(capacity) = capacity(record, name) else { continue };
                let sum = sums.0.entry((org.clone(), (*name).clone())).or_default();
                sum.used += self.used(node, name, false);
                sum.usable += usable(capacity, buffer.share(name));
            }
        }
        last
    }

    /// Returns the amounts that instances of workloads use whose capacities are limited.
    pub(super) fn limiting_loads(&self) -> impl Iterator<Item = &Amounts> {
        self.engine.limited.iter().filter_map(|policy| self.loads_of(policy))
    }

    /// Returns what tasks use of a capacity of a node, and what they may use; none when nothing limits it there.
    pub(super) fn capacity_on(&self, record: &NodeRecord, name: &str) -> Option<CapacitySum> {
        let node = &record.facts.id;
        let buffer = self.org_settings(node.org()).capacity_buffer();
        let usable = usable(capacity(record, name)?, buffer.share(name));
        Some(CapacitySum { used: self.used(node, name, false), usable })
    }

    /// Returns what tasks use of one capacity of a node; `only_wanted`: those that are to stop are left out.
    fn used(&self, node: &NodeId, metric: &str, only_wanted: bool) -> f64 {
        let policies: BTreeSet<&PolicyId> = self.engine.pairs_of(node).map(|(_, policy)| policy).collect();
        let of_policy = |policy: &PolicyId| {
            let load = |task: &Task| self.load_of(task, metric);
            let tasks = self.engine.tasks_on(node, policy).filter(|task| !task.state.is_ended());
            let mut slots: BTreeMap<(&UnitId, &Slot), f64> = BTreeMap::new();
            for task in tasks.filter(|task| task.is_wanted() || !only_wanted) {
                let most = slots.entry((&task.unit_id, &task.slot)).or_default();
                *most = most.max(load(task));
            }
            let of_slot = |((unit_id, slot), most): ((&UnitId, &Slot), f64)| match self.workload_unit(unit_id)
            {
                Some(unit) if !only_wanted => loading(unit.tasks(slot), node, load),
                _ => most,
            };
            slots.into_iter().map(of_slot).sum::<f64>()
        };
        policies.into_iter().map(of_policy).sum()
    }

    /// Returns the wanted task on a node that uses most of a capacity.
    fn largest(&self, node: &NodeId, metric: &str) -> Option<TaskId> {
        let tasks = self.tasks_of(node).filter(|task| task.is_live());
        let using = tasks.filter_map(|task| {
            let load = self.load_of(task, metric);
            (load > 0.0).then_some((load, &task.id))
        });
        using
            .max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(one.1)))
            .map(|(_, id)| id.clone())
    }

    /// Returns what a task uses of a capacity: what its own version does.
    fn load_of(&self, task: &Task, metric: &str) -> f64 {
        let Some(known) = self.engine.workloads.get(&task.unit_id.policy) else { return 0.0 };
        let loads = known.spec_loads.get(&task.spec.number).unwrap_or(&known.loads);
        loads.get(metric).copied().unwrap_or_default()
    }

    fn loads_of(&self, policy: &PolicyId) -> Option<&Amounts> {
        self.engine.workloads.get(policy).map(|known| &known.loads)
    }

    /// Notes what an instance of a workload uses now, and the nodes on which that differs from before.
    pub(super) fn note_loads(&mut self, policy: &PolicyId) {
        let known = self.engine.workloads.get(policy);
        let uses = known.is_some_and(|known| !known.loads.is_empty() || !known.spec_loads.is_empty());
        let has_used = self.engine.limited.contains(policy);
        if uses {
            self.engine.limited.insert(policy.clone());
        } else {
            self.engine.limited.remove(policy);
        }
        if uses || has_used {
            let of_policy = self.engine.units_of(policy);
            let tasks = of_policy.flat_map(|(_, unit)| unit.slots.values().flat_map(SlotTasks::iter));
            let nodes: Vec<NodeId> = tasks.filter_map(|task| task.node.clone()).collect();
            self.engine.loaded_nodes.extend(nodes);
        }
    }

    /// Brings the room of nodes up to date on which tasks changed, and what that concerns.
    pub(super) fn refresh_room(&mut self) {
        for node in std::mem::take(&mut self.engine.loaded_nodes) {
            let Some(record) = self.nodes.get(&node) else { continue };
            let limited = self.engine.limited.iter().flat_map(|policy| self.engine.units_of(policy));
            let mut changed = Vec::new();
            for (unit_id, unit) in limited {
                let (Some(workload), Some(row)) = (self.workload_of(&unit_id.policy), unit.table.find(&node))
                else {
                    continue;
                };
                let room = self.room_on(workload, record);
                if room == row.room {
                    continue;
                }
                let left = room.as_ref().map_or(u32::MAX, |room| room.instances(Buffer::Open));
                let row = evenkeel_placement::place::UnitNode { room, ..row.clone() };
                let is_due = unit.is_open() && left > 0 || row.has_surplus();
                changed.push((unit_id.clone(), row, is_due));
            }
            for (unit_id, row, is_due) in changed {
                if let Some(unit) = self.engine.workload_units.get_mut(&unit_id) {
                    unit.table.replace(row);
                }
                if is_due {
                    self.engine.touched.insert((unit_id, None));
                }
            }
        }
    }
}

/// Returns a capacity of a node, as its operator set it or from its properties; none if unlimited.
fn capacity(record: &NodeRecord, metric: &str) -> Option<f64> {
    if let Some(amount) = record.facts.capacities.get(metric) {
        return Some(*amount);
    }
    let (_, property, one) = BY_PROPERTY.iter().find(|(name, ..)| *name == metric)?;
    let found = record.properties()?.iter().find(|found| found.name == *property)?;
    found.value.as_f64().filter(|amount| *amount >= 0.0).map(|amount| amount * one)
}
