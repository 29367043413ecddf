//! Workloads on agents that read tasks: exit codes, restarts, several instances on one node, outages of the hub.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually, free_address};

/// A fleet whose service records its processes and ends when a test writes an exit code.
struct Lab {
    fleet: Fleet,
    directory: PathBuf,
}

impl Lab {
    async fn start(scratch: &Scratch, hub: &Hub, versions: &[&str]) -> Lab {
        let fleet = Fleet::start(scratch, hub, 1).await;
        let directory = scratch.join("instances");
        must(std::fs::create_dir_all(&directory), "a directory");
        let lab = Lab { fleet, directory };
        for version in versions {
            let path = lab.directory.display();
            let script = format!(
                "echo $$ > {path}/{version}-$EVENKEEL_TASK; while [ -d {path} ] && ! [ -s {path}/end ]; do sleep 0.05; done; \
                 read code < {path}/end; rm -f {path}/end; exit $code"
            );
            let deployment =
                json!({"services": {"watch": {"command": ["/bin/sh", "-c", script]}}}).to_string();
            lab.fleet.publish_service(hub, "watch", version, &deployment, json!({})).await;
        }
        lab
    }

    async fn want(&self, hub: &Hub, version: &str, orchestration: Value) {
        self.fleet.want_with(hub, version, json!({"orchestration": orchestration})).await;
    }

    /// Lets the instance exit.
    fn exit(&self, code: u8) {
        let prepared = self.directory.join("prepared");
        must(std::fs::write(&prepared, format!("{code}\n")), "a file");
        must(std::fs::rename(&prepared, self.directory.join("end")), "a file");
    }

    /// The processes of a version that were ever started.
    fn started(&self, version: &str) -> Vec<Pid> {
        let entries = must(std::fs::read_dir(&self.directory), "a directory").filter_map(Result::ok);
        let of_version =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{version}-")));
        of_version
            .filter_map(|entry| std::fs::read_to_string(entry.path()).ok()?.trim().parse().ok())
            .map(Pid::from_raw)
            .collect()
    }

    /// Those of them that still run.
    fn running(&self, version: &str) -> Vec<Pid> {
        self.started(version).into_iter().filter(|pid| kill(*pid, None).is_ok()).collect()
    }

    /// Waits until this many instances of a version run, of this many that were ever started.
    async fn runs(&self, version: &str, running: usize, started: usize) {
        eventually(&format!("{running} of {started} instances of {version} run"), || async {
            ((self.running(version).len(), self.started(version).len()) == (running, started)).then_some(())
        })
        .await;
    }
}

/// Waits until a task of the node has reported a state.
async fn reported(hub: &Hub, state: &str, exit_code: Option<i32>) -> Value {
    eventually(&format!("a task is {state} with {exit_code:?}"), || async {
        let (status, found) = hub.call("GET", "/orgs/o/nodes/edge-1/tasks", None).await;
        assert_eq!(status, 200, "{found}");
        let mut tasks = found["tasks"].as_array().cloned().unwrap_or_default().into_iter();
        tasks.find(|task| task["state"] == state && task["exitCode"] == json!(exit_code))
    })
    .await
}

fn replicated(restart: Value) -> Value {
    json!({"mode": "replicated", "replicas": 1, "restart": restart})
}

/// B10-S1, B10-S2, B10-S3, B10-S8: the exit code of an instance and the restart policy decide whether another task is made.
#[tokio::test]
async fn exit_codes_decide_about_restarts() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let lab = Lab::start(&scratch, &hub, &["1.0.0", "2.0.0", "3.0.0", "4.0.0"]).await;

    lab.want(&hub, "1.0.0", replicated(json!({"condition": "on-failure", "delaySeconds": 2}))).await;
    lab.runs("1.0.0", 1, 1).await;
    reported(&hub, "running", None).await;
    let exited_at = Instant::now();
    lab.exit(3);
    reported(&hub, "failed", Some(3)).await;
    lab.runs("1.0.0", 1, 2).await;
    // The node reports in full seconds.
    assert!(exited_at.elapsed() >= Duration::from_secs(1), "the delay");
    lab.exit(0);
    reported(&hub, "complete", Some(0)).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    lab.runs("1.0.0", 0, 2).await;

    lab.want(&hub, "2.0.0", replicated(json!({"condition": "any", "delaySeconds": 0}))).await;
    lab.runs("2.0.0", 1, 1).await;
    lab.exit(0);
    lab.runs("2.0.0", 1, 2).await;

    lab.want(&hub, "3.0.0", replicated(json!({"condition": "none", "delaySeconds": 0}))).await;
    lab.runs("3.0.0", 1, 1).await;
    lab.exit(1);
    reported(&hub, "failed", Some(1)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    lab.runs("3.0.0", 0, 1).await;

    lab.want(&hub, "4.0.0", replicated(json!({"maxAttempts": 1, "delaySeconds": 0}))).await;
    lab.runs("4.0.0", 1, 1).await;
    lab.exit(7);
    lab.runs("4.0.0", 1, 2).await;
    lab.exit(7);
    lab.runs("4.0.0", 0, 2).await;
    eventually("the restarts are exhausted", || async {
        let (_, found) = hub.call("GET", "/orgs/o/agbot/events?policy=o/everywhere", None).await;
        let events = found["events"].as_array().cloned().unwrap_or_default();
        events.iter().any(|event| event["kind"] == "restart.exhausted").then_some(())
    })
    .await;
    drop(lab);
    assert_eq!(hub.stop().await, 0);
}

/// 1.8: an instance that ends while the hub is away is started again by its agent, and the hub takes it over as it is.
#[tokio::test]
async fn instance_that_ends_while_the_hub_is_away_is_restarted_by_its_agent() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let address = free_address();
    let options = ["--listen", &address, "--database-url", database.url()];
    let mut hub = Hub::start(&scratch, &options).await;
    let lab = Lab::start(&scratch, &hub, &["1.0.0"]).await;
    lab.want(&hub, "1.0.0", replicated(json!({"delaySeconds": 0}))).await;
    lab.runs("1.0.0", 1, 1).await;
    reported(&hub, "running", None).await;
    hub.program.kill().await;
    let first = lab.running("1.0.0")[0];
    must(kill(first, Signal::SIGKILL), "a signal");
    let next = eventually("the agent starts it again", || async {
        lab.running("1.0.0").first().copied().filter(|next| *next != first)
    })
    .await;
    let hub = Hub::start(&scratch, &options).await;
    reported(&hub, "running", None).await;
    lab.runs("1.0.0", 1, 1).await;
    assert_eq!(lab.running("1.0.0"), [next], "the hub stops nothing that runs");
    drop(lab);
    assert_eq!(hub.stop().await, 0);
}

/// 1.9, B11.3: several instances run on one node, and an update starts each new one beside the old one, also when one of two
/// agbots dies meanwhile.
#[tokio::test]
async fn instances_of_one_node_are_updated_one_after_the_other_without_a_gap() {
    let (scratch, second_scratch) = (Scratch::new(), Scratch::new());
    let database = TestDatabase::new().await;
    let mut options = vec!["--database-url", database.url()];
    let hub = Hub::start(&scratch, &options).await;
    let password = scratch.join("hub/root-password").to_string_lossy().into_owned();
    options.extend(["--root-password-file", &password]);
    let mut second = Hub::start(&second_scratch, &options).await;
    let lab = Lab::start(&scratch, &hub, &["1.0.0", "2.0.0"]).await;
    let orchestration = json!({
        "mode": "replicated", "replicas": 3, "maxPerNode": 4, "restart": {"delaySeconds": 0},
        "update": {"order": "start-first", "parallelism": 1, "monitorSeconds": 1},
    });
    lab.want(&hub, "1.0.0", orchestration.clone()).await;
    lab.runs("1.0.0", 3, 3).await;
    lab.want(&hub, "2.0.0", orchestration).await;
    lab.runs("2.0.0", 1, 1).await;
    second.program.kill().await;
    eventually("all are updated", || async {
        let (old, new) = (lab.running("1.0.0").len(), lab.running("2.0.0").len());
        assert!((3..=4).contains(&(old + new)), "{old} old and {new} new instances run");
        ((old, new) == (0, 3)).then_some(())
    })
    .await;
    drop(lab);
    assert_eq!(hub.stop().await, 0);
}

/// The message of a registry that does not have an image.
const NO_IMAGE: &str = "manifest for images.example/watch:9 not found: manifest unknown";

/// Starts a container engine without images, which fetches one as often as there are permits, and returns its address.
async fn engine_without_images(fetches: Arc<Semaphore>) -> String {
    async fn respond(State(fetches): State<Arc<Semaphore>>, uri: Uri) -> (StatusCode, Json<Value>) {
        let path = uri.path();
        if path.ends_with("/version") {
            return (StatusCode::OK, Json(json!({"ApiVersion": "1.44", "MinAPIVersion": "1.24"})));
        }
        if path.ends_with("/events") {
            std::future::pending::<()>().await;
        }
        if path.ends_with("/images/create") {
            must(fetches.acquire().await, "a permit").forget();
            return (StatusCode::NOT_FOUND, Json(json!({"message": NO_IMAGE})));
        }
        if path.contains("/images/") {
            return (StatusCode::NOT_FOUND, Json(json!({"message": "no such image"})));
        }
        (StatusCode::OK, Json(json!([])))
    }
    let listener = must(tokio::net::TcpListener::bind("127.0.0.1:0").await, "a port");
    let address = must(listener.local_addr(), "an address");
    let router = axum::Router::new().fallback(respond).with_state(fetches);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// B3-S3: a task whose image cannot be fetched is rejected with the registry's message, and the restart policy decides about the next one.
#[tokio::test]
async fn task_without_an_image_is_rejected_with_the_message_of_the_registry() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fetches = Arc::new(Semaphore::new(0));
    let engine = engine_without_images(fetches.clone()).await;
    let options = ["--driver", "docker", "--docker-endpoint", &engine];
    let fleet = Fleet::start_with(&scratch, &hub, 1, &options).await;
    let deployment = json!({"services": {"watch": {"image": "images.example/watch:9"}}}).to_string();
    fleet.publish_service(&hub, "watch", "1.0.0", &deployment, json!({})).await;
    let restart = json!({"delaySeconds": 1, "maxAttempts": 1});
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": replicated(restart)})).await;
    let mut seen = Vec::new();
    for attempt in 1..=2 {
        let preparing = reported(&hub, "preparing", None).await;
        seen.push(preparing["taskId"].clone());
        fetches.add_permits(1);
        let rejected = eventually(&format!("attempt {attempt} is rejected"), || async {
            let (_, found) = hub.call("GET", "/orgs/o/nodes/edge-1/tasks", None).await;
            let mut tasks = found["tasks"].as_array().cloned().unwrap_or_default().into_iter();
            tasks.find(|task| task["taskId"] == preparing["taskId"] && task["state"] == "rejected")
        })
        .await;
        assert!(rejected["err"].as_str().is_some_and(|error| error.contains(NO_IMAGE)), "{rejected}");
    }
    assert_ne!(seen[0], seen[1]);
    let path = "/orgs/o/business/policies/everywhere/events?kind=";
    eventually("the restarts are exhausted", || async {
        let (_, found) = hub.call("GET", &format!("{path}restart.exhausted"), None).await;
        found["events"].as_array().is_some_and(|events| events.len() == 1).then_some(())
    })
    .await;
    let (_, found) = hub.call("GET", &format!("{path}task.failed"), None).await;
    let failed = found["events"].as_array().cloned().unwrap_or_default();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(
        failed.iter().all(|event| event["reason"].as_str().is_some_and(|text| text.contains(NO_IMAGE))),
        "{failed:?}"
    );
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
