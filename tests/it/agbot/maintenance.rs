//! An agent that is stopped on purpose is not a failure: the node keeps its instances for a while
//! (orchestration A10).

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::workload::{runs, want};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const NODE: &str = "/orgs/o/nodes/edge-1/orchestration";

async fn monitor_state(hub: &Hub) -> Value {
    hub.call("GET", NODE, None).await.1["status"]["monitorState"].clone()
}

async fn is_in(hub: &Hub, state: &str) {
    eventually(&format!("the node is in state {state}"), || async {
        (monitor_state(hub).await == state).then_some(())
    })
    .await;
}

/// Waits for the report that the instance runs: an instance that ends before it never counted as started.
async fn is_up(hub: &Hub) {
    eventually("the hub knows that the instance runs", || async {
        let path = "/orgs/o/business/policies/everywhere/orchestration";
        (hub.call("GET", path, None).await.1["avail"] == "up").then_some(())
    })
    .await;
}

async fn kinds(hub: &Hub) -> Vec<String> {
    let (_, found) = hub.call("GET", "/orgs/o/agbot/events", None).await;
    let events = found["events"].as_array().cloned().unwrap_or_default();
    events.iter().filter_map(|event| Some(event["kind"].as_str()?.to_owned())).collect()
}

/// A10-S2, A10-S3: the node is away for longer than a silent node would be down, but within its grace; then for longer than that.
#[tokio::test]
async fn instance_stays_on_a_node_in_maintenance_until_the_grace_is_over() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    is_in(&hub, "idle").await;
    let settings = json!({"maintenanceGracePeriodSeconds": 600, "readyPeriodSeconds": 0});
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(settings)).await.0, 201);
    let orchestration = json!({
        "mode": "failover", "orchestrate": "ha", "placement": {"nodesOrder": ["edge-1", "edge-2"]},
        "restart": {"delaySeconds": 0},
    });
    want(&fleet, &hub, "1.0.0", orchestration).await;
    assert!(runs(&fleet, "1.0.0", 1).await.contains("edge-1"));
    is_up(&hub).await;

    fleet.agent(0).signal(Signal::SIGTERM);
    assert_eq!(fleet.agent(0).wait().await, 0);
    assert_eq!(monitor_state(&hub).await, "maintenance");
    let until = tokio::time::Instant::now() + Duration::from_secs(8);
    while tokio::time::Instant::now() < until {
        assert!(!fleet.versions().contains_key("edge-2"), "nothing is taken over");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    fleet.restart_agent(&scratch, &hub, 0);
    is_in(&hub, "idle").await;
    eventually("the instance is back on its node", || async {
        fleet.versions().contains_key("edge-1").then_some(())
    })
    .await;
    assert!(!fleet.versions().contains_key("edge-2"));
    is_up(&hub).await;

    let settings = json!({"maintenanceGracePeriodSeconds": 3});
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(settings)).await.0, 201);
    fleet.agent(0).signal(Signal::SIGTERM);
    assert_eq!(fleet.agent(0).wait().await, 0);
    eventually("the other node takes over", || async {
        fleet.versions().contains_key("edge-2").then_some(())
    })
    .await;
    eventually("the end of the grace is recorded", || async {
        let kinds = kinds(&hub).await;
        ["node.maintenance", "node.maintenance-expired"]
            .iter()
            .all(|kind| kinds.iter().any(|one| one == kind))
            .then_some(())
    })
    .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
