//! Services that a service needs: started first, shared, reported, and stopped when no service needs them.

use serde_json::{Value, json};

use crate::support::fleet::{Fleet, arch};
use crate::support::{Hub, Scratch, eventually};

/// A service that writes its name down when it starts and then waits.
fn writes(scratch: &Scratch, name: &str) -> String {
    let log = scratch.join("started");
    let script = format!("echo {name} >> {}; exec sleep 100", log.display());
    json!({"services": {"main": {"command": ["/bin/sh", "-c", script]}}}).to_string()
}

fn started(scratch: &Scratch) -> Vec<String> {
    let text = std::fs::read_to_string(scratch.join("started")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn needs(url: &str, range: &str) -> Value {
    json!({"url": url, "org": "o", "versionRange": range, "arch": arch()})
}

async fn want(hub: &Hub, name: &str, service: &str) {
    let policy = json!({
        "label": name,
        "service": {"name": service, "org": "o", "arch": arch(), "serviceVersions": [{"version": "1.0.0"}]},
        "constraints": ["openhorizon.hagroup == g"],
    });
    let (status, body) = hub.call("POST", &format!("/orgs/o/business/policies/{name}"), Some(policy)).await;
    assert_eq!(status, 201, "{body}");
}

/// Services that the node reports as running: name, version, whether it is an agreement's own.
async fn reported(hub: &Hub) -> Vec<(String, String, bool)> {
    let (_, body) = hub.call("GET", "/orgs/o/nodes/edge-1/status", None).await;
    let services = body["services"].as_array().cloned().unwrap_or_default();
    let running = services.iter().filter(|one| one["containerStatus"][0]["state"] == "running");
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> = running
        .map(|one| (text(one, "serviceUrl"), text(one, "version"), !text(one, "agreementId").is_empty()))
        .collect();
    found.sort();
    found
}

fn row(url: &str, version: &str, is_top: bool) -> (String, String, bool) {
    (url.to_owned(), version.to_owned(), is_top)
}

#[tokio::test]
async fn what_a_service_needs_runs_first_once_and_only_as_long_as_it_is_needed() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let mut fleet = Fleet::start(&scratch, &hub, 1).await;
    for version in ["1.0.0", "1.4.0", "2.0.0"] {
        let deployment = writes(&scratch, &format!("db-{version}"));
        fleet.publish_service(&hub, "db", version, &deployment, json!({"sharable": "singleton"})).await;
    }
    let deployment = writes(&scratch, "queue");
    let more = json!({"requiredServices": [needs("db", "[1.0.0,2.0.0)")]});
    fleet.publish_service(&hub, "queue", "1.0.0", &deployment, more).await;
    for name in ["web", "shop"] {
        let more = json!({"requiredServices": [needs("queue", "1.0.0"), needs("db", "[1.0.0,2.0.0)")]});
        fleet.publish_service(&hub, name, "1.0.0", &writes(&scratch, name), more).await;
    }
    want(&hub, "web", "web").await;
    let both = [row("db", "1.4.0", false), row("queue", "1.0.0", false), row("web", "1.0.0", true)];
    eventually("all of it runs", || async { (reported(&hub).await == both).then_some(()) }).await;
    assert_eq!(started(&scratch), ["db-1.4.0", "queue", "web"], "in this order, in the version of the range");
    let used = || async {
        let (_, body) = hub.call("GET", "/orgs/o/nodes/edge-1", None).await;
        let services =
            body["nodes"]["o/edge-1"]["registeredServices"].as_array().cloned().unwrap_or_default();
        let urls: Vec<_> = services.iter().filter_map(|one| one["url"].as_str()).map(str::to_owned).collect();
        (urls == ["o/db", "o/queue", "o/web"]).then_some(())
    };
    eventually("the node is recorded to use all of it", used).await;

    want(&hub, "shop", "shop").await;
    let third = [
        row("db", "1.4.0", false),
        row("queue", "1.0.0", false),
        row("queue", "1.0.0", false),
        row("shop", "1.0.0", true),
        row("web", "1.0.0", true),
    ];
    eventually("the second one runs too", || async { (reported(&hub).await == third).then_some(()) }).await;
    assert_eq!(started(&scratch), ["db-1.4.0", "queue", "web", "queue", "shop"], "what is shared runs once");

    // A killed agent takes all of it over again.
    fleet.agent(0).kill().await;
    fleet.restart_agent(&scratch, &hub, 0);
    eventually("the agent is back", || async { (reported(&hub).await == third).then_some(()) }).await;

    assert_eq!(hub.call("DELETE", "/orgs/o/business/policies/web", None).await.0, 204);
    let rest = [row("db", "1.4.0", false), row("queue", "1.0.0", false), row("shop", "1.0.0", true)];
    eventually("what only the first one needed is gone", || async {
        (reported(&hub).await == rest).then_some(())
    })
    .await;
    assert_eq!(started(&scratch).len(), 5, "nothing was started again");
    assert_eq!(hub.call("DELETE", "/orgs/o/business/policies/shop", None).await.0, 204);
    eventually("nothing is left", || async { reported(&hub).await.is_empty().then_some(()) }).await;
    let log = scratch.join("started").to_string_lossy().into_owned();
    eventually("no process is left", || async { (!is_mentioned(&log)).then_some(()) }).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn service_whose_need_fails_is_given_up_with_the_reason() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    let image = json!({"services": {"main": {"image": "none"}}}).to_string();
    fleet.publish_service(&hub, "db", "1.0.0", &image, json!({"sharable": "singleton"})).await;
    let more = json!({"requiredServices": [needs("db", "1.0.0")]});
    fleet.publish_service(&hub, "web", "1.0.0", &writes(&scratch, "web"), more).await;
    want(&hub, "web", "web").await;
    let reported = || async {
        let (_, body) = hub.call("GET", "/orgs/o/nodes/edge-1/errors", None).await;
        (body["errors"][0]["event_code"] == "dependent_service_failed").then_some(())
    };
    eventually("the owner of the node sees it", reported).await;
    assert!(started(&scratch).is_empty(), "the service itself never started");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Returns true if a running process of a service names the file.
fn is_mentioned(file: &str) -> bool {
    let directories = std::fs::read_dir("/proc").expect("the process table");
    let pids = directories.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != std::process::id().cast_signed()).any(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with("/bin/sh") && line.contains(file)
    })
}
