//! The slots that an update is replacing.
//!
//! Source: orchestration B11.

use std::collections::BTreeSet;

use crate::{reconcile::UnitPass, workload::Slot};

/// Returns the slots in work.
pub(super) fn slots_in_work(pass: &UnitPass<'_>) -> BTreeSet<Slot> {
    let part = pass.update.part(&pass.facts.unit_id.part).into_iter();
    let in_work = part.flat_map(|part| &part.tickets).filter(|(_, ticket)| ticket.task.is_some());
    in_work.map(|(slot, _)| slot.clone()).collect()
}

/// Returns the slots in work whose new task has found no node.
pub(super) fn slots_without_node(pass: &UnitPass<'_>) -> BTreeSet<Slot> {
    let tickets = pass.update.part(&pass.facts.unit_id.part).into_iter().flat_map(|part| &part.tickets);
    let waiting = tickets.filter_map(|(slot, ticket)| {
        let id = ticket.task.as_ref().filter(|_| ticket.done_at.is_none())?;
        let task = pass.tasks(slot).iter().find(|task| task.id == *id)?;
        (task.is_live() && task.node.is_none()).then(|| slot.clone())
    });
    waiting.collect()
}
