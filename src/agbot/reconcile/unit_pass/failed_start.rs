//! Starts that failed: whether another node is tried then.
//!
//! Source: orchestration A9.7.

use evenkeel_domain::orchestration::OnExhausted;
use evenkeel_planner_record::{
    time::later,
    workload::{Cause, DesiredState, Ending, Task, TaskState},
};
use jiff::Timestamp;

use super::UnitPass;

/// Returns whether another node is tried when the start of a task on its node fails: nothing of its slot has run there before.
///
/// An update judges its tasks itself.
fn may_start_elsewhere(pass: &UnitPass<'_>, task: &Task) -> bool {
    let workload = pass.facts.workload;
    let may_leave = workload.goal.moves_by_itself()
        && !workload.goal.is_per_node()
        && workload.restart.on_exhausted == OnExhausted::Switch;
    let has_run = |one: &Task| one.running_at.is_some() && one.node == task.node && one.spec == task.spec;
    may_leave && !task.cause.is_update() && !pass.tasks(&task.slot).iter().any(has_run)
}

/// Returns whether a task ended before it ran, and another node is tried. That is not an end that
/// `restart.condition` is about.
///
/// # Source
/// Orchestration A9.7.
pub(crate) fn has_failed_to_start(pass: &UnitPass<'_>, task: &Task) -> bool {
    let is_complete = task.state == TaskState::Ended(Ending::Complete);
    task.ended_by_itself() && !is_complete && may_start_elsewhere(pass, task)
}

/// Returns whether a task is started on its node for the first time, and leaves it if that fails. Users' actions judge their tasks
/// themselves, and what has run on the node is restarted there.
fn is_first_start(pass: &UnitPass<'_>, task: &Task) -> bool {
    !matches!(task.cause, Cause::User { .. }) && may_start_elsewhere(pass, task)
}

/// Returns when a first start takes too long; none for other tasks.
pub(crate) fn start_deadline(pass: &UnitPass<'_>, task: &Task) -> Option<Timestamp> {
    let is_starting = task.desired == DesiredState::Running && !task.state.is_ended();
    let since = task.desired_at.filter(|_| is_starting && is_first_start(pass, task))?;
    Some(later(since, pass.facts.workload.update.start_timeout_secs))
}

/// Returns whether the first start on a node failed.
///
/// # Source
/// Orchestration A9.7.
pub(crate) fn is_failed_start(pass: &UnitPass<'_>, task: &Task) -> bool {
    match task.state.is_ended() {
        // The node continues with its version list first (B11.10).
        true => {
            let has_versions = task.node.as_ref().is_some_and(|node| pass.has_versions_left(node));
            has_failed_to_start(pass, task) && is_first_start(pass, task) && !has_versions
        }
        false => start_deadline(pass, task).is_some_and(|until| pass.now >= until),
    }
}
