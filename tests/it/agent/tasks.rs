//! Tasks on a node: published by a test that acts as an agbot, carried out and reported by an agent.

use std::collections::BTreeSet;
use std::path::PathBuf;

use evenkeel_wire::agreement::message::{Body, Message};
use evenkeel_wire::agreement::{PrivateKey, PublicKey, envelope};
use evenkeel_wire::base64_text;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::support::fleet::{Fleet, arch};
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually, free_address};

const AGBOT: &str = "o/bot";
const NODE: &str = "/orgs/o/nodes/edge-1";

/// An agbot of the test: it publishes tasks and makes their agreements.
struct Bot {
    key: PrivateKey,
    deployment: String,
    signature: String,
    directory: PathBuf,
    /// The number that the exchange gave for its lease.
    fencing: i64,
}

impl Bot {
    /// Registers the agbot, and publishes a service that records its process id.
    async fn start(scratch: &Scratch, hub: &Hub, fleet: &Fleet) -> Bot {
        let key = must(PrivateKey::generate(&mut rand::rng(), 2048), "a key");
        let public = must(key.public_key(), "a public key").to_base64();
        let body = json!({"token": "secret-bot", "name": "bot", "publicKey": public});
        assert_eq!(hub.call("PUT", "/orgs/o/agbots/bot", Some(body)).await.0, 201);
        let entry = json!({"businessPolOrgid": "o", "businessPol": "web", "nodeOrgid": "o"});
        assert_eq!(hub.call("POST", "/orgs/o/agbots/bot/businesspols", Some(entry)).await.0, 201);
        let directory = scratch.join("pids");
        must(std::fs::create_dir_all(&directory), "a directory");
        let path = directory.display();
        let script = format!("echo $$ > {path}/$EVENKEEL_TASK; while [ -d {path} ]; do sleep 0.1; done");
        let deployment = json!({"services": {"web": {"command": ["/bin/sh", "-c", script]}}}).to_string();
        fleet.publish_service(hub, "web", "1.0.0", &deployment, json!({})).await;
        // Nodes accept what is published.
        let services = hub.call("GET", "/orgs/o/services", None).await.1;
        let published = services["services"].as_object().and_then(|all| all.values().next()).cloned();
        let text = |member: &str| published.as_ref().and_then(|one| one[member].as_str()).map(str::to_owned);
        let deployment = text("deployment").expect("a deployment");
        let signature = text("deploymentSignature").expect("a signature");
        let mut bot = Bot { key, deployment, signature, directory, fencing: 0 };
        let (status, given) = bot.call(hub, "POST", "/orgs/o/agbots/bot/fencing", &json!({})).await;
        assert_eq!(status, 201, "{given}");
        bot.fencing = must(given["fencing"].as_i64().ok_or("none"), "a number");
        bot
    }

    async fn call(&self, hub: &Hub, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = hub.client.request(must(method.parse(), "a method"), format!("{}/v1{path}", hub.url));
        let request = request.basic_auth(AGBOT, Some("secret-bot"));
        let request = if body.is_null() { request } else { request.json(body) };
        let response = must(request.send().await, "a response");
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    async fn want(&self, hub: &Hub, task: &str, desired: &str) {
        let service = json!({"orgid": "o", "pattern": "", "url": "web"});
        let agreement = json!({"service": service, "state": "Formed Proposal"});
        let path = format!("/orgs/o/agbots/bot/agreements/agreement-{task}?node=o/edge-1");
        let (status, body) = self.call(hub, "PUT", &path, &agreement).await;
        assert_eq!(status, 201, "{body}");
        let body = json!({"policy": "o/web", "unit": "all", "slot": task[1..].parse::<i64>().unwrap_or_default(),
                          "specVersion": 1, "desiredState": desired, "agreementId": format!("agreement-{task}"),
                          "fencing": self.fencing});
        let (status, body) = self.call(hub, "PUT", &format!("{NODE}/tasks/{task}"), &body).await;
        assert_eq!(status, 201, "{body}");
    }

    async fn send(&self, hub: &Hub, message: &Message) {
        let node = hub.call("GET", NODE, None).await.1;
        let key = node["nodes"]["o/edge-1"]["publicKey"].as_str().unwrap_or_default().to_owned();
        let key = must(PublicKey::from_base64(&key), "the key of the node");
        let sealed = envelope::seal(message.to_json().as_bytes(), &self.key, &key, &mut rand::rng());
        let body = json!({"message": must(sealed, "an envelope"), "ttl": 600});
        assert_eq!(self.call(hub, "POST", &format!("{NODE}/msgs"), &body).await.0, 201);
    }

    /// Proposes the agreement of a task; all have the same terms.
    async fn propose(&self, hub: &Hub, task: &str) {
        let has_key = || async {
            let node = hub.call("GET", NODE, None).await.1;
            node["nodes"]["o/edge-1"]["publicKey"].as_str().filter(|key| !key.is_empty()).map(drop)
        };
        eventually("the agent has joined", has_key).await;
        let name = "Policy for o/edge-1";
        let terms = json!({
            "header": {"name": format!("{name} merged with o/web"), "version": "2.0"},
            "agreementProtocols": [{"name": "Basic", "protocolVersion": 1}],
            "workloads": [{"deployment": self.deployment, "deployment_signature": self.signature, "workloadUrl": "web",
                           "organization": "o", "version": "1.0.0", "arch": arch()}],
        });
        let producer = json!({"header": {"name": name, "version": "2.0"}, "properties": []});
        let body = Body::Proposal {
            terms: terms.to_string(),
            producer_policy: producer.to_string(),
            consumer_id: AGBOT.to_owned(),
        };
        self.send(hub, &Message::new(format!("agreement-{task}"), body)).await;
    }

    /// Acknowledges the replies of the node, until there is one for the agreement of every task.
    async fn conclude(&self, hub: &Hub, tasks: &[&str]) {
        let open: BTreeSet<String> = tasks.iter().map(|task| format!("agreement-{task}")).collect();
        let open = Mutex::new(open);
        eventually("the node accepts", || async {
            let mail = self.call(hub, "GET", "/orgs/o/agbots/bot/msgs", &Value::Null).await.1;
            for entry in mail["messages"].as_array().into_iter().flatten() {
                let message = self.open(entry);
                let is_reply =
                    message.body == Body::Reply { decision: true, device_id: "o/edge-1".to_owned() };
                if is_reply && open.lock().await.remove(&message.agreement_id) {
                    let body = Body::ReplyAck { decision: true };
                    self.send(hub, &Message::new(&message.agreement_id, body)).await;
                }
                let path = format!("/orgs/o/agbots/bot/msgs/{}", entry["msgId"]);
                self.call(hub, "DELETE", &path, &Value::Null).await;
            }
            open.lock().await.is_empty().then_some(())
        })
        .await;
    }

    fn open(&self, entry: &Value) -> Message {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let sender = must(base64_text::decode(&text("nodePubKey")), "the key of the sender");
        let plain = must(envelope::open(&text("message"), &self.key, &sender, &mut rand::rng()), "a message");
        must(Message::parse(&String::from_utf8_lossy(&plain)), "a message")
    }

    /// Waits until the node has reported a state, and returns the task.
    async fn reported(&self, hub: &Hub, task: &str, state: &str) -> Value {
        eventually(&format!("{task} is {state}"), || async {
            let found = self.call(hub, "GET", &format!("{NODE}/tasks"), &Value::Null).await.1;
            let mut tasks = found["tasks"].as_array().cloned().unwrap_or_default().into_iter();
            tasks.find(|one| one["taskId"] == task && one["state"] == state)
        })
        .await
    }

    /// The process of a task; none when it was never started.
    fn process(&self, task: &str) -> Option<Pid> {
        let text = std::fs::read_to_string(self.directory.join(task)).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    }

    fn runs(&self, task: &str) -> bool {
        self.process(task).is_some_and(|pid| kill(pid, None).is_ok())
    }
}

#[tokio::test]
async fn tasks_are_held_started_side_by_side_reported_after_an_outage_and_stopped() {
    let scratch = Scratch::new();
    let database = TestDatabase::new().await;
    let address = free_address();
    let options = ["--listen", &address, "--database-url", database.url()];
    let mut hub = Hub::start(&scratch, &options).await;
    let mut fleet = Fleet::start(&scratch, &hub, 1).await;
    let bot = Bot::start(&scratch, &hub, &fleet).await;
    bot.want(&hub, "t1", "ready").await;
    bot.want(&hub, "t2", "running").await;
    for task in ["t1", "t2"] {
        bot.propose(&hub, task).await;
    }
    bot.conclude(&hub, &["t1", "t2"]).await;
    bot.reported(&hub, "t2", "running").await;
    let held = bot.reported(&hub, "t1", "ready").await;
    assert_eq!((held["seq"].as_i64(), bot.process("t1")), (Some(3), None), "it is prepared and not started");
    let node = hub.call("GET", NODE, None).await.1;
    assert_eq!(node["nodes"]["o/edge-1"]["softwareVersions"]["orchestration"], "1");

    bot.want(&hub, "t1", "running").await;
    bot.reported(&hub, "t1", "running").await;
    let first = bot.process("t1").expect("it has started");
    assert!(
        bot.runs("t1") && bot.runs("t2") && bot.process("t2") != Some(first),
        "two instances of one workload"
    );

    // Without the hub one of them ends; the agent, too, is away for a while.
    hub.program.kill().await;
    must(kill(first, Signal::SIGKILL), "a signal");
    let second = bot.process("t2").expect("it has started");
    let journal = scratch.join("edge-1").join("journal.json");
    let is_kept = || async { std::fs::read_to_string(&journal).ok()?.contains("signal 9").then_some(()) };
    eventually("the report is kept in the journal", is_kept).await;
    fleet.agent(0).kill().await;
    let hub = Hub::start(&scratch, &options).await;
    fleet.restart_agent(&scratch, &hub, 0);
    let failed = bot.reported(&hub, "t1", "failed").await;
    assert_eq!((&failed["exitCode"], failed["seq"].as_i64()), (&json!(137), Some(6)), "{failed}");
    assert!(failed["err"].as_str().is_some_and(|text| text.contains("signal 9")), "{failed}");
    assert_eq!(bot.process("t1"), Some(first), "it is not started again");
    assert_eq!(bot.process("t2"), Some(second), "the other one runs on");

    // One that ends while the agent is away is not started again, either.
    fleet.agent(0).kill().await;
    must(kill(second, Signal::SIGKILL), "a signal");
    fleet.restart_agent(&scratch, &hub, 0);
    bot.reported(&hub, "t2", "failed").await;
    assert_eq!(bot.process("t2"), Some(second));

    bot.want(&hub, "t3", "running").await;
    bot.propose(&hub, "t3").await;
    bot.conclude(&hub, &["t3"]).await;
    bot.reported(&hub, "t3", "running").await;
    bot.want(&hub, "t3", "shutdown").await;
    let stopped = bot.reported(&hub, "t3", "shutdown").await;
    assert!(stopped["err"].is_null() && !bot.runs("t3"), "{stopped}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
