//! Checks: when the engine compares what it finds with what it has reported.
//!
//! An event schedules a check of what it touches, a moment later, so that a burst of events costs one check. Source: orchestration D2.

mod conditions;
mod group;
mod member_recovery;
mod node;
mod org;
mod registry;

pub use group::{GroupFindings, group_reports, reported_groups, stale_upgrades};
pub use node::node_reports;
pub use org::org_reports;

use std::collections::BTreeSet;

use evenkeel_ids::PolicyId;

use conditions::Found;
use evenkeel_planner_model::{
    command::{Action, CommandKey},
    focus::Focus,
    model::Model,
    pass::Pass,
};
use evenkeel_planner_record::{
    health::{
        Entity, HealthEvent, SYSTEM,
        system::{self, BLOCKLIST, UPGRADE_BLOCKED},
    },
    lease::Lease,
    time::later,
    workload::UnitId,
};

/// Time between an event and the check of what it touched.
const DELAY_SECS: u64 = 1;
/// Time between checks of a workload whose groups are updated one by one.
const ROLLOUT_SECS: u64 = 5;
/// A check whose command is in flight is repeated after this time.
const BUSY_SECS: u64 = 2;

/// Schedules checks of what is in focus, and makes those that are due.
pub fn plan_all(pass: &mut Pass<'_>, focus: &Focus) {
    let model = pass.model;
    registry::schedule(pass, focus);
    let soon = later(pass.now, DELAY_SECS);
    for unit_id in focus.workload_units.iter().chain(focus.slots.iter().map(|(unit_id, _)| unit_id)) {
        pass.check_health(Entity::WorkloadUnit(unit_id.clone()), soon);
    }
    let with_units = focus.workload_units.iter().map(|unit_id| &unit_id.policy);
    for policy in focus.workloads.iter().chain(with_units) {
        pass.check_health(Entity::Workload(policy.clone()), soon);
    }
    for (_, policy) in &focus.group_rollouts {
        pass.check_health(Entity::Workload(policy.clone()), later(pass.now, ROLLOUT_SECS));
    }
    for entity in &focus.unsure {
        pass.check_health(entity.clone(), soon);
    }
    for entity in model.health.due_checks(pass.now).filter(|entity| !model.is_unread_entity(entity)) {
        check(pass, entity);
    }
}

/// Makes every check, due or not: the commands are what is reported otherwise than it is found.
pub fn make_all(pass: &mut Pass<'_>) {
    let model = pass.model;
    let with_tasks = model.workloads().flat_map(|record| model.workload_units_of(&record.policy));
    let workload_units = with_tasks.map(|(unit_id, _)| Entity::WorkloadUnit(unit_id.clone()));
    let workloads = model.policies().map(|policy| Entity::Workload(policy.id.clone()));
    let targets = model.registrations().map(|row| row.target.clone());
    let known = model.health.entities().cloned();
    let all: BTreeSet<Entity> = workload_units.chain(workloads).chain(targets).chain(known).collect();
    all.iter().for_each(|entity| check(pass, entity));
}

fn check(pass: &mut Pass<'_>, entity: &Entity) {
    match entity {
        Entity::WorkloadUnit(unit_id) => check_unit(pass, unit_id),
        Entity::Workload(policy) => {
            check_workload(pass, policy);
            registry::follow(pass, entity);
        }
        entity => {
            let lease = match entity {
                Entity::Node(node) => pass.lease_for(node),
                Entity::Group(group) => pass.lease_for_group(group),
                _ => None,
            };
            if let Some(lease) = lease.filter(|_| !pass.model.has_health_entity(entity)) {
                drop_entities(pass, lease, entity, vec![entity.clone()]);
            }
            registry::follow(pass, entity);
        }
    }
}

fn check_unit(pass: &mut Pass<'_>, unit_id: &UnitId) {
    let Some(lease) = pass.lease_for_unit(unit_id) else { return };
    let entity = Entity::WorkloadUnit(unit_id.clone());
    if let Some(found) = conditions::of_unit(pass.model, unit_id, pass.now) {
        let is_meant = |event: &HealthEvent| event.source.starts_with(SYSTEM) && is_of_units(event);
        report(pass, lease, &entity, found, is_meant);
    }
}

/// Returns whether an event may change the outcome of a check of a unit.
fn is_of_units(event: &HealthEvent) -> bool {
    let source = &*event.source;
    [system::PLACEMENT, system::ORCHESTRATOR, system::HEALTH, system::HOSTING].contains(&source)
}

fn check_workload(pass: &mut Pass<'_>, policy: &PolicyId) {
    let Some(lease) = pass.lease_for_workload(policy) else { return };
    let model = pass.model;
    let entity = Entity::Workload(policy.clone());
    if !model.has_health_entity(&entity) {
        return drop_entities(pass, lease, &entity, model.health.of_policy(policy));
    }
    // Reports of the engine about a unit or an instance end when it no longer exists.
    let left = model.health.of_policy(policy).into_iter().filter(|one| *one != entity);
    let (gone, left): (Vec<_>, Vec<_>) = left.partition(|one| !model.has_health_entity(one));
    if !gone.is_empty() {
        drop_entities(pass, lease, &entity, gone);
    }
    let mut found = conditions::of_workload(model, policy, pass.now);
    for instance in left.into_iter().filter(|one| is_without_task(model, one)) {
        found.reports.entry(instance).or_default();
    }
    let is_meant = |event: &HealthEvent| {
        *event.property == *UPGRADE_BLOCKED || event.property.starts_with(BLOCKLIST) || is_of_units(event)
    };
    report(pass, lease, &entity, found, is_meant);
}

/// Returns whether an entity is an instance of a workload with tasks that no longer has any.
fn is_without_task(model: &Model, entity: &Entity) -> bool {
    let Entity::Instance(policy, node) = entity else { return false };
    let is_reported = model.health.of(entity).iter().any(|event| event.partition.is_some());
    is_reported && model.workload(policy).is_some() && model.engine.tasks_on(node, policy).next().is_none()
}

/// Issues what differs between what was found and what is known.
fn report(
    pass: &mut Pass<'_>,
    lease: Lease,
    checked: &Entity,
    found: Found,
    is_meant: impl Fn(&HealthEvent) -> bool,
) {
    let model = pass.model;
    let ttl_secs = model.system_report_ttl_secs(checked.org());
    found.wake_at.into_iter().for_each(|at| pass.check_health(checked.clone(), at));
    for (entity, reports) in found.reports {
        let reports = system::changes(&model.health, &entity, &reports, lease.partition, &is_meant);
        if reports.is_empty() {
            continue;
        }
        if model.is_pending(&CommandKey::health(&entity), pass.now) {
            pass.check_health(checked.clone(), later(pass.now, BUSY_SECS));
            continue;
        }
        pass.issue_for_group(lease, Action::ReportHealth { entity, reports, ttl_secs });
    }
}

fn drop_entities(pass: &mut Pass<'_>, lease: Lease, checked: &Entity, entities: Vec<Entity>) {
    let entities: Vec<Entity> =
        entities.into_iter().filter(|one| !pass.model.health.of(one).is_empty()).collect();
    if !entities.is_empty() {
        pass.issue_for_group(lease, Action::DropHealth { checked: checked.clone(), entities });
    }
}
