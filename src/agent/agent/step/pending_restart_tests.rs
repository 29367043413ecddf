//! A hub that is lost between the report of an end and the restart.

use evenkeel_domain::orchestration::{DesiredState, RestartCondition, TaskState};
use evenkeel_wire::agreement::message::Body;
use evenkeel_wire::exchange::node_task::NodeTask;
use evenkeel_wire::exchange::task_health::{TaskRestart, TaskSupervision};

use super::*;
use crate::step::own_restart::tests::{asks, restarts, rule, running};
use crate::step::tests::{NOW, message, observed, observed_exit, producer, proposal, send, terms};
use crate::step::{Command, Event, ExchangeState, RunState};

/// The delay of the restart rule.
const DELAY: u64 = 5;
/// When the instance ended.
const END: u64 = NOW + 10;

fn task(id: &str, desired: DesiredState, slot: Option<i64>) -> NodeTask {
    let restart = Some(rule(RestartCondition::Any));
    NodeTask {
        task_id: id.to_owned(),
        agreement_id: Some(id.replace('t', "a")),
        desired_state: desired,
        slot,
        supervision: TaskSupervision { restart, ..TaskSupervision::default() },
        ..NodeTask::default()
    }
}

/// Its instance has ended, and the hub has recorded that.
fn ended(slot: Option<i64>, rule: TaskRestart) -> State {
    let mut state = running(Some(rule.clone()));
    let mut first = task("t1", DesiredState::Running, slot);
    first.supervision.restart = Some(rule);
    state.apply(Event::TasksRead(vec![first]), NOW);
    state.apply(observed_exit("a1", 3), END);
    state.apply(Event::ContactChecked { is_up: true }, END);
    assert!(!state.agreements["a1"].is_live(), "the hub decides");
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, END + 1);
    for seq in 1..=state.tasks["t1"].seq {
        state.apply(Event::TaskReported { task: "t1".to_owned(), seq }, END + 1);
    }
    assert_eq!(state.tasks["t1"].state, TaskState::Failed);
    state
}

fn ended_task(slot: Option<i64>) -> State {
    ended(slot, rule(RestartCondition::Any))
}

/// The hub has ordered the restart: the next task waits for the delay.
fn restart_ordered(slot: Option<i64>) -> State {
    let mut state = ended_task(slot);
    let tasks = vec![task("t1", DesiredState::Shutdown, slot), task("t2", DesiredState::Ready, slot)];
    state.apply(Event::TasksRead(tasks), END + 2);
    state
}

fn accept_next(state: &mut State) {
    state.apply(proposal("a2", &terms("web", "site == north"), &producer()), END + 2);
    send(state, "a2");
    state.apply(message("a2", Body::ReplyAck { decision: true }), END + 2);
    send(state, "a2");
    state.apply(Event::Recorded { agreement: "a2".to_owned(), state: ExchangeState::Final }, END + 2);
    state.apply(Event::Prepared { agreement: "a2".to_owned() }, END + 2);
}

/// Makes the hub unreachable from this time until the delay is over. Returns the end of the delay.
fn lose_contact(state: &mut State, from: u64) -> u64 {
    state.apply(Event::Tick, from);
    assert!(asks(state), "the contact is checked while a restart is pending");
    state.apply(Event::ContactChecked { is_up: false }, from);
    assert!(!restarts(state), "the delay is not over");
    state.apply(Event::ContactChecked { is_up: false }, from + DELAY - 1);
    assert!(!restarts(state));
    state.apply(Event::ContactChecked { is_up: false }, from + DELAY);
    from + DELAY
}

fn starts_next(state: &State) -> bool {
    state.plan().contains(&Command::Start { agreement: "a2".to_owned() })
}

fn run_again(state: &mut State, at: u64) {
    assert!(restarts(state));
    state.apply(Event::Restarted { agreement: "a1".to_owned() }, at);
    state.apply(observed("a1", RunState::Running), at);
    assert!(!asks(state) && !restarts(state));
}

#[test]
fn hub_lost_before_it_has_ordered_the_restart_is_replaced_by_the_node() {
    let mut state = ended_task(None);
    let at = lose_contact(&mut state, END + 3);
    run_again(&mut state, at);
    let counted = state.tasks["t1"].restarts.clone();
    assert_eq!(counted.count, 1);
    assert!(state.plan().contains(&Command::ReportRestarts { task: "t1".to_owned(), restarts: counted }));
}

#[test]
fn slot_with_a_number_may_have_gone_to_another_node() {
    let mut state = ended_task(Some(1));
    state.apply(Event::Tick, END + 3);
    assert!(!asks(&state));
    state.apply(Event::ContactChecked { is_up: false }, END + 3);
    state.apply(Event::ContactChecked { is_up: false }, END + 60);
    assert!(!restarts(&state));
    // Once the hub has ordered the restart, it has not.
    let mut state = restart_ordered(Some(1));
    let at = lose_contact(&mut state, END + 3);
    run_again(&mut state, at);
}

#[test]
fn next_task_without_agreement_waits_until_the_instance_that_the_node_started_has_stopped() {
    let mut state = restart_ordered(None);
    let at = lose_contact(&mut state, END + 3);
    run_again(&mut state, at);
    // It ends once more before the hub is back.
    state.apply(observed_exit("a1", 3), at + 10);
    state.apply(Event::ContactChecked { is_up: false }, at + 10);
    state.apply(Event::Tick, at + 15);
    run_again(&mut state, at + 15);
    let tasks = vec![task("t1", DesiredState::Shutdown, None), task("t2", DesiredState::Running, None)];
    state.apply(Event::TasksRead(tasks), at + 60);
    assert!(state.plan().contains(&Command::Stop { agreement: "a1".to_owned() }));
    accept_next(&mut state);
    assert!(!starts_next(&state));
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, at + 62);
    assert!(starts_next(&state) && !restarts(&state));
}

#[test]
fn next_task_with_its_agreement_is_started_by_the_node() {
    let mut state = restart_ordered(Some(1));
    accept_next(&mut state);
    assert!(!starts_next(&state));
    let at = lose_contact(&mut state, END + 3);
    assert!(starts_next(&state) && !restarts(&state));
    state.apply(Event::Started { agreement: "a2".to_owned() }, at);
    state.apply(observed("a2", RunState::Running), at);
    assert!(!asks(&state) && state.tasks["t1"].pending_restart.is_none());
}

#[test]
fn hub_that_is_back_in_time_restarts_itself() {
    let mut state = ended_task(None);
    state.apply(Event::ContactChecked { is_up: false }, END + 3);
    state.apply(Event::ContactChecked { is_up: true }, END + 6);
    state.apply(Event::ContactChecked { is_up: false }, END + 9);
    assert!(!restarts(&state), "counted from the last contact");
    state.apply(Event::ContactChecked { is_up: false }, END + 14);
    assert!(restarts(&state));
}

#[test]
fn node_does_not_restart_what_the_hub_does_not_restart() {
    let is_left = |mut state: State| {
        state.apply(Event::ContactChecked { is_up: false }, END + 3);
        state.apply(Event::ContactChecked { is_up: false }, END + 60);
        !restarts(&state) && !asks(&state)
    };
    // A user has stopped it.
    let mut state = ended_task(None);
    state.apply(Event::TasksRead(vec![task("t1", DesiredState::Shutdown, None)]), END + 2);
    assert!(is_left(state));
    // The rule wants no restart, or its attempts are used up.
    assert!(is_left(ended(None, rule(RestartCondition::None))));
    let used_up = TaskRestart { max_attempts: 1, attempts: 1, ..rule(RestartCondition::Any) };
    assert!(is_left(ended(None, used_up)));
    // Another node may have it.
    let mut state = ended_task(None);
    let mut leased = task("t1", DesiredState::Running, None);
    leased.supervision.lease_seconds = Some(60);
    state.apply(Event::TasksRead(vec![leased]), END + 2);
    assert!(is_left(state));
    // The hub no longer has the task.
    let mut state = ended_task(None);
    state.apply(Event::TasksRead(Vec::new()), END + 2);
    assert!(is_left(state));
}
