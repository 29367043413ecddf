//! Nodes of a pattern run its services, without any other setup.

use serde_json::{Value, json};

use crate::agbot::failover::{DOWN_AFTER, send_heartbeats};
use crate::support::fleet::{Fleet, arch};
use crate::support::{Hub, Scratch, eventually};

fn pattern(version: &str) -> Value {
    json!({
        "label": "cameras",
        "services": [{"serviceUrl": "watch", "serviceOrgid": "o", "serviceArch": arch(),
                      "serviceVersions": [{"version": version}]}],
    })
}

/// Heartbeats of pattern nodes are in a search of their own.
#[tokio::test]
async fn node_of_a_pattern_with_heartbeats_does_not_count_as_down() {
    let scratch = Scratch::new();
    let down_after = DOWN_AFTER.as_secs().to_string();
    let hub = Hub::start(&scratch, &["--node-down-after-secs", &down_after]).await;
    let mut fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    assert_eq!(hub.call("POST", "/orgs/o/patterns/cameras", Some(pattern("1.0.0"))).await.0, 201);
    fleet.add_node_of_pattern(&scratch, &hub, "edge-p", "o/cameras").await;
    eventually("the node runs the version", || async { fleet.versions().get("edge-p").map(|_| ()) }).await;
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = tokio::time::sleep(DOWN_AFTER * 3) => {}
    }
    let (_, events) = hub.call("GET", "/orgs/o/agbot/events", None).await;
    assert!(events.to_string().contains("agreement.made"), "{events}");
    assert!(!events.to_string().contains("node.down"), "{events}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn node_of_a_pattern_runs_its_services_and_follows_its_versions() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let mut fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    let (status, body) = hub.call("POST", "/orgs/o/patterns/cameras", Some(pattern("1.0.0"))).await;
    assert_eq!(status, 201, "{body}");
    fleet.add_node_of_pattern(&scratch, &hub, "edge-p", "o/cameras").await;
    let runs = async |version: &str| {
        eventually("the node runs the version", || async {
            (fleet.versions().get("edge-p").map(String::as_str) == Some(version)).then_some(())
        })
        .await;
    };
    runs("1.0.0").await;
    assert_eq!(fleet.versions().len(), 1, "a node without the pattern runs nothing");
    let agreement = || async {
        let (_, body) = hub.call("GET", "/orgs/o/nodes/edge-p/agreements", None).await;
        let agreements = body["agreements"].as_object().cloned().unwrap_or_default();
        let one = agreements.values().next()?.clone();
        (one["agrService"]["pattern"] == "o/cameras").then_some(())
    };
    eventually("the exchange has the agreement with its pattern", agreement).await;
    assert_eq!(hub.call("PUT", "/orgs/o/patterns/cameras", Some(pattern("2.0.0"))).await.0, 201);
    runs("2.0.0").await;
    assert_eq!(hub.call("DELETE", "/orgs/o/patterns/cameras", None).await.0, 204);
    eventually("a pattern that is gone wants nothing", || async { (fleet.instances() == 0).then_some(()) })
        .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
