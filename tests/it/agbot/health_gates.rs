//! Recoveries and updates that must not make it worse, on real processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::recovery::{
    GOOD, StatusPage, allow_short_intervals, events, kill_process, recorded, replicated, running_task,
    url_policy,
};
use super::workload::{hub, runs, want};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const EVERYWHERE: &str = "/orgs/o/business/policies/everywhere";

async fn status(hub: &Hub) -> Value {
    hub.call("GET", &format!("{EVERYWHERE}/orchestration"), None).await.1
}

async fn all_healthy(hub: &Hub, count: usize) {
    eventually("all instances are healthy", || async {
        let mut healthy = 0;
        for number in 1..=count {
            let (_, found) = hub.call("GET", &format!("/orgs/o/nodes/edge-{number}/tasks"), None).await;
            let tasks = found["tasks"].as_array().cloned().unwrap_or_default();
            healthy += tasks.iter().filter(|task| task["health"]["healthy"] == true).count();
        }
        (healthy >= count).then_some(())
    })
    .await;
}

/// Watches processes for a while; returns the fewest that ran at a time.
async fn fewest(fleet: &Fleet, time: Duration) -> usize {
    let (began, mut fewest) = (Instant::now(), usize::MAX);
    while began.elapsed() < time {
        fewest = fewest.min(fleet.processes().len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    fewest
}

/// A check that fails everywhere takes nothing down: neither during the update that brings it nor afterwards.
#[tokio::test]
async fn version_whose_check_fails_stops_the_update_and_reboots_nothing() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 4).await;
    allow_short_intervals(&hub).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    let page = StatusPage::start(|_| GOOD.to_owned()).await;
    let wanted = |page: &StatusPage| {
        let recovery = json!({"actions": [{"name": "REBOOT"}]});
        let mut orchestration = replicated(&url_policy(&page.url, json!({}), recovery));
        orchestration["replicas"] = json!(4);
        orchestration["update"] = json!({"parallelism": 1, "monitorSeconds": 3, "failureAction": "pause"});
        orchestration
    };
    want(&fleet, &hub, "1.0.0", wanted(&page)).await;
    runs(&fleet, "1.0.0", 4).await;
    all_healthy(&hub, 4).await;

    let broken = StatusPage::start(|_| "broken".to_owned()).await;
    want(&fleet, &hub, "2.0.0", wanted(&broken)).await;
    eventually("the update is paused", || async {
        (status(&hub).await["update"]["state"] == "paused").then_some(())
    })
    .await;
    let replaced = fleet.versions().values().filter(|version| *version == "2.0.0").count();
    assert!(replaced <= 1, "{:?}", fleet.versions());
    let common = recorded(&hub, "health.common-cause").await;
    assert!(common[0]["reason"].as_str().is_some_and(|text| text.contains("4 of 4")), "{common:?}");
    assert!(fewest(&fleet, Duration::from_secs(8)).await >= 3);
    assert!(events(&hub, "health.recover-action").await.is_empty(), "nothing is rebooted");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A check that cannot be made proves nothing: the instances continue, and the state contains the reason.
#[tokio::test]
async fn check_that_is_broken_is_shown_and_recovers_nothing() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    allow_short_intervals(&hub).await;
    fleet.publish(&hub, "1.0.0").await;
    let mut orchestration =
        replicated(&url_policy("http://no-such-name.invalid:80/{nodename}", json!({}), json!({})));
    orchestration["replicas"] = json!(2);
    want(&fleet, &hub, "1.0.0", orchestration).await;
    runs(&fleet, "1.0.0", 2).await;
    let before = fleet.processes();
    let broken = recorded(&hub, "health.check-broken").await;
    assert!(broken[0]["reason"].as_str().is_some_and(|text| text.contains("no-such-name")), "{broken:?}");
    eventually("the health says so", || async {
        let (_, found) = hub.call("GET", &format!("{EVERYWHERE}/instances/edge-1/health"), None).await;
        found.to_string().contains("check broken").then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(fleet.processes(), before);
    assert!(events(&hub, "health.recover").await.is_empty());
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// An instance that nothing else restarts is recovered each time that it ends, whatever reports come first.
#[tokio::test]
async fn every_instance_that_ends_is_recovered_when_nothing_restarts_it() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    allow_short_intervals(&hub).await;
    fleet.publish(&hub, "1.0.0").await;
    let detection = json!({"type": "NODE_STATUS_POLLING", "interval": 1, "node_update_timeout": 1});
    let mut orchestration = replicated(&json!({"detection": detection}));
    orchestration["replicas"] = json!(3);
    orchestration["restart"] = json!({"condition": "none"});
    want(&fleet, &hub, "1.0.0", orchestration).await;
    runs(&fleet, "1.0.0", 3).await;
    for round in 1..=4 {
        for number in 1..=3 {
            running_task(&hub, &format!("edge-{number}")).await;
        }
        let before: BTreeMap<String, i32> = fleet.processes();
        before.values().for_each(|process| kill_process(*process));
        eventually(&format!("all run again in round {round}"), || async {
            let now = fleet.processes();
            let is_new = |(node, process): (&String, &i32)| now.get(node).is_some_and(|one| one != process);
            (now.len() == 3 && before.iter().all(is_new)).then_some(())
        })
        .await;
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
