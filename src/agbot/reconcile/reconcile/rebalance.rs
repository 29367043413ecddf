//! Moves to nodes that rank better, or that are in the preferred domain: one at a time, and none during an upgrade.
//!
//! Source: orchestration D8 (b), D9.5.

use evenkeel_ids::NodeId;
use evenkeel_placement::place::Buffer;
use evenkeel_planner_record::{
    time::later,
    workload::{Cause, Slot, Task},
};
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::slot::relocate_to;
use crate::unit_pass::{
    UnitPass,
    snapshot::{self, can_take},
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
    let moves = moves(pass, &instances);
    if moves.is_empty() {
        return;
    }
    if let Some(until) = next_move_at(pass).filter(|until| pass.now < *until) {
        return pass.wake(until);
    }
    // A better rank is no reason to violate what is hard.
    let mut possible = moves.into_iter();
    let possible = possible.find(|(_, task, target)| can_take(pass, task, target, Buffer::Kept));
    let Some((slot, task, target)) = possible else { return };
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

/// Returns the slots, their instances and the nodes to which they would move, the best move first.
fn moves(pass: &UnitPass<'_>, instances: &[(Slot, Task)]) -> Vec<(Slot, Task, NodeId)> {
    let table = pass.facts.table;
    let number = |task: &Task| table.number(task.node.as_ref()?);
    let is_movable = |task: &Task| pass.node_of(task).is_some_and(|row| !row.is_pinned && row.is_member);
    let leaders = pass.leaders().available;
    let used: RoaringBitmap = instances.iter().filter_map(|(_, task)| number(task)).collect();
    let free: Vec<u32> = leaders.iter().copied().filter(|leader| !used.contains(*leader)).collect();
    let to = |(slot, task): &(Slot, Task), target: u32| {
        (slot.clone(), task.clone(), table.node(target).id.clone())
    };
    let mut moves = Vec::new();
    if let Some((preferred, first)) = pass.ranking().preferred_nodes().zip(instances.first()) {
        let is_outside = number(&first.1).is_some_and(|number| !preferred.contains(number));
        let inside = free.iter().copied().filter(|leader| preferred.contains(*leader));
        moves.extend(inside.filter(|_| is_outside && is_movable(&first.1)).map(|target| to(first, target)));
    }
    if !pass.facts.workload.placement.is_rebalanced {
        return moves;
    }
    let leaders: RoaringBitmap = leaders.iter().copied().collect();
    let is_misplaced =
        |task: &Task| number(task).is_some_and(|number| !leaders.contains(number)) && is_movable(task);
    // The instance of the lowest rank moves first.
    let order = pass.ranking().order_of_candidates(table.members());
    let position = |task: &Task| order.iter().position(|one| Some(*one) == number(task));
    let worst =
        instances.iter().filter(|(_, task)| is_misplaced(task)).max_by_key(|(_, task)| position(task));
    moves.extend(worst.into_iter().flat_map(|one| free.iter().map(move |target| to(one, *target))));
    moves
}
