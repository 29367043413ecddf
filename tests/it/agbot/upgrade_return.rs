//! Upgrades of nodes, after which instances return, and the settings around them, on real processes (orchestration D7 to D9, E6.4).

use serde_json::{Value, json};

use crate::support::fleet::{Fleet, arch};
use crate::support::{Hub, Scratch, eventually};

async fn create(fleet: &Fleet, hub: &Hub, name: &str, orchestration: Value) {
    let deployment = json!({"services": {"main": {"command": ["/bin/sleep", "3600"]}}}).to_string();
    fleet.publish_service(hub, name, "1.0.0", &deployment, json!({})).await;
    let policy = json!({
        "label": name,
        "service": {"name": name, "org": "o", "arch": arch(), "serviceVersions": [{"version": "1.0.0"}]},
        "orchestration": orchestration,
    });
    let (status, body) = hub.call("POST", &format!("/orgs/o/business/policies/{name}"), Some(policy)).await;
    assert_eq!(status, 201, "{body}");
}

async fn status(hub: &Hub, name: &str) -> Value {
    hub.call("GET", &format!("/orgs/o/business/policies/{name}/orchestration"), None).await.1
}

/// Waits until a workload runs on exactly these nodes.
async fn runs_on(hub: &Hub, name: &str, nodes: &[&str]) {
    eventually(&format!("{name} runs on {nodes:?}"), || async {
        let found = status(hub, name).await;
        let instances = found["units"][0]["instances"].as_array().cloned().unwrap_or_default();
        let up: Vec<String> = instances
            .iter()
            .filter(|one| one["avail"] == "up")
            .filter_map(|one| one["node"].as_str().map(str::to_owned))
            .collect();
        (up == nodes).then_some(())
    })
    .await;
}

async fn act(hub: &Hub, path: &str) {
    let (status, body) = hub.call("POST", &format!("/orgs/o/nodes/{path}"), None).await;
    assert_eq!(status, 201, "{body}");
}

/// D9-S1: out for the upgrade of the node, and back; a drain that is not an upgrade is one move.
#[tokio::test]
async fn instance_returns_to_the_node_that_was_drained_for_an_upgrade() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    let failover = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 1},
                          "placement": {"nodesOrder": ["edge-1", "edge-2"]}});
    create(&fleet, &hub, "w", failover).await;
    runs_on(&hub, "w", &["edge-1"]).await;

    let (refused, body) =
        hub.call("PATCH", "/orgs/o/nodes/edge-1/orchestration/spec", Some(json!({"upgrade": true}))).await;
    assert_eq!(refused, 400, "{body}");
    assert!(
        body["msg"].as_str().is_some_and(|text| text.contains("upgrade must not be true unless")),
        "{body}"
    );

    act(&hub, "edge-1/actions/drain?upgrade=true").await;
    runs_on(&hub, "w", &["edge-2"]).await;
    let (_, node) = hub.call("GET", "/orgs/o/nodes/edge-1/orchestration", None).await;
    assert_eq!((&node["spec"]["availability"], &node["spec"]["upgrade"]), (&json!("drain"), &json!(true)));
    act(&hub, "edge-1/actions/activate").await;
    runs_on(&hub, "w", &["edge-1"]).await;
    let (_, node) = hub.call("GET", "/orgs/o/nodes/edge-1/orchestration", None).await;
    assert_eq!(node["spec"]["upgrade"], Value::Null, "it goes with the drain");
    let (_, events) = hub.call("GET", "/orgs/o/business/policies/w/events", None).await;
    assert!(events.to_string().contains("snapshot.returned"), "{events}");

    act(&hub, "edge-1/actions/drain").await;
    runs_on(&hub, "w", &["edge-2"]).await;
    act(&hub, "edge-1/actions/activate").await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    runs_on(&hub, "w", &["edge-2"]).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// D7-S1, B1-S3: the buffer is kept free, and a global instance waits for room.
#[tokio::test]
async fn buffer_of_the_capacities_is_kept_free_and_a_global_instance_waits_for_room() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    let settings = json!({"nodeBufferPercentage": {"units": 0.2}, "bufferUse": "upgrade-and-failure"});
    let (done, body) = hub.call("PATCH", "/orgs/o/orchestration", Some(settings.clone())).await;
    assert_eq!(done, 201, "{body}");
    let (_, shown) = hub.call("GET", "/orgs/o/orchestration", None).await;
    for (name, value) in settings.as_object().into_iter().flatten() {
        assert_eq!(&shown[name], value, "{shown}");
    }
    let (refused, body) = hub
        .call("PATCH", "/orgs/o/orchestration", Some(json!({"nodeBufferPercentage": {"units": 20}})))
        .await;
    assert_eq!(refused, 400, "{body}");
    let capacity = |amount: u32| json!({"capacities": {"units": amount}});
    for (node, amount) in [("edge-1", 1000), ("edge-2", 300)] {
        let path = format!("/orgs/o/nodes/{node}/orchestration/spec");
        assert_eq!(hub.call("PATCH", &path, Some(capacity(amount))).await.0, 201);
    }
    create(&fleet, &hub, "w", json!({"mode": "global", "loads": {"units": 400}})).await;
    runs_on(&hub, "w", &["edge-1"]).await;
    let explain = "/orgs/o/business/policies/w/explain?node=edge-2";
    let (_, why) = hub.call("GET", explain, None).await;
    assert!(why.to_string().contains("units 0+400 > 240"), "{why}");
    let tasks = async || hub.call("GET", "/orgs/o/business/policies/w/tasks", None).await.1;
    let waiting = |tasks: &Value| {
        let mut found = tasks["tasks"].as_array().cloned().unwrap_or_default().into_iter();
        found.find(|task| task["state"] == "pending").map(|task| task["taskId"].clone())
    };
    let id = waiting(&tasks().await).expect("a task is pending");
    let path = "/orgs/o/nodes/edge-2/orchestration/spec";
    assert_eq!(hub.call("PATCH", path, Some(capacity(500))).await.0, 201);
    runs_on(&hub, "w", &["edge-1", "edge-2"]).await;
    let tasks = tasks().await;
    let found = tasks["tasks"].as_array().into_iter().flatten().find(|task| task["taskId"] == id);
    assert_eq!(found.map(|task| &task["node"]), Some(&json!("edge-2")), "{tasks}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
