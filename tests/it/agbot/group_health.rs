//! Health policies of HA groups and the health registry, on real processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::recovery::{StatusPage, allow_short_intervals, running_task, url_policy};
use super::workload::{hub, runs, want};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

const GROUP: &str = "/orgs/o/hagroups/g";

fn polling(interval: u64) -> Value {
    json!({
        "detection": {"type": "NODE_STATUS_POLLING", "interval": interval, "node_update_timeout": 1},
        "recovery": {"action_timeout": 60},
    })
}

async fn attach(hub: &Hub, policy: Option<Value>) {
    let body = json!({"orchestration": {"healthPolicy": policy}});
    let (status, body) = hub.call("PUT", GROUP, Some(body)).await;
    assert_eq!(status, 201, "{body}");
}

async fn registrations(hub: &Hub) -> Vec<Value> {
    let (status, body) = hub.call("GET", "/orgs/o/health/registry", None).await;
    assert_eq!(status, 200, "{body}");
    body["registrations"].as_array().cloned().unwrap_or_default()
}

/// Events of a kind, whatever they are about.
async fn events(hub: &Hub, kind: &str) -> Vec<Value> {
    let (_, body) = hub.call("GET", "/orgs/o/agbot/events", None).await;
    let all = body["events"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|event| event["kind"] == kind).collect()
}

async fn recorded(hub: &Hub, kind: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} events {kind}"), || async {
        Some(events(hub, kind).await).filter(|events| events.len() >= count)
    })
    .await
}

/// C1-S1, C3, C7, C10-S1: what runs on a member in error comes up on a healthy one; a user recovers nothing while all is well; the removal of
/// a member suspends the checks.
#[tokio::test]
async fn member_in_error_loses_its_instance_and_the_removal_of_a_member_suspends_the_checks() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    allow_short_intervals(&hub).await;
    fleet.publish(&hub, "1.0.0").await;
    let order = json!({"nodesOrder": ["edge-1", "edge-2", "edge-3"]});
    want(&fleet, &hub, "1.0.0", json!({"mode": "replicated", "replicas": 2, "placement": order})).await;
    runs(&fleet, "1.0.0", 2).await;
    let kept = running_task(&hub, "edge-1").await;
    running_task(&hub, "edge-2").await;
    attach(&hub, Some(polling(1))).await;
    recorded(&hub, "health.registered", 1).await;
    eventually("the group is checked", || async {
        let rows = registrations(&hub).await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((&rows[0]["kind"], &rows[0]["target"]), (&json!("group"), &json!("o/g")));
        rows[0]["lastCheckAt"].is_string().then_some(())
    })
    .await;
    let (status, accepted) =
        hub.call("POST", &format!("{GROUP}/actions/recover"), Some(json!({"check": true}))).await;
    let rebuild = Some(json!({"operation": "REBUILD"}));
    assert_eq!(hub.call("POST", &format!("{GROUP}/actions/recover"), rebuild).await.0, 400);
    assert_eq!(status, 202, "{accepted}");
    let action = format!("{GROUP}/actions/{}", accepted["actionId"].as_str().unwrap_or_default());
    let done = eventually("the action is over", || async {
        let (_, found) = hub.call("GET", &action, None).await;
        (found["state"] == "done").then_some(found)
    })
    .await;
    assert_eq!(done["members"], json!([]), "{done}");

    let report = json!({"sourceId": "disk", "property": "smart", "healthState": "Error"});
    let (status, body) = hub.call("POST", "/orgs/o/nodes/edge-2/health", Some(report.clone())).await;
    assert_eq!(status, 201, "{body}");
    eventually("the instance runs elsewhere", || async {
        let running: BTreeSet<String> = fleet.versions().into_keys().collect();
        (running == BTreeSet::from(["edge-1".to_owned(), "edge-3".to_owned()])).then_some(())
    })
    .await;
    recorded(&hub, "health.recovered", 2).await;
    assert_eq!(running_task(&hub, "edge-1").await["taskId"], kept["taskId"]);

    let disabled = events(&hub, "health.disabled").await.len();
    let (status, body) = hub.call("DELETE", &format!("{GROUP}/nodes/edge-2"), None).await;
    assert_eq!(status, 204, "{body}");
    let found = recorded(&hub, "health.disabled", disabled + 1).await;
    assert!(found.iter().any(|event| event["detail"]["operation"] == "delete-nodes"), "{found:?}");
    recorded(&hub, "health.enabled", disabled + 1).await;
    attach(&hub, None).await;
    recorded(&hub, "health.unregistered", 1).await;
    assert_eq!(registrations(&hub).await, Vec::<Value>::new());
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Returns how many checks a hub has made.
async fn checks(hub: &Hub) -> u64 {
    let (_, text) = hub.get("/metrics").await.unwrap_or_default();
    let counted = text.lines().filter(|line| line.starts_with("orch_health_check_total{"));
    let values = counted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.map(|value| value as u64).sum()
}

/// C9-S1: each group is checked by one agbot in each interval, and by the other one when that dies.
#[tokio::test]
async fn each_group_is_checked_by_one_agbot_and_by_the_other_one_when_it_dies() {
    const GROUPS: u64 = 10;
    const INTERVAL: u64 = 2;
    let (scratch, second_scratch) = (Scratch::new(), Scratch::new());
    let database = TestDatabase::new().await;
    let mut options = vec!["--database-url", database.url()];
    let hub = Hub::start(&scratch, &options).await;
    let password = scratch.join("hub/root-password").to_string_lossy().into_owned();
    options.extend(["--root-password-file", &password]);
    let mut second = Hub::start(&second_scratch, &options).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await.0, 201);
    let settings = json!({"healthCheckIntervalMinSeconds": 1});
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(settings)).await.0, 201);
    for number in 0..GROUPS {
        let node = json!({"token": "token-of-the-node", "name": "n", "pattern": "", "publicKey": "key", "arch": "amd64"});
        let path = format!("/orgs/o/nodes/n{number}");
        assert_eq!(hub.call("PUT", &path, Some(node)).await.0, 201);
        let body =
            json!({"members": [format!("n{number}")], "orchestration": {"healthPolicy": polling(INTERVAL)}});
        let (status, body) = hub.call("POST", &format!("/orgs/o/hagroups/g{number}"), Some(body)).await;
        assert_eq!(status, 201, "{body}");
    }
    eventually("every group is registered, some with each agbot", || async {
        let rows = registrations(&hub).await;
        let engines: BTreeSet<&str> = rows.iter().filter_map(|row| row["engine"].as_str()).collect();
        (rows.len() as u64 == GROUPS && engines.len() == 2).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2 * INTERVAL)).await;
    let (began, before) = (Instant::now(), checks(&hub).await + checks(&second).await);
    tokio::time::sleep(Duration::from_secs(5 * INTERVAL)).await;
    let made = checks(&hub).await + checks(&second).await - before;
    let rounds = began.elapsed().as_secs().div_ceil(INTERVAL) + 1;
    assert!(made >= 3 * GROUPS && made <= rounds * GROUPS, "{made} checks in {:?}", began.elapsed());

    let before: BTreeMap<String, Value> = targets(&hub).await;
    second.program.kill().await;
    eventually("the survivor checks every group", || async {
        let rows = registrations(&hub).await;
        let engines: BTreeSet<&str> = rows.iter().filter_map(|row| row["engine"].as_str()).collect();
        let are_checked =
            rows.iter().all(|row| row["lastCheckAt"].is_string() && row["leaseUntil"].is_string());
        (engines.len() == 1 && are_checked).then_some(())
    })
    .await;
    let adopted = targets(&hub).await.into_iter().filter(|(name, engine)| before.get(name) != Some(engine));
    assert!(adopted.count() > 0);
    assert!(!events(&hub, "health.adopted").await.is_empty());
    assert_eq!(hub.stop().await, 0);
}

/// C7: whichever agbot is asked, the one that decides about the group polls its members by new requests, and the members of the action are
/// those that it finds.
#[tokio::test]
async fn check_that_a_user_orders_is_made_by_the_owner_of_the_group() {
    let (scratch, second_scratch) = (Scratch::new(), Scratch::new());
    let database = TestDatabase::new().await;
    let mut options =
        vec!["--upgrade-grace-secs", "1", "--checks-local", "true", "--database-url", database.url()];
    let hub = Hub::start(&scratch, &options).await;
    let password = scratch.join("hub/root-password").to_string_lossy().into_owned();
    options.extend(["--root-password-file", &password]);
    let second = Hub::start(&second_scratch, &options).await;
    std::fs::copy(&password, second_scratch.join("hub/root-password")).expect("the same password");
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    want(&fleet, &hub, "1.0.0", json!({"mode": "global"})).await;
    runs(&fleet, "1.0.0", 2).await;
    let page = StatusPage::start(|_| "all good".to_owned()).await;
    // Without an order the hub polls a minute later.
    let mut health = url_policy(&page.url, json!({"executor": "hub"}), json!({"action_timeout": 60}));
    health["detection"]["interval"] = json!(60);
    attach(&hub, Some(health)).await;
    recorded(&hub, "health.registered", 1).await;
    eventually("the hub polls both", || async { (page.requests().len() >= 2).then_some(()) }).await;
    for asked in [&hub, &second] {
        let before = events(&hub, "health.recover").await.len();
        page.set(|node| if node == "edge-2" { "broken".to_owned() } else { "all good".to_owned() });
        let path = format!("{GROUP}/actions/recover");
        let (status, accepted) = asked.call("POST", &path, Some(json!({"check": true}))).await;
        assert_eq!(status, 202, "{accepted}");
        eventually("its member is known", || async {
            (events(&hub, "health.recover").await.len() > before).then_some(())
        })
        .await;
        page.set(|_| "all good".to_owned());
        let action = format!("{GROUP}/actions/{}", accepted["actionId"].as_str().unwrap_or_default());
        let members = eventually("the action is over", || async {
            let (_, found) = asked.call("GET", &action, None).await;
            (found["state"] != "running").then(|| found["members"].clone())
        })
        .await;
        assert_eq!(members, json!(["o/edge-2"]));
    }
    drop(fleet);
    assert_eq!((hub.stop().await, second.stop().await), (0, 0));
}

/// Returns the agbot of each target.
async fn targets(hub: &Hub) -> BTreeMap<String, Value> {
    let rows = registrations(hub).await.into_iter();
    rows.map(|row| (row["target"].as_str().unwrap_or_default().to_owned(), row["engine"].clone())).collect()
}
