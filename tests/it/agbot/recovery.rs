//! Health policies on real processes: instances that fail are detected, recovered and fenced.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use evenkeel_client::{AddressRule, ProbeClient};
use evenkeel_http_server::tls::Authority;
use evenkeel_http_server::{HttpLimits, HttpMetrics, HttpServer, listen};
use evenkeel_runtime::metrics::Metrics;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::failover::send_heartbeats;
use super::workload::{hub, hub_that_loses_nodes, runs, want};
use crate::support::fleet::Fleet;
use crate::support::link::Link;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

const EVERYWHERE: &str = "/orgs/o/business/policies/everywhere";
/// The response of a healthy instance.
pub(super) const GOOD: &str = "all good";

/// Events of a kind about the policy, oldest first.
pub(super) async fn events(hub: &Hub, kind: &str) -> Vec<Value> {
    let (status, found) = hub.call("GET", &format!("{EVERYWHERE}/events?kind={kind}"), None).await;
    assert_eq!(status, 200, "{found}");
    found["events"].as_array().cloned().unwrap_or_default()
}

pub(super) async fn recorded(hub: &Hub, kind: &str) -> Vec<Value> {
    eventually(kind, || async { Some(events(hub, kind).await).filter(|events| !events.is_empty()) }).await
}

/// The tasks of a node that are to run.
async fn wanted_tasks(hub: &Hub, node: &str) -> Vec<Value> {
    let (_, found) = hub.call("GET", &format!("/orgs/o/nodes/{node}/tasks"), None).await;
    let tasks = found["tasks"].as_array().cloned().unwrap_or_default();
    tasks.into_iter().filter(|task| task["desiredState"] == "running").collect()
}

/// Waits until the hub knows that an instance runs on the node, and returns its task.
pub(super) async fn running_task(hub: &Hub, node: &str) -> Value {
    eventually(&format!("the task of {node} is reported as running"), || async {
        wanted_tasks(hub, node).await.into_iter().find(|task| task["state"] == "running")
    })
    .await
}

/// The organization lets instances be checked every second.
pub(super) async fn allow_short_intervals(hub: &Hub) {
    let settings = json!({"healthCheckIntervalMinSeconds": 1, "healthCheckIntervalMaxSeconds": 1});
    let (status, body) = hub.call("PATCH", "/orgs/o/orchestration", Some(settings)).await;
    assert_eq!(status, 201, "{body}");
}

pub(super) fn replicated(health: &Value) -> Value {
    json!({"mode": "replicated", "replicas": 1, "restart": {"delaySeconds": 0}, "healthPolicy": health})
}

pub(super) fn events_policy() -> Value {
    let detection = json!({"type": "LIFECYCLE_EVENTS", "node_update_timeout": 1});
    json!({"detection": detection, "recovery": {"action_timeout": 20}})
}

/// A policy that polls; `more` are further options.
pub(super) fn url_policy(url: &str, more: Value, recovery: Value) -> Value {
    let mut options = json!({"poll_url": url, "poll_url_healthy_response": GOOD, "poll_url_retry_limit": 0, "poll_url_retry_interval": 1});
    for (name, value) in more.as_object().into_iter().flatten() {
        options[name] = value.clone();
    }
    json!({
        "detection": {
            "interval": 1, "node_update_timeout": 2,
            "detection_modes": [{"type": "NODE_STATUS_POLL_URL", "options": options}],
        },
        "recovery": recovery,
    })
}

/// The responses of the status page, request by request.
type Responses = Box<dyn FnMut(&str) -> String + Send>;

/// A page at which instances say whether they are well.
pub(super) struct StatusPage {
    pub url: String,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    responses: Responses,
    requests: Vec<(Instant, String)>,
}

impl StatusPage {
    pub(super) async fn start(responses: impl FnMut(&str) -> String + Send + 'static) -> StatusPage {
        let shared = Arc::new(Mutex::new(Shared { responses: Box::new(responses), requests: Vec::new() }));
        let listener = must(TcpListener::bind("127.0.0.1:0").await, "a port");
        let address = must(listener.local_addr(), "an address");
        let router =
            axum::Router::new().route("/{node}", axum::routing::get(page)).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        StatusPage { url: format!("http://{address}/{{nodename}}"), shared }
    }

    pub(super) fn set(&self, responses: impl FnMut(&str) -> String + Send + 'static) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        (shared.responses, shared.requests) = (Box::new(responses), Vec::new());
    }

    /// When the page was asked, and what it responded, since the responses were set.
    pub(super) fn requests(&self) -> Vec<(Instant, String)> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }
}

async fn page(State(shared): State<Arc<Mutex<Shared>>>, Path(node): Path<String>) -> String {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let response = (shared.responses)(&node);
    shared.requests.push((Instant::now(), response.clone()));
    response
}

pub(super) fn kill_process(pid: i32) {
    must(kill(Pid::from_raw(pid), Signal::SIGKILL), "killing a process");
}

/// C5-S1, C5-S3, C5-S5: what is killed by hand runs again within seconds; a restart that a user orders is not
/// a failure.
#[tokio::test]
async fn process_that_is_killed_by_hand_is_started_again_at_once() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    want(&fleet, &hub, "1.0.0", replicated(&events_policy())).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    let killed = fleet.processes()["edge-1"];
    kill_process(killed);
    let since = Instant::now();
    eventually("it runs again", || async {
        fleet.processes().get("edge-1").is_some_and(|process| *process != killed).then_some(())
    })
    .await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"]["operation"], "START", "{recovered:?}");
    let recover = events(&hub, "health.recover").await;
    assert_eq!((recover.len(), &recover[0]["data"]["event"]), (1, &json!("POWER_OFF")), "{recover:?}");
    for member in ["event", "state", "instance_id", "timestamp", "publisher", "operation"] {
        assert!(recover[0]["data"][member].is_string(), "{member} of {recover:?}");
    }
    let again = running_task(&hub, "edge-1").await;
    assert_eq!((&again["taskId"], &again["agreementId"]), (&task["taskId"], &task["agreementId"]));

    let before = fleet.processes()["edge-1"];
    let (status, body) = hub.call("POST", &format!("{EVERYWHERE}/actions/restart"), None).await;
    assert_eq!(status, 202, "{body}");
    eventually("the user's restart is carried out", || async {
        fleet.processes().get("edge-1").is_some_and(|process| *process != before).then_some(())
    })
    .await;
    running_task(&hub, "edge-1").await;
    assert_eq!(events(&hub, "health.recover").await.len(), 1, "a restart by a user is no failure");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C5-S4: what an agent reports about a workload without a health policy is stored, and nothing follows.
#[tokio::test]
async fn event_of_a_workload_without_a_health_policy_is_only_stored() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    want(&fleet, &hub, "1.0.0", json!({"mode": "replicated", "replicas": 1})).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    let process = fleet.processes()["edge-1"];
    let event = json!({
        "event": "SHUTDOWN", "state": "shutdown", "instance_id": "c1", "taskId": task["taskId"],
        "timestamp": "2026-01-01T00:00:00Z", "publisher": "docker:edge-1",
    });
    let request = hub.client.post(format!("{}/v1/orgs/o/nodes/edge-1/lifecycle", hub.url));
    let request = request.basic_auth("o/edge-1", Some("secret-edge-1")).json(&event);
    assert_eq!(must(request.send().await, "a response").status().as_u16(), 201);
    let stored = eventually("the event is stored", || async {
        let task = wanted_tasks(&hub, "edge-1").await.pop()?;
        (task["health"]["events"] == 1).then_some(task)
    })
    .await;
    assert_eq!(stored["health"]["lifecycle"]["event"], "SHUTDOWN", "{stored}");
    assert_eq!(recorded(&hub, "lifecycle.shutdown").await.len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(events(&hub, "health.recover").await, Vec::<Value>::new());
    assert_eq!(fleet.processes()["edge-1"], process);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C4-S1, C4-S2: an instance that gives the right response at last is healthy; one that never does is created again.
#[tokio::test]
async fn instance_that_gives_the_wrong_response_is_recreated_when_all_attempts_failed() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    allow_short_intervals(&hub).await;
    fleet.publish(&hub, "1.0.0").await;
    let mut asked = 0;
    let page = StatusPage::start(move |_| {
        asked += 1;
        if asked <= 3 { "starting".to_owned() } else { GOOD.to_owned() }
    })
    .await;
    let options = json!({"poll_url_retry_limit": 3, "poll_url_retry_interval": 2});
    want(&fleet, &hub, "1.0.0", replicated(&url_policy(&page.url, options, json!({})))).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    eventually("the instance is healthy", || async {
        let task = wanted_tasks(&hub, "edge-1").await.pop()?;
        (task["health"]["healthy"] == true).then_some(())
    })
    .await;
    let requests = page.requests();
    let last = requests.iter().position(|(_, response)| response == GOOD).expect("it was healthy");
    assert_eq!(last, 3, "{requests:?}");
    assert!(requests[last].0 - requests[0].0 >= Duration::from_secs(6), "{requests:?}");
    assert_eq!(events(&hub, "health.check-failed").await, Vec::<Value>::new());

    let sick = fleet.processes()["edge-1"];
    page.set(|_| "starting".to_owned());
    eventually("the instance is created again", || async {
        fleet.processes().get("edge-1").is_some_and(|process| *process != sick).then_some(())
    })
    .await;
    let before: Vec<_> = page.requests().into_iter().take(4).collect();
    assert!(before[3].0 - before[0].0 >= Duration::from_secs(6), "{before:?}");
    page.set(|_| GOOD.to_owned());
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"], json!({"recreated": true, "operation": "RECREATE"}), "{recovered:?}");
    let failed = events(&hub, "health.check-failed").await;
    let reason = failed[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("without all good") && !reason.contains("starting"), "{failed:?}");
    let next = running_task(&hub, "edge-1").await;
    assert_ne!((&next["taskId"], &next["agreementId"]), (&task["taskId"], &task["agreementId"]));
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C4-S3: a port that is closed is a failure, unless the policy says that it is none.
#[tokio::test]
async fn closed_port_is_a_failure_only_when_the_policy_says_so() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    allow_short_intervals(&hub).await;
    fleet.publish(&hub, "1.0.0").await;
    let url = format!("http://{}/{{nodename}}", crate::support::free_address());
    let health = url_policy(&url, json!({"poll_url_conn_error_as_unhealthy": false}), json!({}));
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    eventually("the instance counts as healthy", || async {
        let task = wanted_tasks(&hub, "edge-1").await.pop()?;
        (task["health"]["healthy"] == true).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(running_task(&hub, "edge-1").await["taskId"], task["taskId"]);
    assert_eq!(events(&hub, "health.recover").await, Vec::<Value>::new());

    want(&fleet, &hub, "1.0.0", replicated(&url_policy(&url, json!({}), json!({})))).await;
    recorded(&hub, "health.check-failed").await;
    eventually("the instance is created again", || async {
        let running = wanted_tasks(&hub, "edge-1").await;
        running.iter().any(|one| one["taskId"] != task["taskId"]).then_some(())
    })
    .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C4-S5: a certificate of an unknown authority counts as a connection error, unless the policy says that it is not verified.
#[tokio::test]
async fn certificate_of_an_unknown_authority_is_accepted_only_when_the_policy_says_so() {
    let scratch = Scratch::new();
    let authority = Authority::new(scratch.join("tls"));
    let certificate = authority.certify(&["localhost".to_owned()], jiff::Timestamp::now());
    let authority = authority.certificate_file();
    let listener = must(listen("127.0.0.1:0").await, "a listener");
    let url = format!("https://localhost:{}/", must(listener.local_addr(), "an address").port());
    let handler = axum::Router::new().fallback(async || GOOD).into();
    let (limits, metrics) = (HttpLimits::default(), HttpMetrics::new(&Metrics::default()));
    let tls = Some(must(certificate, "a certificate"));
    let shutdown = CancellationToken::new();
    let _shutdown = shutdown.clone().drop_guard();
    tokio::spawn(HttpServer { listener, handler, limits, tls, metrics }.serve(shutdown));
    let client = must(ProbeClient::new(AddressRule::Any, None), "a client");
    let limit = Duration::from_secs(10);
    let informed = must(ProbeClient::new(AddressRule::Any, Some(&authority)), "a client");
    assert_eq!(
        informed.get(&url, true, limit).await,
        Ok((200, GOOD.to_owned())),
        "it trusts the private authority"
    );
    let unreadable = ProbeClient::new(AddressRule::Any, Some(&scratch.join("none.pem"))).unwrap_err();
    assert!(unreadable.contains("none.pem"), "{unreadable}");
    let refused = client.get(&url, true, limit).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert_eq!(client.get(&url, false, limit).await, Ok((200, GOOD.to_owned())));
}

/// C6-S1, C6-S2: the actions are tried in their order, until one helps.
#[tokio::test]
async fn next_action_follows_when_the_first_one_does_not_help() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    allow_short_intervals(&hub).await;
    fleet.publish(&hub, "1.0.0").await;
    let page = StatusPage::start(|_| GOOD.to_owned()).await;
    let recovery = json!({
        "actions": [{"name": "REBOOT", "params": {"type": "SOFT"}}, {"name": "RECREATE"}], "action_timeout": 4,
    });
    want(&fleet, &hub, "1.0.0", replicated(&url_policy(&page.url, json!({}), recovery))).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    let first = fleet.processes()["edge-1"];

    page.set(|_| "broken".to_owned());
    eventually("the process is started again", || async {
        fleet.processes().get("edge-1").is_some_and(|process| *process != first).then_some(())
    })
    .await;
    page.set(|_| GOOD.to_owned());
    let recovered = recorded(&hub, "health.recovered").await;
    assert_eq!(recovered[0]["data"], json!({"recreated": false, "operation": "REBOOT"}));
    let same = running_task(&hub, "edge-1").await;
    assert_eq!((&same["taskId"], &same["agreementId"]), (&task["taskId"], &task["agreementId"]));

    page.set(|_| "broken".to_owned());
    eventually("the instance is created again", || async {
        let running = wanted_tasks(&hub, "edge-1").await;
        running.iter().any(|one| one["taskId"] != task["taskId"]).then_some(())
    })
    .await;
    page.set(|_| GOOD.to_owned());
    let recovered = eventually("the recreation recovers it", || async {
        Some(events(&hub, "health.recovered").await).filter(|events| events.len() == 2)
    })
    .await;
    assert_eq!(recovered[1]["data"], json!({"recreated": true, "operation": "RECREATE"}));
    let actions = events(&hub, "health.recover-action").await;
    let names: Vec<_> = actions.iter().map(|event| event["data"]["operation"].clone()).collect();
    assert_eq!(names, ["REBOOT", "REBOOT", "RECREATE"]);
    let next = running_task(&hub, "edge-1").await;
    assert_ne!(next["agreementId"], task["agreementId"]);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C7-S1, C7-S2: a user recovers what has failed and nothing else.
#[tokio::test]
async fn user_recovers_the_instances_that_have_failed() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    let orchestration = json!({"mode": "replicated", "replicas": 3, "restart": {"condition": "none"}});
    want(&fleet, &hub, "1.0.0", orchestration).await;
    runs(&fleet, "1.0.0", 3).await;
    for node in ["edge-1", "edge-2", "edge-3"] {
        running_task(&hub, node).await;
    }
    let recover = async |body: Value| {
        let (status, accepted) = hub.call("POST", &format!("{EVERYWHERE}/actions/recover"), Some(body)).await;
        assert_eq!(status, 202, "{accepted}");
        let path = format!("{EVERYWHERE}/actions/{}", accepted["actionId"].as_str().unwrap_or_default());
        eventually("the action is done", || async {
            let (_, found) = hub.call("GET", &path, None).await;
            (found["state"] == "done").then_some(found)
        })
        .await
    };
    let nothing = recover(json!({"check": true})).await;
    assert_eq!(nothing["members"], json!([]), "{nothing}");

    let before = fleet.processes();
    kill_process(before["edge-1"]);
    kill_process(before["edge-2"]);
    eventually("the hub knows that they have failed", || async {
        let (_, found) = hub.call("GET", &format!("{EVERYWHERE}/events?kind=task.failed"), None).await;
        found["events"].as_array().is_some_and(|events| events.len() == 2).then_some(())
    })
    .await;
    let done = recover(json!({})).await;
    assert_eq!(done["members"], json!(["o/edge-1", "o/edge-2"]), "{done}");
    runs(&fleet, "1.0.0", 3).await;
    assert_eq!(fleet.processes()["edge-3"], before["edge-3"]);
    assert_eq!(events(&hub, "health.recovered").await.len(), 2);
    let body = json!({"operation": "REPAIR"});
    let (status, refused) = hub.call("POST", &format!("{EVERYWHERE}/actions/recover"), Some(body)).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused["msg"].as_str().is_some_and(|text| text.starts_with("operation must be")), "{refused}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C7: what the node reported last may be out of date, so that a check by order of a user is a request of its own.
#[tokio::test]
async fn recovery_with_a_check_makes_its_own_request_and_waits_for_its_result() {
    let scratch = Scratch::new();
    let hub = hub(&scratch).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    let page = StatusPage::start(|_| GOOD.to_owned()).await;
    let mut health = url_policy(&page.url, json!({}), json!({"action_timeout": 60}));
    health["detection"]["interval"] = json!(60);
    want(&fleet, &hub, "1.0.0", replicated(&health)).await;
    runs(&fleet, "1.0.0", 1).await;
    let task = running_task(&hub, "edge-1").await;
    eventually("its first check is reported", || async {
        (running_task(&hub, "edge-1").await["health"]["healthy"] == true).then_some(())
    })
    .await;
    let recover = async || {
        let body = Some(json!({"check": true}));
        let (status, accepted) = hub.call("POST", &format!("{EVERYWHERE}/actions/recover"), body).await;
        assert_eq!(status, 202, "{accepted}");
        let path = format!("{EVERYWHERE}/actions/{}", accepted["actionId"].as_str().unwrap_or_default());
        eventually("the action is done", || async {
            let (_, found) = hub.call("GET", &path, None).await;
            (found["state"] == "done").then_some(found)
        })
        .await
    };
    let process = fleet.processes()["edge-1"];
    page.set(|_| GOOD.to_owned());
    let nothing = recover().await;
    assert_eq!(nothing["members"], json!([]), "{nothing}");
    assert_eq!(page.requests().len(), 1, "it asked once");
    assert_eq!(fleet.processes()["edge-1"], process);
    assert_eq!(events(&hub, "health.recover").await.len(), 0);

    let mut count = 0;
    page.set(move |_| {
        count += 1;
        if count == 1 { "out of order".to_owned() } else { GOOD.to_owned() }
    });
    let done = recover().await;
    assert_eq!(done["members"], json!(["o/edge-1"]), "{done}");
    assert_ne!(running_task(&hub, "edge-1").await["agreementId"], task["agreementId"]);
    assert_eq!(events(&hub, "health.recovered").await.len(), 1);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C10-S2, C10-S5: an update that continues after a crash of the hub is not a failure, and what fails after
/// it is recovered.
#[tokio::test]
async fn recovery_rests_during_an_update_also_over_a_crash_of_the_hub() {
    let scratch = Scratch::new();
    let address = crate::support::free_address();
    let options = ["--listen", &address, "--upgrade-grace-secs", "1"];
    let mut hub = Hub::start(&scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    let mut orchestration = replicated(&events_policy());
    orchestration["replicas"] = json!(2);
    orchestration["update"] = json!({"parallelism": 1, "monitorSeconds": 3});
    want(&fleet, &hub, "1.0.0", orchestration.clone()).await;
    runs(&fleet, "1.0.0", 2).await;
    running_task(&hub, "edge-1").await;
    running_task(&hub, "edge-2").await;

    want(&fleet, &hub, "2.0.0", orchestration).await;
    eventually("the update has begun", || async {
        fleet.versions().values().any(|version| version == "2.0.0").then_some(())
    })
    .await;
    hub.program.kill().await;
    let hub = Hub::start(&scratch, &options).await;
    eventually("the update ends", || async {
        let (_, found) = hub.call("GET", &format!("{EVERYWHERE}/orchestration"), None).await;
        (found["update"]["state"] == "completed").then_some(())
    })
    .await;
    assert!(fleet.all_run("2.0.0"), "{:?}", fleet.versions());
    assert_eq!(events(&hub, "health.recover").await, Vec::<Value>::new());

    let killed = fleet.processes()["edge-1"];
    kill_process(killed);
    recorded(&hub, "health.recovered").await;
    eventually("it runs again", || async {
        fleet.processes().get("edge-1").is_some_and(|process| *process != killed).then_some(())
    })
    .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Wants one instance that is fenced, preferably on the first of two nodes.
pub(super) async fn want_fenced_pair(fleet: &Fleet, hub: &Hub) {
    let orchestration = json!({
        "mode": "failover", "orchestrate": "ha", "placement": {"nodesOrder": ["edge-1", "edge-2"]},
        "timers": {"readyPeriodSeconds": 0},
        "healthPolicy": {"detection": {"type": "LIFECYCLE_EVENTS"}, "recovery": {"fencing": ["COMPUTE"]}},
    });
    want(fleet, hub, "1.0.0", orchestration).await;
}

/// Runs an instance on the first node whose fencing the second one waits for.
pub(super) async fn start_fenced_pair(fleet: &Fleet, hub: &Hub) {
    want_fenced_pair(fleet, hub).await;
    assert!(runs(fleet, "1.0.0", 1).await.contains("edge-1"));
    running_task(hub, "edge-1").await;
}

/// C8-S1: an agent that has lost the hub kills what it runs at the end of the lease, and only then does the other node start it.
#[tokio::test]
async fn other_node_takes_over_only_after_the_agent_without_hub_has_killed_its_instance() {
    let scratch = Scratch::new();
    let hub = hub_that_loses_nodes(&scratch).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let link = Link::to(&hub).await;
    fleet.agent(0).signal(Signal::SIGTERM);
    assert_eq!(fleet.agent(0).wait().await, 0);
    fleet.restart_agent_behind(&scratch, &link, 0);
    eventually("the node is back", || async {
        let state = hub.call("GET", "/orgs/o/nodes/edge-1/orchestration", None).await.1;
        (state["status"]["monitorState"] == "idle").then_some(())
    })
    .await;
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            start_fenced_pair(&fleet, &hub).await;
            eventually("the agent has its lease", || async {
                let task = wanted_tasks(&hub, "edge-1").await.pop()?;
                (task["supervision"]["leaseSeconds"] == 60).then_some(())
            })
            .await;

            let cut_at = Instant::now();
            link.cut();
            let mut killed_at = None;
            while cut_at.elapsed() < Duration::from_secs(120) {
                let running = fleet.processes();
                assert!(fleet.instances() <= 1, "two instances run");
                if running.is_empty() && killed_at.is_none() {
                    killed_at = Some(cut_at.elapsed());
                }
                if running.contains_key("edge-2") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let killed = killed_at.expect("the agent killed its instance");
            assert!(killed <= Duration::from_secs(62), "{killed:?} after the last contact");
            assert!(fleet.processes().contains_key("edge-2"), "the other node took over");
            assert!(cut_at.elapsed() >= Duration::from_secs(55), "{:?}", cut_at.elapsed());
        } => {}
    }
    recorded(&hub, "fence.requested").await;
    assert_eq!(recorded(&hub, "fence.confirmed").await.len(), 1);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// C8-S3: an administrator says that a node is dead, and the other one does not wait for the lease.
#[tokio::test]
async fn node_that_an_administrator_confirms_as_dead_is_taken_over_at_once() {
    let scratch = Scratch::new();
    let hub = hub_that_loses_nodes(&scratch).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let confirm = async |node: &str| {
        hub.call("POST", &format!("/orgs/o/nodes/{node}/actions/fence-confirm"), None).await
    };
    let began = Instant::now();
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            start_fenced_pair(&fleet, &hub).await;
            assert_eq!(confirm("edge-1").await.0, 409, "its agent is alive");
            assert_eq!(confirm("none").await.0, 404);
            fleet.agent(0).kill().await;
            kill_process(fleet.processes()["edge-1"]);
            let (_, body) = eventually("the node is down", || async {
                Some(confirm("edge-1").await).filter(|(status, _)| *status == 200)
            })
            .await;
            assert!(body["msg"].as_str().is_some_and(|text| text.contains("o/everywhere")), "{body}");
            eventually("the other node takes over", || async {
                fleet.versions().contains_key("edge-2").then_some(())
            })
            .await;
        } => {}
    }
    assert!(began.elapsed() < Duration::from_secs(60), "the lease would have lasted longer");
    assert_eq!(recorded(&hub, "fence.confirmed-by-user").await.len(), 1);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
