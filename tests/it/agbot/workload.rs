//! Workloads on real processes: instances that the hub counts, places, moves, updates and rolls back.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::failover::{DOWN_AFTER, send_heartbeats};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

pub(super) async fn hub(scratch: &Scratch) -> Hub {
    Hub::start(scratch, &["--upgrade-grace-secs", "1"]).await
}

/// A hub that soon takes silent nodes for down: a test needs [`send_heartbeats`] for those that live.
pub(super) async fn hub_that_loses_nodes(scratch: &Scratch) -> Hub {
    let down_after = DOWN_AFTER.as_secs().to_string();
    let options = ["--node-down-after-secs", &down_after, "--upgrade-grace-secs", "1"];
    Hub::start(scratch, &options).await
}

pub(super) async fn want(fleet: &Fleet, hub: &Hub, version: &str, orchestration: Value) {
    fleet.want_with(hub, version, json!({"orchestration": orchestration})).await;
}

/// Waits until as many instances of the version run, and no other.
pub(super) async fn runs(fleet: &Fleet, version: &str, count: usize) -> BTreeSet<String> {
    eventually(&format!("{count} instances of {version} run"), || async {
        let versions = fleet.versions();
        let is_right = versions.len() == count && versions.values().all(|one| one == version);
        (is_right && fleet.instances() == count).then(|| versions.into_keys().collect())
    })
    .await
}

/// Kills the agent of a node together with the machine's instance, as far as the hub can see.
async fn lose(fleet: &mut Fleet, node: &str) {
    let number: usize = node.trim_start_matches("edge-").parse().expect("a number");
    fleet.agent(number - 1).kill().await;
}

pub(super) fn replicated(count: u32) -> Value {
    json!({"mode": "replicated", "replicas": count, "restart": {"delaySeconds": 0}})
}

/// B1-S1, B2-S1, B6: the hub places as many instances as the policy says, and a slot moves off a node that is lost.
#[tokio::test]
async fn instances_are_placed_scaled_and_moved_off_a_lost_node() {
    let scratch = Scratch::new();
    let hub = hub_that_loses_nodes(&scratch).await;
    let mut fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            want(&fleet, &hub, "1.0.0", replicated(2)).await;
            let two = runs(&fleet, "1.0.0", 2).await;
            let kept = fleet.processes();
            want(&fleet, &hub, "1.0.0", replicated(3)).await;
            runs(&fleet, "1.0.0", 3).await;
            assert!(kept.iter().all(|(node, process)| fleet.processes().get(node) == Some(process)));
            want(&fleet, &hub, "1.0.0", replicated(2)).await;
            let left = runs(&fleet, "1.0.0", 2).await;
            assert_eq!(left, two, "the newest slot goes");
            for kind in ["task.shutdown", "instance.stopped", "task.reaped"] {
                eventually(&format!("{kind} of the slot that is gone"), || async {
                    let path = format!("/orgs/o/business/policies/everywhere/events?kind={kind}");
                    let (_, found) = hub.call("GET", &path, None).await;
                    found["events"].as_array().is_some_and(|events| events.len() == 1).then_some(())
                })
                .await;
            }

            let lost = left.into_iter().next().expect("an instance runs");
            lose(&mut fleet, &lost).await;
            eventually("the slot moves", || async {
                let versions = fleet.versions();
                (versions.keys().filter(|node| **node != lost).count() == 2).then_some(())
            })
            .await;
        } => {}
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A2-S1: the only instance is taken over by another node when its own is lost, and not before.
#[tokio::test]
async fn only_instance_is_taken_over_when_its_node_is_lost() {
    let scratch = Scratch::new();
    let hub = hub_that_loses_nodes(&scratch).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let orchestration = json!({"mode": "failover", "orchestrate": "ha", "timers": {"readyPeriodSeconds": 0}});
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            want(&fleet, &hub, "1.0.0", orchestration).await;
            let active = runs(&fleet, "1.0.0", 1).await.into_iter().next().expect("an instance runs");
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(fleet.instances(), 1);
            lose(&mut fleet, &active).await;
            eventually("the other node takes over", || async {
                fleet.versions().keys().any(|node| *node != active).then_some(())
            })
            .await;
        } => {}
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// B11-S4, E4-S1: a version that fails is rolled back automatically, and an instance always runs.
#[tokio::test]
async fn version_that_fails_is_rolled_back_while_an_instance_runs() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish_broken(&hub, "2.0.0").await;
    let orchestration = json!({
        "mode": "replicated", "replicas": 2, "restart": {"delaySeconds": 1},
        "update": {"parallelism": 1, "failureAction": "rollback", "monitorSeconds": 2},
        "rollback": {"monitorSeconds": 1},
    });
    want(&fleet, &hub, "1.0.0", orchestration.clone()).await;
    runs(&fleet, "1.0.0", 2).await;
    want(&fleet, &hub, "2.0.0", orchestration).await;
    for kind in ["update.started", "update.rollback-started", "update.rollback-completed"] {
        eventually(kind, || async {
            assert!(!fleet.versions().is_empty(), "an instance runs");
            let (status, body) = hub.call("GET", "/orgs/o/agbot/events?policy=o/everywhere", None).await;
            assert_eq!(status, 200, "{body}");
            let events = body["events"].as_array().cloned().unwrap_or_default();
            events.iter().any(|event| event["kind"] == kind).then_some(())
        })
        .await;
    }
    runs(&fleet, "1.0.0", 2).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// 1.1-6, 2-S4: a policy that gets tasks keeps what runs, and so does one that loses them, as when a client that does not know
/// `orchestration` writes it.
#[tokio::test]
async fn running_instances_are_adopted_and_kept_when_tasks_end() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    runs(&fleet, "1.0.0", 2).await;
    let processes = fleet.processes();
    want(&fleet, &hub, "1.0.0", replicated(2)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(fleet.processes(), processes, "nothing is restarted");
    want(&fleet, &hub, "1.0.0", replicated(1)).await;
    let left = runs(&fleet, "1.0.0", 1).await;
    let policy = "/orgs/o/business/policies/everywhere";
    let stored = |body: &Value| body["businessPolicy"]["o/everywhere"]["orchestration"].clone();
    assert_eq!(stored(&hub.call("GET", policy, None).await.1)["mode"], "replicated");
    fleet.want(&hub, "1.0.0").await;
    assert_eq!(stored(&hub.call("GET", policy, None).await.1), Value::Null);
    let removed = eventually("the tasks are given up", || async {
        let (status, body) =
            hub.call("GET", &format!("{policy}/events?kind=orchestration.removed"), None).await;
        assert_eq!(status, 200, "{body}");
        body["events"].as_array().and_then(|events| events.first().cloned())
    })
    .await;
    assert_eq!(removed["data"]["kept"], 1, "{removed}");
    runs(&fleet, "1.0.0", 2).await;
    for node in ["edge-1", "edge-2"] {
        let (_, body) = hub.call("GET", &format!("/orgs/o/nodes/{node}/tasks"), None).await;
        assert_eq!(body["tasks"], json!([]), "{body}");
        // The agent starts the service and concurrently reports the agreement to the exchange.
        eventually("the node has its agreement", || async {
            let (_, body) = hub.call("GET", &format!("/orgs/o/nodes/{node}/agreements"), None).await;
            (body["agreements"].as_object().map(serde_json::Map::len) == Some(1)).then_some(())
        })
        .await;
    }
    let kept = left.iter().next().expect("an instance runs");
    assert_eq!(fleet.processes().get(kept), processes.get(kept), "what ran goes on");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Engine 8: two agbots share the work, and nothing is doubled when one of them dies.
#[tokio::test]
async fn two_agbots_carry_out_one_policy_and_one_goes_on_alone() {
    let (scratch, second_scratch) = (Scratch::new(), Scratch::new());
    let database = TestDatabase::new().await;
    let mut options = vec!["--database-url", database.url(), "--upgrade-grace-secs", "1"];
    let hub = Hub::start(&scratch, &options).await;
    let password = scratch.join("hub/root-password").to_string_lossy().into_owned();
    options.extend(["--root-password-file", &password]);
    let mut second = Hub::start(&second_scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    for count in [1, 3, 2] {
        want(&fleet, &hub, "1.0.0", replicated(count)).await;
        runs(&fleet, "1.0.0", count as usize).await;
    }
    want(&fleet, &hub, "2.0.0", replicated(2)).await;
    second.program.kill().await;
    runs(&fleet, "2.0.0", 2).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// 1.2: the exchange knows of the tasks on nodes whose agents do not read them, too.
#[tokio::test]
async fn mode_stays_while_a_node_that_reads_no_tasks_has_one() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    let node = "/orgs/o/nodes/edge-1";
    let (status, body) = hub.call("PATCH", node, Some(json!({"softwareVersions": {}}))).await;
    assert_eq!(status, 201, "{body}");
    want(&fleet, &hub, "1.0.0", replicated(1)).await;
    runs(&fleet, "1.0.0", 1).await;
    let policy = "/orgs/o/business/policies/everywhere";
    let change = async |orchestration: Value| {
        hub.call("PATCH", policy, Some(json!({"orchestration": orchestration}))).await
    };
    let flex = json!({"mode": "flex", "orchestrate": "ha", "restart": {"delaySeconds": 0}});
    let (status, refused) = change(flex.clone()).await;
    assert_eq!((status, refused["code"].as_str()), (409, Some("conflict")), "{refused}");
    assert_eq!(change(replicated(0)).await.0, 201);
    eventually("the mode may change when nothing is left", || async {
        (change(flex.clone()).await.0 == 201).then_some(())
    })
    .await;
    runs(&fleet, "1.0.0", 1).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
