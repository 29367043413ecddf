//! The task reaper: which records of a slot are deleted.
//!
//! Source: orchestration B13.

use evenkeel_ids::TaskId;
use evenkeel_planner_record::workload::{DesiredState, SlotTasks, Task};

/// Returns the tasks of a slot whose records are deleted.
///
/// A task is deleted only when none of its instances can still run. Those desired `remove` are no history; of
/// the others the newest are kept.
/// # Shape
/// `limit`: tasks kept for each slot, those in use included; negative keeps all. `max_attempts`: restarts that must stay countable.
pub fn tasks_to_delete(tasks: &SlotTasks, limit: i32, max_attempts: u32) -> Vec<TaskId> {
    let is_removed = |task: &&Task| task.desired == DesiredState::Remove;
    let is_over = |task: &&Task| !task.is_wanted() && task.is_stopped();
    let mut deleted: Vec<TaskId> =
        tasks.iter().filter(is_removed).filter(is_over).map(|task| task.id.clone()).collect();
    let Ok(limit) = usize::try_from(limit) else { return deleted };
    let for_restarts = if max_attempts > 0 { max_attempts as usize + 1 } else { 0 };
    let history: Vec<&Task> = tasks.iter().filter(|task| !is_removed(task)).collect();
    let mut surplus = history.len().saturating_sub(limit.max(for_restarts));
    let mut oldest: Vec<&Task> = history.into_iter().filter(is_over).collect();
    oldest.sort_by_key(|task| (task.state_at, task.created_at, &task.id));
    for task in oldest {
        if surplus == 0 {
            break;
        }
        surplus -= 1;
        deleted.push(task.id.clone());
    }
    deleted
}
