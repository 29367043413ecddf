//! Policies served by the hub's own agbot: those of all existing and future organizations, unless an
//! administrator configures otherwise.

use serde_json::{Value, json};

use super::in_process::Agbots;
use crate::exchange::api::ROOT;
use crate::support::{Hub, Scratch, eventually};

const SERVED: &str = "/orgs/IBM/agbots/evenkeel/businesspols";

async fn is_served(hub: &Hub, org: &str) -> bool {
    let (_, body) = hub.call("GET", SERVED, None).await;
    body["businessPols"].get(format!("{org}_*_{org}")).is_some()
}

async fn create(hub: &Hub, org: &str) {
    let response =
        hub.call("POST", &format!("/orgs/{org}"), Some(json!({"label": org, "description": org}))).await;
    assert_eq!(response.0, 201, "{}", response.1);
}

async fn until_served(hub: &Hub, org: &str) {
    eventually("the organization is served", || async { is_served(hub, org).await.then_some(()) }).await;
}

/// The entries are created like those of any other client: with a change in the feed, and an audit record
/// that names the agbot.
#[tokio::test]
async fn what_the_agbot_serves_by_itself_is_in_the_feed_and_in_the_audit_log() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    create(&hub, "plant").await;
    until_served(&hub, "plant").await;
    let (_, feed) =
        hub.call("POST", "/orgs/IBM/changes", Some(json!({"changeId": 1, "maxRecords": 1000}))).await;
    let changes = feed["changes"].as_array().cloned().unwrap_or_default();
    for resource in ["agbotbusinesspols", "agbotpatterns"] {
        let is_there =
            |change: &serde_json::Value| change["resource"] == resource && change["id"] == "evenkeel";
        assert!(changes.iter().any(is_there), "{resource}: {feed}");
    }
    let (_, audit) = hub.call("GET", "/orgs/IBM/audit", None).await;
    let records = audit["records"].as_array().cloned().unwrap_or_default();
    let is_by_agbot = |record: &serde_json::Value| {
        record["caller"] == "IBM/evenkeel"
            && record["resource"].as_str().is_some_and(|path| path.ends_with("/agbots/evenkeel/businesspols"))
    };
    assert!(records.iter().any(is_by_agbot), "{audit}");
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn what_an_administrator_removed_stays_removed_and_new_organizations_are_served() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    for org in ["kept", "removed"] {
        create(&hub, org).await;
        until_served(&hub, org).await;
    }
    assert_eq!(hub.call("DELETE", &format!("{SERVED}/removed_*_removed"), None).await.0, 204);
    create(&hub, "later").await;
    until_served(&hub, "later").await;
    assert!(!is_served(&hub, "removed").await, "another organization's coming does not bring it back");
    assert_eq!(hub.stop().await, 0);

    let hub = Hub::start(&scratch, &[]).await;
    assert!(is_served(&hub, "kept").await && is_served(&hub, "later").await);
    assert!(!is_served(&hub, "removed").await, "a new start does not bring it back");
    create(&hub, "newest").await;
    until_served(&hub, "newest").await;
    assert!(!is_served(&hub, "removed").await);

    // An organization that is created again is a new one.
    assert_eq!(hub.call("DELETE", "/orgs/removed", None).await.0, 204);
    create(&hub, "newer").await;
    until_served(&hub, "newer").await;
    create(&hub, "removed").await;
    until_served(&hub, "removed").await;
    assert_eq!(hub.stop().await, 0);
}

/// The hub lists the organizations before its agbot reads the feed: one that is created in between is in neither.
#[tokio::test]
async fn organization_created_while_the_agbot_starts_is_served() {
    let mut agbots = Agbots::start(1).await;
    agbots.api.make_org("late").await;
    agbots.add_from(1).await;
    eventually("the organization is served", || async {
        let policies =
            agbots.api.expect(200, ROOT, "GET", "/orgs/IBM/agbots/bot/businesspols", Value::Null).await;
        policies["businessPols"].get("late_*_late").map(|_| ())
    })
    .await;
}
