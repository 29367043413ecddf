//! The node blocklist on real processes: a service that fails on one node only runs on the other one (orchestration D4).

use std::path::Path;

use serde_json::{Value, json};

use super::workload::{runs, want};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const BLOCKLIST: &str = "/orgs/o/blocklist";

/// Publishes a version that exits at once on `edge-1` until the file exists.
async fn publish_broken_on_first(fleet: &Fleet, hub: &Hub, scratch: &Scratch, mended: &Path) {
    let program = env!("CARGO_BIN_EXE_evenkeel");
    let sockets = scratch.join("sockets");
    let script = format!(
        "case \"$HZN_DEVICE_ID\" in edge-1) [ -e '{}' ] || exit 3;; esac; exec '{program}' demo-service --sockets '{}' --version 1.0.0",
        mended.display(),
        sockets.display()
    );
    let deployment = json!({"services": {"watch": {"command": ["/bin/sh", "-c", script]}}}).to_string();
    fleet.publish_service(hub, "watch", "1.0.0", &deployment, json!({})).await;
}

async fn entries(hub: &Hub) -> Vec<Value> {
    let (status, body) = hub.call("GET", BLOCKLIST, None).await;
    assert_eq!(status, 200, "{body}");
    body["entries"].as_array().cloned().expect("a list")
}

async fn kinds(hub: &Hub) -> Vec<String> {
    let (status, body) = hub.call("GET", "/orgs/o/orchestration/events?kind=blocklist.*", None).await;
    assert_eq!(status, 200, "{body}");
    let events = body["events"].as_array().cloned().unwrap_or_default();
    events.iter().filter_map(|event| event["kind"].as_str().map(str::to_owned)).collect()
}

async fn blocked(hub: &Hub) -> Value {
    eventually("the first node is blocked", || async { entries(hub).await.pop() }).await
}

/// D4-S1, D4-S6: three failures block the node, the instance runs on the other one, and a cleared node is used at once.
#[tokio::test]
async fn node_on_which_the_service_fails_is_blocked_until_it_is_cleared() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    let mended = scratch.join("mended");
    publish_broken_on_first(&fleet, &hub, &scratch, &mended).await;
    let settings = json!({"blocklist": {"failureThreshold": 3, "baseSeconds": 900}});
    let (status, body) = hub.call("PATCH", "/orgs/o/orchestration", Some(settings)).await;
    assert_eq!(status, 201, "{body}");
    let orchestration = |replicas: u32| {
        json!({
            "mode": "replicated", "replicas": replicas, "restart": {"delaySeconds": 5},
            "placement": {"policy": "nodes-order", "nodesOrder": ["edge-1", "edge-2"]},
        })
    };
    want(&fleet, &hub, "1.0.0", orchestration(1)).await;
    let entry = blocked(&hub).await;
    assert_eq!(kinds(&hub).await, ["blocklist.added"]);
    assert_eq!(
        (&entry["node"], &entry["service"], &entry["version"], &entry["blocks"]),
        (&json!("edge-1"), &json!("o/watch"), &json!("1.0.0"), &json!(1))
    );
    assert!(
        entry["failures"].as_u64() >= Some(3) && entry["since"].as_str() < entry["until"].as_str(),
        "{entry}"
    );
    assert!(entry["lastFailure"].as_str().is_some_and(|text| text.contains("exit code 3")), "{entry}");
    assert_eq!(runs(&fleet, "1.0.0", 1).await, ["edge-2".to_owned()].into());

    // A second instance probes the node, and has none meanwhile; why, says the explanation, and so does the status.
    want(&fleet, &hub, "1.0.0", orchestration(2)).await;
    let explained = eventually("the explanation names the blocklist", || async {
        let path = "/orgs/o/business/policies/everywhere/explain?node=edge-1";
        let (status, body) = hub.call("GET", path, None).await;
        (status == 200 && body["sequence"][0]["constraint"] == "Blocklist").then_some(body)
    })
    .await;
    let summary = explained["summary"].as_str().unwrap_or_default();
    assert!(summary.starts_with("edge-1: Blocklist o/watch 1.0.0 keeps failing on the node"), "{summary}");
    eventually("the status names it", || async {
        let (_, status) = hub.call("GET", "/orgs/o/business/policies/everywhere/orchestration", None).await;
        status.to_string().contains("keeps failing on the node").then_some(())
    })
    .await;
    assert_eq!(fleet.instances(), 1);

    for (method, path, expected) in [
        ("GET", "/orgs/o/blocklist?nodes=edge-1", 400),
        ("GET", "/orgs/o/blocklist?node=edge-9", 404),
        ("DELETE", "/orgs/o/blocklist?node=", 400),
        ("DELETE", "/orgs/o/blocklist?node=edge-9", 404),
    ] {
        let (found, body) = hub.call(method, path, None).await;
        assert_eq!(found, expected, "{method} {path}: {body}");
    }
    let (status, body) = hub.call("DELETE", "/orgs/o/blocklist?service=o/other", None).await;
    assert_eq!((status, &body["entries"]), (200, &json!([])));
    assert_eq!(entries(&hub).await.len(), 1, "another service was cleared");

    std::fs::write(&mended, "").expect("the service is mended");
    let (status, body) = hub.call("DELETE", "/orgs/o/blocklist?node=edge-1&service=watch", None).await;
    assert_eq!((status, &body["entries"][0]["node"]), (200, &json!("edge-1")), "{body}");
    assert_eq!(runs(&fleet, "1.0.0", 2).await.len(), 2);
    assert!(entries(&hub).await.is_empty());
    assert_eq!(kinds(&hub).await.last().map(String::as_str), Some("blocklist.cleared"));
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// D4: a block ends by itself, and the count of blocks is kept; the action `clear` of the policy ends the next one (A11).
#[tokio::test]
async fn block_ends_by_itself_and_the_next_one_is_longer() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    let mended = scratch.join("mended");
    publish_broken_on_first(&fleet, &hub, &scratch, &mended).await;
    let settings = json!({"blocklist": {"failureThreshold": 1, "baseSeconds": 2, "factor": 100}});
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(settings)).await.0, 201);
    let orchestration = json!({"mode": "replicated", "replicas": 1, "restart": {"delaySeconds": 1}});
    want(&fleet, &hub, "1.0.0", orchestration).await;
    let second = eventually("the node is blocked for the second time", || async {
        entries(&hub).await.into_iter().find(|entry| entry["blocks"] == 2)
    })
    .await;
    let at = |member: &str| second[member].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let (since, until) = (at("since").expect("a time"), at("until").expect("a time"));
    // The first one lasts as long as the delay of a restart, and the probe after it has failed.
    assert_eq!(until.duration_since(since).as_secs(), 100);
    assert_eq!(kinds(&hub).await, ["blocklist.added", "blocklist.expired", "blocklist.added"]);
    std::fs::write(&mended, "").expect("the service is mended");
    let path = "/orgs/o/business/policies/everywhere/actions/clear";
    let (status, body) = hub.call("POST", path, Some(json!({"node": "edge-1"}))).await;
    assert_eq!(status, 202, "{body}");
    runs(&fleet, "1.0.0", 1).await;
    assert!(entries(&hub).await.is_empty());
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
