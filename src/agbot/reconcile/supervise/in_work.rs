//! The slots that an update is replacing.
//!
//! Source: orchestration B11.

use std::collections::BTreeSet;

use evenkeel_ids::TaskId;
use evenkeel_planner_record::workload::{Slot, Ticket};

use super::failed_tasks::chain;
use crate::unit_pass::UnitPass;

pub(super) fn slots_in_work(pass: &UnitPass<'_>) -> BTreeSet<Slot> {
    let part = pass.update.part(&pass.facts.unit_id.part).into_iter();
    let in_work = part.flat_map(|part| &part.tickets).filter(|(_, ticket)| ticket.task.is_some());
    in_work.map(|(slot, _)| slot.clone()).collect()
}

/// Returns the task that carries on the one of a slot in work on another node.
pub(super) fn successor(pass: &UnitPass<'_>, slot: &Slot, ticket: &Ticket) -> Option<TaskId> {
    let id = ticket.task.as_ref().filter(|_| ticket.done_at.is_none())?;
    let newest = pass.tasks(slot).newest().filter(|newest| newest.id != *id && newest.is_wanted())?;
    let judged_secs = pass.update_settings().judged_secs();
    chain(pass, newest, judged_secs).any(|task| task.id == *id).then(|| newest.id.clone())
}

/// Returns what came of a slot that is no longer in work, in words.
pub(super) fn outcome(pass: &UnitPass<'_>, slot: &Slot, ticket: &Ticket) -> String {
    let task = pass.tasks(slot).iter().find(|task| Some(&task.id) == ticket.task.as_ref());
    match task {
        Some(task) if task.ended_by_itself() => format!("failed: {}", task.ending_text()),
        Some(task) if task.is_wanted() && !task.is_running() => "not seen running in time".to_owned(),
        _ => "finished".to_owned(),
    }
}
