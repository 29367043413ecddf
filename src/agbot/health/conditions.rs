//! Reports of the engine: conditions of workloads and their units, read from the model.
//!
//! Source: orchestration D2, 1.3, D11.

use std::collections::BTreeMap;

use evenkeel_explain::explain::update_of;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::place::Elimination;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{
    health::{
        Entity, HealthState,
        system::{
            BLOCKLIST, HEALTH, HOSTING, ORCHESTRATOR, PLACEMENT, RECOVERY, SystemReport, UPGRADE_BLOCKED,
            VIOLATION,
        },
    },
    report::{Blocked, Constraint, EliminationReport},
    time::later,
    workload::{Part, SlotTasks, UnitId},
};
use evenkeel_status::status::{UnitView, unit_view};
use jiff::Timestamp;

/// Time for which too few instances may run before what is missing is an error.
const BELOW_MINIMUM_SECS: u64 = 60;
/// Instances that are named in one description.
const EXAMPLES: usize = 10;

const UNPLACED: &str = "Unplaced";
const BELOW_TARGET: &str = "BelowTarget";
const EMPTY_UNIT: &str = "EmptyUnit";
const START: &str = "Start";
const FENCING: &str = "Fencing";
const CHECK: &str = "Check";
const COMPAT_VERSION: &str = "CompatVersion";

/// Conditions found for the entities of a workload or a workload unit.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The reports, by entity; entities without one were examined, too.
    pub reports: BTreeMap<Entity, Vec<SystemReport>>,
    /// When time alone changes that.
    pub wake_at: Option<Timestamp>,
}

impl Found {
    fn add(&mut self, entity: &Entity, report: SystemReport) {
        self.reports.entry(entity.clone()).or_default().push(report);
    }

    /// Returns what recoveries of nodes came to: those that failed, with the reasons.
    pub(super) fn of_recoveries<'n>(
        (model, target): (&Model, &Entity),
        nodes: impl Iterator<Item = &'n NodeId>,
        failed: Vec<(Entity, String)>,
    ) -> Self {
        let mut found = Self::default();
        let reported = nodes.map(|node| Entity::Node(node.clone()));
        let reported = reported.filter(|node| model.health.find(node, HEALTH, RECOVERY).is_some());
        found.reports.extend(reported.map(|node| (node, Vec::new())));
        let is_reported = model.health.find(target, HEALTH, RECOVERY).is_some();
        found.reports.extend(is_reported.then(|| (target.clone(), Vec::new())));
        for (entity, why) in failed {
            found.add(&entity, SystemReport::new(HEALTH, RECOVERY, HealthState::Error, why));
        }
        found
    }

    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// Returns what is found about a workload unit and its instances; none when it does not exist.
pub(super) fn of_unit(model: &Model, unit_id: &UnitId, now: Timestamp) -> Option<Found> {
    let entity = Entity::WorkloadUnit(unit_id.clone());
    if !model.has_health_entity(&entity) {
        return None;
    }
    let mut found = Found { reports: BTreeMap::from([(entity.clone(), Vec::new())]), wake_at: None };
    if let Part::Group(group) = &unit_id.part
        && model.group(group).is_none_or(|group| group.members.is_empty())
    {
        let text = format!("HA group {group} does not exist or has no member");
        found.add(&entity, SystemReport::new(ORCHESTRATOR, EMPTY_UNIT, HealthState::Warning, text));
    }
    if let Some(view) = unit_view(model, unit_id, now) {
        if !view.is_frozen_everywhere {
            add_counts(model, &entity, &view, now, &mut found);
        }
        add_versions(&entity, &view.incompatible, &mut found);
        add_violations(model, unit_id, &view, &mut found);
        for (node, failure) in &view.failures {
            let instance = Entity::Instance(unit_id.policy.clone(), node.clone());
            let state = if failure.is_final { HealthState::Error } else { HealthState::Warning };
            let text = format!("the last start of {instance} failed: {}", failure.text);
            found.add(&instance, SystemReport::new(HOSTING, START, state, text));
        }
        add_failed_recoveries(model, unit_id, &mut found);
        add_broken_checks(model, unit_id, &mut found);
        add_unfenced(model, unit_id, &mut found);
        add_common_cause(model, unit_id, &mut found);
        for node in view.nodes {
            found.reports.entry(Entity::Instance(unit_id.policy.clone(), node)).or_default();
        }
        // Reports about an instance that has left its node end.
        let is_of_unit = |entity: &Entity| {
            matches!(entity, Entity::Instance(policy, node)
                if model.health_unit_of(policy, node).as_ref() == Some(unit_id))
        };
        for instance in model.health.of_policy(&unit_id.policy).into_iter().filter(is_of_unit) {
            found.reports.entry(instance).or_default();
        }
    }
    Some(found)
}

/// Adds the instances that no action of their health policy recovered.
fn add_failed_recoveries(model: &Model, unit_id: &UnitId, found: &mut Found) {
    if model.health_policy_of(&Entity::Workload(unit_id.policy.clone())).is_none() {
        return;
    }
    let Some(unit) = model.workload_unit(unit_id) else { return };
    for task in unit.slots.values().filter_map(|tasks| tasks.newest()) {
        let recovery = task.health.recovery.as_ref();
        let failed = recovery.filter(|recovery| recovery.failures > 0);
        if let (Some(recovery), Some(node)) = (failed, &task.node) {
            let instance = Entity::Instance(unit_id.policy.clone(), node.clone());
            found.add(&instance, recovery_failed(&recovery.reason));
        }
    }
}

/// Adds the instances whose check is broken, because their failures would stay unnoticed.
fn add_broken_checks(model: &Model, unit_id: &UnitId, found: &mut Found) {
    let Some(unit) = model.workload_unit(unit_id) else { return };
    for task in unit.slots.values().flat_map(SlotTasks::wanted) {
        let error = task.health.check_error.as_ref().filter(|_| !task.state.is_ended());
        if let (Some(error), Some(node)) = (error, &task.node) {
            let instance = Entity::Instance(unit_id.policy.clone(), node.clone());
            let text = format!("check broken: {error}");
            found.add(&instance, SystemReport::new(HEALTH, CHECK, HealthState::Warning, text));
        }
    }
}

/// Adds the instances that may still run on a node that is down, and that nothing stops by itself.
///
/// # Source
/// Orchestration C8.4.
fn add_unfenced(model: &Model, unit_id: &UnitId, found: &mut Found) {
    let Some(unit) = model.workload_unit(unit_id) else { return };
    let failed = unit.blocked.iter().filter_map(|(_, blocked)| match blocked {
        Blocked::FenceFailed { node, .. } => Some((node, blocked.to_string())),
        _ => None,
    });
    for (node, why) in failed.collect::<BTreeMap<_, _>>() {
        let instance = Entity::Instance(unit_id.policy.clone(), node.clone());
        found.add(&instance, SystemReport::new(HEALTH, FENCING, HealthState::Error, why));
    }
    // Its node was removed, and with it the instance that could be reported about.
    let is_endless = |blocked: &Blocked| matches!(blocked, Blocked::NodeDeparting { until: None, .. });
    if let Some((_, blocked)) = unit.blocked.iter().find(|(_, blocked)| is_endless(blocked)) {
        let entity = Entity::WorkloadUnit(unit_id.clone());
        found.add(&entity, SystemReport::new(HEALTH, FENCING, HealthState::Error, blocked.to_string()));
    }
}

/// Adds a workload unit of which most running members fail at once.
///
/// # Source
/// Orchestration C6.
fn add_common_cause(model: &Model, unit_id: &UnitId, found: &mut Found) {
    let Some(unit) = model.workload_unit(unit_id) else { return };
    let mut causes = unit.blocked.iter().filter(|(_, one)| matches!(one, Blocked::CommonCause { .. }));
    if let Some((_, blocked)) = causes.next() {
        let entity = Entity::WorkloadUnit(unit_id.clone());
        found.add(&entity, SystemReport::new(HEALTH, RECOVERY, HealthState::Error, blocked.to_string()));
    }
}

fn recovery_failed(why: &str) -> SystemReport {
    let text = format!("recovery failed: {why}");
    SystemReport::new(HEALTH, RECOVERY, HealthState::Error, text)
}

fn add_versions(entity: &Entity, versions: &[i64], found: &mut Found) {
    if versions.is_empty() {
        return;
    }
    let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
    let text = format!(
        "the agents of {entity} have different compatibility versions, {}: automatic decisions are suspended",
        versions.join(", ")
    );
    found.add(entity, SystemReport::new(ORCHESTRATOR, COMPAT_VERSION, HealthState::Warning, text));
}

fn add_counts(model: &Model, entity: &Entity, view: &UnitView, now: Timestamp, found: &mut Found) {
    if view.up < view.wanted {
        let text = format!("{} of {} wanted instances run", view.up, view.wanted);
        found.add(entity, SystemReport::new(PLACEMENT, BELOW_TARGET, HealthState::Warning, text));
    }
    let Some(summary) = &view.unplaced else { return };
    let mut state = HealthState::Warning;
    if view.up < view.min {
        // Both reports begin when the first of the two conditions does.
        let known = |property| model.health.find(entity, PLACEMENT, property);
        let is_error = known(UNPLACED).is_some_and(|event| event.state == HealthState::Error);
        let since = known(UNPLACED).map_or(now, |event| event.since);
        let since = since.max(known(BELOW_TARGET).map_or(now, |event| event.since));
        let until = later(since, BELOW_MINIMUM_SECS + 1);
        if is_error || now >= until {
            state = HealthState::Error;
        } else {
            found.wake(until);
        }
    }
    let unit = match entity {
        Entity::WorkloadUnit(unit_id) => model.workload_unit(unit_id),
        _ => None,
    };
    let report = unit.and_then(|unit| unit.unplaced.as_ref()).filter(|report| report.summary == *summary);
    let text = report.map_or_else(|| summary.clone(), EliminationReport::with_nodes);
    found.add(entity, SystemReport::new(PLACEMENT, UNPLACED, state, text));
}

fn add_violations(model: &Model, unit_id: &UnitId, view: &UnitView, found: &mut Found) {
    let is_upgrading = model.workload(&unit_id.policy).is_some_and(|record| record.update.is_rolling());
    let mut of_unit: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for (node, violation) in &view.violations {
        let instance = Entity::Instance(unit_id.policy.clone(), node.clone());
        let constraint = violation.constraint.name();
        let rule = [violation.expression.as_str(), violation.detail.as_str()];
        let rule = rule.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
        let text = format!(
            "instance {instance} violates {constraint}: {rule}, node {}, currentlyUpgrading {is_upgrading}",
            node.name()
        );
        of_unit.entry(constraint).or_default().push(text.clone());
        let property = format!("{VIOLATION}{constraint}");
        found.add(&instance, SystemReport::new(PLACEMENT, property, HealthState::Warning, text));
    }
    for (constraint, mut texts) in of_unit {
        let count = texts.len();
        texts.truncate(EXAMPLES);
        if count > EXAMPLES {
            texts.push(format!("and {} more", count - EXAMPLES));
        }
        let property = format!("{VIOLATION}{constraint}");
        let report = SystemReport::new(PLACEMENT, property, HealthState::Warning, texts.join("; "));
        found.add(&Entity::WorkloadUnit(unit_id.clone()), report);
    }
}

/// Returns what is found about a workload as a whole.
pub(super) fn of_workload(model: &Model, policy: &PolicyId, now: Timestamp) -> Found {
    let entity = Entity::Workload(policy.clone());
    let mut found = Found { reports: BTreeMap::from([(entity.clone(), Vec::new())]), wake_at: None };
    if let Some(report) = failing_everywhere(model, policy) {
        found.add(&entity, report);
    }
    let Some(blocked) = update_of(model, policy, now).and_then(|update| update.blocked) else { return found };
    if !blocked.is_shown(now) {
        found.wake(blocked.shown_at());
        return found;
    }
    let error_at = later(blocked.since, model.upgrade_blocked_error_after_secs(policy.org()));
    let state = if now >= error_at { HealthState::Error } else { HealthState::Warning };
    if state == HealthState::Warning {
        found.wake(error_at);
    }
    let slots = blocked.slots.iter().take(EXAMPLES);
    let slots: Vec<String> =
        slots.map(|(slot, why)| format!("slot {slot}: {}: {why}", why.upgrade_rule())).collect();
    let text = format!("no slot can be upgraded since {:.3}: {}", blocked.since, slots.join("; "));
    found.add(&entity, SystemReport::new(PLACEMENT, UPGRADE_BLOCKED, state, text));
    found
}

/// Returns on how many nodes the service of a workload keeps failing; an error if none is left.
///
/// # Source
/// Orchestration D2, D4.
fn failing_everywhere(model: &Model, policy: &PolicyId) -> Option<SystemReport> {
    let (mut blocked, mut selected, mut last) = (0, 0, None);
    for (_, unit) in model.workload_units_of(policy).filter(|(_, unit)| unit.is_wanted) {
        let nodes = Elimination::of_eligibility(&unit.table);
        let failing = unit.table.removed_by(Constraint::Blocklist).map(|failing| failing & &nodes);
        let failing = failing.unwrap_or_default();
        selected += nodes.len();
        blocked += failing.len();
        let example = failing.min().map(|number| unit.table.node(number));
        last = last
            .or(example.and_then(|row| Some((row.id.clone(), row.marks.blocklisted.as_deref().cloned()?))));
    }
    let (node, why) = last?;
    let Blocked::Blocklisted { service, .. } = &why else { return None };
    let state = if blocked >= selected { HealthState::Error } else { HealthState::Warning };
    let text = format!("{service} is blocked on {blocked} of {selected} nodes: {node}: {why}");
    Some(SystemReport::new(PLACEMENT, format!("{BLOCKLIST}{service}"), state, text))
}
