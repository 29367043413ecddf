//! Leases on real processes, and on containers where there is an engine: the guardian of an agent makes them true, and without one there are
//! none.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::failover::send_heartbeats;
use super::recovery::{events, recorded, running_task, start_fenced_pair, want_fenced_pair};
use super::workload::hub_that_loses_nodes;
use crate::support::engine::{Engine, IMAGE};
use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

/// Longest time until an agent that does not renew its lease has lost its instance: the lease of 60 s, and what the guardian adds.
const KILLED_BY: Duration = Duration::from_secs(65);

/// Finds the guardian of a node.
fn guardian(scratch: &Scratch, node: &str) -> Option<Pid> {
    let data = scratch.join(node).display().to_string();
    let entries = must(std::fs::read_dir("/proc"), "the processes").filter_map(Result::ok);
    let is_it = |path: PathBuf| {
        let command = std::fs::read_to_string(path.join("cmdline")).unwrap_or_default();
        let words: Vec<&str> = command.split('\0').collect();
        words.contains(&"agent-guardian") && words.contains(&data.as_str())
    };
    let found = entries.filter(|entry| is_it(entry.path()));
    found.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw).next()
}

/// Returns the agent of a node as the hub shows it.
async fn shown(hub: &Hub, node: &str) -> Value {
    let found = hub.call("GET", &format!("/orgs/o/nodes/{node}"), None).await.1;
    found["nodes"][format!("o/{node}")]["orchestrationStatus"]["agent"].clone()
}

async fn has_lease(hub: &Hub, node: &str) {
    eventually("the guardian has confirmed the lease", || async {
        let tasks = hub.call("GET", &format!("/orgs/o/nodes/{node}/tasks"), None).await.1;
        let is_confirmed = tasks["tasks"][0]["health"]["leaseSeconds"] == 60;
        (is_confirmed && shown(hub, node).await["guardian"] == "running").then_some(())
    })
    .await;
}

/// Lists the nodes whose containers run at an engine, one entry for each container.
fn contained(engine: &Engine) -> Vec<String> {
    let format = r#"{{.Label "evenkeel.place"}}"#;
    let list = Command::new("docker").args(["-H", &engine.endpoint(), "ps", "--format", format]).output();
    let listed = String::from_utf8_lossy(&must(list, "the containers").stdout).into_owned();
    let node_of = |place: &str| ["edge-1", "edge-2"].into_iter().find(|node| place.contains(node));
    listed.lines().map(|place| node_of(place).unwrap_or("none").to_owned()).collect()
}

/// Lists the nodes on which processes run, one entry for each.
fn processes(fleet: &Fleet) -> Vec<String> {
    assert!(fleet.instances() <= 1, "two instances run");
    fleet.processes().into_keys().collect()
}

/// Watches until the second node runs the instance, and never both. Returns the time at which the first one
/// no longer ran it.
async fn taken_over(running: impl Fn() -> Vec<String>) -> Duration {
    let (began, mut killed_at) = (Instant::now(), None);
    while began.elapsed() < Duration::from_secs(120) {
        let running = running();
        assert!(running.len() <= 1, "two instances run: {running:?}");
        if running.is_empty() && killed_at.is_none() {
            killed_at = Some(began.elapsed());
        }
        if running.iter().any(|node| node == "edge-2") {
            return killed_at.expect("the first instance was killed");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the other node never took over")
}

async fn takes_over_after(stop: Signal) {
    let scratch = Scratch::new();
    let hub = hub_that_loses_nodes(&scratch).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            start_fenced_pair(&fleet, &hub).await;
            has_lease(&hub, "edge-1").await;
            fleet.agent(0).signal(stop);
            let killed = taken_over(|| processes(&fleet)).await;
            assert!(killed <= KILLED_BY, "{killed:?} after the agent stood still");
        } => {}
    }
    assert_eq!(recorded(&hub, "fence.confirmed").await.len(), 1);
    // An agent that stood still finds its instance ended, and does not start it again.
    fleet.agent(0).signal(Signal::SIGCONT);
    eventually("the node is back", || async {
        let state = hub.call("GET", "/orgs/o/nodes/edge-1/orchestration", None).await.1;
        (stop == Signal::SIGKILL || state["status"]["state"] == "ready").then_some(())
    })
    .await;
    assert_eq!(fleet.instances(), 1);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn guardian_of_a_frozen_agent_kills_before_the_other_node_starts() {
    takes_over_after(Signal::SIGSTOP).await;
}

#[tokio::test]
async fn guardian_of_a_killed_agent_kills_before_the_other_node_starts() {
    takes_over_after(Signal::SIGKILL).await;
}

/// The same with containers; without an engine nothing is tested.
async fn containers_are_taken_over_after(stop: Signal) {
    let Some(engine) = Engine::start().await else { return };
    let scratch = Scratch::new();
    let hub = hub_that_loses_nodes(&scratch).await;
    let endpoint = engine.endpoint();
    let options = ["--driver", "docker", "--docker-endpoint", &endpoint];
    let mut fleet = Fleet::start_with(&scratch, &hub, 2, &options).await;
    let deployment = json!({"services": {"watch": {"image": IMAGE}}}).to_string();
    fleet.publish_service(&hub, "watch", "1.0.0", &deployment, json!({})).await;
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            want_fenced_pair(&fleet, &hub).await;
            running_task(&hub, "edge-1").await;
            assert_eq!(contained(&engine), ["edge-1"]);
            has_lease(&hub, "edge-1").await;
            fleet.agent(0).signal(stop);
            let killed = taken_over(|| contained(&engine)).await;
            assert!(killed <= KILLED_BY, "{killed:?} after the agent stood still");
        } => {}
    }
    assert_eq!(recorded(&hub, "fence.confirmed").await.len(), 1);
    fleet.agent(0).signal(Signal::SIGCONT);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn guardian_of_a_frozen_agent_kills_its_container_before_the_other_node_starts() {
    containers_are_taken_over_after(Signal::SIGSTOP).await;
}

#[tokio::test]
async fn guardian_of_a_killed_agent_kills_its_container_before_the_other_node_starts() {
    containers_are_taken_over_after(Signal::SIGKILL).await;
}

/// A guardian that ends is started again; one that is suspended is not a guardian, and the lost node is
/// waited for.
#[tokio::test]
async fn without_a_guardian_that_responds_there_is_no_lease() {
    let scratch = Scratch::new();
    let hub = hub_that_loses_nodes(&scratch).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            start_fenced_pair(&fleet, &hub).await;
            has_lease(&hub, "edge-1").await;
            let first = guardian(&scratch, "edge-1").expect("a guardian");
            must(kill(first, Signal::SIGKILL), "a signal");
            let second = eventually("another guardian", || async {
                guardian(&scratch, "edge-1").filter(|one| *one != first)
            })
            .await;
            has_lease(&hub, "edge-1").await;
            must(kill(second, Signal::SIGSTOP), "a signal");
            eventually("the agent says that it has no lease", || async {
                (shown(&hub, "edge-1").await["guardian"] == "silent").then_some(())
            })
            .await;
            fleet.agent(0).signal(Signal::SIGSTOP);
            let failed = eventually("the start elsewhere is not possible", || async {
                events(&hub, "fence.failed").await.pop()
            })
            .await;
            let text = failed["reason"].as_str().unwrap_or_default();
            assert!(text.contains("the guardian of its agent did not respond"), "{failed}");
            assert!(events(&hub, "fence.confirmed").await.is_empty());
            assert_eq!(fleet.instances(), 1, "the first instance goes on");
            must(kill(second, Signal::SIGCONT), "a signal");
            fleet.agent(0).signal(Signal::SIGCONT);
        } => {}
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Two agents with the token of one node: the later one reports, the earlier one stops, and both are named.
#[tokio::test]
async fn earlier_of_two_agents_with_one_identity_stops_reporting() {
    let scratch = Scratch::new();
    let hub = hub_that_loses_nodes(&scratch).await;
    let mut fleet = Fleet::start(&scratch, &hub, 1).await;
    let first = eventually("the first agent", || async {
        Some(shown(&hub, "edge-1").await).filter(|agent| agent["run"].is_string())
    })
    .await;
    let mut second = Fleet::second_agent(&scratch, &hub, 0);
    let conflict = eventually("the conflict is recorded", || async {
        let found = hub.call("GET", "/orgs/o/orchestration/events?kind=node.identity-conflict", None).await.1;
        found["events"].as_array()?.last().cloned()
    })
    .await;
    let text = conflict.to_string();
    assert!(text.contains(first["journal"].as_str().unwrap_or("none")), "{text}");
    eventually("the node is in error", || async {
        let health = hub.call("GET", "/orgs/o/nodes/edge-1/health", None).await.1.to_string();
        (health.contains("Identity") && health.contains("Error")).then_some(())
    })
    .await;
    let first_agent = fleet.agent(0);
    eventually("the first agent stops reporting", || async {
        first_agent.errors().contains("another agent has the identity of this node").then_some(())
    })
    .await;
    let current = shown(&hub, "edge-1").await;
    assert_ne!(current["run"], first["run"]);
    assert_eq!(current["refused"]["run"], first["run"]);
    second.signal(Signal::SIGTERM);
    assert_eq!(second.wait().await, 0);
    eventually("the first agent reports again", || async {
        (shown(&hub, "edge-1").await["run"] == first["run"]).then_some(())
    })
    .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
