//! Attackers against a running fleet: whatever they send, in any order, the instances of the victim run on and nothing of its state changes.

use std::time::Duration;

use evenkeel_api::Operation;
use evenkeel_exchange::operation::Operation as ExchangeOperation;
use evenkeel_exchange::routes;
use http::Method;
use serde_json::{Value, json};

use super::request::{Aim, body};
use crate::support::fleet::{Fleet, arch};
use crate::support::{Hub, Scratch, eventually};

const SECRET: &str = "open-sesame";

/// An attacker: its organization and the name that its identities begin with.
#[derive(Clone, Copy)]
struct Attacker {
    org: &'static str,
    name: &'static str,
    is_admin: bool,
}

/// An ordinary user of the victim's organization, one of another organization, and the administrator of that one.
const ATTACKERS: [Attacker; 3] = [
    Attacker { org: "o", name: "uwe", is_admin: false },
    Attacker { org: "p", name: "uwe", is_admin: false },
    Attacker { org: "p", name: "zora", is_admin: true },
];

impl Attacker {
    fn logins(self) -> [String; 3] {
        let Attacker { org, name, .. } = self;
        [format!("{org}/{name}"), format!("{org}/{name}-bot"), format!("{org}/{name}-node")]
    }

    async fn create(self, hub: &Hub) {
        let Attacker { org, name, is_admin } = self;
        let user = json!({"password": SECRET, "email": "", "admin": is_admin});
        assert_eq!(hub.call("POST", &format!("/orgs/{org}/users/{name}"), Some(user)).await.0, 201);
        let [login, ..] = self.logins();
        let agbot = json!({"token": SECRET, "name": "mine", "publicKey": "a2V5"});
        let node =
            json!({"token": SECRET, "name": "mine", "pattern": "", "publicKey": "a2V5", "arch": arch()});
        for (path, body) in [(format!("agbots/{name}-bot"), agbot), (format!("nodes/{name}-node"), node)] {
            let path = format!("/orgs/{org}/{path}");
            assert_eq!(hub.call_as((&login, SECRET), "PUT", &path, Some(body)).await.0, 201, "{path}");
        }
    }
}

/// Names of the victim's objects, for paths.
struct Names {
    agreement: String,
    task: String,
}

impl Names {
    async fn of(hub: &Hub) -> Names {
        let first = |list: &Value| list.as_object().and_then(|list| list.keys().next().cloned());
        let (_, agreements) = hub.call("GET", "/orgs/o/nodes/edge-1/agreements", None).await;
        let (_, tasks) = hub.call("GET", "/orgs/o/nodes/edge-1/tasks", None).await;
        let agreement = first(&agreements["agreements"]);
        assert!(agreement.is_some(), "{agreements}");
        Names {
            agreement: agreement.unwrap_or_default(),
            task: first(&tasks["tasks"]).unwrap_or_else(|| "task".to_owned()),
        }
    }

    fn path(&self, operation: &Operation) -> String {
        let segments = operation.paths[0].split('/').map(|segment| {
            match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                None => segment,
                Some("organization") => "o",
                Some("node") => "edge-1",
                Some("agreement") => self.agreement.as_str(),
                Some("task") => self.task.as_str(),
                Some("hagroup") => "g",
                Some("policy") => "everywhere",
                Some("action") => "pause",
                Some("unit") => "all",
                Some("servedkind") => "deploymentPolicy",
                Some(_) => "other",
            }
        });
        segments.collect::<Vec<_>>().join("/")
    }

    /// The same with the attacker's own node and agbot.
    fn own_path(&self, operation: &Operation, attacker: Attacker) -> String {
        let Attacker { org, name, .. } = attacker;
        let own_agbot = format!("/agbots/{name}-bot");
        self.path(operation)
            .replace("/orgs/o/", &format!("/orgs/{org}/"))
            .replace("/nodes/edge-1", &format!("/nodes/{name}-node"))
            .replace("/agbots/other", &own_agbot)
    }

    /// The body of an operation that names the victim's objects.
    fn body(&self, operation: &Operation) -> Option<Value> {
        let named = body(operation, Aim { org: "o", name: "private" })?.to_string();
        let named = named
            .replace("o/pol\"", "o/everywhere\"")
            .replace("\"n1\"", "\"edge-1\"")
            .replace("agbot-o\"", &format!("{}\"", self.agreement));
        serde_json::from_str(&named).ok()
    }
}

/// Every operation that writes, of the exchange and of the agbot.
fn writes() -> Vec<Operation> {
    let all = routes::all();
    let of_exchange = all.iter().map(ExchangeOperation::described);
    let both = of_exchange.chain(evenkeel_agbot_api::part().operations);
    both.filter(|operation| !operation.is_public() && operation.method != Method::GET).collect()
}

/// Returns whether an attacker sends it about its own objects as well: it prepares something and removes nothing of its own.
fn prepares(operation: &Operation) -> bool {
    let name = operation.operation;
    name.starts_with("create_")
        || name.starts_with("report_")
        || matches!(name, "replace_node_agreement" | "replace_agbot_agreement" | "replace_node_task")
}

/// State of the victim that only its own users, nodes and agbots, and the agbot of the hub change, without times.
async fn state(hub: &Hub) -> Vec<(String, Value)> {
    let mut paths = vec![
        "hagroups/g".to_owned(),
        "business/policies/everywhere".to_owned(),
        format!("services/watch_1.0.0_{}", arch()),
        format!("services/watch_1.0.0_{}/keys", arch()),
        "agbot/agreements".to_owned(),
        "blocklist".to_owned(),
        "orchestration".to_owned(),
    ];
    for node in ["edge-1", "edge-2"] {
        let parts = ["", "/policy", "/agreements", "/tasks", "/orchestration", "/agbots"];
        paths.extend(parts.map(|part| format!("nodes/{node}{part}")));
    }
    let mut found = Vec::new();
    for path in paths {
        let (_, body) = hub.call("GET", &format!("/orgs/o/{path}"), None).await;
        found.push((path, without_reports(body)));
    }
    found
}

/// Leaves out what agents report again and again.
fn without_reports(value: Value) -> Value {
    const REPORTED: [&str; 6] =
        ["lastHeartbeat", "lastUpdated", "status", "reported", "heartbeatIntervals", "verified_at"];
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(name, _)| !REPORTED.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name, without_reports(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_reports).collect()),
        scalar => scalar,
    }
}

#[tokio::test]
async fn instances_of_a_tenant_run_on_whatever_attackers_send_and_their_agbots_record() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    assert_eq!(hub.call("POST", "/orgs/p", Some(json!({"label": "p", "description": "p"}))).await.0, 201);
    for attacker in ATTACKERS {
        attacker.create(&hub).await;
    }
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    eventually("every member runs it", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    let before = eventually("nothing changes any more", || async {
        let (_, agreed) = hub.call("GET", "/orgs/o/agbot/agreements", None).await;
        let active = agreed["agreements"]["active"].as_array().cloned().unwrap_or_default();
        let is_final = active.len() == 2 && active.iter().all(|one| one["state"] == "finalized");
        let found = state(&hub).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        (is_final && found == state(&hub).await).then_some(found)
    })
    .await;
    let processes = fleet.processes();
    let (names, writes) = (Names::of(&hub).await, writes());

    // What is prepared first stays, so that everything afterwards is at least a second step.
    for _ in 0..2 {
        for attacker in ATTACKERS {
            for login in attacker.logins() {
                for operation in &writes {
                    let (method, wanted) = (operation.method.as_str(), names.body(operation));
                    if prepares(operation) {
                        let path = names.own_path(operation, attacker);
                        hub.call_as((&login, SECRET), method, &path, wanted.clone()).await;
                    }
                    let path = names.path(operation);
                    hub.call_as((&login, SECRET), method, &path, wanted).await;
                    assert_eq!(fleet.processes(), processes, "{method} {path} as {login}");
                }
            }
        }
    }
    // Agbot and agents act a moment later.
    for _ in 0..20 {
        assert_eq!(fleet.processes(), processes);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for ((path, was), (_, is)) in before.iter().zip(state(&hub).await) {
        assert_eq!(*was, is, "{path}");
    }
    fleet.publish(&hub, "2.0.0").await;
    fleet.want(&hub, "2.0.0").await;
    eventually("the agbot of the hub still serves the tenant", || async {
        fleet.all_run("2.0.0").then_some(())
    })
    .await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
