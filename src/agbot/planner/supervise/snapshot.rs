//! Locations of instances before an upgrade, to which they return: each slot returns to the node on which it
//! was when the upgrade began.
//!
//! The first move of a slot during an upgrade notes where it was, and its tasks carry that on: a slot that was not moved is where it was.
//! Upgrades are updates of a workload, and drains and maintenance of nodes that are marked as such. Source: orchestration D8 (a), D9; engine 6.

use evenkeel_ids::NodeId;

use crate::{
    change::{Cause, Change, Step},
    place::{Buffer, Constraint, Location, Priority, Want},
    reconcile::{UnitPass, relocate_to},
    report::Blocked,
    settings::UpdateOrder,
    workload::{Slot, Task},
};

/// Returns whether an upgrade of the workload, or of nodes of the workload unit, is in progress.
pub(crate) fn is_in_upgrade(pass: &UnitPass<'_>) -> bool {
    is_updating(pass) || pass.facts.table.is_in_upgrade()
}

fn is_updating(pass: &UnitPass<'_>) -> bool {
    pass.update.is_rolling() || pass.update.is_paused()
}

fn returns(pass: &UnitPass<'_>) -> bool {
    let placement = &pass.facts.workload.placement;
    let is_off = placement.priorities.of_constraint(Constraint::PreferredLocation) == Priority::Off;
    !is_off && !pass.facts.workload.goal.is_per_node()
}

/// Emits the event that the locations of the instances are recorded.
pub(super) fn announce(pass: &mut UnitPass<'_>) {
    if returns(pass) {
        let count = pass.all_slots().len();
        let number = pass.versions.current.number;
        let data = serde_json::json!({"snapshot": number, "slots": count});
        let text = format!("{count} slots return to their nodes after the update to version {number}");
        pass.emit_with("snapshot.taken", None, None, text, Some(data));
    }
}

/// Emits the same event when the first instance leaves a node that is drained for an upgrade.
pub(crate) fn announce_drain(pass: &mut UnitPass<'_>, node: &NodeId) {
    let is_upgrade = pass.facts.table.find(node).is_some_and(|row| row.is_in_upgrade);
    let slots = pass.all_slots();
    let is_away = |slot: &&Slot| pass.tasks(slot).wanted().any(|task| task.origin.is_some());
    if is_upgrade && returns(pass) && slots.iter().filter(is_away).count() == 1 {
        let data = serde_json::json!({"slots": slots.len()});
        let text = format!("instances that leave {node} return to it after its upgrade");
        pass.emit_with("snapshot.taken", None, Some(node), text, Some(data));
    }
}

/// Returns the node to which a slot returns, for a task that is created in it.
///
/// A change of the node or of the number of instances by a user or the scope replaces the earlier location.
pub(crate) fn origin_of_successor(pass: &UnitPass<'_>, slot: &Slot, cause: Cause) -> Option<NodeId> {
    let is_kept = !matches!(
        cause,
        Cause::User { .. } | Cause::Withdrawn | Cause::Scale | Cause::Return | Cause::Rebalance
    );
    let before = pass.tasks(slot).newest().filter(|_| is_kept && returns(pass))?;
    if before.origin.is_some() {
        return before.origin.clone();
    }
    let is_new = before.cause == Cause::Scale
        && pass.update.started_at.is_some_and(|started_at| before.created_at >= started_at);
    let is_leaving = pass.node_of(before).is_some_and(|row| row.is_in_upgrade);
    // An instance that must not be on its node does not return to it.
    let is_in_place = cause != Cause::Cure;
    before.node.clone().filter(|_| is_in_place && (is_leaving || pass.update.is_rolling() && !is_new))
}

/// Brings back what is away from its node, once that is upgraded.
///
/// An instance whose node cannot take it when the upgrade is over stays where it is: there is no third move.
pub(crate) fn plan(pass: &mut UnitPass<'_>) {
    let away = |slot: &Slot| {
        let task = pass.tasks(slot).wanted().next().filter(|task| task.is_live())?;
        Some((slot.clone(), task.clone(), task.origin.clone()?))
    };
    let displaced: Vec<(Slot, Task, NodeId)> = pass.all_slots().iter().filter_map(away).collect();
    if displaced.is_empty() {
        return;
    }
    let is_updating = is_updating(pass);
    let order = if is_updating { super::update::domain_order(pass) } else { None };
    for (slot, task, origin) in displaced {
        let row = pass.facts.table.find(&origin);
        let domain = row.and_then(|row| row.upgrade_domain.as_ref());
        let is_upgraded = !row.is_some_and(|row| row.is_in_upgrade)
            && (!is_updating || order.as_ref().is_some_and(|order| order.is_finished(domain)));
        // The replaced instance may still run, even on its origin.
        let is_alone = pass.tasks(&slot).iter().filter(|one| one.is_live()).count() == 1;
        let is_settled = is_alone && task.is_running();
        if is_upgraded && is_settled && can_take(pass, &task, &origin, Buffer::Open) {
            bring_back(pass, &slot, &task, origin);
        } else if is_in_upgrade(pass) || !is_settled {
            let step = step(pass, &slot, &task);
            pass.block(&step, Blocked::ReturnPending { origin });
        } else {
            let text = format!("the instance cannot return to {origin}; it stays");
            pass.emit("snapshot.dropped", Some(&slot), task.node.as_ref(), text);
            pass.forget_origin(&slot, &task.id);
        }
    }
}

/// Returns whether an instance may be on a node when it has left the one on which it is: no hard constraint is violated there then.
pub(super) fn can_take(pass: &mut UnitPass<'_>, task: &Task, target: &NodeId, buffer: Buffer) -> bool {
    let Some(number) = pass.facts.table.number(target) else { return false };
    let want = Want { location: Location::Only(number), ..Want::default() };
    let left = task.node.as_ref().and_then(|node| pass.facts.table.number(node));
    pass.place_without(left.as_slice(), &[want], buffer).count() == 1
}

fn bring_back(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task, origin: NodeId) {
    if relocate_to(pass, slot, task, Cause::Return, Some(origin.clone())) {
        let from = task.node.as_ref().map(ToString::to_string).unwrap_or_default();
        pass.emit("snapshot.returned", Some(slot), Some(&origin), format!("from {from}, after the upgrade"));
    }
}

fn step(pass: &UnitPass<'_>, slot: &Slot, task: &Task) -> Step {
    let node = task.node.clone();
    let order = UpdateOrder::StopFirst;
    let change = node.map_or(Change::Replace { node: None, may_run: false, order }, |node| {
        Change::Relocate { node, order }
    });
    pass.step(slot, change, Cause::Return)
}
