//! The agreement state machine from proposal to archive, and its refusals.

use evenkeel_domain::policy::{NodePolicy, Property};
use evenkeel_wire::exchange::node::RegisteredService;
use evenkeel_wire::{
    agreement::{
        keys::PrivateKey,
        message::{Body, Message, UPDATE_POLICY},
    },
    signature,
};
use serde_json::{Value, json};
use std::sync::LazyLock;

use super::*;

const NODE: &str = "acme/edge-1";
const BOT: &str = "IBM/bot";
const DEPLOYMENT: &str = r#"{"services":{"web":{"command":["/bin/sleep","9"]}}}"#;
pub(super) const NOW: u64 = 1_800_000_000;

/// Generating a key takes long: one serves all tests.
static KEY: LazyLock<(PrivateKey, String)> = LazyLock::new(|| {
    let key = PrivateKey::generate(&mut rand::rng(), 2048).unwrap();
    let signature = signature::sign(DEPLOYMENT, &key, &mut rand::rng()).unwrap();
    (key, signature)
});

/// Signs a deployment with the key that the node trusts.
pub(super) fn signed(text: &str) -> String {
    signature::sign(text, &KEY.0, &mut rand::rng()).unwrap()
}

pub(super) fn policy(text: Value) -> NodePolicy {
    serde_json::from_value(text).unwrap()
}

pub(super) fn node() -> State {
    let mut state = State { node: NODE.to_owned(), ..State::default() };
    state.builtin =
        vec![Property::new("openhorizon.arch", "amd64"), Property::new("openhorizon.memory", 100)].into();
    let facts = NodeFacts {
        policy: policy(json!({"properties": [{"name": "site", "value": "north"}]})),
        ..NodeFacts::default()
    };
    state.apply(Event::Joined(Box::new(facts)), NOW);
    state
}

pub(super) fn terms(name: &str, constraint: &str) -> Value {
    json!({
        "header": {"name": format!("Policy for {NODE} merged with {name}"), "version": "2.0"},
        "agreementProtocols": [{"name": "Basic", "protocolVersion": 1}],
        "workloads": [{"deployment": DEPLOYMENT, "deployment_signature": KEY.1, "workloadUrl": "web",
                       "organization": "acme", "version": "1.0.0", "arch": "amd64"}],
        "constraints": [constraint],
        "properties": [{"name": "kind", "value": "web"}],
    })
}

pub(super) fn producer() -> Value {
    json!({"header": {"name": format!("Policy for {NODE}"), "version": "2.0"},
           "properties": [{"name": "site", "value": "north"}, {"name": "openhorizon.memory", "value": 50}]})
}

pub(super) fn proposal(id: &str, terms: &Value, producer: &Value) -> Event {
    let body = Body::Proposal {
        terms: terms.to_string(),
        producer_policy: producer.to_string(),
        consumer_id: BOT.to_owned(),
    };
    Event::Proposal { from: BOT.to_owned(), message: Message::new(id, body), facts: Box::new(facts()) }
}

/// Returns the facts that the exchange has about the proposed service and the agbot.
pub(super) fn facts() -> ProposalFacts {
    ProposalFacts {
        standing: AgbotStanding::Approved,
        published: Some(PublishedDeployment { text: DEPLOYMENT.to_owned(), signature: KEY.1.clone() }),
        trusted_keys: vec![KEY.0.public_key().unwrap().to_pem()],
        service_id: "acme/web_1.0.0_amd64".to_owned(),
        ..ProposalFacts::default()
    }
}

pub(super) fn message(id: &str, body: Body) -> Event {
    Event::Message { from: BOT.to_owned(), message: Message::new(id, body) }
}

pub(super) fn observed(id: &str, state: RunState) -> Event {
    let container = ContainerState {
        name: "web".to_owned(),
        image: "/bin/sleep".to_owned(),
        created_at: NOW,
        state,
        failures: Failures::default(),
    };
    Event::Observed { key: id.to_owned(), observation: Observation { containers: vec![container] } }
}

/// The observation that the only container of a service has ended.
pub(super) fn observed_exit(id: &str, code: i64) -> Event {
    let Event::Observed { key, mut observation } = observed(id, RunState::Exited) else {
        unreachable!("an observation");
    };
    observation.containers[0].failures.add_exit(NOW, Some(code), None, Vec::new());
    Event::Observed { key, observation }
}

/// Returns the only message waiting for an agreement.
fn waiting(state: &State, id: &str) -> Option<(u64, Body)> {
    let mut found = state.outbox.iter().filter(|(_, message)| message.agreement == id);
    let (number, message) = found.next()?;
    assert!(found.next().is_none(), "more than one message waits");
    Some((*number, Message::parse(&message.text).unwrap().body))
}

/// Sends the waiting messages and returns them.
pub(super) fn send(state: &mut State, id: &str) -> Body {
    let (number, body) = waiting(state, id).expect("a message waits");
    assert!(state.plan().contains(&Command::Send(number)));
    state.apply(Event::Sent { number }, NOW);
    body
}

/// A node with agreement "a1" final and its service running.
pub(super) fn running() -> State {
    let mut state = node();
    state.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    send(&mut state, "a1");
    state.apply(message("a1", Body::ReplyAck { decision: true }), NOW);
    send(&mut state, "a1");
    state.apply(Event::Recorded { agreement: "a1".to_owned(), state: ExchangeState::Final }, NOW);
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW);
    state.apply(observed("a1", RunState::Running), NOW);
    state.apply(message("a1", Body::VerificationReply { exists: true }), NOW);
    state
}

#[test]
fn agreement_goes_from_proposal_to_running_service_and_archive() {
    let mut state = node();
    state.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    assert_eq!(send(&mut state, "a1"), Body::Reply { decision: true, device_id: NODE.to_owned() });
    assert!(
        !state.plan().contains(&Command::Start { agreement: "a1".to_owned() }),
        "not before the acknowledgement"
    );

    state.apply(message("a1", Body::ReplyAck { decision: true }), NOW + 1);
    let agreed = Command::Record { agreement: "a1".to_owned(), state: ExchangeState::Agreed };
    assert!(state.plan().contains(&agreed));
    assert!(state.plan().contains(&Command::Start { agreement: "a1".to_owned() }));
    assert_eq!(send(&mut state, "a1"), Body::Verification);
    let is_final = Command::Record { agreement: "a1".to_owned(), state: ExchangeState::Final };
    assert!(state.plan().contains(&is_final));
    state.apply(Event::Recorded { agreement: "a1".to_owned(), state: ExchangeState::Final }, NOW + 1);
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW + 1);
    state.apply(observed("a1", RunState::Running), NOW + 2);
    let status = state.status();
    assert_eq!(status.services[0].container_status.as_ref().unwrap()[0].state.as_deref(), Some("running"));
    assert_eq!(status.services[0].agreement_id.as_deref(), Some("a1"));
    assert_eq!(state.used_services()[0].url, "acme/web");
    assert!(state.plan().contains(&Command::ReportStatus(Box::new(status))));

    state.apply(message("a1", Body::Cancel { reason: 204 }), NOW + 3);
    assert!(state.plan().contains(&Command::Stop { agreement: "a1".to_owned() }));
    let absent = Command::Record { agreement: "a1".to_owned(), state: ExchangeState::Absent };
    assert!(state.plan().contains(&absent));
    assert_eq!(waiting(&state, "a1"), None, "the agbot that requested the end is not notified");
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW + 4);
    state.apply(Event::Recorded { agreement: "a1".to_owned(), state: ExchangeState::Absent }, NOW + 4);
    assert!(state.is_idle());
    assert!(state.status().services.is_empty());
}

#[test]
fn invalid_proposals_are_dropped_without_a_reply() {
    let good = terms("web", "site == north");
    let mut unsigned = good.clone();
    unsigned["workloads"][0]["deployment"] = json!(r#"{"services":{"web":{"command":["/bin/evil"]}}}"#);
    let mut no_workload = good.clone();
    no_workload["workloads"] = json!([]);
    let mut pattern = good.clone();
    pattern["patternId"] = json!("acme/p");
    let mut protocol = good.clone();
    protocol["agreementProtocols"] = json!([{"name": "Citizen"}]);
    for bad in [unsigned, no_workload, pattern, protocol] {
        let mut state = node();
        state.apply(proposal("a1", &bad, &producer()), NOW);
        assert!(state.agreements.is_empty() && state.outbox.is_empty(), "{bad}");
    }
    let mut state = node();
    state.apply(proposal("../../etc", &good, &producer()), NOW);
    let Event::Proposal { message, facts, .. } = proposal("a1", &good, &producer()) else { unreachable!() };
    state.apply(Event::Proposal { from: "IBM/other".to_owned(), message, facts }, NOW);
    assert!(state.agreements.is_empty() && state.outbox.is_empty(), "the sender lies about its id");
}

#[test]
fn second_proposal_with_the_same_terms_or_id_changes_nothing() {
    let mut state = running();
    let before = state.agreements.clone();
    state.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    state.apply(proposal("a2", &terms("web", "site == north"), &producer()), NOW);
    assert_eq!(state.agreements, before);
    assert!(state.outbox.is_empty());
}

#[test]
fn unsuitable_proposals_are_refused_with_a_reply() {
    let fits = producer();
    let mut other_node = producer();
    other_node["header"]["name"] = json!("Policy for acme/edge-2");
    let mut wrong_site = producer();
    wrong_site["properties"][0]["value"] = json!("south");
    let mut demanding = producer();
    demanding["constraints"] = json!(["kind == database"]);
    let north = terms("web", "site == north");
    let cases = [
        (terms("web", "site == south"), &fits),
        (terms("web", "missing != x"), &fits),
        (north.clone(), &other_node),
        (north.clone(), &wrong_site),
        (north, &demanding),
    ];
    for (terms, producer) in cases {
        let mut state = node();
        state.apply(proposal("a1", &terms, producer), NOW);
        assert!(state.agreements.is_empty());
        assert_eq!(send(&mut state, "a1"), Body::Reply { decision: false, device_id: NODE.to_owned() });
    }
}

#[test]
fn machines_own_properties_count_whatever_the_agbot_saw() {
    let mut state = node();
    state.apply(proposal("a1", &terms("web", "openhorizon.memory >= 100"), &producer()), NOW);
    assert!(state.agreements.contains_key("a1"));
}

#[test]
fn membership_known_to_the_hub_first_is_no_conflict() {
    let mut state = node();
    state.facts.ha_group = Some("old".to_owned());
    let mut producer = producer();
    producer["properties"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "openhorizon.hagroup", "value": "new"}));
    state.apply(proposal("a1", &terms("web", "openhorizon.hagroup == new"), &producer), NOW);
    assert!(state.agreements.contains_key("a1"));
}

#[test]
fn agreement_that_no_longer_fits_the_node_ends_with_101_and_a_fitting_one_stays() {
    let mut state = running();
    let same = NodeFacts { ha_group: Some("g".to_owned()), ..state.facts.clone() };
    state.apply(Event::Joined(Box::new(same)), NOW);
    assert_eq!(state.live().count(), 1, "joining a group ends nothing");
    let moved = NodeFacts {
        policy: policy(json!({"properties": [{"name": "site", "value": "south"}]})),
        ..NodeFacts::default()
    };
    state.apply(Event::Joined(Box::new(moved)), NOW);
    assert_eq!(waiting(&state, "a1").unwrap().1, Body::Cancel { reason: 101 });
}

#[test]
fn suspended_service_ends_with_119_and_is_not_taken_again() {
    let mut state = running();
    let service = RegisteredService {
        url: "acme/web".to_owned(),
        config_state: "suspended".to_owned(),
        ..RegisteredService::default()
    };
    let facts = NodeFacts { registered: vec![service], ..state.facts.clone() };
    state.apply(Event::Joined(Box::new(facts)), NOW);
    assert_eq!(waiting(&state, "a1").unwrap().1, Body::Cancel { reason: 119 });
    assert_eq!(state.used_services()[0].config_state, "suspended");
    state.apply(proposal("a2", &terms("web", "site == north"), &producer()), NOW);
    assert_eq!(waiting(&state, "a2").unwrap().1, Body::Reply { decision: false, device_id: NODE.to_owned() });
}

#[test]
fn new_version_starts_only_after_the_old_one_is_gone() {
    let mut state = running();
    state.apply(message("a1", Body::Cancel { reason: 204 }), NOW);
    state.apply(proposal("a2", &terms("web", "site == north"), &producer()), NOW);
    send(&mut state, "a2");
    state.apply(message("a2", Body::ReplyAck { decision: true }), NOW);
    let start = Command::Start { agreement: "a2".to_owned() };
    assert!(!state.plan().contains(&start));
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    assert!(state.plan().contains(&start));
}

#[test]
fn messages_of_others_about_an_agreement_are_dropped() {
    let mut state = running();
    let cancel = Message::new("a1", Body::Cancel { reason: 204 });
    state.apply(Event::Message { from: "IBM/other".to_owned(), message: cancel }, NOW);
    assert_eq!(state.live().count(), 1);
    let request = Message::new("a1", Body::Verification);
    state.apply(Event::Message { from: "IBM/other".to_owned(), message: request }, NOW);
    assert!(state.outbox.is_empty());
}

#[test]
fn verifications_get_the_right_reply() {
    let mut state = running();
    state.apply(message("a1", Body::Verification), NOW);
    assert_eq!(send(&mut state, "a1"), Body::VerificationReply { exists: true });
    state.apply(message("zz", Body::Verification), NOW);
    assert_eq!(send(&mut state, "zz"), Body::VerificationReply { exists: false });
    state.apply(message("a1", Body::VerificationReply { exists: false }), NOW);
    assert_eq!(waiting(&state, "a1").unwrap().1, Body::Cancel { reason: 106 });
}

#[test]
fn unanswered_verifications_are_repeated_and_then_end_the_agreement_with_122() {
    let mut state = running();
    state.apply(Event::Reconnected, NOW);
    let mut now = NOW;
    let mut count = 0;
    while state.live().count() == 1 {
        let (number, body) = waiting(&state, "a1").expect("a verification waits");
        assert_eq!(body, Body::Verification);
        state.apply(Event::Sent { number }, now);
        count += 1;
        now += VERIFY_AGAIN_SECS;
        state.apply(Event::Tick, now);
        assert!(count < 20, "it continues forever");
    }
    assert_eq!(count, MOST_UNANSWERED + 1);
    assert_eq!(waiting(&state, "a1").unwrap().1, Body::Cancel { reason: 122 });
}

#[test]
fn what_takes_too_long_is_given_up_with_its_reason() {
    let mut silent = node();
    silent.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    silent.apply(Event::Tick, NOW + 359);
    assert_eq!(silent.live().count(), 1);
    silent.apply(Event::Tick, NOW + 360);
    assert_eq!(waiting(&silent, "a1").unwrap().1, Body::Cancel { reason: 107 });

    let mut slow = node();
    slow.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    send(&mut slow, "a1");
    slow.apply(message("a1", Body::ReplyAck { decision: true }), NOW);
    send(&mut slow, "a1");
    slow.apply(message("a1", Body::VerificationReply { exists: true }), NOW);
    slow.apply(observed("a1", RunState::Restarting), NOW + 1);
    slow.apply(Event::Tick, NOW + START_LIMIT_SECS);
    assert_eq!(waiting(&slow, "a1").unwrap().1, Body::Cancel { reason: 104 });

    let mut down = running();
    down.apply(observed("a1", RunState::Restarting), NOW + 10);
    down.apply(Event::Tick, NOW + 10 + DOWN_LIMIT_SECS - 1);
    assert_eq!(down.live().count(), 1);
    down.apply(Event::Tick, NOW + 10 + DOWN_LIMIT_SECS);
    assert_eq!(waiting(&down, "a1").unwrap().1, Body::Cancel { reason: 103 });
}

#[test]
fn new_terms_are_taken_without_a_restart_and_other_updates_are_refused() {
    let mut state = running();
    let update = |update_type: &str, metadata| {
        message("a1", Body::Update { update_type: update_type.to_owned(), metadata: Some(metadata) })
    };
    state.apply(update(UPDATE_POLICY, terms("web", "site != south")), NOW);
    let reply = Body::UpdateReply { update_type: UPDATE_POLICY.to_owned(), accepted: true };
    assert_eq!(send(&mut state, "a1"), reply);
    assert!(state.agreements["a1"].terms.contains("site != south"));
    assert!(
        !state.plan().iter().any(|command| matches!(command, Command::Start { .. } | Command::Stop { .. }))
    );
    state.apply(update("other", json!({})), NOW);
    assert_eq!(
        send(&mut state, "a1"),
        Body::UpdateReply { update_type: "other".to_owned(), accepted: false }
    );
}

#[test]
fn node_that_is_being_unregistered_refuses_proposals() {
    let mut state = node();
    state.apply(Event::CancelRequested { agreement: None, reason: 116 }, NOW);
    state.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    assert!(state.agreements.is_empty());
    assert_eq!(send(&mut state, "a1"), Body::Reply { decision: false, device_id: NODE.to_owned() });
}

#[test]
fn deleted_node_stops_its_services_and_sends_nothing() {
    let mut state = running();
    state.apply(Event::Deleted, NOW);
    let commands = state.plan();
    assert!(commands.contains(&Command::Stop { agreement: "a1".to_owned() }));
    assert!(!commands.iter().any(|command| matches!(command, Command::Send(_) | Command::Record { .. })));
}

#[test]
fn after_a_restart_nothing_is_reported_before_the_services_were_seen() {
    let text = serde_json::to_string(&running()).unwrap();
    let mut state: State = serde_json::from_str(&text).unwrap();
    assert!(state.plan().is_empty(), "nothing is done before the hub was heard");
    let facts = NodeFacts { policy: running().facts.policy, ..NodeFacts::default() };
    state.apply(Event::Joined(Box::new(facts)), NOW);
    assert!(!state.plan().iter().any(|command| matches!(command, Command::ReportStatus(_))));
    state.apply(observed("a1", RunState::Running), NOW);
    assert!(state.plan().iter().any(|command| matches!(command, Command::ReportStatus(_))));
}

/// Begins the reports that are due, of which some match, and loses their outcomes: they may have been recorded.
fn lose_reports(state: &mut State, matches: fn(&Command) -> bool) {
    let commands = state.plan();
    assert!(commands.iter().any(matches), "{commands:?}");
    state.begin_reports(&commands);
    // The journal is written in between.
    let text = serde_json::to_string(&state).unwrap();
    let saved: State = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&saved).unwrap(), text);
}

#[test]
fn status_is_reported_again_after_a_lost_report_although_it_has_changed_back() {
    let mut state = running();
    let empty = PutNodeStatus::default();
    state.apply(Event::StatusReported(Box::new(empty.clone())), NOW);
    lose_reports(&mut state, |command| matches!(command, Command::ReportStatus(_)));
    state.apply(message("a1", Body::Cancel { reason: 204 }), NOW);
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    assert_eq!(state.status(), empty, "nothing runs, as before the report that was lost");
    assert!(state.plan().contains(&Command::ReportStatus(Box::new(empty.clone()))));
    state.apply(Event::StatusReported(Box::new(empty)), NOW);
    assert!(!state.plan().iter().any(|command| matches!(command, Command::ReportStatus(_))));
}

#[test]
fn record_of_an_agreement_is_removed_also_when_it_is_not_known_whether_it_was_written() {
    let mut state = node();
    state.apply(proposal("a1", &terms("web", "site == north"), &producer()), NOW);
    send(&mut state, "a1");
    state.apply(message("a1", Body::ReplyAck { decision: true }), NOW);
    lose_reports(&mut state, |command| matches!(command, Command::Record { .. }));
    state.apply(message("a1", Body::Cancel { reason: 201 }), NOW);
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    let removal = Command::Record { agreement: "a1".to_owned(), state: ExchangeState::Absent };
    assert!(!state.agreements["a1"].is_archived() && state.plan().contains(&removal));
    state.apply(Event::Recorded { agreement: "a1".to_owned(), state: ExchangeState::Absent }, NOW);
    assert!(state.agreements["a1"].is_archived() && !state.plan().contains(&removal));
}

#[test]
fn old_agreements_are_forgotten_but_never_live_ones() {
    let mut state = running();
    for number in 0..100 {
        let id = format!("old-{number}");
        state.apply(proposal(&id, &terms(&id, "site == north"), &producer()), NOW + number);
        state.apply(message(&id, Body::Cancel { reason: 201 }), NOW + number);
    }
    assert_eq!(state.agreements.len(), MOST_ARCHIVED + 1);
    assert!(state.agreements.contains_key("a1") && state.agreements.contains_key("old-99"));
}

#[test]
fn engine_that_does_not_respond_is_an_error_of_the_node_until_it_does() {
    let mut state = running();
    state.apply(Event::EngineSeen { lack: Some("no engine") }, NOW);
    state.apply(Event::EngineSeen { lack: Some("no engine") }, NOW + 1);
    let errors = state.errors.clone();
    assert_eq!((errors.len(), errors[0].code.as_str(), errors[0].at), (1, "error_container_engine", NOW));
    assert!(state.plan().contains(&Command::ReportErrors(errors.clone())));
    state.apply(Event::ErrorsReported(errors), NOW);
    state.apply(Event::Tick, NOW + 3600);
    assert_eq!(state.errors.len(), 1);
    state.apply(Event::EngineSeen { lack: None }, NOW + 3601);
    assert!(state.plan().contains(&Command::ReportErrors(Vec::new())));
}

#[test]
fn error_is_shown_until_the_service_runs_well_for_a_while() {
    let mut state = running();
    state.apply(
        Event::StartFailed { agreement: "a1".to_owned(), reason: 113, error: "no such image".to_owned() },
        NOW,
    );
    assert_eq!(state.errors[0].code, "error_image_load");
    let errors = state.errors.clone();
    assert!(state.plan().contains(&Command::ReportErrors(errors.clone())));
    state.apply(Event::ErrorsReported(errors), NOW);

    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    state.apply(proposal("a2", &terms("web", "site == north"), &producer()), NOW);
    send(&mut state, "a2");
    state.apply(message("a2", Body::ReplyAck { decision: true }), NOW);
    send(&mut state, "a2");
    state.apply(message("a2", Body::VerificationReply { exists: true }), NOW);
    state.apply(observed("a2", RunState::Running), NOW);
    state.apply(Event::Tick, NOW + 89);
    assert_eq!(state.errors.len(), 1);
    state.apply(Event::Tick, NOW + 90);
    assert!(state.plan().contains(&Command::ReportErrors(Vec::new())));
}
