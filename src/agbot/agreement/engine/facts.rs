//! The facts of a decision about a workload unit, from the model: only those of the slots that it concerns.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_change::{DependencyFacts, GroupState, Independent};
use evenkeel_ids::{GroupId, NodeId, PolicyId, ServiceKey, TaskId};
use evenkeel_placement::place::NodeTable;
use evenkeel_planner_model::{
    model::{Model, UnitRecord, observe::observe},
    pass::Pass,
};
use evenkeel_planner_record::{
    blocklist::BlocklistNews,
    settings::UnitSettings,
    time::later,
    workload::{Part, ReportedHealth, Slot, SlotTasks, Slots, Task, UnitId, Workload, WorkloadRecord},
};
use evenkeel_reconcile::unit_pass::{ModelSurvey, RecoveryFacts, ReportedError, UnitFacts};
use jiff::Timestamp;

use super::{blocklist::Collector, dependencies::Dependencies};
use crate::group_members;

/// The data that [`UnitFacts`] borrows.
pub struct UnitInputs<'a> {
    workload: &'a Workload,
    unit_id: &'a UnitId,
    unit: &'a UnitRecord,
    observed: Slots,
    groups: BTreeMap<GroupId, GroupState>,
    departures: &'a evenkeel_planner_record::departure::Departures,
    gone_group: Option<&'a GroupId>,
    part_count: usize,
    other_units: Vec<(&'a Part, &'a Slots)>,
    gone_parts: Vec<Part>,
    taken_over: Vec<NodeId>,
    unsettled_partners: Vec<PolicyId>,
    are_partners_in_upgrade: bool,
    blocklist: BlocklistNews,
    dependencies: Box<dyn DependencyFacts + 'a>,
    errors: Vec<ReportedError>,
    health: BTreeMap<TaskId, ReportedHealth>,
    survey: ModelSurvey<'a>,
    recovery: RecoveryFacts,
    grace_until: Option<Timestamp>,
    unheard_until: Option<Timestamp>,
    /// The compatibility versions that suspend automatic decisions.
    pub incompatible: Vec<i64>,
    /// When time alone changes what was seen.
    pub wake_at: Option<Timestamp>,
    settings: UnitSettings,
}

impl<'a> UnitInputs<'a> {
    /// Collects the facts about some slots, or about all.
    pub fn new(
        pass: &Pass<'a>,
        workload: &'a Workload,
        unit_id: &'a UnitId,
        unit: &'a UnitRecord,
        slots: Option<&BTreeSet<Slot>>,
    ) -> Self {
        let model = pass.model;
        let found: Vec<(&Slot, &SlotTasks)> = match slots {
            Some(slots) => slots.iter().map(|slot| (slot, unit.tasks(slot))).collect(),
            None => unit.slots.iter().collect(),
        };
        let (mut observed, mut wake_at) = (Slots::new(), None);
        let mut blocklist = Collector::default();
        for (slot, tasks) in &found {
            for task in tasks.iter().filter(|task| !task.state.is_ended()) {
                let seen = observe(model, task, workload, pass.now);
                wake_at = [wake_at, seen.wake_at].into_iter().flatten().min();
                let tasks = (task, seen.task.as_ref().unwrap_or(task));
                blocklist.note(model, (workload, unit), tasks, pass.now);
                if let Some(task) = seen.task {
                    observed.entry((*slot).clone()).or_default().put(task);
                }
            }
        }
        wake_at = [wake_at, blocklist.wake_at].into_iter().flatten().min();
        let has_policy = workload.health.is_some();
        // A recovery continues when its task has ended, and events are recorded without a policy.
        let is_meant = |task: &&Task| {
            let may_be_fenced = task.health.supervision.lease_secs.is_some() && !task.state.is_ended();
            let is_followed = task.health.recovery.is_some() || model.has_new_events(task);
            has_policy && task.is_wanted() || is_followed || may_be_fenced
        };
        let all = found.iter().flat_map(|(_, tasks)| tasks.iter()).filter(is_meant);
        let health = all.filter_map(|task| Some((task.id.clone(), model.found_health(task, pass.now)?)));
        let health = health.collect();
        let tasks = || found.iter().flat_map(|(_, tasks)| tasks.iter());
        let own = workload.health.as_ref();
        let mut recovery = RecoveryFacts::of(model, &unit_id.policy, own, (unit, tasks()), pass.now);
        for node in recovery.hosts_to_reboot() {
            if let Some(blocked) = group_members::missing_without(pass, &node) {
                recovery.host_blocks.insert(node, blocked);
            }
        }
        let nodes =
            tasks().filter(|task| !task.state.is_ended()).filter_map(|task: &Task| task.node.as_ref());
        let groups = groups_of(pass, &unit_id.policy, nodes);
        let part_count = model.workload_units_of(&unit_id.policy).filter(|(_, unit)| unit.is_wanted).count();
        let gone_parts = gone_parts(model, &unit_id.policy);
        let grace_until = model.began_at.map(|at| later(at, model.settling_secs(unit_id.policy.org())));
        let grace_until = grace_until.filter(|until| pass.now < *until);
        let unheard_until = unheard_until(pass, unit_id, &unit.table);
        let unsettled_partners = model.unsettled_partners(workload, unit, pass.now);
        let settings = model.unit_settings(unit_id.policy.org());
        // A part that the policy no longer has is not stopped by a user's order (A8.2).
        let is_left_over = !unit.is_wanted && model.policy(&unit_id.policy).is_some();
        let dependencies: Box<dyn DependencyFacts> = match is_left_over {
            true => Box::new(Independent),
            false => Box::new(Dependencies::new(model, workload, unit, pass.now)),
        };
        Self {
            workload,
            unit_id,
            unit,
            observed,
            groups,
            departures: &model.departures,
            gone_group: model.gone_group(unit_id).filter(|_| unit.is_wanted),
            part_count,
            other_units: other_units(model, unit_id),
            gone_parts,
            taken_over: taken_over(model, unit_id, unit),
            unsettled_partners,
            are_partners_in_upgrade: model.are_partners_in_upgrade(workload),
            blocklist: blocklist.news,
            dependencies,
            errors: reported_errors(model, &unit_id.policy, pass.now),
            health,
            survey: ModelSurvey { model, now: pass.now },
            recovery,
            grace_until,
            unheard_until,
            incompatible: workload.suspending_versions(unit.table.compat_versions()),
            wake_at,
            settings,
        }
    }

    /// Returns the facts.
    pub fn facts<'f>(&'f self, record: &'f WorkloadRecord) -> UnitFacts<'f> {
        UnitFacts {
            workload: self.workload,
            unit_id: self.unit_id,
            table: &self.unit.table,
            slots: &self.unit.slots,
            observed: &self.observed,
            groups: &self.groups,
            update: &record.update,
            departures: self.departures,
            gone_group: self.gone_group,
            part_count: self.part_count,
            other_units: &self.other_units,
            gone_parts: &self.gone_parts,
            taken_over: &self.taken_over,
            unsettled_partners: &self.unsettled_partners,
            are_partners_in_upgrade: self.are_partners_in_upgrade,
            blocklist: &self.blocklist,
            dependencies: &*self.dependencies,
            errors: &self.errors,
            health: &self.health,
            survey: &self.survey,
            recovery: &self.recovery,
            grace_until: self.grace_until,
            unheard_until: self.unheard_until,
            incompatible: &self.incompatible,
            settings: self.settings,
        }
    }
}

/// Returns until when automatic starts wait for nodes of a workload unit that were not heard since the model began to be filled, although
/// they were up when the hub was last alive before.
///
/// # Source
/// Orchestration A10.5.
fn unheard_until(pass: &Pass<'_>, unit_id: &UnitId, table: &NodeTable) -> Option<Timestamp> {
    let model = pass.model;
    let began_at = model.began_at?;
    let until = later(began_at, model.rejoin_grace_secs(unit_id.policy.org()));
    if pass.now >= until {
        return None;
    }
    let is_member = |node: &NodeId| {
        let is_of_unit = table.number(node).is_some_and(|number| table.members().contains(number));
        is_of_unit && !model.was_down_before(node)
    };
    model.unheard.iter().any(is_member).then_some(until)
}

/// Returns the errors that were reported since the update of a workload began, or was last resumed.
fn reported_errors(model: &Model, policy: &PolicyId, now: Timestamp) -> Vec<ReportedError> {
    let update = model.workload(policy).map(|record| &record.update).filter(|update| update.is_rolling());
    let Some(since) = update.and_then(|update| update.counts_from) else { return Vec::new() };
    let found = model.new_errors(policy, since, now).into_iter();
    let found = found.map(|(entity, event, since)| ReportedError {
        entity,
        source: event.source.to_string(),
        property: event.property.to_string(),
        since,
    });
    found.collect()
}

/// Returns the slots of the other workload units of a workload that have nodes.
fn other_units<'a>(model: &'a Model, unit_id: &'a UnitId) -> Vec<(&'a Part, &'a Slots)> {
    let others = model.workload_units_of(&unit_id.policy).filter(|(id, _)| *id != unit_id);
    let is_meant = |unit: &UnitRecord| unit.is_wanted && !unit.table.members().is_empty();
    others.filter(|(_, unit)| is_meant(unit)).map(|(id, unit)| (&id.part, &unit.slots)).collect()
}

/// Returns the parts that the status of a workload's update names and that the workload no longer has.
fn gone_parts(model: &Model, policy: &PolicyId) -> Vec<Part> {
    let is_gone = |part: &&Part| {
        let unit_id = UnitId { policy: policy.clone(), part: (*part).clone() };
        model.workload_unit(&unit_id).is_none_or(|unit| !unit.is_wanted)
    };
    let parts = model.workload(policy).into_iter().flat_map(|record| &record.update.parts);
    parts.map(|(part, _)| part).filter(is_gone).cloned().collect()
}

/// Returns the nodes with tasks of a workload unit that is no longer wanted, of which another one of the policy has a member.
fn taken_over(model: &Model, unit_id: &UnitId, unit: &UnitRecord) -> Vec<NodeId> {
    if unit.is_wanted {
        return Vec::new();
    }
    let wanted = || model.workload_units_of(&unit_id.policy).filter(|(_, other)| other.is_wanted);
    let is_member =
        |node: &NodeId| wanted().any(|(_, other)| other.table.find(node).is_some_and(|row| row.is_member));
    let tasks = unit.slots.values().flat_map(SlotTasks::iter);
    let nodes: BTreeSet<&NodeId> = tasks.filter_map(|task| task.node.as_ref()).collect();
    nodes.into_iter().filter(|node| is_member(node)).cloned().collect()
}

/// Returns the HA groups of nodes, as to the service of a policy.
fn groups_of<'n>(
    pass: &Pass<'_>,
    policy: &PolicyId,
    nodes: impl Iterator<Item = &'n NodeId>,
) -> BTreeMap<GroupId, GroupState> {
    let mut groups = BTreeMap::new();
    let Some(service) = service_of(pass.model, policy) else { return groups };
    for group in nodes.filter_map(|node| pass.model.group_of(node)) {
        if !groups.contains_key(&group.id) {
            let state = group_members::group_state(pass, group, policy, &service, &service);
            groups.insert(group.id.clone(), state);
        }
    }
    groups
}

/// Returns the service that the current version of a workload runs.
fn service_of(model: &Model, policy: &PolicyId) -> Option<ServiceKey> {
    let current = model.workload(policy)?.versions.current.number;
    let spec = model.known_spec(policy, current).map(|spec| spec.policy.service.clone());
    spec.or_else(|| model.policy(policy).map(|facts| facts.service.clone()))
}
