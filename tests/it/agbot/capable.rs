//! Workloads on agents that read tasks: exit codes, restarts, several instances on one node, outages of the hub.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

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

/// 1.8: what happens while the hub is away is reported afterwards, and the hub makes up for it.
#[tokio::test]
async fn end_of_an_instance_while_the_hub_is_away_is_made_up_for() {
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
    must(kill(lab.running("1.0.0")[0], Signal::SIGKILL), "a signal");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(lab.started("1.0.0").len(), 1, "the agent starts nothing by itself");
    let hub = Hub::start(&scratch, &options).await;
    reported(&hub, "failed", Some(137)).await;
    lab.runs("1.0.0", 1, 2).await;
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
