//! Tasks that count as failures of an update.
//!
//! Source: orchestration B11.6.

use evenkeel_planner_record::{
    time::later,
    workload::{Cause, DesiredState, Ending, Task, TaskState},
};
use jiff::Timestamp;

use super::monitored;
use crate::unit_pass::UnitPass;

/// Returns the tasks by which an update has failed in slots.
pub(super) fn failed_tasks(pass: &UnitPass<'_>, judged_secs: u64, timeout_secs: u64) -> Vec<Task> {
    let Some(from) = pass.update.counts_from else { return Vec::new() };
    let target = pass.versions.current;
    // After a user resumed the update, the first restart of a slot shows whether the version runs now.
    let is_resumed = pass.update.started_at < Some(from);
    let is_first = |task: &Task| {
        let earlier = pass.tasks(&task.slot).iter().filter(|one| one.generation < task.generation);
        earlier.max_by_key(|one| one.generation).is_none_or(|one| one.created_at < from)
    };
    let is_restarted = |task: &Task| is_resumed && task.cause == Cause::TaskFailed && is_first(task);
    let is_counted = |task: &Task| {
        let tried = chain(pass, task, judged_secs).last().unwrap_or(task);
        tried.cause.is_update() || is_restarted(tried)
    };
    let is_of_update = |task: &&Task| is_counted(task) && task.spec == target && task.created_at >= from;
    let slots = pass.all_slots();
    let tasks = slots.iter().flat_map(|slot| pass.tasks(slot).iter());
    let judged = |task: &Task| judged_secs + report_grace_secs(pass, task);
    tasks
        .filter(is_of_update)
        .filter(|task| {
            has_failed(task, judged(task), timeout_secs, pass.now) || monitored::failure(pass, task).is_some()
        })
        .cloned()
        .collect()
}

/// Returns a task and those that it carries on, the newest first: each was created because the node of the one before was lost or left before
/// its version had shown itself. The task is judged in their place.
pub(super) fn chain<'t>(
    pass: &'t UnitPass<'_>,
    task: &'t Task,
    judged_secs: u64,
) -> impl Iterator<Item = &'t Task> {
    std::iter::successors(Some(task), move |one| carried_on(pass, one, judged_secs))
}

/// Returns the task that another one carries on on another node.
fn carried_on<'t>(pass: &'t UnitPass<'_>, task: &Task, judged_secs: u64) -> Option<&'t Task> {
    let is_moved = match task.cause {
        Cause::NodeLost
        | Cause::Incompatible
        | Cause::Drain
        | Cause::Cure
        | Cause::Return
        | Cause::Rebalance => true,
        Cause::User { .. }
        | Cause::TaskFailed
        | Cause::Update
        | Cause::Rollback
        | Cause::Health
        | Cause::NodeHealth
        | Cause::Scale
        | Cause::Withdrawn => false,
    };
    let earlier = pass.tasks(&task.slot).iter().filter(|one| is_moved && one.generation < task.generation);
    let before = earlier.max_by_key(|one| one.generation)?;
    let is_shown = before.running_at.is_some_and(|at| task.created_at >= later(at, judged_secs));
    (before.spec == task.spec && !before.ended_by_itself() && !is_shown).then_some(before)
}

/// Returns how much longer a task is monitored because of the agent of its node.
pub(super) fn report_grace_secs(pass: &UnitPass<'_>, task: &Task) -> u64 {
    let is_capable = pass.node_of(task).is_none_or(|node| node.is_capable);
    pass.facts.settings.report_grace_on(is_capable)
}

/// Returns why a task failed an update, in words.
pub(super) fn failure_message(pass: &UnitPass<'_>, task: &Task) -> String {
    let node = task.node.as_ref().map_or_else(|| "no node".to_owned(), ToString::to_string);
    let why = match &task.state {
        _ if task.is_running() => {
            monitored::failure(pass, task).unwrap_or_else(|| "was not healthy".to_owned())
        }
        TaskState::Ended(Ending::Failed { error, .. } | Ending::Rejected { error }) => error.clone(),
        TaskState::Ended(Ending::Complete) => "exited".to_owned(),
        TaskState::Ended(_) => "stopped".to_owned(),
        _ => "was not seen running in time".to_owned(),
    };
    format!("task {} failed on {node}: {why}", task.id)
}

/// Returns from when a task must run in time; none while it waits on its node for the end of the one before it.
pub(super) fn may_run_at(task: &Task) -> Option<Timestamp> {
    match task.desired {
        DesiredState::Running => Some(task.desired_at.map_or(task.created_at, |at| at.max(task.created_at))),
        DesiredState::Ready | DesiredState::Shutdown | DesiredState::Remove => None,
    }
}

/// A task fails an update when it ends before it runs, or soon after, or does not run in time on its node.
///
/// A task that no node takes says nothing about its version.
fn has_failed(task: &Task, judged_secs: u64, timeout_secs: u64, now: Timestamp) -> bool {
    if !task.state.is_ended() {
        let is_late = may_run_at(task).is_some_and(|at| now >= later(at, timeout_secs));
        let is_to_run = task.running_at.is_none() && task.is_wanted() && task.node.is_some();
        return is_to_run && is_late;
    }
    let is_requested = match &task.state {
        TaskState::Ended(Ending::Orphaned) => true,
        TaskState::Ended(Ending::Shutdown) => task.is_end_requested(),
        _ => !task.ended_by_itself(),
    };
    let soon = match (task.running_at, task.ended_at) {
        (Some(running), Some(ended)) => ended <= later(running, judged_secs),
        _ => true,
    };
    !is_requested && soon
}
