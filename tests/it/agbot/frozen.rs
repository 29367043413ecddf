//! Frozen and paused nodes on real processes.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::drain::set;
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
