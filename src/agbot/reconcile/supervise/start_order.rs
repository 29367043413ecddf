//! Order of the new and the old instance of a slot, and room for a new one that starts first.
//!
//! Source: orchestration 1.9, B11 (last paragraph), D9, P-S1.

use evenkeel_ids::NodeId;
use evenkeel_placement::place::Buffer;
use evenkeel_planner_record::{
    report::{Blocked, Constraint},
    settings::UpdateOrder,
    workload::{Cause, Change, Slot, Task},
};

use crate::unit_pass::{UnitPass, shortage};

/// Returns whether the new instance of a slot is to start first.
pub(super) fn wants_start_first(pass: &UnitPass<'_>) -> bool {
    pass.update_settings().order == UpdateOrder::StartFirst && !pass.facts.workload.goal.is_exclusive()
}

/// Finds where the new instance starts before the old one stops: on the same node if its agent can hold both, else on another one, else
/// nowhere, so that the old one stops first. None while required distribution leaves no domain for the new one (D11-S2).
pub(super) fn start_first(
    pass: &mut UnitPass<'_>,
    slot: &Slot,
    old: &Task,
    cause: Cause,
) -> Option<(UpdateOrder, Option<NodeId>)> {
    let table = pass.facts.table;
    if let Some(node) = pass.node_of(old).filter(|node| node.is_capable) {
        let fits = table.number(&node.id).is_some_and(|number| {
            let constraints = Constraint::OF_NODES.into_iter().filter(|one| *one != Constraint::MaxPerNode);
            let mut removed =
                constraints.filter_map(|constraint| table.removed_under(constraint, Buffer::Open));
            let added = pass.added_load(number);
            !removed.any(|nodes| nodes.contains(number)) && added < node.room_left(Buffer::Open)
        });
        if fits {
            return Some((UpdateOrder::StartFirst, Some(node.id.clone())));
        }
    }
    let other = match slot {
        Slot::Node(_) => None,
        Slot::Number(_) => pass.candidate(old, Cause::Update),
    };
    if other.is_none() && pass.facts.workload.placement.is_distribution_required {
        let report = pass.elimination_report(1);
        if report.sequence.iter().any(|stage| Constraint::OF_DOMAINS.contains(&stage.constraint)) {
            let change =
                Change::Replace { node: old.node.clone(), may_run: false, order: UpdateOrder::StartFirst };
            let step = pass.step(slot, change, cause);
            pass.block(&step, Blocked::unplaced(&report));
            return None;
        }
    }
    let order = if other.is_none() { UpdateOrder::StopFirst } else { UpdateOrder::StartFirst };
    Some((order, other))
}

/// Returns why the new version cannot take the place of an instance that stops first: it uses more of the capacities than that one leaves
/// on its node, and no other node has room (P-S1).
pub(super) fn too_little_room(pass: &mut UnitPass<'_>, old: &Task, cause: Cause) -> Option<Blocked> {
    if !pass.facts.table.priorities().is_hard(Constraint::NodeCapacity) {
        return None;
    }
    let detail = shortage(pass, old)?;
    let is_fixed = matches!(old.slot, Slot::Node(_));
    if !is_fixed && pass.candidate(old, cause).is_some() {
        return None;
    }
    Some(Blocked::NoRoom { node: old.node.clone()?, detail })
}
