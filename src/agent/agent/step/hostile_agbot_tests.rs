//! Proposals and tasks of a malicious agbot, which only the agent can refuse.

use evenkeel_wire::agreement::message::{Body, Message, UPDATE_POLICY};
use evenkeel_wire::exchange::node_task::NodeTask;
use serde_json::{Value, json};

use super::tests::{NOW, facts, node, policy, producer, proposal, signed, terms};
use super::*;

/// Returns the outcome of a proposal: its reply, or `None` without one.
fn reply(state: &mut State, event: Event) -> Option<bool> {
    state.apply(event, NOW);
    let mut bodies = state.outbox.values().map(|sent| Message::parse(&sent.text).unwrap().body);
    bodies.next_back().map(|body| matches!(body, Body::Reply { decision: true, .. }))
}

fn with_facts(mut event: Event, change: impl FnOnce(&mut ProposalFacts)) -> Event {
    let Event::Proposal { facts, .. } = &mut event else { unreachable!("a proposal") };
    change(facts);
    event
}

fn restricted(constraint: &str) -> State {
    let mut state = node();
    let facts = NodeFacts {
        policy: policy(
            json!({"properties": [{"name": "site", "value": "north"}], "constraints": [constraint]}),
        ),
        ..NodeFacts::default()
    };
    state.apply(Event::Joined(Box::new(facts)), NOW);
    state
}

#[test]
fn proposal_that_the_constraints_of_the_node_exclude_is_refused_whatever_it_says_of_them() {
    let allowed = terms("web", "site == north");
    assert_eq!(reply(&mut restricted("kind == web"), proposal("a1", &allowed, &producer())), Some(true));
    // The producer policy in the proposal has no constraints: the agbot wrote it.
    assert_eq!(
        reply(&mut restricted("kind == database"), proposal("a1", &allowed, &producer())),
        Some(false)
    );
}

#[test]
fn proposal_for_nodes_with_other_properties_is_refused_whatever_it_says_of_them() {
    let mut invented = producer();
    invented["properties"].as_array_mut().unwrap().push(json!({"name": "rack", "value": "7"}));
    assert_eq!(reply(&mut node(), proposal("a1", &terms("web", "rack == 7"), &invented)), Some(false));
}

#[test]
fn agbot_that_the_exchange_does_not_name_gets_no_reply() {
    let event = || proposal("a1", &terms("web", "site == north"), &producer());
    let standing = |standing| move |facts: &mut ProposalFacts| facts.standing = standing;
    assert_eq!(reply(&mut node(), with_facts(event(), standing(AgbotStanding::NotApproved))), None);
    assert_eq!(reply(&mut node(), with_facts(event(), standing(AgbotStanding::Approved))), Some(true));
    // A third-party exchange names none: agbots of the shared organization count.
    assert_eq!(reply(&mut node(), with_facts(event(), standing(AgbotStanding::Unknown))), Some(true));
    let mut foreign = with_facts(event(), standing(AgbotStanding::Unknown));
    if let Event::Proposal { from, message, .. } = &mut foreign {
        "globex/bot".clone_into(from);
        let Body::Proposal { consumer_id, .. } = &mut message.body else { unreachable!("a proposal") };
        "globex/bot".clone_into(consumer_id);
    }
    assert_eq!(reply(&mut node(), foreign), None);
}

#[test]
fn facts_that_cannot_be_read_are_the_reason_why_a_proposal_is_ignored() {
    let event = proposal("a1", &terms("web", "site == north"), &producer());
    let unreadable = Some("requiredServices is no list".to_owned());
    let event = with_facts(event, |facts| *facts = ProposalFacts { unreadable, ..ProposalFacts::default() });
    let mut state = node();
    let note = state.apply(event, NOW).note.unwrap_or_default();
    assert!(note.contains("is ignored") && note.contains("requiredServices is no list"), "{note}");
    assert!(!note.contains("approved"), "{note}");
    assert!(state.outbox.is_empty());
}

#[test]
fn deployment_that_is_not_the_published_one_is_refused_although_a_trusted_key_signed_it() {
    let other = r#"{"services":{"web":{"command":["/bin/sh","-c","id"]}}}"#;
    let mut changed = terms("web", "site == north");
    changed["workloads"][0]["deployment"] = json!(other);
    let signature = signed(other);
    changed["workloads"][0]["deployment_signature"] = json!(signature);
    assert_eq!(reply(&mut node(), proposal("a1", &changed, &producer())), Some(false));
    let published = PublishedDeployment { text: other.to_owned(), signature };
    let event = with_facts(proposal("a1", &changed, &producer()), |facts| facts.published = Some(published));
    assert_eq!(
        reply(&mut node(), event),
        Some(true),
        "with the same text it is the deployment that differed"
    );
    let event = proposal("a1", &terms("web", "site == north"), &producer());
    assert_eq!(reply(&mut node(), with_facts(event, |facts| facts.published = None)), Some(false));
}

/// A proposal of a deployment, for a node that allows privileged services or not.
fn privileged(deployment: &str, is_allowed: bool) -> Option<bool> {
    let mut wanted = terms("web", "site == north");
    wanted["workloads"][0]["deployment"] = json!(deployment);
    let signature = signed(deployment);
    wanted["workloads"][0]["deployment_signature"] = json!(signature);
    let published = PublishedDeployment { text: deployment.to_owned(), signature };
    let mut state = node();
    let allowing = json!({"properties": [
        {"name": "site", "value": "north"}, {"name": "openhorizon.allowPrivileged", "value": is_allowed},
    ]});
    state.apply(Event::Joined(Box::new(NodeFacts { policy: policy(allowing), ..NodeFacts::default() })), NOW);
    reply(
        &mut state,
        with_facts(proposal("a1", &wanted, &producer()), |facts| facts.published = Some(published)),
    )
}

#[test]
fn service_that_needs_privileges_runs_only_where_the_node_allows_them() {
    for deployment in [
        r#"{"services":{"web":{"image":"x","privileged":true}}}"#,
        r#"{"services":{"web":{"image":"x","network":"host"}}}"#,
    ] {
        assert_eq!(privileged(deployment, false), Some(false), "{deployment}");
        assert_eq!(privileged(deployment, true), Some(true), "{deployment}");
    }
    assert_eq!(privileged(r#"{"services":{"web":{"image":"x"}}}"#, false), Some(true));
}

#[test]
fn dependency_that_needs_privileges_is_refused_like_the_service_itself() {
    let text = r#"{"services":{"db":{"image":"x","privileged":true}}}"#;
    let dependency = Dependency { deployment: text.to_owned(), ..Dependency::default() };
    let needed = DependencyFacts { dependency, signature: signed(text), trusted_keys: facts().trusted_keys };
    let event = proposal("a1", &terms("web", "site == north"), &producer());
    let event = with_facts(event, |facts| facts.dependencies = vec![needed]);
    assert_eq!(reply(&mut node(), event), Some(false));
}

#[test]
fn node_with_a_pattern_runs_the_services_of_the_pattern_only() {
    let mut wanted = terms("web", "");
    wanted["patternId"] = json!("acme/gate");
    wanted["constraints"] = json!([]);
    let with_services = |names: &[&str]| {
        let services = names.iter().map(|name| ("acme".to_owned(), (*name).to_owned())).collect();
        let mut state = node();
        state.facts.pattern = "acme/gate".to_owned();
        let event = proposal("a1", &wanted, &producer());
        reply(&mut state, with_facts(event, |facts| facts.pattern_services = Some(services)))
    };
    assert_eq!(with_services(&["web"]), Some(true));
    assert_eq!(with_services(&["camera"]), Some(false));
}

#[test]
fn terms_are_not_updated_to_what_the_node_excludes() {
    let mut state = super::tests::running();
    let before = state.agreements["a1"].terms.clone();
    let update = |terms: &Value| {
        let body =
            Body::Update { update_type: UPDATE_POLICY.to_owned(), metadata: Some(json!(terms.to_string())) };
        super::tests::message("a1", body)
    };
    state.apply(update(&terms("web", "rack == 7")), NOW);
    assert_eq!(state.agreements["a1"].terms, before);
    let mut fitting = terms("web", "site == north");
    fitting["properties"][0]["name"] = json!("sort");
    state.apply(update(&fitting), NOW);
    assert_ne!(state.agreements["a1"].terms, before);
}

#[test]
fn task_of_another_agbot_ends_no_agreement() {
    let task = |agbot: &str| NodeTask {
        task_id: "t1".to_owned(),
        agbot: Some(agbot.to_owned()),
        agreement_id: Some("a1".to_owned()),
        desired_state: evenkeel_domain::orchestration::DesiredState::Shutdown,
        ..NodeTask::default()
    };
    let mut state = super::tests::running();
    let outcome = state.apply(Event::TasksRead(vec![task("acme/other")]), NOW);
    assert!(outcome.note.unwrap().contains("acme/other"));
    assert!(state.agreements["a1"].is_live());
    state.apply(Event::TasksRead(vec![task("IBM/bot")]), NOW);
    assert!(!state.agreements["a1"].is_live(), "that of its own agbot does");
}

#[test]
fn proposal_for_a_task_of_another_agbot_gets_no_reply() {
    let mut state = node();
    let task = NodeTask {
        task_id: "t1".to_owned(),
        agbot: Some("acme/other".to_owned()),
        agreement_id: Some("a1".to_owned()),
        ..NodeTask::default()
    };
    state.apply(Event::TasksRead(vec![task]), NOW);
    assert_eq!(reply(&mut state, proposal("a1", &terms("web", "site == north"), &producer())), None);
}
