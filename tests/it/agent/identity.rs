//! Agents that have the identity of one node: a copied data directory is found out, restarts and restored files are not taken for one.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::time::timeout;

use crate::support::fleet::Fleet;
use crate::support::wait::{LIMIT, must};
use crate::support::{Hub, Machine, Scratch, eventually, free_address};

const NODE: &str = "/orgs/o/nodes/edge-1";

/// Returns the agent of the node as the hub shows it.
async fn shown(hub: &Hub) -> Value {
    hub.call("GET", NODE, None).await.1["nodes"]["o/edge-1"]["orchestrationStatus"]["agent"].clone()
}

/// Waits until another run reports than an earlier one.
async fn another_run(hub: &Hub, earlier: &Value) -> Value {
    eventually("another run of the agent reports", || async {
        Some(shown(hub).await).filter(|agent| agent["run"].is_string() && agent["run"] != earlier["run"])
    })
    .await
}

async fn conflicts(hub: &Hub) -> Vec<Value> {
    let (_, found) = hub.call("GET", "/orgs/o/orchestration/events?kind=node.identity-conflict", None).await;
    found["events"].as_array().cloned().unwrap_or_default()
}

async fn runs(fleet: &Fleet, version: &str) {
    eventually(&format!("{version} runs"), || async { fleet.all_run(version).then_some(()) }).await;
}

/// Copies a data directory, also one that an agent uses: a file that is gone when its turn comes was a temporary one.
fn copy(from: &Path, to: &Path) {
    must(std::fs::create_dir_all(to), "a directory");
    for entry in must(std::fs::read_dir(from), "a directory").filter_map(Result::ok) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match must(entry.file_type(), "a type") {
            kind if kind.is_dir() => copy(&path, &target),
            kind if kind.is_file() => match std::fs::copy(&path, &target) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                copied => drop(must(copied, "a copy")),
            },
            // A socket belongs to a process.
            _ => {}
        }
    }
}

/// Starts a hub and an agent that runs version 1.0.0.
async fn running(scratch: &Scratch, options: &[&str]) -> (Hub, Fleet) {
    let hub = Hub::start(scratch, &[]).await;
    let fleet = Fleet::start_with(scratch, &hub, 1, options).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    runs(&fleet, "1.0.0").await;
    (hub, fleet)
}

/// Returns the status of an agent.
async fn status(hub: &Hub, address: &str) -> Option<Value> {
    let response = hub.client.get(format!("http://{address}/status")).send().await.ok()?;
    response.json().await.ok()
}

/// A disk was copied with the journal, and the copy starts on another machine while the original runs.
#[tokio::test]
async fn agent_with_a_copied_data_directory_is_found_out_and_the_older_one_says_that_it_stopped_reporting() {
    let scratch = Scratch::new();
    let Some(machine) = Machine::new(&scratch) else { return };
    let address = free_address();
    let (hub, mut fleet) = running(&scratch, &["--api-listen", &address]).await;
    let first = shown(&hub).await;
    copy(&scratch.join("edge-1"), &scratch.join("copied"));
    let process = Pid::from_raw(fleet.processes()["edge-1"]);
    let mut second = fleet.agent_on(&machine, &scratch, &hub, (0, "copied"));
    let conflict = eventually("the conflict is recorded", || async { conflicts(&hub).await.pop() }).await;
    let current = shown(&hub).await;
    assert_eq!(current["journal"], first["journal"], "the journal is a copy");
    assert_ne!(current["boot"], first["boot"]);
    for boot in [&current["boot"], &first["boot"]] {
        assert!(conflict.to_string().contains(boot.as_str().unwrap_or("none")), "{conflict}");
    }
    eventually("the node is in error", || async {
        let health = hub.call("GET", &format!("{NODE}/health"), None).await.1.to_string();
        (health.contains("Identity") && health.contains("Error")).then_some(())
    })
    .await;
    eventually("the older agent says it", || async {
        let superseded = status(&hub, &address).await?["superseded"].as_str()?.to_owned();
        superseded.contains("another agent reports for node 'o/edge-1'").then_some(())
    })
    .await;
    assert!(fleet.agent(0).errors().contains("another agent has the identity of this node"));
    let log = must(std::fs::read_to_string(scratch.join("edge-1").join("journal.json")), "the journal");
    assert!(log.contains("stopped reporting to the hub"), "{log}");

    second.signal_group(Signal::SIGTERM);
    assert_eq!(second.wait().await, 0);
    let back = another_run(&hub, &current).await;
    assert_eq!(back["run"], first["run"], "the older agent reports again");
    eventually("it says so", || async {
        status(&hub, &address).await?.get("superseded").is_none().then_some(())
    })
    .await;
    assert!(kill(process, None).is_ok(), "its service went on");
    eventually("it reports its service", || async {
        let (_, found) = hub.call("GET", &format!("{NODE}/status"), None).await;
        (found["services"][0]["containerStatus"][0]["state"] == "running").then_some(())
    })
    .await;
    assert_eq!(conflicts(&hub).await.len(), 1, "it is recorded once");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn restarts_reboots_and_callers_that_name_no_run_are_no_second_agent() {
    let scratch = Scratch::new();
    let (hub, mut fleet) = running(&scratch, &[]).await;
    let mut known = shown(&hub).await;
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        fleet.agent(0).signal(signal);
        fleet.agent(0).wait().await;
        fleet.restart_agent(&scratch, &hub, 0);
        known = another_run(&hub, &known).await;
        runs(&fleet, "1.0.0").await;
    }
    // The agents of the reference, and the command line with a node's credentials, name no run.
    let login = ("o/edge-1", "secret-edge-1");
    for _ in 0..3 {
        let (status, body) = hub.call_as(login, "POST", &format!("{NODE}/heartbeat"), None).await;
        assert_eq!(status, 201, "{body}");
    }
    assert_eq!(shown(&hub).await["run"], known["run"]);
    if let Some(machine) = Machine::new(&scratch) {
        fleet.agent(0).signal(Signal::SIGTERM);
        fleet.agent(0).wait().await;
        let rebooted = fleet.agent_on(&machine, &scratch, &hub, (0, "edge-1"));
        let agent = another_run(&hub, &known).await;
        assert_ne!(agent["boot"], known["boot"], "it was booted");
        runs(&fleet, "1.0.0").await;
        drop(rebooted);
    }
    assert_eq!(shown(&hub).await["refused"], Value::Null);
    assert_eq!(conflicts(&hub).await, Vec::<Value>::new());
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A backup of the data directory is restored: the agent is the only one, and runs what is wanted now.
#[tokio::test]
async fn restored_old_journal_is_no_second_agent_and_its_old_version_does_not_stay() {
    let scratch = Scratch::new();
    let (hub, mut fleet) = running(&scratch, &[]).await;
    let (data, backup) = (scratch.join("edge-1"), scratch.join("backup"));
    fleet.agent(0).kill().await;
    copy(&data, &backup);
    fleet.restart_agent(&scratch, &hub, 0);
    fleet.publish(&hub, "2.0.0").await;
    fleet.want(&hub, "2.0.0").await;
    runs(&fleet, "2.0.0").await;
    let known = shown(&hub).await;
    fleet.agent(0).signal(Signal::SIGTERM);
    fleet.agent(0).wait().await;
    must(std::fs::remove_dir_all(&data), "removing a directory");
    copy(&backup, &data);
    fleet.restart_agent(&scratch, &hub, 0);
    let agent = another_run(&hub, &known).await;
    assert_eq!(agent["journal"], known["journal"]);
    // The agbot asks for an agreement that is not reported after a minute.
    let is_back = async {
        while !fleet.all_run("2.0.0") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    must(timeout(LIMIT * 3, is_back).await, "2.0.0 runs again");
    eventually("the old version has ended", || async { (fleet.instances() == 1).then_some(()) }).await;
    assert_eq!(conflicts(&hub).await, Vec::<Value>::new());
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
