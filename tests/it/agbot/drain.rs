//! Nodes that are drained and paused, on real processes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

pub(super) async fn set(hub: &Hub, node: &str, availability: &str) {
    let path = format!("/orgs/o/nodes/{node}/orchestration/spec");
    let (status, body) = hub.call("PUT", &path, Some(json!({"availability": availability}))).await;
    assert_eq!(status, 201, "{body}");
}

/// Returns the agbot's reason for the policy on a node.
pub(super) async fn reason(hub: &Hub, node: &str) -> String {
    let (_, body) = hub.call("GET", "/orgs/o/agbot/reasons", None).await;
    let reasons = body["reasons"].as_array().cloned().unwrap_or_default();
    let of_node = reasons.iter().find(|reason| reason["node"] == format!("o/{node}"));
    of_node.and_then(|reason| reason["text"].as_str()).unwrap_or_default().to_owned()
}

/// B9, E4-S6 and P: members are emptied one by one, the last copy stays, and a paused member is left alone by a rollout.
#[tokio::test]
async fn drained_members_lose_their_instances_one_by_one_and_the_last_one_stays() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("every member runs it", || async { fleet.all_run("1.0.0").then_some(()) }).await;

    for node in ["edge-1", "edge-2", "edge-3"] {
        set(&hub, node, "drain").await;
    }
    eventually("two members are empty", || async { (fleet.versions().len() == 1).then_some(()) }).await;
    let last = fleet.versions().into_keys().next().expect("a copy runs");
    eventually("the last member says why it keeps its copy", || async {
        reason(&hub, &last).await.contains("HA minimum").then_some(())
    })
    .await;
    let watched_since = Instant::now();
    while watched_since.elapsed() < Duration::from_secs(3) {
        assert!(fleet.versions().contains_key(&last), "the last copy stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let empty: Vec<_> = ["edge-1", "edge-2", "edge-3"].into_iter().filter(|node| *node != last).collect();
    set(&hub, &last, "pause").await;
    for node in &empty {
        set(&hub, node, "active").await;
    }
    eventually("every member runs it again", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    fleet.want(&hub, "2.0.0").await;
    eventually("the members that are not paused run the new version", || async {
        let versions = fleet.versions();
        empty.iter().all(|node| versions.get(*node).is_some_and(|version| version == "2.0.0")).then_some(())
    })
    .await;
    eventually("the paused member says so", || async {
        reason(&hub, &last).await.contains("paused").then_some(())
    })
    .await;
    assert_eq!(
        fleet.versions().get(&last).map(String::as_str),
        Some("1.0.0"),
        "a paused member keeps its copy"
    );
    set(&hub, &last, "active").await;
    eventually("it follows when it is active", || async { fleet.all_run("2.0.0").then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// B9.1, P-S4: the same of a workload; what has not been seen running yet may be stopped.
#[tokio::test]
async fn last_instance_of_a_workload_in_a_group_stays_on_a_member_that_is_drained() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "1", "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": {"mode": "global"}})).await;
    eventually("every member is seen running it", || async {
        let (_, body) = hub.call("GET", "/orgs/o/business/policies/everywhere/orchestration", None).await;
        (body["units"][0]["up"] == 3).then_some(())
    })
    .await;
    for node in ["edge-1", "edge-2", "edge-3"] {
        set(&hub, node, "drain").await;
    }
    eventually("two members are empty", || async { (fleet.versions().len() == 1).then_some(()) }).await;
    let last = fleet.versions().into_keys().next().expect("a copy runs");
    eventually("it is said what the last member waits for", || async {
        let path = format!("/orgs/o/business/policies/everywhere/explain?node={last}");
        let (_, body) = hub.call("GET", &path, None).await;
        body.to_string().contains("its drain waits: too few other members of HA group o/g").then_some(())
    })
    .await;
    let watched_since = Instant::now();
    while watched_since.elapsed() < Duration::from_secs(3) {
        assert!(fleet.versions().contains_key(&last), "the last copy stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eventually("the group shows what its drain waits for", || async {
        let (_, body) = hub.call("GET", "/orgs/o/hagroups/g/upgrades", None).await;
        let (waits, blocked) = (&body["waiting"][0], &body["blocked"]);
        let is_meant = waits["node"] == format!("o/{last}") && waits["policy"] == "o/everywhere";
        (is_meant && blocked["rules"] == json!(["HAMinimum"])).then_some(())
    })
    .await;
    eventually("the event log names who is drained", || async {
        let (_, body) = hub.call("GET", "/orgs/o/orchestration/events?kind=node.availability", None).await;
        let events = body["events"].as_array()?;
        (events.len() == 3 && events.iter().all(|event| event["data"]["availability"] == "drain"))
            .then_some(())
    })
    .await;
    let forced = format!("/orgs/o/nodes/{last}/actions/drain?force=true");
    assert_eq!(hub.call("POST", &forced, None).await.0, 201);
    eventually("the last member is empty, too", || async { fleet.versions().is_empty().then_some(()) }).await;
    for node in ["edge-1", "edge-2", "edge-3"] {
        set(&hub, node, "active").await;
    }
    eventually("every member runs it again", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
