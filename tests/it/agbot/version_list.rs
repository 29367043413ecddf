//! Version lists of workloads on real processes (B11.10): lower versions after failures, and versions that wait for the next agreement.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::workload::{hub, replicated, runs};
use crate::support::fleet::{Fleet, arch};
use crate::support::{Hub, Scratch, eventually};

/// Wants an instance of the service in one of these versions, the best first.
async fn want_versions(fleet: &Fleet, hub: &Hub, versions: Vec<Value>, orchestration: Value) {
    let service = json!({"name": "watch", "org": "o", "arch": arch(), "serviceVersions": versions});
    fleet.want_with(hub, "", json!({"service": service, "orchestration": orchestration})).await;
}

fn entry(version: &str, priority: u32) -> Value {
    let priority =
        json!({"priority_value": priority, "retries": 1, "retry_durations": 3600, "verified_durations": 0});
    json!({"version": version, "priority": priority})
}

async fn status(hub: &Hub) -> Value {
    let (status, body) = hub.call("GET", "/orgs/o/business/policies/everywhere/orchestration", None).await;
    assert_eq!(status, 200, "{body}");
    body
}

/// B11.10: with `continue` a node falls back to the lower version, as it does without any update; with `pause` a failure is the update's.
#[tokio::test]
async fn node_falls_back_to_a_lower_version_unless_an_update_judges_the_new_one() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish_broken(&hub, "2.0.0").await;
    fleet.publish_broken(&hub, "3.0.0").await;
    fleet.publish_broken(&hub, "4.0.0").await;
    let with = |action: &str| {
        let mut document = replicated(1);
        document["update"] = json!({"failureAction": action, "monitorSeconds": 1});
        document
    };
    let list = |best: &str| vec![entry(best, 1), entry("1.0.0", 2)];
    want_versions(&fleet, &hub, list("2.0.0"), with("pause")).await;
    runs(&fleet, "1.0.0", 1).await;
    let first = fleet.processes();
    want_versions(&fleet, &hub, list("3.0.0"), with("continue")).await;
    eventually("the update ends on the lower version", || async {
        let is_lower = fleet.versions().values().all(|version| version == "1.0.0");
        (is_lower && !fleet.processes().is_empty() && fleet.processes() != first).then_some(())
    })
    .await;
    eventually("the update is complete", || async {
        (status(&hub).await["update"]["state"] == "completed").then_some(())
    })
    .await;
    want_versions(&fleet, &hub, list("4.0.0"), with("pause")).await;
    eventually("the update is paused", || async {
        (status(&hub).await["update"]["state"] == "paused").then_some(())
    })
    .await;
    assert_eq!(fleet.versions(), BTreeMap::new(), "nothing falls back while it is paused");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A2, B11.10: the node that takes over continues with the version list before another one is tried, and what
/// it runs is shown.
#[tokio::test]
async fn only_instance_falls_back_on_its_node() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish_broken(&hub, "2.0.0").await;
    let document = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0}});
    want_versions(&fleet, &hub, vec![entry("2.0.0", 1), entry("1.0.0", 2)], document).await;
    let node = runs(&fleet, "1.0.0", 1).await.into_iter().next().expect("an instance runs");
    let shown = eventually("the status shows what runs", || async {
        let found = status(&hub).await;
        let instances = found["units"][0]["instances"].as_array().cloned().unwrap_or_default();
        let is_up = instances.iter().any(|one| one["node"] == *node && one["avail"] == "up");
        is_up.then_some((found, instances))
    })
    .await;
    let on_node = shown.1.iter().find(|one| one["node"] == *node).expect("it is listed");
    assert_eq!((&on_node["version"], &shown.0["version"]), (&json!("1.0.0"), &json!("2.0.0")));
    let failed: Vec<&Value> = shown.1.iter().filter(|one| one["monitorState"] == "start-failed").collect();
    assert_eq!(failed, Vec::<&Value>::new(), "no node is given up before its list is");

    let (deleted, body) = hub.call("DELETE", "/orgs/o/business/policies/everywhere", None).await;
    assert_eq!(deleted, 204, "{body}");
    eventually("nothing is said of the deleted policy any more", || async {
        let (status, body) = hub.call("GET", "/orgs/o/agbot/reasons", None).await;
        assert_eq!(status, 200, "{body}");
        (fleet.instances() == 0 && body["reasons"] == json!([])).then_some(())
    })
    .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// B11.10: a version with `upgradePolicy.lifecycle` `agreement` replaces nothing that runs, and starts where an instance has ended.
#[tokio::test]
async fn version_that_waits_for_the_next_agreement_starts_when_an_instance_has_ended() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    for version in ["1.0.0", "2.0.0"] {
        fleet.publish(&hub, version).await;
    }
    want_versions(&fleet, &hub, vec![entry("1.0.0", 1)], replicated(2)).await;
    runs(&fleet, "1.0.0", 2).await;
    eventually("the hub knows that both run", || async {
        let instances = status(&hub).await["units"][0]["instances"].as_array().cloned().unwrap_or_default();
        instances.iter().all(|instance| instance["avail"] == "up").then_some(())
    })
    .await;
    let before = fleet.processes();
    let waiting = |lifecycle: &str| {
        let mut version = entry("2.0.0", 1);
        version["upgradePolicy"] = json!({"lifecycle": lifecycle});
        version
    };
    let service = json!({"name": "watch", "org": "o", "arch": arch(), "serviceVersions": [waiting("later")]});
    let path = "/orgs/o/business/policies/everywhere";
    let (status, body) = hub.call("PATCH", path, Some(json!({"service": service}))).await;
    assert_eq!(status, 400, "{body}");
    assert_eq!(
        body["msg"],
        "service.serviceVersions[0].upgradePolicy.lifecycle must be immediate, never or agreement"
    );
    want_versions(&fleet, &hub, vec![waiting("agreement")], replicated(2)).await;
    let (node, process) = before.iter().next().expect("an instance runs");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(fleet.processes(), before, "what runs stays");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(*process), nix::sys::signal::Signal::SIGKILL)
        .expect("the process exists");
    eventually("the new version runs where the instance ended", || async {
        (fleet.versions().get(node)? == "2.0.0").then_some(())
    })
    .await;
    let others = fleet.versions().into_iter().filter(|(one, _)| one != node);
    assert_eq!(others.map(|(_, version)| version).collect::<Vec<_>>(), ["1.0.0"]);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
