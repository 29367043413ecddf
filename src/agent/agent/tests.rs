//! Whole agents with real processes and real envelopes, against a small test exchange.

#[path = "tests/container.rs"]
mod container;
#[path = "tests/engine.rs"]
pub(crate) mod engine;
#[path = "tests/hub.rs"]
mod hub;
#[path = "tests/proposals.rs"]
mod proposals;

use std::{path::Path, sync::Arc, time::Duration};

use evenkeel_wire::agent::service_log::ServiceLogQuery;
use evenkeel_wire::agreement::message::{Body, Message};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use self::hub::{AGBOT, NODE, ORG, TestHub};
use crate::{
    AgentSettings, NodeIdentity, run,
    upgrade::{End, Restart},
};

fn settings(hub: &Arc<TestHub>, directory: &Path) -> AgentSettings {
    AgentSettings {
        identity: Some(NodeIdentity { org: ORG.to_owned(), id: NODE.to_owned(), token: "t0ken".to_owned() }),
        transport: Some(hub.transport()),
        poll_interval: Duration::from_millis(50),
        park: Duration::from_secs(1),
        management_interval: Duration::from_millis(200),
        stop_grace: Duration::from_millis(500),
        ..AgentSettings::new("http://hub.test", directory)
    }
}

/// A running agent; dropping it is like killing it: nothing is cleaned up.
struct Agent(JoinHandle<Result<End, crate::AgentError>>, CancellationToken);

impl Agent {
    fn start(settings: AgentSettings) -> Self {
        let stop = CancellationToken::new();
        Self(tokio::spawn(run(settings, stop.clone())), stop)
    }

    /// Ends it without cleaning up, and returns when its directory is free for another.
    async fn kill(mut self) {
        self.0.abort();
        assert!((&mut self.0).await.unwrap_err().is_cancelled());
    }

    async fn end(mut self) {
        self.1.cancel();
        (&mut self.0).await.unwrap().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for a condition, with a limit that keeps the test from hanging.
async fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    for _ in 0..2000 {
        if let Some(found) = condition() {
            return found;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came: {what}");
}

/// Drives an agreement to the running service and returns the process id that the service recorded.
async fn agree(hub: &TestHub, id: &str, directory: &Path) -> i32 {
    let pid_file = directory.join(format!("{id}.pid"));
    hub.propose(id, &format!("echo $$ > {}; exec sleep 100", pid_file.display()));
    hub.expect(id, Body::Reply { decision: true, device_id: format!("{ORG}/{NODE}") }).await;
    hub.send(&Message::new(id, Body::ReplyAck { decision: true }));
    hub.expect(id, Body::Verification).await;
    hub.send(&Message::new(id, Body::VerificationReply { exists: true }));
    until("the service is reported running", || {
        let status = hub.state().status.clone();
        let services = status["services"].as_array()?.clone();
        let service = services.iter().find(|service| service["agreementId"] == id)?.clone();
        (service["containerStatus"][0]["state"] == "running").then_some(())
    })
    .await;
    until("the agreement is final", || {
        (hub.state().agreements.get(id)?["state"] == "Finalized Agreement").then_some(())
    })
    .await;
    std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap()
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_runs_through_agreement_agent_crash_hub_outage_and_cancellation() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    let pid = agree(&hub, "a1", directory.path()).await;
    {
        let state = hub.state();
        let names: Vec<&str> = state.policy["properties"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        for name in ["openhorizon.cpu", "openhorizon.arch", "openhorizon.containerized", "site"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert_eq!(state.node["softwareVersions"]["horizon"], "2.31.0");
        assert_eq!(state.node["registeredServices"][0]["url"], "acme/web");
        assert_eq!(state.agreements["a1"]["agreementService"]["url"], "acme/web");
        assert!(state.mailbox.is_empty(), "processed messages are removed");
    }

    agent.kill().await;
    hub.set_away(true);
    let agent = Agent::start(settings(&hub, directory.path()));
    sleep(Duration::from_millis(300)).await;
    assert!(is_alive(pid), "the service continues without agent and hub");
    hub.set_away(false);
    // A restarted agent verifies its agreements.
    hub.expect("a1", Body::Verification).await;
    assert!(is_alive(pid));

    hub.send(&Message::new("a1", Body::Cancel { reason: 204 }));
    until("the agreement is gone", || hub.state().agreements.is_empty().then_some(())).await;
    until("the process is gone", || (!is_alive(pid)).then_some(())).await;
    until("the status says so", || hub.state().status["services"].as_array()?.is_empty().then_some(())).await;
    agent.end().await;
}

/// The driver gets the order before the journal records it; an agent that crashes between the two must not stop the service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_whose_start_was_not_written_down_goes_on() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    let pid = agree(&hub, "a1", directory.path()).await;
    agent.kill().await;

    let path = directory.path().join("journal.json");
    let read = || serde_json::from_str::<Value>(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let mut journal = read();
    let is_start_ordered = &mut journal["state"]["agreements"]["a1"]["is_start_ordered"];
    assert_eq!(std::mem::replace(is_start_ordered, json!(false)), json!(true));
    std::fs::write(&path, journal.to_string()).unwrap();

    let agent = Agent::start(settings(&hub, directory.path()));
    until("the start is written down", || {
        (read()["state"]["agreements"]["a1"]["is_start_ordered"] == true).then_some(())
    })
    .await;
    assert!(is_alive(pid), "the process is adopted as it is");
    hub.send(&Message::new("a1", Body::Cancel { reason: 204 }));
    until("the process is gone", || (!is_alive(pid)).then_some(())).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proposal_that_cannot_be_judged_yet_is_retried_and_delays_no_other_message() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    agree(&hub, "a1", directory.path()).await;
    hub.state().failing_lookups = 3;
    hub.propose("a2", "exec sleep 100");
    // Another message does not wait for it.
    hub.send(&Message::new("a1", Body::Verification));
    hub.expect("a1", Body::VerificationReply { exists: true }).await;
    until("the lookups were repeated", || (hub.state().failing_lookups == 0).then_some(())).await;
    until("the mailbox is empty", || hub.state().mailbox.is_empty().then_some(())).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_messages_are_dropped_and_change_nothing() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    let pid = agree(&hub, "a1", directory.path()).await;

    let cancel = Message::new("a1", Body::Cancel { reason: 204 });
    let genuine = hub.seal(&Message::new("a1", Body::Verification));
    let mut tampered = hub.seal(&cancel);
    tampered.replace_range(100..104, "AAAA");
    hub.post(&tampered, AGBOT);
    hub.post(&TestHub::seal_for_other_receiver(&cancel), AGBOT);
    hub.post(&hub.seal_as_unknown_sender(&cancel), AGBOT);
    hub.post("no envelope at all", AGBOT);
    hub.post(&hub.seal(&cancel), "IBM/other");
    hub.post(&genuine, AGBOT);
    hub.expect("a1", Body::VerificationReply { exists: true }).await;
    hub.post(&genuine, AGBOT);
    until("all of them are removed", || hub.state().mailbox.is_empty().then_some(())).await;
    assert!(hub.no_message(), "a copy of a processed envelope gets no reply");
    assert!(is_alive(pid));
    assert_eq!(hub.state().agreements.len(), 1);
    hub.send(&cancel);
    until("the process is gone", || (!is_alive(pid)).then_some(())).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_was_deleted_at_the_hub_stops_everything_and_registers_anew_when_it_is_back() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    let pid = agree(&hub, "a1", directory.path()).await;
    hub.delete_node();
    until("the process is gone", || {
        let is_confirmed = hub.is_departure_confirmed();
        let is_gone = !is_alive(pid);
        assert!(is_gone || !is_confirmed, "it is confirmed before everything has stopped");
        is_gone.then_some(())
    })
    .await;
    until("the hub knows", || hub.is_departure_confirmed().then_some(())).await;
    hub.create_node();
    until("the node has a key again", || {
        hub.state().node["publicKey"].as_str().filter(|key| !key.is_empty()).map(|_| ())
    })
    .await;
    let pid = agree(&hub, "a2", directory.path()).await;
    assert!(is_alive(pid));
    agent.end().await;
    assert!(is_alive(pid), "an agent that ends leaves its services running");
    let mut settings = settings(&hub, directory.path());
    settings.stops_services = true;
    let agent = Agent::start(settings);
    hub.next_message().await;
    agent.end().await;
    assert!(!is_alive(pid), "unless the settings stop it");
    assert_eq!(hub.state().node["agentState"], "stopped");
    assert_eq!(hub.state().status["services"], json!([]), "the hub no longer says that anything runs");
    let agent = Agent::start(self::settings(&hub, directory.path()));
    until("the agent is known to run", || (hub.state().node["agentState"] == "running").then_some(())).await;
    agent.end().await;
}

/// Drives the proposed agreement `a1` until its service has exited twice, and returns the reports to the hub.
async fn failure_of_proposed(hub: &TestHub) -> Value {
    hub.expect("a1", Body::Reply { decision: true, device_id: format!("{ORG}/{NODE}") }).await;
    hub.send(&Message::new("a1", Body::ReplyAck { decision: true }));
    until("the failure is reported", || {
        let status = hub.state().status.clone();
        status["failures"].as_array()?.iter().find(|one| one["exits"].as_i64() >= Some(2)).cloned()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_reaches_the_hub_with_its_code_and_its_last_output() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    hub.propose("a1", "echo no such table; exit 3");
    let failure = failure_of_proposed(&hub).await;
    assert_eq!((&failure["agreementId"], &failure["exitCode"]), (&json!("a1"), &json!(3)));
    assert_eq!(failure["output"], json!(["no such table", "no such table"]));
    // A third-party exchange refuses unknown members: it gets the rest of the status.
    hub.state().refuses_failures = true;
    hub.state().status = Value::Null;
    until("the plain status is reported", || hub.state().status["services"].as_array().map(drop)).await;
    assert_eq!(hub.state().status["failures"], Value::Null);
    agent.end().await;
}

/// Starts an agent without a container engine, registers it, and makes an agreement whose service it can neither start nor stop.
async fn registered_without_engine(hub: &Arc<TestHub>, directory: &Path) -> (Agent, evenkeel_client::Client) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = AgentSettings {
        driver: crate::DriverKind::Docker,
        docker_endpoint: format!("unix://{}", directory.join("none.sock").display()),
        api_listen: crate::ApiListen::At(port),
        unregister_timeout: Duration::from_millis(300),
        identity: None,
        ..settings(hub, directory)
    };
    let agent = Agent::start(settings);
    let transport = evenkeel_client::HttpSettings::new(format!("http://{port}"));
    let api = evenkeel_client::Client::anonymous(evenkeel_client::Transport::http(transport).unwrap(), "");
    let device = json!({"organization": ORG, "id": NODE, "token": "t0ken"});
    for _ in 0..200 {
        if api.post(local(&["node"]), &device).await.is_ok() {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    // Before the registration is complete, as `hzn register -f` does it.
    let input =
        json!([{"serviceOrgid": "acme", "serviceUrl": "web", "inputs": [{"name": "RATE", "value": 5}]}]);
    api.post(local(&["node", "userinput"]), &input).await.unwrap();
    assert_eq!(hub.state().node["userInput"], input);
    api.put(local(&["node", "configstate"]), &json!({"state": "configured"})).await.unwrap();
    hub.propose("a1", "exec sleep 100");
    hub.expect("a1", Body::Reply { decision: true, device_id: format!("{ORG}/{NODE}") }).await;
    hub.send(&Message::new("a1", Body::ReplyAck { decision: true }));
    let error = until("the driver's error is reported", || {
        let status = hub.state().status.clone();
        status["failures"].as_array()?.iter().find_map(|one| one["error"].as_str().map(str::to_owned))
    })
    .await;
    assert!(!error.is_empty());
    (agent, api)
}

/// A path of the local API.
fn local(segments: &[&str]) -> evenkeel_client::Path {
    evenkeel_client::Path::new(segments)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_is_unregistered_while_its_container_engine_is_dead() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let (agent, api) = registered_without_engine(&hub, directory.path()).await;
    let farewell = api.delete(local(&["node"]).query("block", "true")).await;
    assert_eq!(farewell.unwrap_err().status(), Some(503));
    let device: Value = api.get(local(&["node"])).await.unwrap().unwrap();
    assert_eq!(device["configstate"]["state"], "unconfigured");
    assert!(hub.state().status["failures"].is_array(), "the last status stays: nothing has stopped");
    let journal = std::fs::read_to_string(directory.path().join("journal.json")).unwrap();
    let journal: Value = serde_json::from_str(&journal).unwrap();
    assert_eq!(journal["state"]["leftovers"], json!(["a1"]), "it is stopped when the engine is back");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_is_removed_with_an_unstopped_service_departs_only_when_that_has_stopped() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let (agent, api) = registered_without_engine(&hub, directory.path()).await;
    let farewell = api.delete(local(&["node"]).query("block", "true").query("removeNode", "true")).await;
    assert_eq!(farewell.unwrap_err().status(), Some(503));
    assert_eq!(hub.state().removal.as_deref(), Some("stopped=false"));
    agent.end().await;
    assert!(!hub.is_departure_confirmed(), "the service may still run");
    // The driver responds again, after a restart of the agent.
    let agent = Agent::start(AgentSettings { identity: None, ..settings(&hub, directory.path()) });
    until("the hub knows", || hub.is_departure_confirmed().then_some(())).await;
    until("nothing is left to report", || (!directory.path().join("departures.json").exists()).then_some(()))
        .await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_is_removed_when_everything_has_stopped_does_not_depart() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let agent = Agent::start(AgentSettings {
        api_listen: crate::ApiListen::At(port),
        ..settings(&hub, directory.path())
    });
    let pid = agree(&hub, "a1", directory.path()).await;
    let transport = evenkeel_client::HttpSettings::new(format!("http://{port}"));
    let api = evenkeel_client::Client::anonymous(evenkeel_client::Transport::http(transport).unwrap(), "");
    api.delete(local(&["node"]).query("block", "true").query("removeNode", "true")).await.unwrap();
    assert!(!is_alive(pid));
    assert_eq!(hub.state().removal.as_deref(), Some(""));
    assert!(!directory.path().join("departures.json").exists());
    agent.end().await;
}

/// Creates a source of packages with version 2.32.0, whose program reports `version`.
fn packages(version: &str) -> tempfile::TempDir {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("m.json"), r#"{"softwareUpgrade":{"version":"latest","files":["*"]}}"#)
        .unwrap();
    let directory = source.path().join("2.32.0");
    std::fs::create_dir(&directory).unwrap();
    let program = directory.join(format!("evenkeel-linux-{}", crate::machine::Machine::read("").arch));
    std::fs::write(program, format!("#!/bin/sh\necho {version}\n")).unwrap();
    source
}

fn upgradable(hub: &TestHub) {
    let mut state = hub.state();
    state.file_versions = json!({"agentSoftwareVersions": ["2.31.0", "2.32.0"]});
    state.management_policies = json!({"acme/fw": {"enabled": true, "start": "now", "startWindow": 0,
        "constraints": ["site == north"], "properties": [], "patterns": [],
        "agentUpgradePolicy": {"manifest": "m", "allowDowngrade": false},
        "lastUpdated": "2024-05-01T10:00:00Z[UTC]"}});
}

fn with_packages(settings: AgentSettings, source: &Path) -> AgentSettings {
    let restart = Restart { arguments: Vec::new(), timeout: Duration::from_secs(5) };
    AgentSettings { upgrade_source: Some(source.to_owned()), restart: Some(restart), ..settings }
}

/// HA-13: it requests permission after the download; HA-16: a refused agent requests again at its next run. The program of this
/// version and ends: the agent goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn management_policy_is_carried_out_with_the_groups_permission() {
    let (hub, source) = (TestHub::new(), packages("2.32.0"));
    upgradable(&hub);
    hub.state().node["ha_group"] = json!("pair");
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(with_packages(settings(&hub, directory.path()), source.path()));
    until("the agent requested and was refused twice", || (hub.state().request_count >= 2).then_some(()))
        .await;
    let words = |hub: &TestHub| hub.state().reported_phases.clone();
    assert_eq!(words(&hub).last().map(String::as_str), Some("ha node waiting"));
    hub.state().grants = true;
    until("the agent went back", || words(&hub).contains(&"rollback successful".to_owned()).then_some(()))
        .await;
    let phases = words(&hub);
    assert_eq!(
        phases,
        ["download started", "ha node waiting", "downloaded", "initiated", "rollback successful"]
    );
    let status = hub.state().management_statuses["acme/fw"]["agentUpgradePolicyStatus"].clone();
    assert_eq!(status["errorMessage"], "it ended: exit status: 0");
    assert_eq!(hub.state().node["softwareVersions"]["horizon"], crate::upgrade::AGENT_VERSION);
    assert!(!directory.path().join("packages/installed.json").exists());
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_an_upgrade_is_refused_with_its_reason() {
    let other = packages("2.40.0");
    let source = Some(other.path());
    for (source, phase, reason) in [
        (None, "precheck failed", "no package source is configured"),
        (source, "failed", "reports version 2.40.0"),
    ] {
        let hub = TestHub::new();
        upgradable(&hub);
        let directory = tempfile::tempdir().unwrap();
        let plain = settings(&hub, directory.path());
        let settings = source.map_or(plain.clone(), |source| with_packages(plain, source));
        let agent = Agent::start(settings);
        let status = until("it is refused", || {
            let status = hub.state().management_statuses.get("acme/fw")?["agentUpgradePolicyStatus"].clone();
            (status["status"] == phase).then_some(status)
        })
        .await;
        assert!(status["errorMessage"].as_str().unwrap().contains(reason), "{status}");
        agent.end().await;
    }
}

/// HA-18: membership at registration, as an attribute, is no longer supported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_api_registers_shows_cancels_and_unregisters() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut settings = settings(&hub, directory.path());
    settings.identity = None;
    settings.api_listen = crate::ApiListen::At(port);
    let agent = Agent::start(settings);
    let transport = evenkeel_client::HttpSettings::new(format!("http://{port}"));
    let api = evenkeel_client::Client::anonymous(evenkeel_client::Transport::http(transport).unwrap(), "");
    let path = |segments: &[&str]| evenkeel_client::Path::new(segments);
    let mut device = Value::Null;
    for _ in 0..200 {
        if let Ok(Some(found)) = api.get::<Value>(path(&["node"])).await {
            device = found;
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(device["configstate"]["state"], "unconfigured");
    assert_eq!(api.get::<Value>(path(&["service"])).await.unwrap_err().status(), Some(424));
    let attribute = json!({"type": "HAAttributes", "mappings": {"partnerID": ["edge-2"]}});
    assert_eq!(api.post(path(&["attribute"]), &attribute).await.unwrap_err().status(), Some(405));

    let absent = json!({"organization": ORG, "id": NODE, "token": "t0ken", "pattern": "absent"});
    assert_eq!(api.post(path(&["node"]), &absent).await.unwrap_err().status(), Some(400));
    let wrong = json!({"organization": ORG, "id": NODE, "token": "wrong"});
    assert_eq!(api.post(path(&["node"]), &wrong).await.unwrap_err().status(), Some(400));
    let right = json!({"organization": ORG, "id": NODE, "token": "t0ken"});
    api.post(path(&["node"]), &right).await.unwrap();
    assert_eq!(api.post(path(&["node"]), &right).await.unwrap_err().status(), Some(409));
    api.put(path(&["node", "configstate"]), &json!({"state": "configured"})).await.unwrap();
    until("the node has a key", || {
        hub.state().node["publicKey"].as_str().filter(|key| !key.is_empty()).map(|_| ())
    })
    .await;

    let pid = agree(&hub, "a1", directory.path()).await;
    let list: Value = api.get(path(&["agreement"])).await.unwrap().unwrap();
    assert_eq!(list["agreements"]["active"][0]["workload_to_run"]["url"], "web");
    let services: Value = api.get(path(&["service"])).await.unwrap().unwrap();
    assert_ne!(services["instances"]["active"][0]["execution_start_time"], 0);
    let log = |name: &str| {
        let query = ServiceLogQuery { service: name.to_owned(), ..ServiceLogQuery::default() };
        let api = api.clone();
        async move { api.local_service_log(&query).await.unwrap() }
    };
    let found = log("acme/web").await.unwrap();
    assert_eq!((found.instance_id.as_str(), found.text.as_str()), ("a1", ""));
    assert_eq!(log("absent").await, None);
    assert!(api.delete(path(&["agreement", "a1"])).await.unwrap());
    hub.expect("a1", Body::Cancel { reason: 105 }).await;
    until("the process is gone", || (!is_alive(pid)).then_some(())).await;

    let pid = agree(&hub, "a2", directory.path()).await;
    api.delete(path(&["node"]).query("block", "true")).await.unwrap();
    assert!(!is_alive(pid));
    hub.expect("a2", Body::Cancel { reason: 116 }).await;
    assert_eq!(hub.state().node["publicKey"], "");
    let device: Value = api.get(path(&["node"])).await.unwrap().unwrap();
    assert_eq!(device["configstate"]["state"], "unconfigured");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_a_pattern_offers_what_agbots_match_dependencies_on() {
    let hub = TestHub::new();
    let arch = crate::machine::Machine::read("").arch;
    {
        let mut state = hub.state();
        state.node["pattern"] = json!("acme/cams");
        state.pattern = json!({"services": [
            {"serviceUrl": "web", "serviceOrgid": "acme", "serviceArch": arch, "serviceVersions": [{"version": "1.0.0"}]},
            {"serviceUrl": "other", "serviceOrgid": "acme", "serviceArch": "s390x", "serviceVersions": [{"version": "1.0.0"}]}]});
        let need = json!([{"url": "db", "org": "acme", "versionRange": "[1.0.0,2.0.0)", "arch": arch}]);
        state.services = json!({
            "acme/web_1.0.0": {"url": "web", "version": "1.0.0", "arch": arch, "requiredServices": need},
            "acme/db_1.2.0": {"url": "db", "version": "1.2.0", "arch": arch, "sharable": "exclusive"},
            "acme/db_1.1.0": {"url": "db", "version": "1.1.0", "arch": arch}});
    }
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    until("the node is visible", || {
        hub.state().node["publicKey"].as_str().filter(|key| !key.is_empty()).map(drop)
    })
    .await;
    let registered = hub.state().node["registeredServices"].clone();
    let offered: Vec<(&str, i64)> = registered
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["url"].as_str().unwrap(), one["numAgreements"].as_i64().unwrap()))
        .collect();
    assert_eq!(offered, [("acme/db", 1), ("acme/web", 0)]);
    let policy = evenkeel_domain::policy::internal::InternalPolicy::from_text(
        registered[0]["policy"].as_str().unwrap(),
    )
    .unwrap();
    let needed = evenkeel_domain::policy::internal::ApiSpec {
        version: "[1.0.0,2.0.0)".to_owned(),
        ..policy.api_specs[0].clone()
    };
    assert_eq!(policy.api_specs[0].version, "1.2.0");
    let supports = evenkeel_domain::policy::internal::support_required_specs(&policy.api_specs, &[needed]);
    assert!(supports.is_ok());
    agent.end().await;
}

#[tokio::test]
async fn two_agents_cannot_share_a_directory() {
    let hub = TestHub::new();
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(settings(&hub, directory.path()));
    until("the first agent holds the directory", || {
        directory.path().join("journal.json").exists().then_some(())
    })
    .await;
    let second = run(settings(&hub, directory.path()), CancellationToken::new()).await;
    assert!(matches!(second, Err(crate::AgentError::Busy(_))));
    agent.end().await;
}
