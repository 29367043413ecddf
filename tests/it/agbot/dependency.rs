//! Workloads that start after their parents and stop after their children, on real processes (orchestration A8).

use serde_json::{Value, json};

use crate::support::fleet::{Fleet, arch};
use crate::support::{Hub, Scratch, eventually};

const POLICIES: &str = "/orgs/o/business/policies";

fn policy(name: &str, node: &str, more: &Value) -> Value {
    let mut orchestration = json!({
        "mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 1},
        "placement": {"nodesOrder": [node]},
    });
    let members = orchestration.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    json!({
        "label": name,
        "service": {"name": name, "org": "o", "arch": arch(), "serviceVersions": [{"version": "1.0.0"}]},
        "orchestration": orchestration,
    })
}

async fn create(fleet: &Fleet, hub: &Hub, name: &str, node: &str, more: Value) {
    let deployment = json!({"services": {"main": {"command": ["/bin/sleep", "3600"]}}}).to_string();
    fleet.publish_service(hub, name, "1.0.0", &deployment, json!({})).await;
    let body = policy(name, node, &more);
    let (status, body) = hub.call("POST", &format!("{POLICIES}/{name}"), Some(body)).await;
    assert_eq!(status, 201, "{body}");
}

async fn status(hub: &Hub, name: &str) -> Value {
    hub.call("GET", &format!("{POLICIES}/{name}/orchestration"), None).await.1
}

/// Waits until the instance on a node has an availability and a monitor state.
async fn is(hub: &Hub, name: &str, node: &str, avail: &str, monitor: &str) -> Value {
    eventually(&format!("{name} on {node} is {avail} and {monitor}"), || async {
        let found = status(hub, name).await;
        let instances = found["units"][0]["instances"].as_array()?;
        let own = instances.iter().find(|one| one["node"] == node)?;
        (own["avail"] == avail && own["monitorState"] == monitor).then_some(found)
    })
    .await
}

/// Requests an action, as soon as the one before is over.
async fn act(hub: &Hub, name: &str, action: &str) {
    if action != "abort" {
        eventually("no action is in progress", || async {
            status(hub, name).await["action"].is_null().then_some(())
        })
        .await;
    }
    let (status, body) =
        hub.call("POST", &format!("{POLICIES}/{name}/actions/{action}"), Some(json!({}))).await;
    assert_eq!(status, 202, "{body}");
}

/// Waits for an event. The status shows what a decision says while the decision is written.
async fn has_event(hub: &Hub, name: &str, kind: &str) {
    eventually(&format!("{kind} of {name}"), || async {
        let (_, found) = hub.call("GET", &format!("{POLICIES}/{name}/events?kind={kind}"), None).await;
        found["events"].as_array().is_some_and(|events| !events.is_empty()).then_some(())
    })
    .await;
}

/// A8-S1 to A8-S3, A8.4, A8.6: starts and stops in order, across two nodes.
#[tokio::test]
async fn child_starts_after_its_parent_and_stops_before_it() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    create(&fleet, &hub, "app", "edge-2", json!({"parents": ["db"]})).await;
    let waiting = is(&hub, "app", "edge-2", "down", "wait-parents").await;
    assert_eq!(waiting["warnings"], json!(["parent missing: o/db"]), "{waiting}");
    has_event(&hub, "app", "instance.wait-parents").await;
    create(&fleet, &hub, "db", "edge-1", json!({"children": ["app"]})).await;
    is(&hub, "db", "edge-1", "up", "idle").await;
    is(&hub, "app", "edge-2", "up", "idle").await;

    act(&hub, "db", "stop").await;
    is(&hub, "db", "edge-1", "up", "wait-children").await;
    has_event(&hub, "db", "instance.wait-children").await;
    act(&hub, "db", "abort").await;
    let aborted = is(&hub, "db", "edge-1", "up", "idle").await;
    assert_eq!((&aborted["globalExpect"], &aborted["frozen"]), (&Value::Null, &json!("thawed")), "{aborted}");
    act(&hub, "db", "stop").await;
    is(&hub, "db", "edge-1", "up", "wait-children").await;
    act(&hub, "app", "stop").await;
    is(&hub, "db", "edge-1", "down", "idle").await;

    act(&hub, "db", "start").await;
    act(&hub, "app", "start").await;
    is(&hub, "app", "edge-2", "up", "idle").await;
    let (removed, _) = hub.call("DELETE", &format!("{POLICIES}/db"), None).await;
    assert_eq!(removed, 204);
    let tasks = async || {
        let (_, found) = hub.call("GET", "/orgs/o/nodes/edge-1/tasks", None).await;
        let tasks = found["tasks"].as_array().cloned().unwrap_or_default();
        tasks.iter().filter(|task| task["desiredState"] == "running").count()
    };
    eventually("the app misses its parent", || async {
        let found = status(&hub, "app").await;
        found["warnings"].to_string().contains("parent missing").then_some(())
    })
    .await;
    assert_eq!(tasks().await, 1, "the instance of the deleted policy waits for its child");
    let left = status(&hub, "db").await;
    assert_eq!((&left["mode"], &left["globalExpect"]), (&json!("n/a"), &json!("deleted")), "{left}");
    assert!(
        left["warnings"][0].to_string().contains("1 of its instances are still to stop: child o/app is up"),
        "{left}"
    );
    act(&hub, "app", "stop").await;
    eventually("the deleted policy's instance stops", || async { (tasks().await == 0).then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A8.4: a removal by force stops the instances at once.
#[tokio::test]
async fn forced_removal_does_not_wait_for_children() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    create(&fleet, &hub, "app", "edge-1", json!({})).await;
    create(&fleet, &hub, "db", "edge-1", json!({"children": ["app"]})).await;
    is(&hub, "db", "edge-1", "up", "idle").await;
    is(&hub, "app", "edge-1", "up", "idle").await;
    let (removed, _) = hub.call("DELETE", &format!("{POLICIES}/db?force=true"), None).await;
    assert_eq!(removed, 204);
    eventually("only the child is left", || async {
        let (_, found) = hub.call("GET", "/orgs/o/nodes/edge-1/tasks", None).await;
        (found["tasks"].as_array().map(Vec::len) == Some(1)).then_some(())
    })
    .await;
    is(&hub, "app", "edge-1", "up", "idle").await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A8-S6, A8.7: cycles are refused, whichever policy closes them, and nothing is written.
#[tokio::test]
async fn cycle_of_parents_is_refused() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    create(&fleet, &hub, "a", "edge-1", json!({"parents": ["b"]})).await;
    create(&fleet, &hub, "b", "edge-1", json!({"children": ["a"]})).await;
    let path = format!("{POLICIES}/b");
    let before = hub.call("GET", &path, None).await;
    let closing = policy("b", "edge-1", &json!({"parents": ["a"]}));
    let patch = json!({"orchestration": closing["orchestration"]});
    for (method, body) in [("PUT", closing), ("PATCH", patch)] {
        let (status, body) = hub.call(method, &path, Some(body)).await;
        assert_eq!(status, 400, "{body}");
        assert!(body.to_string().contains("parents has the cycle b, a, b"), "{body}");
    }
    assert_eq!(hub.call("GET", &path, None).await, before);
    let own = policy("c", "edge-1", &json!({"parents": ["c"]}));
    let (status, body) = hub.call("POST", &format!("{POLICIES}/c"), Some(own)).await;
    assert!(status == 400 && body.to_string().contains("orchestration.parents"), "{body}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
