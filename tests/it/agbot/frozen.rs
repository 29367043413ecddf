//! Frozen and paused nodes, frozen instances, and nodes whose agents are incompatible, on real processes.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::drain::set;
use super::recovery::events;
use super::workload::{hub, replicated, runs, want};
use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

async fn act(hub: &Hub, node: &str, action: &str) -> Value {
    let (status, body) = hub.call("POST", &format!("/orgs/o/nodes/{node}/actions/{action}"), None).await;
    assert_eq!(status, 201, "{body}");
    body
}

fn kill_instance(fleet: &Fleet, node: &str) {
    let process = fleet.processes()[node];
    must(kill(Pid::from_raw(process), Signal::SIGKILL), "a signal");
}

/// Waits until the agbot has recorded an event of the third node, which names the user.
async fn recorded(hub: &Hub, kind: &str) {
    let event = eventually(kind, || async {
        let (_, found) = hub.call("GET", "/orgs/o/agbot/events?node=o/edge-3", None).await;
        let events = found["events"].as_array().cloned().unwrap_or_default();
        events.into_iter().find(|event| event["kind"] == kind)
    })
    .await;
    assert_eq!(event["detail"]["actor"], "root/root", "{event}");
}

/// A12-S2, B9-S2: a frozen node gets nothing, and what fails there is not restarted before it is thawed; what fails on a paused node is
/// replaced elsewhere.
#[tokio::test]
async fn nothing_starts_on_frozen_and_paused_nodes() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    let frozen = act(&hub, "edge-1", "freeze").await;
    assert_eq!(frozen["msg"], "node 'o/edge-1' is frozen");
    want(&fleet, &hub, "1.0.0", replicated(2)).await;
    assert_eq!(runs(&fleet, "1.0.0", 2).await, ["edge-2", "edge-3"].map(str::to_owned).into());

    set(&hub, "edge-2", "pause").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fleet.instances(), 2, "what runs stays");
    kill_instance(&fleet, "edge-2");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(runs(&fleet, "1.0.0", 1).await, ["edge-3".to_owned()].into(), "no node is open for it");
    act(&hub, "edge-1", "thaw").await;
    assert_eq!(runs(&fleet, "1.0.0", 2).await, ["edge-1", "edge-3"].map(str::to_owned).into());

    act(&hub, "edge-3", "freeze").await;
    kill_instance(&fleet, "edge-3");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(runs(&fleet, "1.0.0", 1).await, ["edge-1".to_owned()].into(), "nothing is restarted");
    // The agbot compares the nodes every five seconds.
    recorded(&hub, "node.frozen").await;
    act(&hub, "edge-3", "thaw").await;
    assert_eq!(runs(&fleet, "1.0.0", 2).await, ["edge-1", "edge-3"].map(str::to_owned).into());
    recorded(&hub, "node.thawed").await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A9.2: an instance passes through freezing and thawing, of which users see the events; so does a whole policy.
#[tokio::test]
async fn freezing_and_thawing_are_events_before_those_of_the_actions() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    want(&fleet, &hub, "1.0.0", replicated(1)).await;
    runs(&fleet, "1.0.0", 1).await;
    let kinds =
        [("freeze", "instance.freezing", "instance.freeze"), ("thaw", "instance.thawing", "instance.thaw")];
    for (number, body) in [json!({"node": "edge-1"}), json!({})].into_iter().enumerate() {
        for (action, passing, done) in kinds {
            let path = format!("/orgs/o/business/policies/everywhere/actions/{action}");
            let (status, found) = hub.call("POST", &path, Some(body.clone())).await;
            assert_eq!(status, 202, "{action}: {found}");
            let seen = [events(&hub, passing).await, events(&hub, done).await];
            let last = seen.each_ref().map(|events| events.last().cloned().unwrap_or_default());
            assert!(seen.iter().all(|events| events.len() == number + 1), "{action} {body}: {seen:?}");
            assert!(last[0]["seq"].as_i64() < last[1]["seq"].as_i64(), "{last:?}");
            assert_eq!(last[0]["node"], last[1]["node"], "{last:?}");
            assert_eq!(last[0]["node"].is_string(), number == 0, "{last:?}");
        }
    }
    assert_eq!(fleet.instances(), 1);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A7: the hub's log says that automatic decisions are suspended, and when they are made again.
#[tokio::test]
async fn hub_logs_that_the_agents_of_a_policy_are_incompatible_and_that_they_are_compatible_again() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    want(&fleet, &hub, "1.0.0", json!({"mode": "failover", "orchestrate": "ha"})).await;
    runs(&fleet, "1.0.0", 1).await;
    let lines = [
        (2, "WARN", "cluster members run incompatible versions. disable ha orchestration"),
        (1, "INFO", "cluster members run compatible versions. enable ha orchestration"),
    ];
    for (version, level, text) in lines {
        let report = json!({"compatVersion": version});
        let path = "/orgs/o/nodes/edge-2/orchestration/status";
        let (status, found) = hub.call_as(("o/edge-2", "secret-edge-2"), "PUT", path, Some(report)).await;
        assert_eq!(status, 201, "{found}");
        eventually(text, || async {
            let log = hub.program.errors();
            log.lines().any(|line| line.contains(level) && line.contains(text)).then_some(())
        })
        .await;
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
