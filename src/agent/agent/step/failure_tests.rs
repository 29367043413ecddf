//! Failures of services in reports to the hub, and their retention.

use super::*;
use crate::step::{Agreement, Command, ContainerState, Event, RunState};

const NOW: u64 = 1_800_000_000;

fn running() -> State {
    let workload = WorkloadName {
        url: "web".to_owned(),
        org: "acme".to_owned(),
        version: "1.0.0".to_owned(),
        arch: "amd64".to_owned(),
    };
    let agreement = Agreement {
        id: "a1".to_owned(),
        workload,
        accepted_at: Some(NOW),
        finalized_at: Some(NOW),
        is_start_ordered: true,
        created_at: NOW,
        ..Agreement::default()
    };
    let mut state = State { node: "acme/edge-1".to_owned(), is_joined: true, ..State::default() };
    state.agreements.insert("a1".to_owned(), agreement);
    state
}

fn observed(run_state: RunState, failures: &Failures) -> Event {
    let container = ContainerState {
        name: "main".to_owned(),
        image: "/bin/false".to_owned(),
        created_at: NOW,
        state: run_state,
        failures: failures.clone(),
    };
    Event::Observed { key: "a1".to_owned(), observation: Observation { containers: vec![container] } }
}

#[test]
fn exits_are_reported_until_the_service_has_recovered() {
    let mut state = running();
    state.apply(observed(RunState::Running, &Failures::default()), NOW);
    assert!(state.status().failures.is_empty());
    let mut failures = Failures::default();
    for at in [NOW + 1, NOW + 2, NOW + 4, NOW + 8] {
        failures.add_exit(at, Some(3), None, vec!["no such table".to_owned()]);
    }
    state.apply(observed(RunState::Restarting, &failures), NOW + 8);
    let reported = state.status();
    let failure = &reported.failures[0];
    assert_eq!((failure.agreement_id.as_str(), failure.container.as_str()), ("a1", "main"));
    assert_eq!((failure.exits, failure.exit_code), (4, Some(3)));
    assert_eq!(failure.recent_exits.len(), 3);
    assert_eq!(failure.text(), "main: exit code 3, 4 exits; last output: no such table");
    assert!(state.plan().contains(&Command::ReportStatus(Box::new(reported))));

    state.apply(observed(RunState::Running, &failures), NOW + 10);
    state.apply(Event::Tick, NOW + 97);
    assert_eq!(state.status().failures.len(), 1);
    state.apply(Event::Tick, NOW + 98);
    assert!(state.status().failures.is_empty(), "it runs well for 90 s");
}

#[test]
fn drivers_error_is_reported_also_after_the_agreement_has_ended() {
    let mut state = running();
    let delayed = |error: &str| Event::ServiceDelayed { key: "a1".to_owned(), error: error.to_owned() };
    state.apply(delayed("engine: connection refused"), NOW);
    assert_eq!(state.status().failures[0].error.as_deref(), Some("engine: connection refused"));
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW + 1);
    assert!(state.status().failures.is_empty(), "it was started after all");

    let error = "image x:1: not found".to_owned();
    state.apply(Event::StartFailed { agreement: "a1".to_owned(), reason: 113, error }, NOW + 2);
    assert!(state.errors[0].message.ends_with("(image x:1: not found)"), "{}", state.errors[0].message);
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW + 3);
    assert_eq!(state.status().failures.len(), 1);
    state.apply(Event::Tick, NOW + 2 + KEPT_SECS);
    assert!(state.status().failures.is_empty());
}

#[test]
fn what_could_not_be_stopped_is_stopped_later() {
    let mut state = State { leftovers: ["a1".to_owned()].into(), ..State::default() };
    assert_eq!(state.plan(), [Command::Stop { agreement: "a1".to_owned() }]);
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    assert!(state.plan().is_empty());
}
