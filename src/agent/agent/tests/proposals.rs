//! Proposals that an agent ignores because of what the exchange says of the agbot, or of the keys that it trusts.

use serde_json::json;

use super::{
    Agent, agree,
    hub::{AGBOT, TestHub},
    settings, until,
};

/// Proposes a service and waits until the agent has read the proposal; requires that it gets no reply.
async fn require_ignored(hub: &TestHub, id: &str) {
    hub.propose(id, "exec sleep 100");
    until("the proposal is read", || hub.state().mailbox.is_empty().then_some(())).await;
    assert!(hub.no_message(), "{id} gets a reply");
    assert!(hub.state().agreements.is_empty(), "{id} is accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proposal_of_an_agbot_that_the_exchange_does_not_name_is_ignored_until_it_is_named() {
    let hub = TestHub::new();
    hub.state().named_agbots = Some(vec!["acme/other".to_owned()]);
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    require_ignored(&hub, "a1").await;
    hub.state().named_agbots = Some(vec!["acme/other".to_owned(), AGBOT.to_owned()]);
    agree(&hub, "a2", directory.path()).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_stored_beside_a_service_does_not_count_with_trusted_keys_only_until_it_is_imported() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(&hub, directory.path());
    settings.trusted_keys_only = true;
    let imported = settings.key_directories().into_iter().next().unwrap();
    let agent = Agent::start(settings);
    require_ignored(&hub, "a1").await;
    std::fs::create_dir_all(&imported).unwrap();
    std::fs::write(imported.join("k.pem"), TestHub::publisher_key()).unwrap();
    agree(&hub, "a2", directory.path()).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proposal_for_a_service_that_cannot_be_read_is_ignored_and_the_next_one_is_judged() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    let service = json!({"url": "web", "version": "1.0.0", "arch": "amd64", "requiredServices": "none"});
    hub.state().services = json!({"acme/web_1.0.0_amd64": service});
    require_ignored(&hub, "a1").await;
    hub.state().services = json!(null);
    agree(&hub, "a2", directory.path()).await;
    agent.end().await;
}
