//! Refusals: codes are words, as in the exchange, except in responses to deployed agents.

use serde_json::{Value, json};

use super::upgrade::{ask, group_of, report};
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

const UPGRADES: &str = "/orgs/o/hagroups/g/upgrades";

/// Sends a request with other credentials than root's, or none.
async fn call_as(
    hub: &Hub,
    node: Option<&str>,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let method = must(method.parse(), "a method");
    let mut request = hub.client.request(method, format!("{}{path}", hub.url));
    if let Some(node) = node {
        request = request.basic_auth(format!("o/{node}"), Some(format!("secret-{node}")));
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = must(request.send().await, "a response");
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

fn code(response: &(u16, Value)) -> (u16, &str) {
    (response.0, response.1["code"].as_str().unwrap_or_default())
}

/// Orchestration 0.7.
#[tokio::test]
async fn codes_are_words_except_for_agents_that_ask_for_an_upgrade() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    group_of(&hub, 2).await;
    for (method, path, expected) in [
        ("DELETE", UPGRADES, (404, "not-found")),
        ("DELETE", "/orgs/o/hagroups/g/upgrades/n0", (404, "not-found")),
        ("DELETE", "/orgs/o/hagroups/g/upgrades?who=n0", (400, "invalid-input")),
        ("POST", "/orgs/o/nodes/none/actions/fence-confirm", (404, "not-found")),
        ("POST", "/orgs/o/agbot/rollouts/none/pause", (404, "not-found")),
        ("POST", "/orgs/o/agbot/rollouts/none/stop", (400, "invalid-input")),
        ("POST", "/orgs/o/agbot/agreements/none/confirm-stop", (404, "not-found")),
        ("GET", "/orgs/o/agbot/events?limit=0", (400, "invalid-input")),
    ] {
        let response = hub.call(method, path, None).await;
        assert_eq!(code(&response), expected, "{method} {path}: {}", response.1);
    }
    eventually("a node that is not down cannot be confirmed dead", || async {
        let response = hub.call("POST", "/orgs/o/nodes/n0/actions/fence-confirm", None).await;
        (code(&response) == (409, "conflict")).then_some(())
    })
    .await;
    let upgrades = format!("/v1{UPGRADES}");
    let denied = call_as(&hub, Some("n0"), "DELETE", &upgrades, None).await;
    assert_eq!(code(&denied), (403, "access-denied"), "{}", denied.1);
    let unknown = call_as(&hub, None, "DELETE", &upgrades, None).await;
    assert_eq!(code(&unknown), (401, "invalid-credentials"), "{}", unknown.1);

    let path = "/v1/org/o/node/n0/upgrade";
    let malformed = call_as(&hub, Some("n0"), "POST", path, Some(json!({}))).await;
    assert_eq!(code(&malformed), (400, "400"), "{}", malformed.1);
    let unknown = call_as(&hub, None, "POST", path, Some(json!({"nmp": "fw-9"}))).await;
    assert_eq!(code(&unknown), (401, "401"), "{}", unknown.1);
    let path = "/v1/org/o/hagroup/other/nodemanagement/n0/fw-9";
    let elsewhere = call_as(&hub, Some("n0"), "POST", path, None).await;
    assert_eq!(code(&elsewhere), (400, "400"), "{}", elsewhere.1);
    assert_eq!(hub.stop().await, 0);
}

/// A group that was just created is there although the agbot has not read it.
#[tokio::test]
async fn upgrades_of_an_unknown_group_are_not_found_and_times_of_claims_have_milliseconds() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    group_of(&hub, 1).await;
    let (status, body) = hub.call("GET", UPGRADES, None).await;
    assert_eq!(status, 200, "{body}");
    for (path, group) in
        [("/orgs/o/hagroups/none/upgrades", "o/none"), ("/orgs/none/hagroups/g/upgrades", "none/g")]
    {
        let response = hub.call("GET", path, None).await;
        assert_eq!(code(&response), (404, "not-found"), "{path}: {}", response.1);
        assert_eq!(response.1["msg"], format!("the HA group {group} does not exist"));
    }
    report(&hub, "n0", "ha node waiting").await;
    assert_eq!(ask(&hub, "n0", "n0", json!({"nmp": "o/fw-9"})).await, 200);
    let (_, body) = hub.call("GET", UPGRADES, None).await;
    for member in ["since", "phase_since", "deadline"] {
        let time = body["agent"][member].as_str().unwrap_or_default();
        assert_eq!(time.len(), "2026-01-01T00:00:00.000Z".len(), "{member} of {body}");
    }
    assert_eq!(hub.stop().await, 0);
}
