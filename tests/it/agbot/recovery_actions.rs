//! Health policies on real processes: what single actions do, and what the hub checks and calls itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::recovery::{
    StatusPage, allow_short_intervals, events, events_policy, recorded, replicated, running_task, url_policy,
};
use super::workload::{runs, want};
use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

/// A hub whose own checks and calls may reach this machine.
async fn local_hub(scratch: &Scratch) -> Hub {
    Hub::start(scratch, &["--upgrade-grace-secs", "1", "--checks-local", "true"]).await
}

async fn fleet(scratch: &Scratch, hub: &Hub, count: usize) -> Fleet {
    let fleet = Fleet::start(scratch, hub, count).await;
    allow_short_intervals(hub).await;
    fleet.publish(hub, "1.0.0").await;
    fleet
}

fn send(pid: i32, signal: Signal) {
    must(kill(Pid::from_raw(pid), signal), "a signal");
}

async fn end(hub: Hub, fleet: Fleet) {
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C5-S2: what is paused by hand continues, as the same process.
#[tokio::test]
async fn c5_s2_process_that_is_paused_by_hand_continues_as_the_same() {
    let scratch = Scratch::new();
    let hub = local_hub(&scratch).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    want(&fleet, &hub, "1.0.0", replicated(&events_policy())).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    let process = fleet.processes()["edge-1"];
    send(process, Signal::SIGSTOP);
    let since = Instant::now();
    assert_eq!(fleet.processes().get("edge-1"), None, "it does not respond");
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"], json!({"recreated": false, "operation": "UNPAUSE"}), "{recovered:?}");
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    assert_eq!(fleet.processes().get("edge-1"), Some(&process));
    assert_eq!(events(&hub, "health.recover").await[0]["data"]["event"], "PAUSE");
    let same = running_task(&hub, "edge-1").await;
    assert_eq!((&same["taskId"], &same["agreementId"]), (&task["taskId"], &task["agreementId"]));
    end(hub, fleet).await;
}

/// P-S15: what no action of a recovery by events brings back is left to the restart policy.
#[tokio::test]
async fn p_s15_process_that_no_action_brings_back_is_restarted() {
    let scratch = Scratch::new();
    let hub = local_hub(&scratch).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    let mut health = events_policy();
    // It was not paused, so that this does not help.
    health["recovery"] = json!({"actions": [{"name": "UNPAUSE"}], "action_timeout": 2});
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    let (task, process) = (running_task(&hub, "edge-1").await, fleet.processes()["edge-1"]);
    send(process, Signal::SIGKILL);
    let recovered = recorded(&hub, "health.recovered").await;
    let reason = recovered[0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("the restart policy recovered the instance"), "{recovered:?}");
    assert_eq!(events(&hub, "health.recovery-failed").await.len(), 1);
    let next = running_task(&hub, "edge-1").await;
    assert_ne!(next["taskId"], task["taskId"], "it is another task");
    eventually("it responds again", || async {
        fleet.processes().get("edge-1").is_some_and(|one| *one != process).then_some(())
    })
    .await;
    end(hub, fleet).await;
}

/// C6: a rebuilt instance is another process of the same agreement.
#[tokio::test]
async fn instance_that_ended_is_rebuilt_under_the_same_agreement() {
    let scratch = Scratch::new();
    let hub = local_hub(&scratch).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    let mut health = events_policy();
    health["recovery"] = json!({"actions": [{"name": "REBUILD"}], "action_timeout": 20});
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    let process = fleet.processes()["edge-1"];
    send(process, Signal::SIGKILL);
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"], json!({"recreated": false, "operation": "REBUILD"}), "{recovered:?}");
    eventually("it responds again", || async {
        fleet.processes().get("edge-1").is_some_and(|one| *one != process).then_some(())
    })
    .await;
    let same = running_task(&hub, "edge-1").await;
    assert_eq!((&same["taskId"], &same["agreementId"]), (&task["taskId"], &task["agreementId"]));
    end(hub, fleet).await;
}

/// The bodies that a server of workflows got, by path.
type Calls = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

/// A server of workflows: `broken` fails, `slow` never responds, `moved` redirects, everything else succeeds.
async fn workflows() -> (String, Calls) {
    let calls = Calls::default();
    let listener = must(TcpListener::bind("127.0.0.1:0").await, "a port");
    let url = format!("http://{}", must(listener.local_addr(), "an address"));
    let router = axum::Router::new().route("/{name}", axum::routing::post(flow)).with_state(calls.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, calls)
}

async fn flow(State(calls): State<Calls>, Path(name): Path<String>, Json(body): Json<Value>) -> Response {
    calls.lock().unwrap_or_else(PoisonError::into_inner).entry(name.clone()).or_default().push(body);
    match name.as_str() {
        "broken" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "slow" => std::future::pending().await,
        "moved" => Redirect::temporary("/good").into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

fn workflow(url: &str, name: &str) -> Value {
    let params = json!({"url": format!("{url}/{name}"), "timeout": 1, "node_id": "{{ node.physicalid }}"});
    json!({"name": name, "type": "WORKFLOW", "params": params})
}

/// C6-S3: a workflow that fails, redirects or never responds is followed by the next action, and the body names the node.
#[tokio::test]
async fn c6_s3_workflow_that_does_not_succeed_is_followed_by_the_next_action() {
    let scratch = Scratch::new();
    let hub = local_hub(&scratch).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    let (url, calls) = workflows().await;
    let mut health = events_policy();
    let names = ["broken", "moved", "slow"];
    let mut actions: Vec<Value> = names.iter().map(|name| workflow(&url, name)).collect();
    actions.push(json!({"name": "START"}));
    health["recovery"] = json!({"actions": actions, "action_timeout": 10});
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    send(fleet.processes()["edge-1"], Signal::SIGKILL);
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"]["operation"], "START", "{recovered:?}");
    let failed = events(&hub, "health.action-failed").await;
    let reasons: Vec<&str> = failed.iter().filter_map(|event| event["reason"].as_str()).collect();
    assert_eq!(reasons.len(), 3, "{failed:?}");
    assert!(reasons[0].contains("broken failed: the response has status 500"), "{reasons:?}");
    assert!(reasons[1].contains("moved failed: the response has status 307"), "{reasons:?}");
    assert!(reasons[2].contains("slow failed"), "{reasons:?}");
    let calls = calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(
        calls.keys().collect::<Vec<_>>(),
        names.iter().collect::<Vec<_>>(),
        "redirects are not followed"
    );
    let body = &calls["broken"][0];
    assert_eq!((&body["action"], &body["target"]), (&json!("broken"), &json!("o/everywhere")));
    assert_eq!(body["params"]["node_id"], "o/edge-1");
    assert_eq!((&body["member"]["node"], &body["member"]["taskId"]), (&json!("o/edge-1"), &task["taskId"]));
    assert_eq!(body["hints"]["event"], "POWER_OFF");
    end(hub, fleet).await;
}

/// C6: an external workflow restores the containers, and the recovery ends with the report of the node.
#[tokio::test]
async fn workflow_that_lets_the_process_run_recovers_the_instance() {
    let scratch = Scratch::new();
    let hub = local_hub(&scratch).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    let (url, calls) = workflows().await;
    let mut health = events_policy();
    health["recovery"] = json!({"actions": [workflow(&url, "good")], "action_timeout": 30});
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    running_task(&hub, "edge-1").await;
    let process = fleet.processes()["edge-1"];
    send(process, Signal::SIGSTOP);
    eventually("the workflow is called", || async {
        calls.lock().unwrap_or_else(PoisonError::into_inner).contains_key("good").then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(events(&hub, "health.recovered").await, Vec::<Value>::new(), "nothing runs yet");
    send(process, Signal::SIGCONT);
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"]["operation"], "good", "{recovered:?}");
    let calls = calls.lock().unwrap_or_else(PoisonError::into_inner)["good"].len();
    assert_eq!(calls, 1);
    end(hub, fleet).await;
}

/// Value of a metric with the labels.
async fn metric(hub: &Hub, name: &str) -> f64 {
    let response = must(hub.client.get(format!("{}/metrics", hub.url)).send().await, "a response");
    let text = must(response.text().await, "a text");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

const BROKEN: &str = r#"orch_health_check_total{result="error"}"#;

/// C4.2: the hub polls the URL itself.
#[tokio::test]
async fn instance_that_the_hub_finds_unhealthy_is_recreated() {
    let scratch = Scratch::new();
    let hub = local_hub(&scratch).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    let page = StatusPage::start(|_| "all good".to_owned()).await;
    let health = url_policy(&page.url, json!({"executor": "hub"}), json!({"action_timeout": 20}));
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    assert_eq!(task["supervision"]["probe"], Value::Null, "the agent has nothing to poll: {task}");
    eventually("the hub polls", || async { (page.requests().len() >= 2).then_some(()) }).await;
    page.set(|_| "broken".to_owned());
    recorded(&hub, "health.check-failed").await;
    page.set(|_| "all good".to_owned());
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"], json!({"recreated": true, "operation": "RECREATE"}), "{recovered:?}");
    assert_eq!(metric(&hub, BROKEN).await, 0.0);
    end(hub, fleet).await;
}

/// C3: what the hub may not reach is a broken check, which is counted and says nothing about the instance.
#[tokio::test]
async fn check_of_an_address_that_the_hub_may_not_reach_is_broken_and_recovers_nothing() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    let page = StatusPage::start(|_| "broken".to_owned()).await;
    let health = url_policy(&page.url, json!({"executor": "hub"}), json!({"action_timeout": 20}));
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    running_task(&hub, "edge-1").await;
    eventually("broken checks are counted", || async { (metric(&hub, BROKEN).await >= 3.0).then_some(()) })
        .await;
    assert_eq!(events(&hub, "health.check-failed").await, Vec::<Value>::new());
    assert_eq!(page.requests().len(), 0);
    end(hub, fleet).await;
}

/// C6: a workflow that the hub may not call is followed by the next action.
#[tokio::test]
async fn workflow_at_an_address_that_the_hub_may_not_reach_is_not_called() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    let (flows, calls) = workflows().await;
    let mut health = events_policy();
    health["recovery"] =
        json!({"actions": [workflow(&flows, "good"), {"name": "START"}], "action_timeout": 20});
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    running_task(&hub, "edge-1").await;
    send(fleet.processes()["edge-1"], Signal::SIGKILL);
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"]["operation"], "START", "{recovered:?}");
    let failed = events(&hub, "health.action-failed").await;
    let reason = failed[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("loopback"), "{failed:?}");
    assert!(calls.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
    end(hub, fleet).await;
}

/// C3-S3: an instance leaves a node whose engine cannot be used, although the node is alive.
#[tokio::test]
async fn c3_s3_instance_leaves_a_node_whose_engine_is_down() {
    let scratch = Scratch::new();
    let hub = local_hub(&scratch).await;
    let fleet = fleet(&scratch, &hub, 2).await;
    let health = json!({
        "detection": {"type": "HYPERVISOR_STATUS_POLLING", "interval": 1, "node_update_timeout": 1},
        "recovery": {"node_force_recreate": true, "node_delete_timeout": 1},
    });
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    let node = runs(&fleet, "1.0.0", 1).await.pop_first().expect("an instance runs");
    running_task(&hub, &node).await;
    let path = format!("/orgs/o/nodes/{node}/orchestration");
    eventually("the engine is reported", || async {
        let (_, found) = hub.call("GET", &path, None).await;
        (found["status"]["engine"]["state"] == "up").then_some(())
    })
    .await;
    // The driver of processes can do nothing without its directory.
    let directory = scratch.join(&node).join("processes");
    must(std::fs::rename(&directory, directory.with_extension("away")), "a directory");
    let failed = recorded(&hub, "health.check-failed").await;
    let reason = failed[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("HYPERVISOR_STATUS_POLLING"), "{failed:?}");
    eventually("the other node runs it", || async {
        fleet.versions().keys().any(|one| *one != node).then_some(())
    })
    .await;
    end(hub, fleet).await;
}

/// C3-S5: peers that do not reach an instance have it recovered, and the others are left alone.
#[tokio::test]
async fn instance_that_its_peers_do_not_reach_is_recreated() {
    let scratch = Scratch::new();
    let hub = local_hub(&scratch).await;
    let fleet = fleet(&scratch, &hub, 3).await;
    let page = StatusPage::start(|_| "all good".to_owned()).await;
    let options =
        json!({"poll_url": page.url, "poll_url_healthy_response": "all good", "poll_url_retry_limit": 0});
    let health = json!({
        "detection": {
            "interval": 1, "node_update_timeout": 2,
            "detection_modes": [{"type": "LB_STATUS_POLLING", "options": options}],
        },
        "recovery": {"action_timeout": 20},
    });
    let mut orchestration = replicated(&health);
    orchestration["replicas"] = json!(3);
    want(&fleet, &hub, "1.0.0", orchestration).await;
    runs(&fleet, "1.0.0", 3).await;
    for node in ["edge-1", "edge-2", "edge-3"] {
        eventually("its peers are seen", || async {
            let task = running_task(&hub, node).await;
            let peers = task["health"]["peers"].as_object().cloned().unwrap_or_default();
            (peers.len() == 2 && peers.values().all(|is_online| is_online == true)).then_some(())
        })
        .await;
    }
    let before = fleet.processes();
    page.set(|node| if node == "edge-2" { "gone".to_owned() } else { "all good".to_owned() });
    let failed = recorded(&hub, "health.check-failed").await;
    let reason = failed[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("LB_STATUS_POLLING: 2 of 2 peers do not reach it"), "{failed:?}");
    page.set(|_| "all good".to_owned());
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(
        (&recovered[0]["node"], &recovered[0]["data"]["operation"]),
        (&json!("edge-2"), &json!("RECREATE"))
    );
    let after = runs(&fleet, "1.0.0", 3).await.len();
    assert_eq!((after, events(&hub, "health.recover").await.len()), (3, 1));
    let same = |node: &str| fleet.processes().get(node) == before.get(node);
    assert!(same("edge-1") && same("edge-3") && !same("edge-2"));
    end(hub, fleet).await;
}

/// C3-S4: a check that the database refuses is counted, and recovers nothing.
#[tokio::test]
async fn c3_s4_check_that_the_database_refuses_is_counted_and_recovers_nothing() {
    let (scratch, database) = (Scratch::new(), TestDatabase::empty().await);
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1", "--database-url", database.url()]).await;
    let fleet = fleet(&scratch, &hub, 1).await;
    let health = json!({
        "detection": {"type": "HYPERVISOR_STATUS_POLLING", "interval": 1, "node_update_timeout": 1},
    });
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    let mut connection = database.connection().await;
    let rename = sqlx::raw_sql("ALTER TABLE node_report RENAME COLUMN engine TO motor");
    must(rename.execute(&mut connection).await, "a column");
    eventually("broken checks are counted", || async { (metric(&hub, BROKEN).await >= 2.0).then_some(()) })
        .await;
    assert_eq!(events(&hub, "health.recover").await, Vec::<Value>::new());
    assert_eq!(running_task(&hub, "edge-1").await["taskId"], task["taskId"]);
    let back = sqlx::raw_sql("ALTER TABLE node_report RENAME COLUMN motor TO engine");
    must(back.execute(&mut connection).await, "a column");
    end(hub, fleet).await;
}
