//! Slots that no node can take now: they block no other slot, and are updated when they get a node.
//!
//! Source: orchestration B11.3.

use evenkeel_placement::place::{Buffer, NodeState, UnitNode, Want};
use evenkeel_planner_record::{
    facts::Availability,
    report::{Blocked, Constraint},
    settings::UpdateOrder,
    workload::{Cause, Change, DesiredState, Slot, Task, Ticket},
};

use super::update::target;
use crate::unit_pass::UnitPass;

/// Constraints that can exclude an instance of another version from the node on which one runs. Gates and the
/// room of the node are asked separately.
const OF_VERSION: [Constraint; 6] = [
    Constraint::Eligibility,
    Constraint::NodeState,
    Constraint::PlacementConstraint,
    Constraint::StartFailed,
    Constraint::Blocklist,
    Constraint::Affinity,
];

/// Separates slots without a candidate from the others, each in their order.
pub(super) fn split(pass: &mut UnitPass<'_>, slots: Vec<Slot>) -> (Vec<Slot>, Vec<Slot>) {
    let is_gone = pass.facts.gone_group.is_some();
    slots.into_iter().partition(|slot| is_gone || !stays(pass, slot) && !has_other_node(pass, slot))
}

/// Returns whether the next instance of a slot can be on its node.
fn stays(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let Some(node) = node_of(pass, slot) else { return false };
    let Some(number) = pass.facts.table.number(&node.id).filter(|_| node.is_member) else { return false };
    // Slots that a user paused are waited for.
    if node.state == NodeState::Ready && node.availability == Availability::Pause {
        return true;
    }
    let is_failed = pass.failed_nodes.contains(number) || pass.blocked_nodes.contains(number);
    let mut removed = OF_VERSION.iter().filter_map(|one| pass.facts.table.removed_by(*one));
    !is_failed && !removed.any(|nodes| nodes.contains(number))
}

/// Returns the node of a slot, if it is there.
pub(super) fn node_of<'a>(pass: &UnitPass<'a>, slot: &Slot) -> Option<&'a UnitNode> {
    let row = match slot {
        Slot::Node(node) => pass.facts.table.find(node),
        Slot::Number(_) => {
            let tasks = pass.tasks(slot);
            let there = |task: &&Task| task.node.is_some() && !pass.is_node_lost(task);
            let task = tasks.wanted().find(there).or_else(|| tasks.newest().filter(there));
            task.and_then(|task| pass.node_of(task))
        }
    };
    row.filter(|row| row.down_since().is_none())
}

/// Returns whether another node can take the next instance of a slot. Instances on a node that is away for a
/// while are not moved off it.
fn has_other_node(pass: &mut UnitPass<'_>, slot: &Slot) -> bool {
    let own = node_of(pass, slot);
    let is_away = own.is_some_and(UnitNode::is_away);
    if is_away || matches!(slot, Slot::Node(_)) || pass.elimination(Buffer::Open).remaining.is_empty() {
        return false;
    }
    let table = pass.facts.table;
    let live = pass.tasks(slot).wanted().filter(|task| task.is_live());
    let left: Vec<u32> = live.filter_map(|task| table.number(task.node.as_ref()?)).collect();
    let want = Want { avoided: own.and_then(|row| table.number(&row.id)), ..Want::default() };
    pass.place_without(&left, &[want], Buffer::Open).count() == 1
}

/// Records why slots that are set aside are not replaced.
pub(super) fn explain(pass: &mut UnitPass<'_>, slots: &[Slot], cause: Cause) {
    let gone = pass.facts.gone_group;
    let mut unplaced = gone.map(|group| Blocked::GroupGone { group: group.clone() });
    for slot in slots {
        let of_node = match slot {
            Slot::Node(node) => pass.facts.table.find(node).and_then(UnitNode::unavailable),
            Slot::Number(_) => None,
        };
        let own = pass.tasks(slot).wanted().find_map(|task| pass.block_of(task).cloned());
        let blocked = match of_node.or(own) {
            Some(blocked) => blocked,
            None => unplaced.get_or_insert_with(|| pass.unplaced(1)).clone(),
        };
        let (node, order) = (node_of(pass, slot).map(|row| row.id.clone()), UpdateOrder::StopFirst);
        let step = pass.step(slot, Change::Replace { node, may_run: false, order }, cause);
        pass.block(&step, blocked);
    }
}

/// Returns whether the task of a slot in work has no node to run on, or a lost one.
pub(super) fn has_no_node(pass: &UnitPass<'_>, slot: &Slot, ticket: &Ticket) -> bool {
    let id = ticket.task.as_ref().filter(|_| ticket.done_at.is_none());
    let task = id.and_then(|id| pass.tasks(slot).iter().find(|task| task.id == *id));
    task.is_some_and(|task| task.is_live() && is_without_node(pass, task))
}

/// Returns whether the update has replaced what a slot had, and there is nowhere to run it now.
pub(super) fn is_lost_with_version(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let (tasks, target) = (pass.tasks(slot), target(pass));
    let is_of_update = |task: &Task| {
        let is_new = pass.update.started_at.is_some_and(|at| task.created_at >= at);
        is_new && task.cause.is_update() && task.spec == target
    };
    // Whether what is created now finds a node is not known yet.
    let newest = tasks.newest().filter(|task| task.is_live() && task.created_at < pass.now);
    newest.is_some_and(|task| task.spec == target && is_without_node(pass, task))
        && tasks.iter().any(is_of_update)
}

fn is_without_node(pass: &UnitPass<'_>, task: &Task) -> bool {
    let is_held = || task.desired == DesiredState::Ready && pass.block_of(task).is_some();
    task.node.is_none() || pass.is_node_lost(task) || is_held()
}
