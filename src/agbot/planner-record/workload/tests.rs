//! States and reports of tasks, adoption: B3, 2-S5.

use evenkeel_ids::{AgreementId, NodeId, PolicyId, TaskId};
use proptest::prelude::*;

use super::Cause;
use super::*;
use crate::{fixture::at, goal::Goal};

fn node(name: &str) -> NodeId {
    NodeId::new("o", name)
}

fn task() -> Task {
    Task {
        id: TaskId::from_text("t"),
        unit_id: UnitId::all(PolicyId::new("o", "w")),
        slot: Slot::Number(1),
        generation: 1,
        spec: SpecVersion { number: 1, digest: 1 },
        node: Some(node("n1")),
        agreement: None,
        desired: DesiredState::Running,
        state: TaskState::Assigned,
        seq: 0,
        cause: Cause::Scale,
        origin: None,
        created_at: at(0),
        start_at: at(0),
        desired_at: Some(at(0)),
        state_at: at(0),
        running_at: None,
        ended_at: None,
        health: crate::workload::TaskHealth::default(),
        is_end_requested: None,
        restarts: crate::workload::NodeRestarts::default(),
    }
}

fn report(state: TaskState, seq: u64) -> TaskReport {
    TaskReport { node: node("n1"), state, seq, at: at(10) }
}

fn failed() -> TaskState {
    TaskState::Ended(Ending::Failed { exit_code: Some(1), error: "exit 1".into() })
}

/// B3-S1.
#[test]
fn late_report_with_an_old_number_is_refused() {
    let mut task = task();
    task.report(report(TaskState::RUNNING, 5), at(11)).unwrap();
    let refused = task.report(report(TaskState::Preparing, 4), at(12)).unwrap_err();
    assert_eq!(refused, RefusedReport::OldReport { task: task.id.clone(), seq: 4, stored: 5 });
    assert_eq!((task.state, task.seq, task.running_at), (TaskState::RUNNING, 5, Some(at(10))));
}

/// A time reported by a node is clamped to the bounds that the hub knows, because it decides whether an
/// update is monitored long enough.
#[test]
fn wrong_clock_of_a_node_neither_shortens_nor_lengthens_what_it_reports() {
    for (reported, seen) in [(at(-31_536_000), at(20)), (at(36_000), at(25)), (at(22), at(22))] {
        let mut task = Task { state_at: at(20), ..task() };
        task.report(TaskReport { at: reported, ..report(TaskState::RUNNING, 1) }, at(25)).unwrap();
        assert_eq!(task.running_at, Some(seen), "{reported}");
        let reported = reported + jiff::SignedDuration::from_secs(6);
        task.report(TaskReport { at: reported, ..report(failed(), 2) }, at(31)).unwrap();
        assert!(task.ended_at >= task.running_at && task.ended_at <= Some(at(31)), "{task:?}");
    }
}

/// B3-S2.
#[test]
fn ended_task_does_not_run_again() {
    let mut task = task();
    task.report(report(failed(), 1), at(1)).unwrap();
    let refused = task.report(report(TaskState::RUNNING, 2), at(2)).unwrap_err();
    let expected = RefusedReport::Backwards { task: task.id.clone(), stored: "failed", reported: "running" };
    assert_eq!((refused, task.state), (expected, failed()));
}

#[test]
fn report_of_another_node_is_refused() {
    let mut task = task();
    let foreign = TaskReport { node: node("n2"), ..report(TaskState::RUNNING, 1) };
    assert!(matches!(task.report(foreign, at(1)), Err(RefusedReport::ForeignTask { .. })));
}

#[test]
fn node_does_not_report_what_the_engine_writes() {
    let mut task = Task { state: TaskState::New, ..task() };
    for state in [TaskState::Pending, TaskState::Assigned, TaskState::Ended(Ending::Orphaned)] {
        assert!(matches!(task.report(report(state, 1), at(1)), Err(RefusedReport::Backwards { .. })));
    }
}

#[test]
fn running_instance_may_be_impaired_and_recover() {
    let mut task = task();
    task.report(report(TaskState::RUNNING, 1), at(1)).unwrap();
    let impaired = TaskState::Running { impaired: Some(Impairment::Unhealthy) };
    task.report(report(impaired, 2), at(2)).unwrap();
    task.report(report(TaskState::RUNNING, 3), at(3)).unwrap();
    assert_eq!((task.state.clone(), task.state_at), (TaskState::RUNNING, at(3)));
}

#[test]
fn task_is_assigned_once() {
    let mut task = Task { node: None, state: TaskState::Pending, ..task() };
    task.assign(&node("n1"), at(1)).unwrap();
    assert!(task.assign(&node("n2"), at(2)).is_err());
    assert_eq!(task.node, Some(node("n1")));
}

#[test]
fn desired_state_never_decreases() {
    let mut task = task();
    assert!(task.raise_desired(DesiredState::Remove, at(1)));
    assert!(!task.raise_desired(DesiredState::Shutdown, at(2)));
    assert_eq!((task.desired, task.desired_at), (DesiredState::Remove, Some(at(1))));
}

/// Regardless of the clock of the hub and of how often the request is raised, the first record is the
/// earliest.
#[test]
fn whether_an_end_was_requested_depends_on_the_order_of_the_records_alone() {
    for (end_at, request_at) in [(5, 5), (5, 9), (9, 5), (9, 1)] {
        let mut by_itself = task();
        by_itself.report(report(failed(), 1), at(end_at)).unwrap();
        by_itself.raise_desired(DesiredState::Shutdown, at(request_at));
        assert!(by_itself.ended_by_itself(), "{end_at} {request_at}");
        by_itself.raise_desired(DesiredState::Remove, at(1));
        assert!(by_itself.ended_by_itself(), "{end_at} {request_at}");

        let mut requested = task();
        requested.raise_desired(DesiredState::Shutdown, at(request_at));
        requested.report(report(failed(), 1), at(end_at)).unwrap();
        assert!(!requested.ended_by_itself(), "{end_at} {request_at}");
        requested.raise_desired(DesiredState::Remove, at(20));
        assert!(!requested.ended_by_itself(), "{end_at} {request_at}");

        // Not even times that were changed afterwards count, or that are read from a row.
        for (task, is_by_itself) in [(&mut by_itself, true), (&mut requested, false)] {
            for (desired_at, state_at) in [(at(1), at(9)), (at(9), at(1)), (at(5), at(5))] {
                (task.desired_at, task.state_at) = (Some(desired_at), state_at);
                let stored = serde_json::to_value(&*task).unwrap();
                let read: Task = serde_json::from_value(stored).unwrap();
                assert_eq!(read.ended_by_itself(), is_by_itself, "{desired_at} {state_at}");
            }
        }
    }
}

/// A row from before ends recorded whether they were requested says so by its times.
#[test]
fn end_in_a_row_of_an_older_version_is_judged_by_its_times() {
    let ended = Task { state: failed(), state_at: at(5), desired: DesiredState::Shutdown, ..task() };
    let by_itself = Task { desired_at: Some(at(5)), ..ended.clone() };
    let mut requested = Task { desired_at: Some(at(4)), ..ended };
    assert!(by_itself.ended_by_itself() && !requested.ended_by_itself());
    requested.raise_desired(DesiredState::Remove, at(9));
    assert!(!requested.ended_by_itself());
}

/// 2-S5.
#[test]
fn live_agreements_become_tasks_in_scope_order() {
    let unit_id = UnitId::all(PolicyId::new("o", "w"));
    let workload_unit = WorkloadUnit { id: unit_id, nodes: vec![node("n2"), node("n1")] };
    let agreement = |id: &str, name: &str| LiveAgreement {
        id: AgreementId::from_text(id),
        node: node(name),
        running_since: Some(at(1)),
    };
    let agreements = [agreement("a1", "n1"), agreement("a2", "n2")];
    let spec = SpecVersion { number: 1, digest: 1 };
    let tasks = adopt(&workload_unit, &Goal::replicated(2), spec, &agreements, at(9));
    let found: Vec<_> =
        tasks.iter().map(|task| (task.slot.clone(), task.agreement.clone().unwrap())).collect();
    let expected =
        [(Slot::Number(1), AgreementId::from_text("a2")), (Slot::Number(2), AgreementId::from_text("a1"))];
    assert_eq!(found, expected);
    assert!(tasks.iter().all(|task| task.is_running() && task.desired == DesiredState::Running));
    let tasks = adopt(&workload_unit, &Goal::global(), spec, &agreements, at(9));
    assert_eq!(tasks[0].slot, Slot::Node(node("n2")));
}

fn any_state() -> impl Strategy<Value = TaskState> {
    prop_oneof![
        Just(TaskState::Pending),
        Just(TaskState::Assigned),
        Just(TaskState::Accepted),
        Just(TaskState::Preparing),
        Just(TaskState::Ready),
        Just(TaskState::Starting),
        Just(TaskState::RUNNING),
        Just(TaskState::Running { impaired: Some(Impairment::PartlyRunning) }),
        Just(TaskState::Ended(Ending::Complete)),
        Just(TaskState::Ended(Ending::Shutdown)),
        Just(failed()),
        Just(TaskState::Ended(Ending::Rejected { error: "refused".into() })),
        Just(TaskState::Ended(Ending::Orphaned)),
    ]
}

proptest! {
    /// B3-S4.
    #[test]
    fn random_reports_never_move_a_task_back(
        reports in proptest::collection::vec((any_state(), 0_u64..40, any::<bool>()), 0..60)
    ) {
        let mut task = task();
        for (state, seq, is_own) in reports {
            let before = task.clone();
            let node = node(if is_own { "n1" } else { "n2" });
            let outcome = task.report(TaskReport { node, state, seq, at: at(seq as i64) }, at(seq as i64));
            match outcome {
                Ok(()) => {
                    prop_assert!(is_own && seq > before.seq && before.state.may_become(&task.state));
                    prop_assert!(task.state.rank() >= before.state.rank());
                    prop_assert_eq!(task.state.writer(), Writer::Agent);
                }
                Err(_) => prop_assert_eq!(&task, &before),
            }
            prop_assert_eq!((&task.node, task.spec, &task.slot), (&before.node, before.spec, &before.slot));
        }
    }
}
