//! Tasks on lost nodes: they continue until something takes their place, and some of them will never report
//! again.
//!
//! Source: orchestration B9.2, B9.3, B8 (deleted nodes).

use evenkeel_ids::TaskId;
use evenkeel_placement::place::UnitNode;
use evenkeel_planner_record::{
    facts::Availability,
    goal::StartMode,
    report::Blocked,
    time::{later, secs_since},
    workload::{Cause, DesiredState, Slot, Task},
};
use jiff::Timestamp;

use crate::unit_pass::UnitPass;

/// Time after the return of a node within which it reports what ended while it was lost.
const REPORT_SECS: u64 = 120;

/// Starts the instances of a lost node, or those that it had until it was lost, on other nodes.
///
/// The task stays wanted until its replacement starts: a node that returns keeps what nothing has replaced.
pub(super) fn take_over(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task) {
    let Some(node) = task.node.clone() else { return };
    let goal = pass.facts.workload.goal;
    let (is_gone, is_ended) = (pass.node_of(task).is_none(), task.state.is_ended());
    // Nothing starts elsewhere by itself, and what still runs there is not stopped.
    let is_kept = (goal.is_per_node() || goal.stays_on_lost_node()) && !is_gone && !is_ended;
    if is_kept || !pass.permits_stop(slot, &node, Cause::NodeLost) {
        return;
    }
    // A slot that was moved, and still has what it had before, goes back to that.
    let is_there =
        |one: &Task| one.id != task.id && one.is_live() && one.node.is_some() && !pass.is_node_lost(one);
    if pass.tasks(slot).wanted().any(is_there) {
        return pass.raise(slot, &task.id, DesiredState::Shutdown);
    }
    let has_started = task.desired == DesiredState::Running && !is_ended;
    if is_gone || !has_started {
        pass.raise(slot, &task.id, DesiredState::Shutdown);
    }
    let spec = pass.spec_of_replacement(task);
    let destination = match goal.start {
        _ if goal.is_stopped => return,
        StartMode::BestAvailable if !goal.is_per_node() => None,
        _ if is_ended && !is_gone => Some(node),
        // Without a free leader there is nothing to wait with.
        StartMode::NaturalLeader if !goal.is_per_node() => match pass.candidate(task, Cause::NodeLost) {
            Some(leader) => Some(leader),
            None => return,
        },
        _ => return,
    };
    pass.create(slot, spec, Cause::NodeLost, destination.as_ref());
}

/// Takes back a task whose node has returned before anything took its place, and withdraws the replacement, also one that an update has
/// replaced meanwhile.
pub(super) fn take_back(pass: &mut UnitPass<'_>, slot: &Slot) {
    let wanted: Vec<Task> = pass.tasks(slot).wanted().cloned().collect();
    let Some((newest, older)) = wanted.split_first() else { return };
    let is_pending = newest.desired == DesiredState::Ready;
    let is_back = |task: &&Task| {
        let back_at = pass.node_of(task).and_then(|node| node.back_at);
        let was_lost = newest.cause == Cause::NodeLost || back_at.is_some_and(|at| newest.created_at < at);
        was_lost && task.is_live() && task.node.is_some() && !pass.is_node_lost(task)
    };
    let Some(kept) = older.iter().find(is_back).filter(|_| is_pending) else { return };
    let text = "the node is back, and the instance continues: it had not been replaced".to_owned();
    pass.emit("instance.kept", Some(slot), kept.node.as_ref(), text);
    pass.raise(slot, &newest.id, DesiredState::Remove);
}

/// Returns whether a task ended with its node, which was lost and has returned: what replaces it is not a
/// restart.
pub(super) fn ended_with_node(pass: &UnitPass<'_>, task: &Task) -> bool {
    let goal = &pass.facts.workload.goal;
    let Some(node) = pass.node_of(task) else { return false };
    let is_open = node.availability == Availability::Active && !goal.stays_on_lost_node();
    let is_recent = |at: &Timestamp| task.created_at < *at && secs_since(*at, task.state_at) <= REPORT_SECS;
    task.state.has_failed()
        && task.ended_by_itself()
        && (is_open || goal.moves_by_itself())
        && node.back_at.as_ref().is_some_and(is_recent)
}

/// Orders what a slot has on lost nodes to stop, because its replacement starts.
pub(super) fn end_replaced(pass: &mut UnitPass<'_>, slot: &Slot, replacement: &TaskId) {
    let is_replaced = |task: &&Task| task.id != *replacement && pass.is_node_lost(task);
    let replaced: Vec<TaskId> =
        pass.tasks(slot).wanted().filter(is_replaced).map(|task| task.id.clone()).collect();
    for id in replaced {
        pass.raise(slot, &id, DesiredState::Shutdown);
    }
}

/// Abandons the tasks of a slot whose node is deleted, or has been down for too long, and that are no longer wanted.
pub(super) fn give_up_orphans(pass: &mut UnitPass<'_>, slot: &Slot) {
    let open = |task: &&Task| !task.is_wanted() && !task.state.is_ended() && task.node.is_some();
    let found: Vec<Task> = pass.tasks(slot).iter().filter(open).cloned().collect();
    let mut lost: Vec<TaskId> = Vec::new();
    for task in found {
        if let Some(departing) = pass.departing(&task) {
            if let Blocked::NodeDeparting { until: Some(until), .. } = departing {
                pass.wake(until);
            }
            continue;
        }
        match pass.node_of(&task).map(UnitNode::down_since) {
            None => lost.push(task.id),
            Some(None) => {}
            Some(Some(since)) => {
                let until = later(since, pass.facts.settings.orphan_after_secs);
                if pass.now >= until {
                    lost.push(task.id);
                } else {
                    pass.wake(until);
                }
            }
        }
    }
    for id in lost {
        pass.orphan(slot, &id);
    }
    // The slot of a node that was deleted goes with it.
    if let Slot::Node(node) = slot
        && pass.facts.table.find(node).is_none()
    {
        pass.remove_slot(slot);
    }
}

/// Returns the nodes that instances of slots leave when they are placed again: lost ones no longer count for their replacements.
pub(super) fn left_by(pass: &UnitPass<'_>, tasks: &[Task]) -> Vec<u32> {
    let older = tasks.iter().flat_map(|task| pass.tasks(&task.slot).wanted().filter(|one| one.id != task.id));
    let lost = older.filter(|one| one.is_live() && pass.is_node_lost(one));
    lost.filter_map(|one| pass.facts.table.number(one.node.as_ref()?)).collect()
}
