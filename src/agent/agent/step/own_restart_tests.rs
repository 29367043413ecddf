//! Restarts by the node itself, and cases that it leaves to the hub.

use evenkeel_domain::orchestration::DesiredState;
use evenkeel_wire::agreement::message::Body;
use evenkeel_wire::exchange::node_task::NodeTask;
use evenkeel_wire::exchange::task_health::TaskSupervision;

use super::*;
use crate::step::tests::{NOW, message, node, observed, observed_exit, producer, proposal, send, terms};
use crate::step::{Event, ExchangeState, RunState};

pub(in crate::step) fn rule(condition: RestartCondition) -> TaskRestart {
    TaskRestart { condition, delay_seconds: 5, max_attempts: 0, window_seconds: 0, attempts: 0 }
}

/// The task `t1` that runs under the agreement `a1` with these restart settings.
pub(in crate::step) fn running(rule: Option<TaskRestart>) -> State {
    let mut state = node();
    let task = NodeTask {
        task_id: "t1".to_owned(),
        agreement_id: Some("a1".to_owned()),
        desired_state: DesiredState::Running,
        supervision: TaskSupervision { restart: rule, ..TaskSupervision::default() },
        ..NodeTask::default()
    };
    state.apply(Event::TasksRead(vec![task]), NOW);
    state.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    send(&mut state, "a1");
    state.apply(message("a1", Body::ReplyAck { decision: true }), NOW);
    send(&mut state, "a1");
    state.apply(Event::Recorded { agreement: "a1".to_owned(), state: ExchangeState::Final }, NOW);
    state.apply(Event::Prepared { agreement: "a1".to_owned() }, NOW);
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW);
    state.apply(Event::RestartsSet { agreement: "a1".to_owned(), restarts: false }, NOW);
    state.apply(observed("a1", RunState::Running), NOW);
    state
}

pub(in crate::step) fn restarts(state: &State) -> bool {
    state.plan().contains(&Command::Restart { agreement: "a1".to_owned() })
}

pub(in crate::step) fn asks(state: &State) -> bool {
    state.plan().contains(&Command::CheckContact)
}

/// The service exits, and the hub does not respond.
fn exit_alone(state: &mut State, code: i64, at: u64) {
    state.apply(observed_exit("a1", code), at);
    state.apply(Event::ContactChecked { is_up: false }, at);
}

fn run_again(state: &mut State, at: u64) {
    state.apply(Event::Tick, at);
    assert!(restarts(state), "at {at}");
    state.apply(Event::Restarted { agreement: "a1".to_owned() }, at);
    state.apply(observed("a1", RunState::Running), at);
}

#[test]
fn node_without_contact_restarts_after_the_delay_and_reports_it_afterwards() {
    let mut state = running(Some(rule(RestartCondition::Any)));
    state.apply(observed_exit("a1", 3), NOW + 10);
    assert!(asks(&state) && !restarts(&state), "who decides is not known yet");
    assert!(state.agreements["a1"].is_live());
    state.apply(Event::ContactChecked { is_up: false }, NOW + 12);
    assert!(!asks(&state) && !restarts(&state), "the delay is not over");
    state.apply(Event::Tick, NOW + 14);
    assert!(!restarts(&state));
    run_again(&mut state, NOW + 15);
    assert!(!restarts(&state) && !asks(&state));
    assert!(!state.tasks["t1"].state.is_ended(), "it is the same task");
    let restarts = state.tasks["t1"].restarts.clone();
    assert_eq!((restarts.count, restarts.recent.as_slice()), (1, [NOW + 15].as_slice()));
    assert_eq!(restarts.error.as_deref(), Some("web: exit code 3"));
    let report = Command::ReportRestarts { task: "t1".to_owned(), restarts };
    assert!(state.plan().contains(&report));
    state.apply(Event::RestartsReported { task: "t1".to_owned(), count: 1 }, NOW + 60);
    assert!(!state.plan().contains(&report));
}

#[test]
fn hub_that_responds_decides_about_the_restart() {
    let mut state = running(Some(rule(RestartCondition::Any)));
    state.apply(observed_exit("a1", 3), NOW + 10);
    state.apply(Event::ContactChecked { is_up: true }, NOW + 10);
    assert!(!state.agreements["a1"].is_live());
    // Also if the hub responds again before the delay is over.
    let mut state = running(Some(rule(RestartCondition::Any)));
    exit_alone(&mut state, 3, NOW + 10);
    state.apply(Event::Tick, NOW + 13);
    assert!(asks(&state), "it is asked again");
    state.apply(Event::ContactChecked { is_up: true }, NOW + 13);
    state.apply(Event::Tick, NOW + 20);
    assert!(!restarts(&state) && !state.agreements["a1"].is_live());
}

#[test]
fn without_restart_settings_the_end_is_reported_as_ever() {
    let mut state = running(None);
    state.apply(observed_exit("a1", 3), NOW + 10);
    assert!(!state.agreements["a1"].is_live() && !asks(&state));
}

#[test]
fn condition_decides_what_is_started_again() {
    for (condition, code, is_restarted) in [
        (RestartCondition::Any, 0, true),
        (RestartCondition::OnFailure, 0, false),
        (RestartCondition::OnFailure, 1, true),
        (RestartCondition::None, 1, false),
    ] {
        let mut state = running(Some(rule(condition)));
        exit_alone(&mut state, code, NOW + 10);
        state.apply(Event::Tick, NOW + 15);
        assert_eq!(restarts(&state), is_restarted, "{condition:?} after exit code {code}");
        assert_eq!(state.agreements["a1"].is_live(), is_restarted);
    }
}

#[test]
fn attempts_are_limited_within_their_window_and_continue_the_count_of_the_hub() {
    let limited =
        TaskRestart { max_attempts: 3, window_seconds: 100, attempts: 1, ..rule(RestartCondition::Any) };
    let mut state = running(Some(limited));
    for attempt in [10, 20] {
        exit_alone(&mut state, 1, NOW + attempt);
        run_again(&mut state, NOW + attempt + 5);
    }
    exit_alone(&mut state, 1, NOW + 30);
    assert!(!state.agreements["a1"].is_live(), "one counted before, two now");

    // Old restarts count no longer.
    let mut state = running(Some(limited_to_one_in(50)));
    exit_alone(&mut state, 1, NOW + 10);
    run_again(&mut state, NOW + 15);
    exit_alone(&mut state, 1, NOW + 70);
    run_again(&mut state, NOW + 75);
    exit_alone(&mut state, 1, NOW + 80);
    assert!(!state.agreements["a1"].is_live());
    // The hub counts the restarts before the end is reported to it.
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW + 81);
    let is_end = |command: &Command| matches!(command, Command::ReportTask { report, .. } if report.end.state.is_ended());
    let mut sent = 0;
    let next = |state: &State| state.task_reports().next();
    while let Some(Command::ReportTask { task, report }) = next(&state) {
        assert!(!report.end.state.is_ended(), "{report:?}");
        state.apply(Event::TaskReported { task, seq: report.seq }, NOW + 82);
        sent += 1;
    }
    assert!(sent > 0);
    state.apply(Event::RestartsReported { task: "t1".to_owned(), count: 2 }, NOW + 83);
    assert!(state.plan().iter().any(is_end));
}

fn limited_to_one_in(window_seconds: u64) -> TaskRestart {
    TaskRestart { max_attempts: 1, window_seconds, ..rule(RestartCondition::Any) }
}

#[test]
fn instance_that_ended_with_its_agent_is_started_again_without_the_hub() {
    let mut state = running(Some(rule(RestartCondition::Any)));
    state.observed.clear();
    state.apply(Event::Gone { key: "a1".to_owned() }, NOW + 10);
    state.apply(Event::ContactChecked { is_up: false }, NOW + 11);
    run_again(&mut state, NOW + 15);
    assert!(state.agreements["a1"].is_live());
}

#[test]
fn long_delay_is_no_reason_to_give_the_agreement_up() {
    let slow = TaskRestart { delay_seconds: 300, ..rule(RestartCondition::Any) };
    let mut state = running(Some(slow));
    exit_alone(&mut state, 1, NOW + 10);
    state.apply(Event::Tick, NOW + 200);
    assert!(state.agreements["a1"].is_live() && !restarts(&state));
    state.apply(Event::ContactChecked { is_up: false }, NOW + 310);
    assert!(restarts(&state));
}
