//! Workloads that share nodes, or must not, on real processes (orchestration A4).

use std::time::Duration;

use evenkeel_agbot_store::node_lock::{NodeLock, lock_nodes};
use evenkeel_ids::NodeId;
use serde_json::{Value, json};

use crate::support::fleet::{Fleet, arch};
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

async fn publish(fleet: &Fleet, hub: &Hub, name: &str) {
    let deployment = json!({"services": {"main": {"command": ["/bin/sleep", "3600"]}}}).to_string();
    fleet.publish_service(hub, name, "1.0.0", &deployment, json!({})).await;
}

async fn write(hub: &Hub, name: &str, leader: &str, affinity: Value) -> (u16, Value) {
    let policy = json!({
        "label": name,
        "service": {"name": name, "org": "o", "arch": arch(), "serviceVersions": [{"version": "1.0.0"}]},
        "orchestration": {
            "mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 1},
            "placement": {"nodesOrder": [leader], "affinity": affinity},
        },
    });
    hub.call("POST", &format!("/orgs/o/business/policies/{name}"), Some(policy)).await
}

async fn create(fleet: &Fleet, hub: &Hub, name: &str, leader: &str, affinity: Value) {
    publish(fleet, hub, name).await;
    let (status, body) = write(hub, name, leader, affinity).await;
    assert_eq!(status, 201, "{body}");
}

async fn status(hub: &Hub, name: &str) -> Value {
    hub.call("GET", &format!("/orgs/o/business/policies/{name}/orchestration"), None).await.1
}

fn instance_on<'a>(status: &'a Value, node: &str) -> Option<&'a Value> {
    status["units"][0]["instances"].as_array()?.iter().find(|one| one["node"] == node)
}

async fn runs_on(hub: &Hub, name: &str, node: &str) -> Value {
    eventually(&format!("{name} runs on {node}"), || async {
        let found = status(hub, name).await;
        let is_up = instance_on(&found, node).is_some_and(|one| one["avail"] == "up");
        is_up.then_some(found)
    })
    .await
}

/// A4-S2, A4-S5, A4-S14: workloads follow their partner, keep away from it, and wait for one that does not exist.
#[tokio::test]
async fn workloads_start_beside_their_partner_or_away_from_it() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    create(&fleet, &hub, "db", "edge-2", json!({})).await;
    runs_on(&hub, "db", "edge-2").await;
    create(&fleet, &hub, "cam", "edge-1", json!({"hard": ["db"]})).await;
    create(&fleet, &hub, "batch", "edge-2", json!({"hardAnti": ["db"]})).await;
    create(&fleet, &hub, "alone", "edge-1", json!({"hard": ["ghost"]})).await;
    runs_on(&hub, "cam", "edge-2").await;
    let shown = runs_on(&hub, "batch", "edge-1").await;
    let flags = |node: &str| instance_on(&shown, node).map(|one| one["flags"].clone());
    assert_eq!((flags("edge-1"), flags("edge-2")), (Some(json!("")), Some(json!("AL"))), "{shown}");
    assert_eq!(shown["overall"], "up", "a node without an instance is no violation: {shown}");

    let (_, explained) = hub.call("GET", "/orgs/o/business/policies/alone/explain", None).await;
    let text = explained.to_string();
    assert!(text.contains("Affinity") && text.contains("o/ghost is missing"), "{text}");
    let waiting = status(&hub, "alone").await;
    assert!(waiting["warnings"].to_string().contains("Affinity"), "{waiting}");

    for (affinity, expected) in [
        (json!({"hard": ["wrong"]}), "orchestration.placement.affinity.hard must not name the policy itself"),
        (json!({"soft": ["x/db"]}), "orchestration.placement.affinity.soft must name policies of"),
        (json!({"hard": ["db"], "hardAnti": ["o/db"]}), "orchestration.placement.affinity.hardAnti must not"),
    ] {
        let (status, body) = write(&hub, "wrong", "edge-1", affinity).await;
        assert_eq!(status, 400, "{body}");
        assert!(body["msg"].as_str().is_some_and(|text| text.contains(expected)), "{body}");
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A4.2: two workloads that exclude each other and are written at once end on different nodes.
#[tokio::test]
async fn workloads_that_exclude_each_other_never_share_a_node() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    publish(&fleet, &hub, "left").await;
    publish(&fleet, &hub, "right").await;
    let (left, right) = tokio::join!(
        write(&hub, "left", "edge-1", json!({"hardAnti": ["right"]})),
        write(&hub, "right", "edge-1", json!({"hardAnti": ["left"]})),
    );
    assert_eq!((left.0, right.0), (201, 201));
    let nodes = eventually("both run", || async {
        let mut nodes = Vec::new();
        for name in ["left", "right"] {
            let found = status(&hub, name).await;
            let instances = found["units"][0]["instances"].as_array().cloned().unwrap_or_default();
            let up = instances.into_iter().find(|one| one["avail"] == "up")?;
            nodes.push(up["node"].clone());
        }
        Some(nodes)
    })
    .await;
    assert_ne!(nodes[0], nodes[1]);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A placement that must be apart from others waits for another one on the same node until that is written.
#[tokio::test]
async fn placements_on_one_node_are_tested_one_after_the_other() {
    let test = TestDatabase::new().await;
    let pool = test.connect().await;
    let (one, other) = (NodeId::new("o", "n1"), NodeId::new("o", "n2"));
    let mut first = must(pool.begin().await, "a transaction");
    must(lock_nodes(&mut first, NodeLock::Placement, &[&one]).await, "the lock");
    let mut second = must(pool.begin().await, "a transaction");
    must(lock_nodes(&mut second, NodeLock::Placement, &[&other]).await, "the lock of another node");
    let same = [&one];
    let waiting = lock_nodes(&mut second, NodeLock::Placement, &same);
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiting).await.is_err(), "it waits");
    must(first.commit().await, "a commit");
    must(waiting.await, "the lock after the commit");
}
