//! Leases: what starts, what is reported, and what is killed.

use evenkeel_domain::orchestration::DesiredState;
use evenkeel_wire::exchange::node_task::NodeTask;
use evenkeel_wire::exchange::task_health::TaskSupervision;

use super::*;
use crate::step::tests::{NOW, message, node, observed, producer, proposal, send, terms};
use crate::step::{Event, ExchangeState, RunState};
use evenkeel_wire::agreement::message::Body;

const LEASE: u32 = 60;

/// The task `t1` with a lease, whose agreement `a1` is prepared.
fn prepared() -> State {
    let mut state = node();
    let task = NodeTask {
        task_id: "t1".to_owned(),
        agreement_id: Some("a1".to_owned()),
        desired_state: DesiredState::Running,
        supervision: TaskSupervision { lease_seconds: Some(LEASE), ..TaskSupervision::default() },
        ..NodeTask::default()
    };
    state.apply(Event::TasksRead(vec![task]), NOW);
    state.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    send(&mut state, "a1");
    state.apply(message("a1", Body::ReplyAck { decision: true }), NOW);
    send(&mut state, "a1");
    state.apply(Event::Recorded { agreement: "a1".to_owned(), state: ExchangeState::Final }, NOW);
    state.apply(Event::Prepared { agreement: "a1".to_owned() }, NOW);
    state
}

fn confirm(state: &mut State, leases: &[(&str, u32)], killed: &[&str]) {
    let leases = leases.iter().map(|(task, secs)| ((*task).to_owned(), *secs)).collect();
    let killed = killed.iter().map(|task| (*task).to_owned()).collect();
    state.apply(Event::Guarded { guard: Guard::Confirmed(leases), killed }, NOW);
}

fn running() -> State {
    let mut state = prepared();
    confirm(&mut state, &[("t1", LEASE)], &[]);
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW);
    state.apply(Event::RestartsSet { agreement: "a1".to_owned(), restarts: false }, NOW);
    state.apply(observed("a1", RunState::Running), NOW);
    state
}

fn starts(state: &State) -> bool {
    state.plan().contains(&Command::Start { agreement: "a1".to_owned() })
}

fn reported(state: &State) -> bool {
    state.plan().contains(&Command::ReportLease { task: "t1".to_owned(), lease_secs: LEASE })
}

#[test]
fn task_with_a_lease_starts_when_the_guardian_knows_it() {
    let mut state = prepared();
    let known = LeasedTask { task: "t1".to_owned(), keys: vec!["a1".to_owned()], lease_secs: LEASE };
    assert_eq!(state.leases(), [known], "the guardian hears of it before anything runs");
    assert!(!starts(&state) && !reported(&state));
    confirm(&mut state, &[], &[]);
    assert!(!starts(&state) && !reported(&state), "it has confirmed others");
    confirm(&mut state, &[("t1", LEASE + 1)], &[]);
    assert!(!starts(&state), "the length has changed");
    confirm(&mut state, &[("t1", LEASE)], &[]);
    assert!(starts(&state) && reported(&state));
    state.apply(Event::LeaseReported { task: "t1".to_owned(), lease_secs: LEASE }, NOW);
    assert!(!reported(&state));
}

#[test]
fn without_a_guardian_the_task_runs_and_no_lease_is_reported() {
    let mut state = prepared();
    state.apply(Event::Guarded { guard: Guard::Absent, killed: Vec::new() }, NOW);
    assert!(starts(&state) && !reported(&state));
}

#[test]
fn nothing_starts_that_another_node_may_run_by_now() {
    let mut state = prepared();
    confirm(&mut state, &[("t1", LEASE)], &[]);
    state.apply(Event::Silent { secs: u64::from(LEASE) }, NOW);
    assert!(!starts(&state));
    state.apply(Event::Silent { secs: 1 }, NOW);
    assert!(starts(&state), "the hub was heard again");
}

#[test]
fn silence_kills_the_task_and_ends_its_lease() {
    let mut state = running();
    state.apply(Event::Silent { secs: u64::from(LEASE) - 1 }, NOW);
    assert!(state.agreements["a1"].is_live());
    state.apply(Event::Silent { secs: u64::from(LEASE) }, NOW);
    assert!(state.plan().contains(&Command::Kill { agreement: "a1".to_owned() }));
    assert_eq!(state.leases().len(), 1, "the guardian enforces it until it has stopped");
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    assert_eq!(state.leases(), []);
    let end = state.tasks["t1"].reports.back().expect("a report").end.clone();
    assert_eq!(end.state, TaskState::Failed);
    assert!(end.error.expect("an error").starts_with("fenced: "));
}

#[test]
fn task_that_the_guardian_has_killed_ends_although_the_hub_is_heard_again() {
    let mut state = running();
    confirm(&mut state, &[("t1", LEASE)], &["t1"]);
    assert!(!state.agreements["a1"].is_live());
    assert!(state.plan().contains(&Command::Kill { agreement: "a1".to_owned() }));
}
