//! Locations of instances before an upgrade, to which they return: each slot returns to the node on which it
//! was when the upgrade began.
//!
//! The first move of a slot during an upgrade notes where it was, and its tasks carry that on: a slot that was not moved is where it was.
//! Upgrades are updates of a workload, and drains and maintenance of nodes that are marked as such. Source: orchestration D8 (a), D9; engine 6.

use evenkeel_ids::NodeId;
use evenkeel_placement::place::{Buffer, Location, Want};
use evenkeel_planner_record::{
    report::Constraint,
    workload::{Cause, Priority, Slot, Task},
};

use super::UnitPass;

/// Returns whether an upgrade of the workload, or of nodes of the workload unit, is in progress.
pub(crate) fn is_in_upgrade(pass: &UnitPass<'_>) -> bool {
    is_updating(pass) || pass.facts.table.is_in_upgrade()
}

pub(crate) fn is_updating(pass: &UnitPass<'_>) -> bool {
    pass.update.is_rolling() || pass.update.is_paused()
}

fn returns(pass: &UnitPass<'_>) -> bool {
    let placement = &pass.facts.workload.placement;
    let is_off = placement.priorities.of_constraint(Constraint::PreferredLocation) == Priority::Off;
    !is_off && !pass.facts.workload.goal.is_per_node()
}

/// Emits the event that the locations of the instances are recorded.
pub(crate) fn announce(pass: &mut UnitPass<'_>) {
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

/// Returns whether an instance may be on a node when it has left the one on which it is: no hard constraint is violated there then.
pub(crate) fn can_take(pass: &mut UnitPass<'_>, task: &Task, target: &NodeId, buffer: Buffer) -> bool {
    let Some(number) = pass.facts.table.number(target) else { return false };
    let want = Want { location: Location::Only(number), ..Want::default() };
    let left = task.node.as_ref().and_then(|node| pass.facts.table.number(node));
    pass.place_without(left.as_slice(), &[want], buffer).count() == 1
}
