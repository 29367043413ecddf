//! Keeps workloads, their workload units and the tables of their nodes consistent with the model.
//!
//! A change of one node costs one row in each workload unit that has it; new nodes join at the next tick, all at once. Only a full
//! reconcile, and a change of the policy itself, read all nodes. Source: engine 4, 7; orchestration 1.3, B4.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, PolicyId, TaskId};
use evenkeel_placement::{
    matching::Consumers,
    place::{NodeTable, UnitNode},
};
use evenkeel_planner_record::{
    agreement::Agreement,
    claims::{Claim, Phase, Scope},
    facts::{Availability, DeploymentPolicyFacts},
    report::Blocked,
    workload::{
        Cause, Instance, InstanceSummary, NodeScope, Part, Step, Task, UnitId, Workload, WorkloadRecord,
        WorkloadUnit,
    },
};
use jiff::Timestamp;

use super::{
    Model, unit_node, unit_nodes,
    workload_records::{DecisionCounts, KnownSpec, KnownWorkload, UnitRecord},
};
use crate::plan::{INITIAL_PASS, StoredPlan};

/// An instance that is to be updated, or to leave a drained node, and may not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingInstance {
    /// Its policy.
    pub policy: PolicyId,
    /// Its node.
    pub node: NodeId,
    /// Since when it waits to leave a drained node; the time of a restart of the agbot after one. None for an update.
    pub drained_since: Option<Timestamp>,
    /// The reason for which it waits.
    pub blocked: Blocked,
}

impl Model {
    /// Returns the row of a workload.
    pub fn workload(&self, policy: &PolicyId) -> Option<&WorkloadRecord> {
        self.engine.workloads.get(policy).map(|known| &known.record)
    }

    /// Returns the rows of all workloads, by policy.
    pub fn workloads(&self) -> impl Iterator<Item = &WorkloadRecord> {
        self.engine.workloads.values().map(|known| &known.record)
    }

    /// Returns the workload of a policy as the engine sees it; none when the policy has no tasks.
    pub fn workload_of(&self, policy: &PolicyId) -> Option<&Workload> {
        self.engine.workloads.get(policy)?.workload.as_ref()
    }

    /// Returns a workload unit.
    pub fn workload_unit(&self, unit_id: &UnitId) -> Option<&UnitRecord> {
        self.engine.workload_units.get(unit_id)
    }

    /// Returns whether the instances of a deleted policy stop without waiting for its children.
    pub fn is_removal_forced(&self, policy: &PolicyId) -> bool {
        let is_deleted = !self.policies.contains_key(policy);
        is_deleted && self.engine.workloads.get(policy).is_some_and(|known| known.is_removal_forced)
    }

    /// Returns the workload units of a policy, by name.
    pub fn workload_units_of<'a>(
        &'a self,
        policy: &'a PolicyId,
    ) -> impl Iterator<Item = (&'a UnitId, &'a UnitRecord)> {
        self.engine.units_of(policy)
    }

    /// Returns a claim as far as the tasks of its policy have come under it; as it is stored for policies without tasks.
    pub fn claim_in_progress(&self, claim: &Claim) -> Claim {
        let mut shown = claim.clone();
        let Scope::Policy(policy) = &claim.scope else { return shown };
        let Some(record) = self.workload(policy) else { return shown };
        let mut tasks: Vec<&Task> = self.engine.tasks_on(&claim.node, policy).collect();
        tasks.sort_by_key(|task| task.generation);
        // The replacement is decided before its claim is granted.
        let wanted = record.versions.current.number;
        let is_new = |task: &&&Task| task.is_live() && task.is_wanted() && task.spec.number == wanted;
        let newest = tasks.iter().rev().find(is_new);
        let is_stopping = tasks.iter().any(|task| !task.is_wanted() && !task.is_stopped());
        shown.phase = match newest {
            Some(task) if task.is_running() && !is_stopping => Phase::Verifying,
            Some(_) if !is_stopping => Phase::Starting,
            _ => Phase::Stopping,
        };
        if let Some(version) =
            record.spec(wanted).and_then(|spec| evenkeel_planner_record::usage::best_version(&spec.versions))
        {
            shown.version.clone_from(&version.version);
        }
        shown
    }

    /// Returns how often there was a decision about each policy with tasks.
    pub fn decision_counts(&self) -> &BTreeMap<PolicyId, DecisionCounts> {
        &self.engine.decisions
    }

    /// Returns how often a workload unit was reconciled first by this agbot, as its new owner.
    pub fn initial_passes(&self) -> u64 {
        self.engine.initial_passes
    }

    /// Returns a task.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.engine.task(id)
    }

    /// Returns the capable nodes that have or had tasks.
    pub fn nodes_that_report_tasks(&self) -> BTreeSet<NodeId> {
        let tasks = self.engine.task_ids().filter_map(|id| self.task(id));
        tasks.filter_map(|task| task.node.clone()).filter(|node| self.is_capable(node)).collect()
    }

    /// Returns the tasks that a node has or had.
    pub fn tasks_of<'a>(&'a self, node: &'a NodeId) -> impl Iterator<Item = &'a Task> {
        self.engine.pairs_of(node).flat_map(move |(_, policy)| self.engine.tasks_on(node, policy))
    }

    /// Returns the part of a workload that each of its nodes belongs to.
    pub fn parts_of(&self, policy: &PolicyId) -> BTreeMap<NodeId, Part> {
        let of_unit = |(id, unit): (&UnitId, &UnitRecord)| {
            unit.table.nodes().map(|row| (row.id.clone(), id.part.clone())).collect::<Vec<_>>()
        };
        self.workload_units_of(policy).flat_map(of_unit).collect()
    }

    /// Returns the row of a workload on a node.
    pub fn instance(&self, policy: &PolicyId, node: &NodeId) -> Option<&Instance> {
        self.engine.instances_of(policy).get(node)
    }

    /// Returns the rows of a workload on nodes.
    pub fn instances_of(&self, policy: &PolicyId) -> &BTreeMap<NodeId, Instance> {
        self.engine.instances_of(policy)
    }

    /// Returns what a user's action on a workload waits for: the parent or the child of its first instance, else what blocks its own steps.
    pub fn waits_for<'a>(&'a self, policy: &'a PolicyId) -> Option<&'a Blocked> {
        let workload_units = || self.engine.units_of(policy).map(|(_, unit)| unit);
        let is_of_user = |step: &Step| matches!(step.cause, Cause::User { .. });
        let own = workload_units().flat_map(|unit| &unit.blocked).filter(|(step, _)| is_of_user(step));
        let mut waits = workload_units().flat_map(UnitRecord::dependency_waits).chain(own);
        waits.next().map(|(_, blocked)| blocked)
    }

    /// Returns how the instances of a workload are, for a user's action on it.
    pub fn instance_summary(&self, policy: &PolicyId) -> InstanceSummary {
        let mut slots = self.engine.units_of(policy).flat_map(|(_, unit)| unit.slots.values());
        InstanceSummary {
            is_any_frozen: self.instances_of(policy).values().any(|row| row.is_frozen),
            is_any_wanted: slots.any(|tasks| tasks.iter().any(Task::is_live)),
        }
    }

    /// Returns whether tasks carry a policy out, or did until it was deleted.
    pub fn is_orchestrated(&self, policy: &PolicyId) -> bool {
        match self.policies.get(policy) {
            Some(facts) => facts.orchestration.document.is_some(),
            None => self.engine.workloads.contains_key(policy),
        }
    }

    /// Returns the task that an agreement carries out.
    pub fn task_of(&self, agreement: &Agreement) -> Option<&Task> {
        self.engine.tasks_on(&agreement.node, &agreement.policy).find(|task| {
            task.agreement.as_ref() == Some(&agreement.id) || agreement.task.as_ref() == Some(&task.id)
        })
    }

    /// Returns what a version of a workload's task spec runs, with what its nodes are sent.
    pub fn known_spec(&self, policy: &PolicyId, number: u64) -> Option<&KnownSpec> {
        self.engine.workloads.get(policy)?.specs.get(&number)
    }

    /// Returns the version of the task spec that an agreement carries out; none for policies without tasks.
    pub(crate) fn spec_of(&self, agreement: &Agreement) -> Option<&KnownSpec> {
        let task = self.task_of(agreement).filter(|_| self.is_orchestrated(&agreement.policy))?;
        self.known_spec(&agreement.policy, task.spec.number)
    }

    /// Takes over a workload's row, unless the model's is newer.
    pub(super) fn put_workload(&mut self, record: &WorkloadRecord) {
        let known = self.engine.workloads.get(&record.policy);
        if known.is_some_and(|known| known.record.revision > record.revision) {
            return;
        }
        let is_other = known.is_none_or(|known| {
            let (old, new) = (&known.record, record);
            let of = |one: &WorkloadRecord| (one.versions, one.is_frozen, one.is_stopped, one.written_at);
            of(old) != of(new) || old.action != new.action || old.children != new.children
        });
        let is_removal_forced = known.is_some_and(|known| known.is_removal_forced);
        let loads = known.map(|known| (known.loads.clone(), known.spec_loads.clone()));
        let (loads, spec_loads) = loads.unwrap_or_default();
        match self.engine.workloads.get_mut(&record.policy) {
            Some(known) if !is_other => known.record = record.clone(),
            _ => {
                let (record, specs) = (record.clone(), BTreeMap::new());
                let known =
                    KnownWorkload { record, workload: None, specs, loads, spec_loads, is_removal_forced };
                let policy = known.record.policy.clone();
                self.engine.workloads.insert(policy.clone(), known);
                self.engine.stale.insert(policy.clone());
                self.follow_rollback(&policy);
            }
        }
    }

    /// Returns whether the node of a task did not stop an instance of its workload.
    fn has_failed_to_stop(&self, task: &Task) -> bool {
        let row = self.engine.workload_units.get(&task.unit_id).zip(task.node.as_ref());
        row.and_then(|(unit, node)| unit.table.find(node)).is_some_and(|row| row.marks.stop_failed.is_some())
    }

    /// Returns whether a node has an instance of the workload in another workload unit, or is to get one.
    pub fn runs_in_another_unit(&self, node: &NodeId, unit_id: &UnitId) -> bool {
        let mut tasks = self.engine.tasks_on(node, &unit_id.policy);
        tasks.any(|task| task.unit_id != *unit_id && !task.state.is_ended())
    }

    /// Takes over a task, unless the model's is newer.
    pub(super) fn put_task(&mut self, task: &Task) {
        let known = self.engine.task(&task.id);
        if known.is_some_and(|known| known.is_newer_than(task)) {
            return;
        }
        let has_ended_or_begun = known.is_none_or(|known| {
            (known.state.is_ended(), known.node.as_ref()) != (task.state.is_ended(), task.node.as_ref())
        });
        // Nothing takes the place of an instance that does not stop until it has stopped (A9.5).
        if task.state.is_ended()
            && known.is_some_and(|known| !known.state.is_ended())
            && self.has_failed_to_stop(task)
        {
            self.engine.touched.insert((task.unit_id.clone(), None));
        }
        self.engine.put_task(task.clone());
        self.note_end_of_probe(task);
        // A node whose agent holds one instance only is free for the other workload units now, or no longer.
        if let Some(node) = task.node.as_ref().filter(|_| has_ended_or_begun)
            && self.nodes.get(node).is_some_and(|record| !record.facts.is_capable)
            && self.engine.units_of(&task.unit_id.policy).nth(1).is_some()
        {
            self.engine.changed_instances.insert((task.unit_id.policy.clone(), node.clone()));
        }
        // Only one instance moves to a domain with fewer of them at a time.
        let is_packed =
            self.engine.workload_units.get(&task.unit_id).is_some_and(|unit| unit.table.has_packing());
        // One that is away for an upgrade returns when it runs and the upgrade is over.
        if task.origin.is_some() || is_packed && !task.is_contender() {
            self.engine.touched.insert((task.unit_id.clone(), None));
        }
        let is_missing = |node: &&NodeId| {
            self.engine
                .workload_units
                .get(&task.unit_id)
                .is_some_and(|unit| unit.table.number(node).is_none())
        };
        if task.node.as_ref().filter(is_missing).is_some_and(|node| self.nodes.contains_key(node)) {
            self.engine.incomplete.insert(task.unit_id.clone());
        }
    }

    /// Takes over what a plan has written.
    pub(super) fn apply_plan(&mut self, unit_id: &UnitId, plan: &StoredPlan) {
        plan.tasks.iter().for_each(|task| self.put_task(task));
        plan.deleted.iter().for_each(|task| self.engine.remove_task(task));
        for (node, instance) in &plan.instances {
            self.engine.put_instance(&unit_id.policy, node, Some(instance));
            self.engine.changed_instances.insert((unit_id.policy.clone(), node.clone()));
        }
        for (key, change) in &plan.blocklist {
            self.engine.blocklist.change(key, change);
        }
        if let Some(workload) = &plan.workload {
            self.put_workload(workload);
        }
        if plan.events.iter().any(|event| event.kind == INITIAL_PASS) {
            let lease = self.lease_for_unit(unit_id);
            self.engine.initial_passes += 1;
            if let Some(unit) = self.engine.workload_units.get_mut(unit_id) {
                unit.reconciled_under = lease;
            }
        }
    }

    /// Forgets what was decided last about workload units that another agbot decides about now.
    pub(super) fn drop_reports_of_others(&mut self) {
        let mut workload_units = std::mem::take(&mut self.engine.workload_units);
        let is_of_another = |unit_id: &UnitId| self.lease_for_unit(unit_id).is_none();
        workload_units
            .iter_mut()
            .filter(|(unit_id, _)| is_of_another(unit_id))
            .for_each(|(_, unit)| unit.forget());
        self.engine.workload_units = workload_units;
    }

    /// Prepares a workload and its workload units again.
    pub(super) fn refresh_workload(&mut self, policy: &PolicyId, now: Timestamp) {
        let Some(known) = self.engine.workloads.get(policy) else { return };
        let facts = self.policies.get(policy);
        // The children of a deleted policy still have to be down before its instances stop.
        let left = if facts.is_none() { known.record.children.clone() } else { Vec::new() };
        let workload = facts.and_then(|facts| known.record.workload(facts, &self.hub_defaults(policy.org())));
        let specs = facts.map(|facts| self.prepare_specs(&known.record, facts)).unwrap_or_default();
        if let Some(known) = self.engine.workloads.get_mut(policy) {
            known.workload.clone_from(&workload);
            known.is_removal_forced &= workload.is_none();
            known.specs = specs;
            if let Some(workload) = &workload {
                known.loads.clone_from(&workload.loads);
                known.spec_loads.clone_from(&workload.spec_loads);
            }
        }
        self.note_loads(policy);
        let wanted = workload.as_ref().map(|workload| self.shape(workload)).unwrap_or_default();
        let workload = workload.unwrap_or_else(|| Workload::new(policy.clone(), 0));
        let partners = workload.placement.affinity.partners().chain(workload.dependencies());
        let partners = partners.chain(left.iter().map(|child| &child.partner));
        self.engine.relations.put(policy, partners, |named| self.policies.contains_key(named));
        let gone = self.engine.units_of(policy).map(|(unit_id, _)| unit_id);
        let gone = gone.filter(|unit_id| wanted.iter().all(|one| one.id != **unit_id));
        let gone = gone.map(|unit_id| WorkloadUnit { id: unit_id.clone(), nodes: Vec::new() });
        let gone: Vec<WorkloadUnit> = gone.collect();
        for (workload_unit, is_wanted) in
            wanted.into_iter().map(|one| (one, true)).chain(gone.into_iter().map(|one| (one, false)))
        {
            let others = self.nodes_with_tasks(&workload_unit.id);
            let instances = self.engine.instances_of(policy);
            let nodes = unit_nodes(self, &workload, &workload_unit, &others, instances, now);
            let table = NodeTable::new(nodes, &workload.placement);
            let unit_id = workload_unit.id;
            self.engine.put_table(&unit_id, table);
            if let Some(unit) = self.engine.workload_units.get_mut(&unit_id) {
                unit.is_wanted = is_wanted;
            }
            self.engine.touched.insert((unit_id, None));
        }
        self.engine.workload_units.retain(|_, unit| unit.is_wanted || !unit.slots.is_empty());
    }

    fn prepare_specs(
        &self,
        record: &WorkloadRecord,
        facts: &DeploymentPolicyFacts,
    ) -> BTreeMap<u64, KnownSpec> {
        let prepare = |(number, spec): &(u64, evenkeel_planner_record::workload::TaskSpec)| {
            let policy = spec.of_policy(facts);
            let versions = policy.versions.iter().map(|entry| entry.version.as_str()).collect();
            let consumers: Consumers = self.consumers_of(&policy, &versions);
            (*number, KnownSpec { policy, consumers })
        };
        record.specs.iter().map(prepare).collect()
    }

    /// Brings the rows of a workload unit in line with its nodes; rows that exist stay as they are.
    pub(super) fn complete_table(&mut self, unit_id: &UnitId, now: Timestamp) {
        let policy = &unit_id.policy;
        let workload = self.workload_of(policy).cloned();
        let wanted = workload.as_ref().map(|workload| self.shape(workload)).unwrap_or_default();
        let workload = workload.unwrap_or_else(|| Workload::new(policy.clone(), 0));
        let Some(unit) = self.engine.workload_units.get(unit_id) else { return };
        let members = wanted.into_iter().find(|one| one.id == *unit_id).map(|one| one.nodes);
        let members = members.unwrap_or_default();
        let member_ids: BTreeSet<&NodeId> = members.iter().collect();
        let others = self.nodes_with_tasks(unit_id);
        let others = others.iter().filter(|node| !member_ids.contains(node)).map(|node| (node, false));
        let all = members.iter().map(|node| (node, true)).chain(others);
        let row = |(node, is_member): (&NodeId, bool)| {
            let record = self.nodes.get(node)?;
            let found = unit.table.find(node).cloned().unwrap_or_else(|| {
                let instances = self.engine.instances_of(policy);
                unit_node(self, &workload, unit_id, record, instances, now)
            });
            Some(UnitNode { is_member, ..found })
        };
        let nodes = all.filter_map(row).collect();
        let is_due = unit.is_open() || workload.goal.is_per_node();
        self.engine.put_table(unit_id, NodeTable::new(nodes, &workload.placement));
        if is_due {
            self.engine.touched.insert((unit_id.clone(), None));
        }
    }

    /// Brings the rows of one node up to date.
    pub(super) fn refresh_node(&mut self, node: &NodeId, now: Timestamp) {
        let Some(record) = self.nodes.get(node) else { return };
        let selecting = self.policies_for(node);
        let (mut changed, mut joined, mut turned) = (Vec::new(), Vec::new(), Vec::new());
        for (unit_id, unit) in &self.engine.workload_units {
            let Some(workload) = self.workload_of(&unit_id.policy) else { continue };
            let Some(old) = unit.table.find(node) else {
                if unit.is_wanted && belongs(workload, unit_id, record, selecting.contains(&unit_id.policy)) {
                    joined.push(unit_id.clone());
                }
                continue;
            };
            let instances = self.engine.instances_of(&unit_id.policy);
            let found = unit_node(self, workload, unit_id, record, instances, now);
            let found = UnitNode { is_member: old.is_member, ..found };
            if found != *old {
                if found.state != old.state {
                    turned.push(unit_id.policy.clone());
                }
                let is_concerned = unit.is_open() || workload.goal.is_per_node() || old.is_away();
                // Its kept rows are brought up to date.
                let is_concerned = is_concerned
                    || old.availability == Availability::Pause && found.availability != Availability::Pause;
                // Instances that did not stop there are lost with the node.
                let is_concerned = is_concerned || old.marks.stop_failed.is_some();
                let is_overloaded = found.room != old.room && found.has_surplus();
                // A node that is back, or in another domain, may be where instances should be spread to.
                let is_concerned = is_concerned || unit.table.has_packing() || found.has_moved(old);
                // So may one to which instances return, or that ranks better than those with instances.
                let is_concerned = is_concerned || unit.displaced > 0 || workload.placement.is_improved();
                let is_due = is_concerned && !found.differs_in_rank_only(old) || is_overloaded;
                changed.push((unit_id.clone(), found, is_due));
            }
        }
        turned.iter().for_each(|policy| self.engine.relations.note_policy(policy, node));
        for (unit_id, row, is_due) in changed {
            let mut suspends = false;
            if let Some(unit) = self.engine.workload_units.get_mut(&unit_id) {
                let before = unit.table.compat_versions().count();
                unit.table.replace(row);
                suspends = (before > 1) != (unit.table.compat_versions().count() > 1);
            }
            if is_due || suspends {
                self.engine.touched.insert((unit_id, None));
            }
        }
        for unit_id in joined {
            if let Some(unit) = self.engine.workload_units.get_mut(&unit_id) {
                unit.new_nodes.insert(node.clone());
            }
        }
    }

    /// Brings the rows of one node up to date after its row of a workload changed. A start that only changes the rank of the node concerns
    /// no other instance (B4).
    pub(super) fn refresh_instance(&mut self, policy: &PolicyId, node: &NodeId, now: Timestamp) {
        let before = self.unit_nodes_of(policy, node);
        self.refresh_node(node, now);
        let after = self.unit_nodes_of(policy, node).into_iter();
        let changed = after
            .filter(|(unit_id, row)| before.get(unit_id).is_none_or(|old| !row.differs_in_rank_only(old)));
        self.engine.touched.extend(changed.map(|(unit_id, _)| (unit_id, None)));
    }

    /// Returns the rows of a node in the tables of a workload.
    fn unit_nodes_of(&self, policy: &PolicyId, node: &NodeId) -> BTreeMap<UnitId, UnitNode> {
        let of_policy = self.engine.units_of(policy);
        of_policy
            .filter_map(|(unit_id, unit)| Some((unit_id.clone(), unit.table.find(node)?.clone())))
            .collect()
    }

    /// Remembers when a living node will have been silent for too long.
    pub(super) fn expect_heartbeat(&mut self, node: &NodeId, now: Timestamp) {
        if let Some(at) = self.liveness_ends_at(node, now) {
            self.engine.silence.insert((at, node.clone()));
        }
    }

    /// Finds nodes that have been silent for too long.
    pub(super) fn note_silence(&mut self, now: Timestamp) {
        if self.engine.silence.is_empty() {
            for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
                self.expect_heartbeat(&node, now);
            }
        }
        let mut due = Vec::new();
        while let Some((at, node)) = self.engine.silence.pop_first() {
            if at > now {
                self.engine.silence.insert((at, node));
                break;
            }
            due.push(node);
        }
        for node in due {
            if self.is_down(&node, now) {
                self.touched.insert(node.clone());
                self.refresh_node(&node, now);
            } else {
                self.expect_heartbeat(&node, now);
            }
        }
    }
}

/// Returns whether a node that is not in the table yet belongs to a workload unit.
fn belongs(
    workload: &Workload,
    unit_id: &UnitId,
    record: &evenkeel_planner_record::node_record::NodeRecord,
    is_selected: bool,
) -> bool {
    let node = &record.facts.id;
    match (&unit_id.part, &workload.scope) {
        (Part::Group(group), _) => node.org() == group.org() && record.group() == Some(group.name()),
        (Part::All, NodeScope::Nodes(nodes)) => nodes.contains(node),
        (Part::All, _) => is_selected,
    }
}
