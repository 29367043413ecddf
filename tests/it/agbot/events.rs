//! Events of the agbot: rollouts, agreements and nodes, newest first.

use serde_json::{Value, json};

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const PATH: &str = "/orgs/o/agbot/events";

async fn events(hub: &Hub, query: &str) -> Vec<Value> {
    let (status, body) = hub.call("GET", &format!("{PATH}{query}"), None).await;
    assert_eq!(status, 200, "{query}: {body}");
    body["events"].as_array().cloned().unwrap_or_default()
}

/// Events of a kind, oldest first.
fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().rev().filter(|event| event["kind"] == kind).collect()
}

async fn deployed(fleet: &Fleet, version: &str) {
    eventually("every member runs the version", || async { fleet.all_run(version).then_some(()) }).await;
}

async fn recorded(hub: &Hub, kind: &str) -> Vec<Value> {
    eventually(kind, || async {
        let found = events(hub, "").await;
        found.iter().any(|event| event["kind"] == kind).then_some(found)
    })
    .await
}

#[tokio::test]
async fn rollout_drain_and_agreements_are_reported_with_their_true_reasons() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    for version in ["1.0.0", "2.0.0"] {
        fleet.publish(&hub, version).await;
    }
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    fleet.want(&hub, "2.0.0").await;
    let found = recorded(&hub, "rollout.completed").await;
    let started = of_kind(&found, "rollout.started");
    assert_eq!(started.len(), 1, "{found:?}");
    assert_eq!((&started[0]["haGroup"], &started[0]["policy"]), (&json!("o/g"), &json!("o/everywhere")));
    assert_eq!(started[0]["detail"]["target"], "o/watch 2.0.0");
    assert_eq!((&started[0]["detail"]["from"], &started[0]["detail"]["total"]), (&json!("1.0.0"), &json!(2)));
    let steps = of_kind(&found, "rollout.step-done");
    assert_eq!(steps.iter().map(|step| step["detail"]["done"].clone()).collect::<Vec<_>>(), [1, 2]);
    assert!(steps.iter().all(|step| step["node"].is_string()), "{steps:?}");
    assert_eq!(of_kind(&found, "agreement.made").len(), 4);
    let ended = of_kind(&found, "agreement.ended");
    assert!(ended.iter().all(|one| one["detail"]["text"] == "replaced by version 2.0.0"), "{ended:?}");

    // Filters, and the newest first.
    assert_eq!(events(&hub, "?limit=1").await, found[..1]);
    let of_node = events(&hub, "?node=edge-1&policy=o/everywhere").await;
    assert!(!of_node.is_empty() && of_node.iter().all(|event| event["node"] == "o/edge-1"));
    assert!(events(&hub, "?group=other").await.is_empty());
    for bad in ["?limit=0", "?limit=501", "?what=x", "?node=a%00b"] {
        assert_eq!(hub.call("GET", &format!("{PATH}{bad}"), None).await.0, 400, "{bad}");
    }

    // A drain is not a request of a user to cancel.
    let drain = json!({"availability": "drain"});
    let (status, body) = hub.call("PUT", "/orgs/o/nodes/edge-1/orchestration/spec", Some(drain)).await;
    assert!((200..300).contains(&status), "{status} {body}");
    let found = recorded(&hub, "node.drained").await;
    assert_eq!(of_kind(&found, "node.drained")[0]["node"], "o/edge-1");
    let ended = of_kind(&found, "agreement.ended");
    assert_eq!(
        ended.last().map(|one| one["detail"]["text"].clone()),
        Some(json!("the node is being drained"))
    );

    // Only a stop of what ended can be confirmed.
    let path = |id: &str| format!("/orgs/o/agbot/agreements/{id}/confirm-stop");
    assert_eq!(hub.call("POST", &path("none"), None).await.0, 404);
    assert_eq!(hub.call("POST", &path("a%00b"), None).await.0, 404);
    let live = of_kind(&found, "agreement.made");
    let live = live.iter().rfind(|one| one["node"] == "o/edge-2").map(|one| &one["detail"]["agreement"]);
    let live = live.and_then(Value::as_str).unwrap_or_default();
    assert_eq!(hub.call("POST", &path(live), None).await.0, 409, "{live}");
    let over = ended.last().and_then(|one| one["detail"]["agreement"].as_str()).unwrap_or_default();
    assert_eq!(hub.call("POST", &path(over), None).await.0, 200, "{over}");
    let found = events(&hub, "?node=edge-1").await;
    assert_eq!(of_kind(&found, "agreement.stop-confirmed")[0]["detail"]["actor"], "root/root");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
