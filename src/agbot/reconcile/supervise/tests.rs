//! The task reaper by itself: B13.

use evenkeel_planner_record::workload::{DesiredState, SlotTasks, Task, TaskState};

use super::*;
use crate::unit_pass::restart_tests::ended;

fn history(count: u32) -> SlotTasks {
    let mut tasks: Vec<Task> =
        (0..count).map(|number| ended(number, i64::from(number), i64::from(number) + 1, 1)).collect();
    for task in &mut tasks {
        task.desired = DesiredState::Shutdown;
    }
    if let Some(last) = tasks.last_mut() {
        (last.desired, last.state) = (DesiredState::Running, TaskState::RUNNING);
    }
    SlotTasks::new(tasks)
}

/// B13-S1.
#[test]
fn newest_records_are_kept() {
    let deleted = tasks_to_delete(&history(21), 5, 0);
    assert_eq!((deleted.len(), deleted[0].as_str(), deleted[15].as_str()), (16, "0000", "0015"));
    assert_eq!(tasks_to_delete(&history(21), 2, 0).len(), 19);
}

/// B13-S2.
#[test]
fn as_many_records_are_kept_as_restarts_are_counted() {
    assert_eq!(tasks_to_delete(&history(21), 2, 6).len(), 14);
}

/// B13-S3.
#[test]
fn negative_limit_keeps_everything() {
    assert!(tasks_to_delete(&history(21), -1, 0).is_empty());
}

#[test]
fn removed_task_is_deleted_only_after_it_stopped() {
    let mut task = ended(0, 0, 1, 1);
    task.desired = DesiredState::Remove;
    assert_eq!(tasks_to_delete(&SlotTasks::new(vec![task.clone()]), 5, 0).len(), 1);
    task.state = TaskState::RUNNING;
    assert!(tasks_to_delete(&SlotTasks::new(vec![task.clone()]), 5, 0).is_empty());
    (task.state, task.node) = (TaskState::Pending, None);
    assert_eq!(tasks_to_delete(&SlotTasks::new(vec![task]), -1, 0).len(), 1);
}
