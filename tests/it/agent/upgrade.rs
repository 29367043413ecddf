//! An agent replaces its own program, or goes back to it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::fleet::{Fleet, arch};
use crate::support::{Hub, Scratch, eventually};

/// Puts a package of version 2.32.0 into the source: this program, which says that it is that version.
fn publish(source: &Path, script: &str) {
    let directory = source.join("2.32.0");
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(source.join("m.json"), r#"{"softwareUpgrade": {"version": "2.32.0", "files": ["*"]}}"#)
        .expect("a manifest");
    let program = directory.join(format!("evenkeel-linux-{}", arch()));
    std::fs::write(&program, script).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
}

fn wrapper(agent: &str) -> String {
    let program = env!("CARGO_BIN_EXE_evenkeel");
    format!(
        "#!/bin/sh\nexport EVENKEEL_SOFTWARE_VERSION=2.32.0\n[ \"$1\" = agent ] && {{ {agent}; }}\nexec {program} \"$@\"\n"
    )
}

async fn want_upgrade(hub: &Hub) {
    let properties = json!({"properties": [{"name": "upgradable", "value": true}], "constraints": []});
    let (status, body) = hub.call("GET", "/orgs/o/nodes/edge-1/policy", None).await;
    assert_eq!(status, 200, "{body}");
    let mut policy = body.clone();
    policy.as_object_mut().expect("a policy").remove("lastUpdated");
    policy["management"] = properties;
    assert_eq!(hub.call("PUT", "/orgs/o/nodes/edge-1/policy", Some(policy)).await.0, 201);
    let policy = json!({"label": "fw", "constraints": ["upgradable == true"], "properties": [],
        "enabled": true, "start": "now", "startWindow": 0,
        "agentUpgradePolicy": {"manifest": "m", "allowDowngrade": false}});
    let (status, body) = hub.call("POST", "/orgs/o/managementpolicies/fw", Some(policy)).await;
    assert_eq!(status, 201, "{body}");
}

/// Status and message of the upgrade.
async fn outcome(hub: &Hub) -> (String, String) {
    let (_, body) = hub.call("GET", "/orgs/o/nodes/edge-1/managementStatus/fw", None).await;
    let status = &body["managementStatus"]["o/fw"]["agentUpgradePolicyStatus"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&status["status"]), text(&status["errorMessage"]))
}

async fn reported_version(hub: &Hub) -> Value {
    let (_, body) = hub.call("GET", "/orgs/o/nodes/edge-1", None).await;
    body["nodes"]["o/edge-1"]["softwareVersions"]["horizon"].clone()
}

async fn running_fleet(scratch: &Scratch, hub: &Hub) -> Fleet {
    let source = scratch.join("source").to_string_lossy().into_owned();
    let more = ["--upgrade-source", &source, "--management-interval", "1", "--upgrade-timeout", "10"];
    let fleet = Fleet::start_with(scratch, hub, 1, &more).await;
    fleet.publish(hub, "1.0.0").await;
    fleet.want(hub, "1.0.0").await;
    eventually("the service runs", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    eventually("the node reported", || async { (reported_version(hub).await == "2.31.0").then_some(()) })
        .await;
    fleet
}

#[tokio::test]
async fn agent_runs_the_program_of_its_package_and_its_services_go_on() {
    let scratch = Scratch::new();
    publish(&scratch.join("source"), &wrapper("true"));
    let hub = Hub::start(&scratch, &[]).await;
    let mut fleet = running_fleet(&scratch, &hub).await;
    let processes = fleet.processes();
    let agent = fleet.agent(0).id();
    want_upgrade(&hub).await;
    eventually("the upgrade is done", || async { (outcome(&hub).await.0 == "successful").then_some(()) })
        .await;
    assert_eq!(reported_version(&hub).await, "2.32.0");
    assert_eq!(fleet.processes(), processes, "the services went on");
    assert_eq!((fleet.agent(0).id(), fleet.agent(0).ended()), (agent, None), "it is the same process");
    // A start of the old program runs the new one.
    fleet.agent(0).kill().await;
    let source = scratch.join("source").to_string_lossy().into_owned();
    fleet.restart_agent_with(&scratch, &hub, 0, &["--upgrade-source", &source]);
    eventually("the upgraded program is started", || {
        let is_started = fleet.agent(0).errors().contains("the upgraded agent is started");
        async move { is_started.then_some(()) }
    })
    .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn agent_goes_back_when_the_new_program_does_not_come_up() {
    let scratch = Scratch::new();
    publish(&scratch.join("source"), &wrapper("sleep 1; exit 7"));
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = running_fleet(&scratch, &hub).await;
    let processes = fleet.processes();
    want_upgrade(&hub).await;
    let reported = eventually("the agent goes back", || async {
        let (status, why) = outcome(&hub).await;
        assert_ne!(status, "successful");
        (status == "rollback successful").then_some(why)
    });
    let why = reported.await;
    assert!(why.contains("exit status: 7"), "{why}");
    assert_eq!(reported_version(&hub).await, "2.31.0");
    assert_eq!(fleet.processes(), processes, "the services went on");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn package_without_a_program_for_this_machine_is_refused() {
    let scratch = Scratch::new();
    let source = scratch.join("source");
    publish(&source, "");
    let directory = source.join("2.32.0");
    std::fs::rename(directory.join(format!("evenkeel-linux-{}", arch())), directory.join("other"))
        .expect("a rename");
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = running_fleet(&scratch, &hub).await;
    want_upgrade(&hub).await;
    let refused = eventually("the upgrade is refused", || async {
        let (status, why) = outcome(&hub).await;
        (status == "precheck failed").then_some(why)
    });
    let why = refused.await;
    assert!(why.contains("no program for this machine"), "{why}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
