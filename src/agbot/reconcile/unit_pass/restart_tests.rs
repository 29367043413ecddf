//! The restart supervisor by itself: B10.

use evenkeel_domain::orchestration::{OnExhausted, Orchestration, Restart, RestartCondition};
use evenkeel_ids::{NodeId, PolicyId, TaskId};
use evenkeel_planner_record::{
    fixture::at,
    workload::{
        Cause, DesiredState, Ending, NodeRestarts, Slot, SlotTasks, SpecVersion, Task, TaskHealth, TaskState,
        UnitId,
    },
};

use super::{RestartVerdict, judge_restart};
use crate::unit_pass::count_attempts;

/// Returns a task that ended with an exit code.
pub(crate) fn ended(number: u32, created: i64, end: i64, exit_code: i32) -> Task {
    let ending = match exit_code {
        0 => Ending::Complete,
        code => Ending::Failed { exit_code: Some(code), error: String::new() },
    };
    Task {
        id: TaskId::from_text(&format!("{number:04}")),
        unit_id: UnitId::all(PolicyId::new("o", "w")),
        slot: Slot::Number(1),
        generation: u64::from(number),
        spec: SpecVersion { number: 1, digest: 1 },
        node: Some(NodeId::new("o", "n1")),
        agreement: None,
        desired: DesiredState::Running,
        state: TaskState::Ended(ending),
        seq: 0,
        cause: if number == 0 { Cause::Scale } else { Cause::TaskFailed },
        origin: None,
        created_at: at(created),
        start_at: at(created),
        desired_at: Some(at(created)),
        state_at: at(end),
        running_at: Some(at(created)),
        ended_at: Some(at(end)),
        health: TaskHealth::default(),
        is_end_requested: None,
        restarts: NodeRestarts::default(),
    }
}

fn restart() -> Restart {
    Orchestration::default().restart
}

fn judge(policy: &Restart, tasks: &[Task], now: i64) -> RestartVerdict {
    let history = SlotTasks::new(tasks.to_vec());
    judge_restart(policy, &history, history.newest().unwrap(), None, at(now))
}

/// B10-S2.
#[test]
fn condition_decides_which_ends_lead_to_a_restart() {
    let table = [
        (RestartCondition::None, 1, false),
        (RestartCondition::OnFailure, 0, false),
        (RestartCondition::OnFailure, 1, true),
        (RestartCondition::Any, 0, true),
    ];
    for (condition, exit_code, restarts) in table {
        let policy = Restart { condition, ..restart() };
        let expected =
            if restarts { RestartVerdict::Restart { start_at: at(15) } } else { RestartVerdict::Unwanted };
        assert_eq!(judge(&policy, &[ended(0, 0, 10, exit_code)], 10), expected);
    }
}

/// Restarts by a node without contact count like restarts by the engine.
#[test]
fn restarts_by_the_node_are_counted() {
    let own = |latest: &[i64]| NodeRestarts {
        count: latest.len() as u64,
        latest: latest.iter().copied().map(at).collect(),
        error: None,
    };
    for (on_exhausted, window_seconds, expected) in [
        (OnExhausted::None, 0, 3),
        (OnExhausted::Switch, 0, 3),
        (OnExhausted::None, 50, 2),
        (OnExhausted::Switch, 50, 2),
    ] {
        let policy = Restart { max_attempts: 3, window_seconds, on_exhausted, ..restart() };
        let first = Task { restarts: own(&[20, 60]), ..ended(0, 0, 70, 1) };
        let second = ended(1, 75, 80, 1);
        let tasks = [first, second];
        let history = SlotTasks::new(tasks.to_vec());
        let newest = history.newest().unwrap();
        assert_eq!(count_attempts(&policy, &history, newest, None), expected, "{policy:?}");
        let verdict = judge(&policy, &tasks, 80);
        assert_eq!(verdict == (RestartVerdict::Exhausted { attempts: 3 }), expected == 3);
    }
    // A node whose clock is ahead has not restarted in the future.
    let policy = Restart { window_seconds: 50, ..restart() };
    let task = Task { restarts: own(&[9_000]), ..ended(0, 0, 70, 1) };
    let history = SlotTasks::new(vec![task.clone()]);
    assert_eq!(count_attempts(&policy, &history, &task, None), 1);
}

/// B10-S3.
#[test]
fn restarts_are_limited() {
    let policy = Restart { max_attempts: 2, ..restart() };
    let tasks: Vec<Task> =
        (0..3).map(|number| ended(number, i64::from(number) * 10, i64::from(number) * 10 + 5, 1)).collect();
    assert!(matches!(judge(&policy, &tasks[..2], 20), RestartVerdict::Restart { .. }));
    assert_eq!(judge(&policy, &tasks, 30), RestartVerdict::Exhausted { attempts: 2 });
    let history = SlotTasks::new(tasks);
    let newest = history.newest().unwrap();
    let verdict = judge_restart(&policy, &history, newest, Some(at(29)), at(30));
    assert!(matches!(verdict, RestartVerdict::Restart { .. }), "a cleared node counts from zero");
}

/// B10-S4.
#[test]
fn only_restarts_within_the_window_count() {
    let policy = Restart { max_attempts: 1, window_seconds: 60, ..restart() };
    let first = ended(0, -100, 0, 1);
    assert!(matches!(
        judge(&policy, &[first.clone(), ended(1, 0, 100, 1)], 100),
        RestartVerdict::Restart { .. }
    ));
    let verdict = judge(&policy, &[first, ended(1, 0, 30, 1)], 30);
    assert_eq!(verdict, RestartVerdict::Exhausted { attempts: 1 });
}

/// B10-S8.
#[test]
fn restarts_of_another_version_do_not_count() {
    let policy = Restart { max_attempts: 1, ..restart() };
    let mut new = ended(2, 50, 60, 1);
    (new.spec, new.cause) = (SpecVersion { number: 2, digest: 2 }, Cause::Update);
    let tasks = [ended(0, 0, 10, 1), ended(1, 20, 30, 1), new];
    assert_eq!(judge(&policy, &tasks, 60), RestartVerdict::Restart { start_at: at(65) });
}

#[test]
fn task_that_fails_before_its_delay_is_over_waits_for_it() {
    let mut task = ended(1, 0, 2, 1);
    task.start_at = at(10);
    assert_eq!(judge(&restart(), &[task.clone()], 2), RestartVerdict::Wait { until: at(10) });
    assert_eq!(judge(&restart(), &[task], 10), RestartVerdict::Restart { start_at: at(15) });
}

#[test]
fn each_node_counts_by_itself_when_another_one_is_tried() {
    let policy = Restart { max_attempts: 1, on_exhausted: OnExhausted::Switch, ..restart() };
    let mut moved = ended(2, 40, 50, 1);
    moved.node = Some(NodeId::new("o", "n2"));
    let tasks = [ended(0, 0, 10, 1), ended(1, 20, 30, 1), moved];
    assert_eq!(judge(&policy, &tasks[..2], 30), RestartVerdict::Exhausted { attempts: 1 });
    assert!(matches!(judge(&policy, &tasks, 50), RestartVerdict::Restart { .. }));
}
