//! Works toward what a user's action wants of a workload unit, and judges whether that is reached.
//!
//! [`progress`] reads tasks and nodes alone, so that the agbot of a workload unit and that of the workload come to the same verdict.
//! Until the goal is reached the automatic goals that would undo it rest. Source: orchestration A6, P7.

use std::collections::BTreeSet;

use evenkeel_ids::NodeId;
use evenkeel_placement::place::Elimination;
use evenkeel_planner_record::{
    settings::UpdateOrder,
    time::later,
    workload::{ActionGoal, Cause, Change, DesiredState, Slot, Task, UserAction},
};

use super::progress::{Progress, UnitView, is_to_restart, progress};
use crate::unit_pass::UnitPass;

/// Takes the next steps of the user's action, if it is not over in this workload unit.
pub(crate) fn plan(pass: &mut UnitPass<'_>) {
    let workload = pass.facts.workload;
    let Some(action) = &workload.action else { return };
    let Some(goal) = action.goal_of(&pass.facts.unit_id.part) else { return };
    if let Progress::Open { until } = judge(pass, action, goal) {
        until.into_iter().for_each(|until| pass.wake(until));
    } else {
        return;
    }
    let has_failed = note_failures(pass, action, goal);
    if has_failed && !goal.starts_missing() {
        return;
    }
    pass.action_goal = Some(goal);
    // A freeze that came later holds what is not done yet (A12, P0).
    if workload.is_frozen && !matches!(goal, ActionGoal::StoppedOn { .. }) {
        return;
    }
    let cause = Cause::User { force: action.is_forced };
    match goal {
        // The count of instances and the recovery of members do the rest.
        ActionGoal::Started | ActionGoal::Stopped | ActionGoal::Recovered { .. } => {}
        ActionGoal::StartedOn { node } => start_on(pass, node, cause),
        ActionGoal::StoppedOn { nodes } => {
            stop_others(pass, |one| one.node.as_ref().is_some_and(|node| nodes.contains(node)), cause);
        }
        ActionGoal::Restarted { .. } => restart_next(pass, action, goal, cause),
        ActionGoal::Placed { pinned, .. } => {
            pinned.iter().for_each(|node| pass.pin(node, true));
            if workload.goal.is_exclusive() {
                move_alone(pass, action, goal, cause);
            } else {
                move_beside(pass, goal, cause);
            }
        }
    }
}

/// Removes the mark of nodes that a user chose once no instance is meant to run there.
///
/// # Source
/// Orchestration A5.6.
pub(crate) fn end_marks(pass: &mut UnitPass<'_>) {
    let marked: Vec<&NodeId> =
        pass.facts.table.nodes().filter(|row| row.is_pinned).map(|row| &row.id).collect();
    if marked.is_empty() {
        return;
    }
    let tasks = all_tasks(pass);
    for node in marked {
        let is_destination = pass.action_goal.is_some_and(|goal| goal.has_destination(node));
        let is_used = tasks.iter().any(|task| task.is_wanted() && task.node.as_ref() == Some(node));
        if !is_destination && !is_used {
            pass.pin(node, false);
        }
    }
}

fn judge(pass: &UnitPass<'_>, action: &UserAction, goal: &ActionGoal) -> Progress {
    let slots = pass.all_slots();
    let tasks = slots.iter().flat_map(|slot| pass.tasks(slot).iter()).collect();
    let view = UnitView { workload: pass.facts.workload, table: pass.facts.table, tasks };
    progress(action, goal, &view, pass.now)
}

fn all_tasks(pass: &UnitPass<'_>) -> Vec<Task> {
    pass.all_slots().iter().flat_map(|slot| pass.tasks(slot).iter()).cloned().collect()
}

/// Returns whether a task was created for the action.
pub(super) fn is_of_action(task: &Task, action: &UserAction) -> bool {
    matches!(task.cause, Cause::User { .. }) && task.created_at >= action.accepted_at
}

/// Marks nodes on which a start or stop of the action failed, or takes too long. Returns whether there is one.
fn note_failures(pass: &mut UnitPass<'_>, action: &UserAction, goal: &ActionGoal) -> bool {
    let workload = pass.facts.workload;
    let mut has_failed = false;
    for task in all_tasks(pass) {
        let Some(node) = task.node.clone() else { continue };
        let is_restart = matches!(goal, ActionGoal::Restarted { .. });
        if is_of_action(&task, action) && task.is_wanted() && !is_restart {
            let may_have_run = goal.starts_missing();
            let is_over = task.state.is_ended() && !(may_have_run && task.running_at.is_some());
            let is_late = is_late(pass, &task, workload.update.start_timeout_secs);
            if is_over || is_late {
                let why =
                    if is_over { task.ending_text() } else { "was not seen running in time".to_owned() };
                pass.raise(&task.slot, &task.id, DesiredState::Shutdown);
                pass.fail_node(&node, task.spec.number, why);
                has_failed = true;
            }
        }
        let is_stopping = !task.is_wanted() && !task.is_stopped() && !pass.is_node_lost(&task);
        if is_stopping && stops(goal, &node) {
            let since = task.desired_at.unwrap_or(task.created_at).max(action.accepted_at);
            let until = later(since, workload.stop_timeout_secs);
            if pass.now < until {
                pass.wake(until);
            } else if pass.node_of(&task).is_some_and(|row| row.marks.stop_failed.is_none()) {
                let why = format!("was not seen stopped within {} s", workload.stop_timeout_secs);
                pass.fail_stop(&node, why);
                // Force continues without the confirmation.
                has_failed |= !action.is_forced;
            }
        }
    }
    has_failed
}

/// Returns whether a goal is not reached before what runs on a node has stopped.
fn stops(goal: &ActionGoal, node: &NodeId) -> bool {
    match goal {
        ActionGoal::Stopped => true,
        ActionGoal::StoppedOn { nodes } => nodes.contains(node),
        ActionGoal::Placed { nodes, .. } => !nodes.contains(node),
        ActionGoal::Started
        | ActionGoal::StartedOn { .. }
        | ActionGoal::Restarted { .. }
        | ActionGoal::Recovered { .. } => false,
    }
}

fn is_late(pass: &mut UnitPass<'_>, task: &Task, timeout_secs: u64) -> bool {
    if task.desired != DesiredState::Running || task.is_running() || task.state.is_ended() {
        return false;
    }
    let until = later(task.desired_at.unwrap_or(task.created_at), timeout_secs);
    pass.wake(until);
    pass.now >= until
}

/// Starts an instance on a node that the user named.
fn start_on(pass: &mut UnitPass<'_>, node: &NodeId, cause: Cause) {
    pass.pin(node, true);
    // An instance that is only ready on a node gives way (A9.5).
    for ready in all_tasks(pass).into_iter().filter(Task::is_contender) {
        if pass.facts.workload.goal.is_exclusive() || ready.node.as_ref() == Some(node) {
            pass.raise(&ready.slot, &ready.id, DesiredState::Shutdown);
        }
    }
    let is_there = |task: &Task| task.is_live() && task.node.as_ref() == Some(node);
    if !all_tasks(pass).iter().any(is_there) {
        let slot = pass.free_slot(node);
        create(pass, &slot, cause, node);
    }
}

fn create(pass: &mut UnitPass<'_>, slot: &Slot, cause: Cause, node: &NodeId) {
    let spec = pass.versions.current;
    let older = pass.tasks(slot).newest().cloned();
    let spec = older.map_or(spec, |older| pass.spec_of_replacement(&older));
    pass.create(slot, spec, cause, Some(node));
}

/// Stops the wanted tasks that are meant.
fn stop_others(pass: &mut UnitPass<'_>, is_meant: impl Fn(&Task) -> bool, cause: Cause) {
    for task in all_tasks(pass).into_iter().filter(|task| task.is_wanted() && is_meant(task)) {
        if may_stop(pass, &task, cause) {
            pass.raise(&task.slot, &task.id, DesiredState::Shutdown);
        }
    }
}

/// Returns whether the gates let a task stop; what does not run loses nothing.
fn may_stop(pass: &mut UnitPass<'_>, task: &Task, cause: Cause) -> bool {
    let Some(node) = task.node.clone() else { return true };
    if task.is_stopped() || pass.is_node_lost(task) {
        return true;
    }
    let step = pass.step(&task.slot, Change::Stop { node }, cause);
    let permit = pass.permit(&step);
    permit.map(|permit| pass.keep(permit)).is_some()
}

/// Starts the next instance again, on its node; the one before it runs again.
fn restart_next(pass: &mut UnitPass<'_>, action: &UserAction, goal: &ActionGoal, cause: Cause) {
    let tasks = all_tasks(pass);
    let is_in_work = |task: &&Task| is_of_action(task, action) && task.is_live() && !task.is_running();
    if tasks.iter().any(|task| is_in_work(&task)) {
        return;
    }
    for task in tasks.iter().filter(|task| is_to_restart(task, pass.facts.table, action, goal)) {
        let Some(node) = task.node.clone() else { continue };
        let change =
            Change::Replace { node: Some(node.clone()), may_run: true, order: UpdateOrder::StopFirst };
        let step = pass.step(&task.slot, change, cause);
        if let Some(permit) = pass.permit(&step) {
            pass.keep(permit);
            pass.raise(&task.slot, &task.id, DesiredState::Shutdown);
            let spec = pass.spec_of_replacement(task);
            pass.create(&task.slot, spec, cause, Some(&node));
            return;
        }
    }
}

/// Moves the only instance: the old one is confirmed stopped before the new one is created.
fn move_alone(pass: &mut UnitPass<'_>, action: &UserAction, goal: &ActionGoal, cause: Cause) {
    let ActionGoal::Placed { nodes, .. } = goal else { return };
    let is_elsewhere = |task: &Task| task.node.as_ref().is_none_or(|node| !nodes.contains(node));
    stop_others(pass, is_elsewhere, cause);
    let (now, timeout) = (pass.now, pass.facts.workload.stop_timeout_secs);
    let is_open = |pass: &UnitPass<'_>, task: &Task| {
        let since = task.desired_at.unwrap_or(task.created_at).max(action.accepted_at);
        let is_given_up = action.is_forced && !task.is_wanted() && now >= later(since, timeout);
        !task.is_stopped() && !pass.is_node_lost(task) && !is_given_up
    };
    let tasks = all_tasks(pass);
    if tasks.iter().any(|task| is_elsewhere(task) && is_open(pass, task)) {
        return;
    }
    for node in nodes {
        let is_there = |task: &Task| task.is_live() && task.node.as_ref() == Some(node);
        // Its own earlier instance is waited for by the gate of the start.
        if !tasks.iter().any(is_there) {
            let slot = tasks.iter().map(|task| task.slot.clone()).min().unwrap_or(Slot::Number(1));
            create(pass, &slot, cause, node);
        }
    }
}

/// Moves instances where there may be several: the new ones are seen running before the old ones stop.
fn move_beside(pass: &mut UnitPass<'_>, goal: &ActionGoal, cause: Cause) {
    let ActionGoal::Placed { nodes, .. } = goal else { return };
    let tasks = all_tasks(pass);
    let runs_on = |node: &NodeId, is_enough: fn(&Task) -> bool| {
        tasks.iter().any(|task| task.is_wanted() && is_enough(task) && task.node.as_ref() == Some(node))
    };
    let missing: Vec<_> = nodes.iter().filter(|node| !runs_on(node, Task::is_live)).cloned().collect();
    let mut leaving = leaving_slots(pass, nodes);
    for node in missing {
        let slot = leaving.pop().unwrap_or_else(|| pass.free_slot(&node));
        create(pass, &slot, cause, &node);
    }
    if nodes.iter().all(|node| runs_on(node, Task::is_running)) {
        // The older task of a slot stops because of the newer one.
        let is_only = |task: &Task| leaving.contains(&task.slot);
        stop_others(pass, is_only, cause);
    }
}

/// Returns the slots whose newest wanted task is on none of the nodes, the lowest rank last.
fn leaving_slots(pass: &UnitPass<'_>, nodes: &BTreeSet<NodeId>) -> Vec<Slot> {
    let ranking = pass.ranking().order(&Elimination::of_eligibility(pass.facts.table));
    let position = |task: &Task| {
        let number = task.node.as_ref().and_then(|node| pass.facts.table.number(node));
        ranking.iter().position(|one| Some(*one) == number).unwrap_or(usize::MAX)
    };
    let leaves = |slot: &Slot| {
        let newest = pass.tasks(slot).wanted().next()?;
        let stays = newest.node.as_ref().is_some_and(|node| nodes.contains(node));
        (!stays).then(|| (position(newest), slot.clone()))
    };
    let mut found: Vec<(usize, Slot)> = pass.all_slots().iter().filter_map(leaves).collect();
    found.sort();
    found.into_iter().map(|(_, slot)| slot).collect()
}
