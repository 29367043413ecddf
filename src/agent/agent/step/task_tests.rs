//! Tasks from their publication to their last report.

use serde_json::json;

use super::*;
use crate::step::tests::{NOW, message, node, observed_exit, producer, proposal, send, terms};
use crate::step::{ContainerState, Event, ExchangeState};
use evenkeel_wire::agreement::message::Body;
use evenkeel_wire::exchange::task_health::{CommandResult, TaskCheck, TaskCommand};

fn listed(id: &str, agreement: &str, desired: DesiredState) -> NodeTask {
    NodeTask {
        task_id: id.to_owned(),
        agreement_id: Some(agreement.to_owned()),
        desired_state: desired,
        ..NodeTask::default()
    }
}

fn want(state: &mut State, desired: DesiredState) {
    state.apply(Event::TasksRead(vec![listed("t1", "a1", desired)]), NOW);
}

/// The states that wait to be reported, in order, with their sequence numbers.
fn waiting(state: &State, task: &str) -> Vec<(TaskState, i64)> {
    state.tasks[task].reports.iter().map(|report| (report.end.state, report.seq)).collect()
}

/// Accepts the agreement of a task that is already known.
fn accept(state: &mut State, id: &str) {
    state.apply(proposal(id, &terms("web", "site == north"), &producer()), NOW);
    send(state, id);
    state.apply(message(id, Body::ReplyAck { decision: true }), NOW);
    send(state, id);
    state.apply(Event::Recorded { agreement: id.to_owned(), state: ExchangeState::Final }, NOW);
}

fn services(state: &State) -> Vec<Command> {
    state.plan().into_iter().filter(|command| command.service().is_some()).collect()
}

fn running() -> State {
    let mut state = node();
    want(&mut state, DesiredState::Running);
    accept(&mut state, "a1");
    state.apply(Event::Prepared { agreement: "a1".to_owned() }, NOW);
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW);
    state.apply(Event::RestartsSet { agreement: "a1".to_owned(), restarts: false }, NOW);
    state.apply(super::super::tests::observed("a1", RunState::Running), NOW);
    state
}

#[test]
fn task_is_prepared_and_held_until_it_is_to_run() {
    let mut state = node();
    want(&mut state, DesiredState::Ready);
    accept(&mut state, "a1");
    let agreement = || "a1".to_owned();
    assert_eq!(services(&state), [Command::Prepare { agreement: agreement() }]);
    state.apply(Event::Prepared { agreement: agreement() }, NOW);
    assert_eq!(services(&state), [], "it waits");
    state.apply(Event::Tick, NOW + 500);
    assert!(state.agreements["a1"].is_live());
    want(&mut state, DesiredState::Running);
    assert_eq!(services(&state), [Command::Start { agreement: agreement() }]);
    state.apply(Event::Started { agreement: agreement() }, NOW);
    assert_eq!(services(&state), [Command::SetRestarts { agreement: agreement(), restarts: false }]);
    want(&mut state, DesiredState::Ready);
    assert_eq!(state.tasks["t1"].desired, DesiredState::Running, "a desired state never decreases");
    use TaskState::{Accepted, Preparing, Ready, Starting};
    assert_eq!(waiting(&state, "t1"), [(Accepted, 1), (Preparing, 2), (Ready, 3), (Starting, 4)]);
}

#[test]
fn reports_are_sent_in_order_and_kept_until_they_are_recorded() {
    let mut state = running();
    let first = |state: &State| match state.task_reports().next() {
        Some(Command::ReportTask { report, .. }) => Some((report.end.state, report.seq)),
        _ => None,
    };
    assert_eq!(first(&state), Some((TaskState::Accepted, 1)));
    state = serde_json::from_value(json!(state)).unwrap();
    state.apply(Event::TaskReported { task: "t1".to_owned(), seq: 1 }, NOW);
    assert_eq!(first(&state), Some((TaskState::Preparing, 2)));
    // The hub has this report already, and one that an earlier journal knew.
    let stored = TaskConflict { state: TaskState::Ready, seq: 7, ..TaskConflict::default() };
    state.apply(Event::TaskRefused { task: "t1".to_owned(), seq: 2, stored: stored.clone() }, NOW);
    assert_eq!(first(&state), Some((TaskState::Ready, 8)));
    state.apply(Event::TaskRefused { task: "t1".to_owned(), seq: 8, stored }, NOW);
    assert_eq!(waiting(&state, "t1"), [(TaskState::Starting, 9), (TaskState::Running, 10)]);
}

#[test]
fn exit_ends_the_task_with_its_code_and_nothing_starts_again() {
    for (code, state_after) in [(0, TaskState::Complete), (3, TaskState::Failed)] {
        let mut state = running();
        state.apply(observed_exit("a1", code), NOW + 9);
        assert_eq!(services(&state), [Command::Stop { agreement: "a1".to_owned() }]);
        assert!(!state.tasks["t1"].state.is_ended(), "not before it has stopped");
        state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW + 10);
        let report = state.tasks["t1"].reports.back().unwrap();
        assert_eq!((report.end.state, report.end.exit_code), (state_after, i32::try_from(code).ok()));
        assert_eq!(report.end.error.is_some(), code != 0);
        assert_eq!(state.errors.is_empty(), code == 0, "completion is no error");
        assert_eq!(services(&state), []);
        // A repeated proposal is refused.
        state.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW + 11);
        assert_eq!(services(&state), []);
    }
}

#[test]
fn task_that_is_gone_has_failed() {
    let mut state = running();
    state.apply(Event::Gone { key: "a1".to_owned() }, NOW);
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    assert_eq!(state.tasks["t1"].state, TaskState::Failed);
    // An agreement without a task is left to the driver.
    let mut other = crate::step::tests::running();
    other.apply(Event::Gone { key: "a1".to_owned() }, NOW);
    assert!(other.agreements["a1"].is_live());
}

#[test]
fn desired_shutdown_and_cancellation_by_the_agbot_stop_the_task() {
    for desired in [DesiredState::Shutdown, DesiredState::Remove] {
        let mut state = running();
        want(&mut state, desired);
        state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
        assert_eq!(state.tasks["t1"].state, TaskState::Shutdown);
    }
    let mut state = running();
    state.apply(message("a1", Body::Cancel { reason: 206 }), NOW);
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    assert_eq!(state.tasks["t1"].state, TaskState::Shutdown);
    let mut state = node();
    want(&mut state, DesiredState::Shutdown);
    assert_eq!(waiting(&state, "t1"), [(TaskState::Shutdown, 1)], "nothing was started");
}

#[test]
fn task_that_cannot_start_or_is_refused_is_rejected_with_the_reason() {
    let mut state = node();
    want(&mut state, DesiredState::Running);
    accept(&mut state, "a1");
    let (agreement, error) = ("a1".to_owned(), "image x: manifest unknown".to_owned());
    state.apply(Event::StartFailed { agreement, reason: reason::IMAGE_FETCH_FAILED, error }, NOW);
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    let report = state.tasks["t1"].reports.back().unwrap();
    assert_eq!(report.end.state, TaskState::Rejected);
    assert!(report.end.error.as_ref().unwrap().contains("manifest unknown"), "{report:?}");

    let mut state = node();
    want(&mut state, DesiredState::Running);
    state.apply(proposal("a1", &terms("web", "site == south"), &producer()), NOW);
    assert_eq!(waiting(&state, "t1"), [(TaskState::Rejected, 1)]);
}

#[test]
fn two_tasks_of_one_workload_run_side_by_side_and_other_agreements_do_not() {
    let mut state = node();
    let tasks = |last| vec![listed("t1", "a1", DesiredState::Running), listed("t2", "a2", last)];
    state.apply(Event::TasksRead(tasks(DesiredState::Running)), NOW);
    accept(&mut state, "a1");
    accept(&mut state, "a2");
    assert_eq!(state.live().count(), 2);
    state.apply(proposal("a3", &terms("web", "site == north"), &producer()), NOW);
    assert_eq!(state.live().count(), 2, "an agreement without a task still has the same terms");
    // The engine decides when the next one starts, not the one that stops.
    for agreement in ["a1", "a2"] {
        state.apply(Event::Prepared { agreement: agreement.to_owned() }, NOW);
    }
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW);
    state.apply(message("a1", Body::Cancel { reason: 204 }), NOW);
    assert!(services(&state).contains(&Command::Start { agreement: "a2".to_owned() }));
}

#[test]
fn running_agreement_becomes_a_task_and_an_ordinary_one_again() {
    let mut state = crate::step::tests::running();
    want(&mut state, DesiredState::Running);
    assert_eq!(waiting(&state, "t1"), [(TaskState::Running, 1)]);
    let set = |restarts| [Command::SetRestarts { agreement: "a1".to_owned(), restarts }];
    assert_eq!(services(&state), set(false));
    state.apply(Event::RestartsSet { agreement: "a1".to_owned(), restarts: false }, NOW);
    assert_eq!(services(&state), []);
    state.apply(Event::TasksRead(Vec::new()), NOW);
    assert!(state.agreements["a1"].is_live());
    assert_eq!(services(&state), set(true));
}

#[test]
fn task_whose_agreement_was_lost_has_failed() {
    let mut state = node();
    let task = NodeTask { state: TaskState::Running, seq: 5, ..listed("t1", "a1", DesiredState::Running) };
    state.apply(Event::TasksRead(vec![task]), NOW);
    assert_eq!(waiting(&state, "t1"), [(TaskState::Failed, 6)]);
}

#[test]
fn service_completes_when_all_of_its_containers_have() {
    let container = |name: &str, code: Option<i64>| ContainerState {
        name: name.to_owned(),
        image: String::new(),
        created_at: NOW,
        state: if code.is_some() { RunState::Exited } else { RunState::Running },
        failures: Failures { exits: u32::from(code.is_some()), code, ..Failures::default() },
    };
    let end = |codes: &[Option<i64>]| {
        let containers = codes.iter().map(|code| container("c", *code)).collect();
        exit_of(&Observation { containers }).map(|end| (end.state, end.exit_code))
    };
    assert_eq!(end(&[None, Some(0)]), None);
    assert_eq!(end(&[Some(0), Some(0)]), Some((TaskState::Complete, Some(0))));
    assert_eq!(end(&[None, Some(2)]), Some((TaskState::Failed, Some(2))));
    assert_eq!(end(&[]), None);
}

/// The life-cycle events that wait to be reported.
fn lifecycle(state: &State) -> Option<(String, String)> {
    let event = state.tasks["t1"].lifecycle.as_ref()?;
    Some((event.event.clone(), event.state.clone()))
}

/// The hub records the life-cycle event that waits.
fn report_lifecycle(state: &mut State) {
    if let Some(event) = state.tasks["t1"].lifecycle.clone() {
        state.apply(Event::LifecycleReported { task: "t1".to_owned(), event: Box::new(event) }, NOW);
    }
}

fn supervised(command: Option<&str>) -> State {
    let mut state = running();
    let command = command.map(|op| TaskCommand { id: "c1".to_owned(), op: op.to_owned(), hard: false });
    let supervision = TaskSupervision { lifecycle: true, command, ..TaskSupervision::default() };
    let task = NodeTask { supervision, ..listed("t1", "a1", DesiredState::Running) };
    state.apply(Event::TasksRead(vec![task]), NOW);
    state
}

#[test]
fn pause_of_a_supervised_task_is_an_event_and_ends_nothing() {
    let mut state = supervised(None);
    state.apply(super::super::tests::observed("a1", RunState::Paused), NOW);
    assert_eq!(lifecycle(&state), Some(("PAUSE".to_owned(), "paused".to_owned())));
    assert!(state.agreements["a1"].is_live());
    state.apply(super::super::tests::observed("a1", RunState::Running), NOW + 1);
    assert_eq!(
        lifecycle(&state).map(|(event, _)| event).as_deref(),
        Some("PAUSE"),
        "it was not reported yet"
    );
    report_lifecycle(&mut state);
    assert_eq!(lifecycle(&state), Some(("POWER_ON".to_owned(), "running".to_owned())));

    let mut state = running();
    state.apply(super::super::tests::observed("a1", RunState::Paused), NOW);
    assert_eq!(lifecycle(&state), None, "nobody asked for events");
}

#[test]
fn rebuild_that_fails_is_an_event_of_its_own() {
    for (result, expected) in [(CommandResult::Failed, Some("REBUILD")), (CommandResult::Ok, None)] {
        let mut state = supervised(Some("REBUILD"));
        let ended = EndedCommand { id: "c1".to_owned(), result, message: None };
        let seen = Observation::default();
        state.apply(Event::CommandEnded { task: "t1".to_owned(), ended, seen, health: None }, NOW);
        assert_eq!(lifecycle(&state).map(|(event, _)| event).as_deref(), expected);
        report_lifecycle(&mut state);
        state.apply(super::super::tests::observed("a1", RunState::Running), NOW + 1);
        assert_eq!(lifecycle(&state).is_some(), expected.is_some(), "what was reported down runs again");
    }
}

/// C5-S2: the hub hears at once that a command has helped.
#[test]
fn command_after_which_the_service_runs_says_so_with_its_end() {
    let mut state = supervised(Some("UNPAUSE"));
    state.tasks.get_mut("t1").unwrap().is_down_reported = true;
    state.apply(super::super::tests::observed("a1", RunState::Paused), NOW);
    let Event::Observed { observation: seen, .. } = super::super::tests::observed("a1", RunState::Running)
    else {
        unreachable!("an observation");
    };
    let ended = EndedCommand { id: "c1".to_owned(), result: CommandResult::Ok, message: None };
    state.apply(Event::CommandEnded { task: "t1".to_owned(), ended, seen, health: None }, NOW);
    assert_eq!(lifecycle(&state), Some(("POWER_ON".to_owned(), "running".to_owned())));
}

/// P15: what is left to the restart policy ends the task.
#[test]
fn task_that_was_reported_down_ends_when_it_is_supervised_no_longer() {
    let mut state = supervised(None);
    state.apply(super::super::tests::observed_exit("a1", 1), NOW);
    assert_eq!(lifecycle(&state).map(|(event, _)| event).as_deref(), Some("SHUTDOWN"));
    report_lifecycle(&mut state);
    assert_eq!(state.tasks["t1"].end, None);
    // The driver is not asked again about what has not changed.
    state.apply(Event::TasksRead(vec![listed("t1", "a1", DesiredState::Running)]), NOW + 1);
    assert_eq!(state.tasks["t1"].end.as_ref().map(|end| end.state), Some(TaskState::Failed));
}

/// The last action of a recovery that has failed may help late.
#[test]
fn task_that_was_reported_down_and_runs_again_says_so_although_it_is_supervised_no_longer() {
    let mut state = supervised(Some("REBUILD"));
    state.tasks.get_mut("t1").unwrap().is_down_reported = true;
    let ended = EndedCommand { id: "c1".to_owned(), result: CommandResult::Ok, message: None };
    state.apply(
        Event::CommandEnded { task: "t1".to_owned(), ended, seen: Observation::default(), health: None },
        NOW,
    );
    state.apply(Event::TasksRead(vec![listed("t1", "a1", DesiredState::Running)]), NOW + 1);
    assert_eq!(state.tasks["t1"].end, None, "nothing was seen to have ended");
    state.apply(super::super::tests::observed("a1", RunState::Running), NOW + 2);
    assert_eq!(lifecycle(&state), Some(("POWER_ON".to_owned(), "running".to_owned())));
}

/// A broken check proves nothing about the task, and is reported as broken, once.
#[test]
fn check_that_is_broken_is_reported_until_it_works() {
    let mut state = running();
    let report = |health| Command::ReportHealth { task: "t1".to_owned(), health };
    let broken = TaskCheck::broken("the name x is not known".to_owned());
    state.apply(Event::Probed { task: "t1".to_owned(), health: broken.clone() }, NOW);
    assert!(state.plan().contains(&report(broken.clone())));
    let reported = |is_broken| Event::HealthReported { task: "t1".to_owned(), healthy: true, is_broken };
    state.apply(reported(true), NOW);
    assert!(!state.plan().contains(&report(broken)));
    let healthy = TaskCheck { healthy: true, ..TaskCheck::default() };
    state.apply(Event::Probed { task: "t1".to_owned(), health: healthy.clone() }, NOW + 1);
    assert!(state.plan().contains(&report(healthy.clone())));
    state.apply(reported(false), NOW + 1);
    assert!(!state.plan().contains(&report(healthy)));
}

#[test]
fn outcome_of_a_check_is_reported_again_after_a_lost_report_although_it_has_changed_back() {
    let mut state = running();
    let check = |healthy| TaskCheck { healthy, ..TaskCheck::default() };
    let probed = |healthy| Event::Probed { task: "t1".to_owned(), health: check(healthy) };
    let report = |healthy| Command::ReportHealth { task: "t1".to_owned(), health: check(healthy) };
    state.apply(probed(true), NOW);
    state.apply(Event::HealthReported { task: "t1".to_owned(), healthy: true, is_broken: false }, NOW);
    state.apply(probed(false), NOW + 1);
    let commands = state.plan();
    assert!(commands.contains(&report(false)));
    state.begin_reports(&commands);
    state.apply(probed(true), NOW + 2);
    assert!(state.plan().contains(&report(true)), "the hub may have the failure");
    state.apply(Event::HealthReported { task: "t1".to_owned(), healthy: true, is_broken: false }, NOW + 3);
    assert!(!state.plan().contains(&report(true)));
}
