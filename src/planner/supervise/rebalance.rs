//! Moves to nodes that rank better, or that are in the preferred domain: one at a time, and none during an upgrade.
//!
//! Source: orchestration D8 (b), D9.5.

use evenkeel_ids::NodeId;
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::snapshot;
use crate::{
    change::Cause,
    reconcile::{UnitPass, relocate_to},
    usage::later,
    workload::{Slot, Task},
};

/// Moves one instance, if the last such move was long enough ago and everything else is at rest.
pub(crate) fn plan(pass: &mut UnitPass<'_>) {
    let placement = &pass.facts.workload.placement;
    if !placement.is_improved()
        || !pass.facts.workload.goal.moves_by_itself()
        || snapshot::is_in_upgrade(pass)
    {
        return;
    }
    let Some(instances) = instances_at_rest(pass) else { return };
    let Some((slot, task, target)) = next_move(pass, &instances) else { return };
    if let Some(until) = next_move_at(pass).filter(|until| pass.now < *until) {
        return pass.wake(until);
    }
    relocate_to(pass, &slot, &task, Cause::Rebalance, Some(target));
}

/// Returns the instances, by slot, if each slot has a single one that runs, and none is away because of an upgrade.
fn instances_at_rest(pass: &UnitPass<'_>) -> Option<Vec<(Slot, Task)>> {
    let only = |slot: Slot| {
        let mut open = pass.tasks(&slot).iter().filter(|task| !task.is_stopped() || task.is_live());
        let task = match (open.next(), open.next()) {
            (Some(only), None) => only,
            (None, _) => return Some(None),
            _ => return None,
        };
        let is_at_rest =
            task.is_live() && task.is_running() && task.origin.is_none() && !pass.is_node_lost(task);
        is_at_rest.then(|| Some((slot.clone(), task.clone())))
    };
    let all: Option<Vec<Option<(Slot, Task)>>> = pass.all_slots().into_iter().map(only).collect();
    Some(all?.into_iter().flatten().collect())
}

/// Returns when the next instance may move.
fn next_move_at(pass: &UnitPass<'_>) -> Option<Timestamp> {
    let slots = pass.all_slots();
    let moved = slots.iter().flat_map(|slot| pass.tasks(slot).iter());
    let last = moved.filter(|task| task.cause == Cause::Rebalance).map(|task| task.created_at).max();
    last.map(|at| later(at, pass.facts.settings.rebalance_interval_secs))
}

/// Returns the slot, its instance and the node to which it moves.
fn next_move(pass: &UnitPass<'_>, instances: &[(Slot, Task)]) -> Option<(Slot, Task, NodeId)> {
    let table = pass.facts.table;
    let number = |task: &Task| table.number(task.node.as_ref()?);
    let is_movable = |task: &Task| pass.node_of(task).is_some_and(|row| !row.is_pinned && row.is_member);
    let leaders = pass.leaders().available;
    let used: RoaringBitmap = instances.iter().filter_map(|(_, task)| number(task)).collect();
    let mut free = leaders.iter().copied().filter(|leader| !used.contains(*leader));
    let name = |number: u32| table.node(number).id.clone();
    if let Some(preferred) = pass.ranking().preferred_nodes() {
        let (slot, task) = instances.first()?;
        let is_outside = number(task).is_some_and(|number| !preferred.contains(number));
        let target = free.clone().find(|leader| preferred.contains(*leader));
        if let Some(target) = target.filter(|_| is_outside && is_movable(task)) {
            return Some((slot.clone(), task.clone(), name(target)));
        }
    }
    if !pass.facts.workload.placement.is_rebalanced {
        return None;
    }
    let target = free.next()?;
    let leaders: RoaringBitmap = leaders.iter().copied().collect();
    let is_misplaced =
        |task: &Task| number(task).is_some_and(|number| !leaders.contains(number)) && is_movable(task);
    // The instance of the lowest rank moves first.
    let order = pass.ranking().order_of_candidates(table.members());
    let position = |task: &Task| order.iter().position(|one| Some(*one) == number(task));
    let worst =
        instances.iter().filter(|(_, task)| is_misplaced(task)).max_by_key(|(_, task)| position(task));
    worst.map(|(slot, task)| (slot.clone(), task.clone(), name(target)))
}
