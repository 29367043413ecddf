//! The records of workloads in the model: workloads, tasks, instances, and the workload units with their nodes.
//!
//! Everything is kept by workload unit and slot, so that the event of one task costs one slot. Source: engine 3 to 5.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_domain::orchestration::capacity::Amounts;
use evenkeel_ids::{GroupId, NodeId, PolicyId, TaskId};
use evenkeel_placement::{matching::Consumers, place::NodeTable};
use evenkeel_planner_record::{
    facts::DeploymentPolicyFacts,
    lease::Lease,
    report::{Blocked, EliminationReport},
    time::later,
    workload::{
        Cause, HubReport, Instance, NodeScope, ReportedHealth, Slot, SlotTasks, Slots, Step, Task, UnitId,
        Workload, WorkloadRecord,
    },
};
use jiff::Timestamp;

use crate::command::{Action, Decision, UnitReport};

use super::{HealthTasks, blocklist::Blocklist, relations::Relations};

/// A workload as the model knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownWorkload {
    /// Its row.
    pub record: WorkloadRecord,
    /// The workload; none when its policy is gone or is no longer carried out by tasks.
    pub workload: Option<Workload>,
    /// The versions of its task spec, by number.
    pub specs: BTreeMap<u64, KnownSpec>,
    /// Capacities of its node that one instance of the current version uses, also after the policy was
    /// deleted.
    pub loads: Amounts,
    /// Capacities that one instance uses, by version.
    pub spec_loads: BTreeMap<u64, Amounts>,
    /// True if the user who deleted the policy does not wait for its children.
    pub is_removal_forced: bool,
}

/// A version of a workload's task spec.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownSpec {
    /// The policy with the service of this version.
    pub policy: DeploymentPolicyFacts,
    /// Its prepared consumer sides.
    pub consumers: Consumers,
}

/// A workload unit.
#[derive(Debug, Clone, Default)]
pub struct UnitRecord {
    /// Its nodes.
    pub table: NodeTable,
    /// Its tasks.
    pub slots: Slots,
    /// True if the policy has such a workload unit; if not, its tasks are removed.
    pub is_wanted: bool,
    /// Steps blocked since the last decision about all slots or about some.
    pub blocked: Vec<(Step, Blocked)>,
    /// Since when slots wait to leave a drained node.
    pub drains: BTreeMap<Slot, Timestamp>,
    /// Reason why not everything was placed; none when it was.
    pub unplaced: Option<EliminationReport>,
    /// The compatibility versions of the agents that suspended automatic decisions at the last one.
    pub incompatible: Vec<i64>,
    /// The lease under which it was reconciled first: a new owner reconciles everything once (B5).
    pub reconciled_under: Option<Lease>,
    /// Instances that are away from where they were when an upgrade began.
    pub displaced: usize,
    /// Nodes that came to it and are not in the table yet.
    pub new_nodes: BTreeSet<NodeId>,
}

impl UnitRecord {
    /// Returns whether something waits for more than a time.
    pub(crate) fn is_waiting(&self) -> bool {
        self.blocked.iter().any(|(_, blocked)| !blocked.ends_by_time()) || self.unplaced.is_some()
    }

    /// Returns whether the change of a node may let something proceed, or contest a claim.
    pub(crate) fn is_open(&self) -> bool {
        !self.blocked.is_empty() || self.unplaced.is_some()
    }

    /// Returns what waits for a parent or a child.
    pub fn dependency_waits(&self) -> impl Iterator<Item = &(Step, Blocked)> {
        self.blocked.iter().filter(|(_, blocked)| blocked.is_of_dependency())
    }

    /// Forgets the last decision.
    pub(super) fn forget(&mut self) {
        (self.blocked, self.drains, self.unplaced) = (Vec::new(), BTreeMap::new(), None);
        self.incompatible.clear();
    }

    fn note(&mut self, report: &UnitReport, now: Timestamp) {
        self.incompatible.clone_from(&report.incompatible);
        match &report.slots {
            None => {
                self.blocked.clone_from(&report.blocked);
                self.unplaced.clone_from(&report.unplaced);
            }
            Some(slots) => {
                self.blocked.retain(|(step, _)| !slots.contains(&step.slot));
                self.blocked.extend(report.blocked.iter().cloned());
                let is_unplaced = |blocked: &Blocked| matches!(blocked, Blocked::Unplaced { .. });
                if report.unplaced.is_some() || !self.blocked.iter().any(|(_, one)| is_unplaced(one)) {
                    self.unplaced.clone_from(&report.unplaced);
                }
            }
        }
        // A decision about some slots leaves the others unchanged.
        let is_covered = |slot: &Slot| report.slots.as_ref().is_none_or(|slots| slots.contains(slot));
        let drains = report.blocked.iter().filter(|(step, _)| step.cause == Cause::Drain);
        let waiting: BTreeSet<&Slot> = drains.map(|(step, _)| &step.slot).collect();
        self.drains.retain(|slot, _| !is_covered(slot) || waiting.contains(slot));
        for slot in waiting {
            self.drains.entry(slot.clone()).or_insert(now);
        }
    }

    /// Returns the tasks of a slot.
    pub fn tasks(&self, slot: &Slot) -> &SlotTasks {
        static NONE: SlotTasks = SlotTasks::EMPTY;
        self.slots.get(slot).unwrap_or(&NONE)
    }
}

/// A workload unit, or one of its slots, to be reconciled.
pub(crate) type Due = (UnitId, Option<Slot>);

/// Number of decisions about a policy with tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecisionCounts {
    /// Decisions about whole workload units.
    pub of_units: u64,
    /// Decisions about single slots.
    pub of_slots: u64,
    /// Writes of the policy that its workload followed.
    pub followed: u64,
    /// Decisions about single slots that started or stopped a task.
    pub acted: u64,
}

/// Records of policies that are carried out by tasks, and when their units are planned again.
#[derive(Debug, Clone, Default)]
pub struct WorkloadRecords {
    /// Workloads by policy.
    pub workloads: BTreeMap<PolicyId, KnownWorkload>,
    /// Services that keep failing, by node.
    pub blocklist: Blocklist,
    /// Rows of instances that are frozen, failed or pinned.
    pub instances: BTreeMap<PolicyId, BTreeMap<NodeId, Instance>>,
    /// Workload units.
    pub workload_units: BTreeMap<UnitId, UnitRecord>,
    slots_of: BTreeMap<TaskId, (UnitId, Slot)>,
    tasks_on: BTreeMap<(NodeId, PolicyId), BTreeSet<TaskId>>,
    /// Units and slots to plan again at a time.
    pub watches: BTreeSet<(Timestamp, UnitId, Option<Slot>)>,
    /// Units and slots to plan again when the plan in flight is carried out.
    pub deferred: BTreeSet<Due>,
    /// When the plan of a workload unit in flight counts as lost, so that the workload unit is planned again.
    pub in_flight: BTreeMap<UnitId, Timestamp>,
    /// Units and slots that an event changed although it does not name them.
    pub touched: BTreeSet<Due>,
    /// When each living node will have been silent for too long.
    pub silence: BTreeSet<(Timestamp, NodeId)>,
    /// Nodes that changed.
    pub changed_nodes: BTreeSet<NodeId>,
    /// Nodes that were removed.
    pub removed_nodes: BTreeSet<NodeId>,
    /// True if statistics of nodes were read.
    pub has_new_statistics: bool,
    /// Rows of workloads on nodes that changed.
    pub changed_instances: BTreeSet<(PolicyId, NodeId)>,
    /// Groups of which the claim of an agent's upgrade changed.
    pub claimed_by_agents: BTreeSet<GroupId>,
    /// Workloads to be prepared again.
    pub stale: BTreeSet<PolicyId>,
    /// Workload units whose nodes are not those of their tables.
    pub incomplete: BTreeSet<UnitId>,
    /// References between workloads.
    pub relations: Relations,
    /// Workloads whose instances use capacities.
    pub limited: BTreeSet<PolicyId>,
    /// Nodes on which tasks of such workloads changed.
    pub loaded_nodes: BTreeSet<NodeId>,
    /// Tasks that show the progress of operations and recoveries.
    pub health_tasks: HealthTasks,
    /// Tasks for which the hub itself has something to do.
    hub_tasks: BTreeSet<TaskId>,
    /// Reports of the hub about these tasks.
    hub_reports: BTreeMap<TaskId, ReportedHealth>,
    /// Number of decisions.
    pub decisions: BTreeMap<PolicyId, DecisionCounts>,
    /// Number of times that a workload unit was reconciled first under a lease.
    pub initial_passes: u64,
}

impl WorkloadRecords {
    /// Returns whether there is neither a workload nor a task.
    pub fn is_unused(&self) -> bool {
        self.workloads.is_empty() && self.workload_units.is_empty()
    }

    /// Returns the policies whose workload units follow HA groups.
    fn policies_of_groups(&self) -> Vec<PolicyId> {
        let follows = |known: &&KnownWorkload| {
            let scope = known.workload.as_ref().map(|workload| &workload.scope);
            matches!(scope, Some(NodeScope::EveryGroup | NodeScope::Groups(_)))
        };
        self.workloads.values().filter(follows).map(|known| known.record.policy.clone()).collect()
    }

    /// Has the policies that follow HA groups prepared again: a group has changed.
    pub fn note_changed_groups(&mut self) {
        self.stale.extend(self.policies_of_groups());
    }

    /// Returns a task.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        let (unit_id, slot) = self.slots_of.get(id)?;
        self.workload_units.get(unit_id)?.tasks(slot).iter().find(|task| task.id == *id)
    }

    /// Returns the tasks of a workload that a node has or had.
    pub fn tasks_on(&self, node: &NodeId, policy: &PolicyId) -> impl Iterator<Item = &Task> {
        let ids = self.tasks_on.get(&(node.clone(), policy.clone())).into_iter().flatten();
        ids.filter_map(|id| self.task(id))
    }

    /// Returns the pairs of a node that have tasks.
    pub fn pairs_of<'a>(&'a self, node: &'a NodeId) -> impl Iterator<Item = &'a (NodeId, PolicyId)> {
        let from = (node.clone(), PolicyId::from_text("/"));
        self.tasks_on.range(from..).map(|(pair, _)| pair).take_while(move |pair| pair.0 == *node)
    }

    /// Returns the ids of all tasks.
    pub fn task_ids(&self) -> impl Iterator<Item = &TaskId> {
        self.slots_of.keys()
    }

    /// Returns the workload units of a policy.
    pub fn units_of<'a>(
        &'a self,
        policy: &'a PolicyId,
    ) -> impl Iterator<Item = (&'a UnitId, &'a UnitRecord)> {
        let from = UnitId::all(policy.clone());
        self.workload_units.range(from..).take_while(move |(unit_id, _)| unit_id.policy == *policy)
    }

    /// Takes over a task, new or changed.
    pub fn put_task(&mut self, task: Task) {
        self.count(&task.id, false);
        self.slots_of.insert(task.id.clone(), (task.unit_id.clone(), task.slot.clone()));
        if let Some(node) = &task.node {
            self.note_load(&task.unit_id.policy, node);
            self.relations.note_policy(&task.unit_id.policy, node);
            let pair = (node.clone(), task.unit_id.policy.clone());
            self.tasks_on.entry(pair).or_default().insert(task.id.clone());
        }
        let id = task.id.clone();
        match task.health.has_hub_work() {
            true => self.hub_tasks.insert(id.clone()),
            false => self.hub_tasks.remove(&id),
        };
        let unit = self.workload_units.entry(task.unit_id.clone()).or_default();
        unit.slots.entry(task.slot.clone()).or_default().put(task);
        self.count(&id, true);
    }

    /// Notes that what a workload uses of a node may have changed.
    fn note_load(&mut self, policy: &PolicyId, node: &NodeId) {
        if self.limited.contains(policy) {
            self.loaded_nodes.insert(node.clone());
        }
    }

    /// Drops a task.
    pub fn remove_task(&mut self, id: &TaskId) {
        self.count(id, false);
        self.hub_tasks.remove(id);
        self.hub_reports.remove(id);
        let Some((unit_id, slot)) = self.slots_of.remove(id) else { return };
        let Some(unit) = self.workload_units.get_mut(&unit_id) else { return };
        let Some(tasks) = unit.slots.get_mut(&slot) else { return };
        let removed = tasks.remove(id);
        if tasks.is_empty() {
            unit.slots.remove(&slot);
        }
        let node = removed.and_then(|task| task.node);
        if let Some(node) = &node {
            if self.limited.contains(&unit_id.policy) {
                self.loaded_nodes.insert(node.clone());
            }
            self.relations.note_policy(&unit_id.policy, node);
        }
        if let Some(pair) = node.map(|node| (node, unit_id.policy.clone()))
            && let Some(ids) = self.tasks_on.get_mut(&pair)
        {
            ids.remove(id);
            if ids.is_empty() {
                self.tasks_on.remove(&pair);
            }
        }
        if unit.slots.is_empty() && !unit.is_wanted {
            self.workload_units.remove(&unit_id);
        }
    }

    /// Returns the tasks for which the hub has something to do, each with what it found.
    pub fn hub_tasks(&self) -> impl Iterator<Item = (&Task, Option<&ReportedHealth>)> {
        self.hub_tasks.iter().filter_map(|id| Some((self.task(id)?, self.hub_reports.get(id))))
    }

    /// Takes over what the hub found about a task.
    pub fn put_hub_report(&mut self, task: &TaskId, report: &HubReport) {
        if self.hub_tasks.contains(task) {
            self.hub_reports.entry(task.clone()).or_default().add(report);
        }
    }

    /// Returns what the hub found about a task.
    pub fn hub_report(&self, task: &TaskId) -> Option<&ReportedHealth> {
        self.hub_reports.get(task)
    }

    /// Returns the tasks about which the hub found something.
    pub fn hub_reports(&self) -> impl Iterator<Item = &TaskId> {
        self.hub_reports.keys()
    }

    /// Forgets what the hub found about a task.
    pub fn forget_hub_report(&mut self, task: &TaskId) {
        self.hub_reports.remove(task);
    }

    /// Counts the instance of a task on its node, or no longer.
    fn count(&mut self, id: &TaskId, is_added: bool) {
        let Some((unit_id, slot)) = self.slots_of.get(id) else { return };
        let Some(unit) = self.workload_units.get(unit_id) else { return };
        let Some(task) = unit.tasks(slot).iter().find(|task| task.id == *id) else { return };
        self.health_tasks.note(task, is_added);
        let Some(node) = task.node.clone().filter(|_| task.is_live()) else { return };
        let is_displaced = task.origin.is_some();
        let unit_id = self.slots_of.get(id).map(|(unit_id, _)| unit_id);
        if let Some(unit) = unit_id.and_then(|unit_id| self.workload_units.get_mut(unit_id)) {
            unit.table.count_instance(&node, is_added);
            let by = usize::from(is_displaced);
            unit.displaced = if is_added { unit.displaced + by } else { unit.displaced.saturating_sub(by) };
        }
    }

    /// Replaces the nodes of a workload unit.
    pub fn put_table(&mut self, unit_id: &UnitId, mut table: NodeTable) {
        let unit = self.workload_units.entry(unit_id.clone()).or_default();
        let tasks = unit.slots.values().flat_map(SlotTasks::iter);
        let nodes = tasks.filter(|task| task.is_live()).filter_map(|task| task.node.as_ref());
        nodes.for_each(|node| table.count_instance(node, true));
        unit.table = table;
        unit.new_nodes.clear();
    }

    /// Drops everything that is known of a workload.
    pub fn remove_workload(&mut self, policy: &PolicyId) {
        let tasks: Vec<TaskId> = self
            .units_of(policy)
            .flat_map(|(_, unit)| unit.slots.values().flat_map(SlotTasks::iter))
            .map(|task| task.id.clone())
            .collect();
        tasks.iter().for_each(|id| self.remove_task(id));
        let removed: Vec<UnitId> = self.units_of(policy).map(|(unit_id, _)| unit_id.clone()).collect();
        removed.iter().for_each(|unit_id| {
            self.workload_units.remove(unit_id);
        });
        self.instances.remove(policy);
        self.relations.put(policy, std::iter::empty(), |_| true);
        self.limited.remove(policy);
        self.decisions.remove(policy);
        self.workloads.remove(policy);
    }

    /// Lets a deleted workload stop without waiting for its children.
    pub fn force_removal(&mut self, policy: &PolicyId) {
        if let Some(known) = self.workloads.get_mut(policy) {
            known.is_removal_forced = true;
        }
    }

    /// Takes over an instance row; none deletes it.
    pub fn put_instance(&mut self, policy: &PolicyId, node: &NodeId, instance: Option<&Instance>) {
        let rows = self.instances.entry(policy.clone()).or_default();
        match instance {
            Some(instance) => rows.insert(node.clone(), instance.clone()),
            None => rows.remove(node),
        };
        if rows.is_empty() {
            self.instances.remove(policy);
        }
    }

    /// Returns the nodes on which tasks of an update have just started: whether they keep running decides
    /// about the update.
    pub fn monitored_nodes(&self, now: Timestamp) -> impl Iterator<Item = NodeId> {
        let rolling = self.workloads.values().filter(|known| known.record.update.is_rolling());
        rolling.filter_map(|known| known.workload.as_ref()).flat_map(move |workload| {
            let judged_secs = workload.update.judged_secs().max(workload.rollback.judged_secs());
            let is_monitored = move |task: &&Task| {
                let until = task.running_at.map(|at| later(at, judged_secs + 1));
                task.cause.is_update() && task.is_live() && until.is_none_or(|until| now < until)
            };
            let of_workload = self.units_of(&workload.policy);
            let tasks = of_workload.flat_map(|(_, unit)| unit.slots.values().flat_map(SlotTasks::iter));
            tasks.filter(is_monitored).filter_map(|task| task.node.clone())
        })
    }

    /// Records a decision: what waits, and what is planned again.
    pub fn note(&mut self, decision: &Decision, now: Timestamp) {
        self.touched.clear();
        while self.watches.first().is_some_and(|(at, ..)| *at <= now) {
            self.watches.pop_first();
        }
        self.in_flight.retain(|_, until| *until > now);
        for watch in &decision.unit_watches {
            self.watches.insert((watch.at, watch.unit_id.clone(), watch.slot.clone()));
        }
        self.deferred.extend(decision.deferred.iter().cloned());
        decision.commands.iter().for_each(|command| self.count_command(&command.action, decision));
        for (unit_id, report) in &decision.unit_reports {
            let decisions = self.decisions.entry(unit_id.policy.clone()).or_default();
            match report.slots {
                None => decisions.of_units += 1,
                Some(_) => decisions.of_slots += 1,
            }
            if let Some(unit) = self.workload_units.get_mut(unit_id) {
                unit.note(report, now);
            }
        }
    }

    /// Counts what a command does about a workload.
    ///
    /// # Source
    /// Orchestration B4.
    fn count_command(&mut self, action: &Action, decision: &Decision) {
        match action {
            Action::RecordWorkload { workload, .. } => {
                let known = self.workloads.get(&workload.policy);
                if known.is_none_or(|known| known.record.written_at != workload.written_at) {
                    self.decisions.entry(workload.policy.clone()).or_default().followed += 1;
                }
            }
            Action::ApplyPlan { unit_id, plan, .. } => {
                let is_of_slots = decision
                    .unit_reports
                    .iter()
                    .any(|(one, report)| one == unit_id && report.slots.is_some());
                let is_order =
                    |task: &Task| self.task(&task.id).is_none_or(|known| known.desired != task.desired);
                if is_of_slots && plan.tasks.iter().any(is_order) {
                    self.decisions.entry(unit_id.policy.clone()).or_default().acted += 1;
                }
            }
            _ => {}
        }
    }

    /// Plans everything again that waited for the plan of a workload unit in flight.
    pub fn resume(&mut self, unit_id: &UnitId) {
        self.in_flight.remove(unit_id);
        let of_unit: Vec<Due> = self.deferred.iter().filter(|(one, _)| one == unit_id).cloned().collect();
        for due in of_unit {
            self.deferred.remove(&due);
            self.touched.insert(due);
        }
    }

    /// Returns the keys of all instance rows.
    pub fn instance_keys(&self) -> impl Iterator<Item = (PolicyId, NodeId)> {
        self.instances
            .iter()
            .flat_map(|(policy, rows)| rows.keys().map(|node| (policy.clone(), node.clone())))
    }

    /// Returns the instance rows of a workload.
    pub fn instances_of(&self, policy: &PolicyId) -> &BTreeMap<NodeId, Instance> {
        static NONE: BTreeMap<NodeId, Instance> = BTreeMap::new();
        self.instances.get(policy).unwrap_or(&NONE)
    }
}
