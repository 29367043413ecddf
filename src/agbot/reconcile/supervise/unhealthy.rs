//! Errors that are reported while an update is in progress: each entity counts as one failed task.
//!
//! Source: orchestration D1 (last paragraph), D10.

use evenkeel_ids::NodeId;
use evenkeel_planner_record::{health::Entity, workload::Task};

use crate::unit_pass::{ReportedError, UnitPass};

/// Failures found during an update.
pub(super) struct Failed {
    /// The slot, if it is about one.
    pub slot: Option<evenkeel_planner_record::workload::Slot>,
    /// The node, if it is about one.
    pub node: Option<NodeId>,
    /// Why, in words.
    pub message: String,
}

/// Counts the errors that were reported about this workload unit and about the workload as a whole; returns the last new one.
pub(super) fn note(pass: &mut UnitPass<'_>) -> Option<Failed> {
    let part = pass.facts.unit_id.part.clone();
    let mut last = None;
    for error in pass.facts.errors {
        let key = error.entity.to_string();
        if !is_meant(pass, &error.entity) || is_counted(pass, error, &key) {
            continue;
        }
        let node = error.entity.node().cloned();
        let slot = node.as_ref().and_then(|node| {
            let slots = pass.all_slots();
            let runs_there = |task: &Task| task.is_live() && task.node.as_ref() == Some(node);
            slots.into_iter().find(|slot| pass.tasks(slot).iter().any(runs_there))
        });
        let message = message(error);
        pass.update.part_mut(&part).unhealthy.insert(key, message.clone());
        last = Some(Failed { slot, node, message });
    }
    last
}

/// Returns an error in words.
pub(super) fn message(error: &ReportedError) -> String {
    format!("{} reports {} of {} as Error", error.source, error.property, error.entity)
}

/// Returns whether an entity belongs to the workload unit, or holds all of them.
pub(super) fn is_meant(pass: &UnitPass<'_>, entity: &Entity) -> bool {
    match entity {
        Entity::Instance(_, node) => pass.facts.table.number(node).is_some(),
        Entity::WorkloadUnit(unit_id) => unit_id == pass.facts.unit_id,
        Entity::Workload(_) => true,
        Entity::Org(_) | Entity::Node(_) | Entity::Group(_) => false,
    }
}

/// Returns whether an entity was counted, or the task of an instance.
fn is_counted(pass: &UnitPass<'_>, error: &ReportedError, key: &str) -> bool {
    let failed_there = |task: &Task| {
        let part = pass.update.part(&pass.facts.unit_id.part);
        task.node.as_ref() == error.entity.node()
            && task.node.is_some()
            && part.is_some_and(|part| part.failed.contains(&task.id))
    };
    pass.update.parts.iter().any(|(_, part)| part.unhealthy.contains_key(key))
        || pass.all_slots().iter().any(|slot| pass.tasks(slot).iter().any(failed_there))
}

/// Returns whether the instance of a task was counted.
pub(super) fn is_instance_counted(pass: &UnitPass<'_>, task: &Task) -> bool {
    let Some(node) = &task.node else { return false };
    let key = Entity::Instance(task.unit_id.policy.clone(), node.clone()).to_string();
    pass.update.part(&pass.facts.unit_id.part).is_some_and(|part| part.unhealthy.contains_key(&key))
}
