//! Policies with tasks through the API: status, tasks, events, actions of users.

use serde_json::{Value, json};

use super::failover::{DOWN_AFTER, send_heartbeats};
use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

const POLICY: &str = "/orgs/o/business/policies/everywhere";
const ALIAS: &str = "/orgs/o/deployment/policies/everywhere";

async fn get(hub: &Hub, path: &str) -> Value {
    let (status, body) = hub.call("GET", path, None).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

async fn status(hub: &Hub) -> Value {
    get(hub, &format!("{POLICY}/orchestration")).await
}

async fn is_up(hub: &Hub, count: u64) -> Value {
    eventually(&format!("{count} instances are up"), || async {
        let found = status(hub).await;
        let part = &found["units"][0];
        (part["up"] == count && part["target"] == count).then_some(found)
    })
    .await
}

/// Status and code of an action.
async fn act(hub: &Hub, action: &str, body: Value) -> (u16, Value) {
    hub.call("POST", &format!("{POLICY}/actions/{action}"), Some(body)).await
}

async fn accepted(hub: &Hub, action: &str, body: Value) -> String {
    let (status, body) = act(hub, action, body).await;
    assert_eq!((status, body["code"].as_str()), (202, Some("ok")), "{action}: {body}");
    let id = body["actionId"].as_str().unwrap_or_default().to_owned();
    eventually(&format!("{action} is done"), || async {
        (get(hub, &format!("{POLICY}/actions/{id}")).await["state"] == "done").then_some(())
    })
    .await;
    id
}

async fn refused(hub: &Hub, action: &str, body: Value) -> String {
    let (status, body) = act(hub, action, body).await;
    assert_eq!((status, body["code"].as_str()), (409, Some("conflict")), "{action}: {body}");
    body["msg"].as_str().unwrap_or_default().to_owned()
}

async fn kinds(hub: &Hub) -> Vec<String> {
    let found = get(hub, &format!("{POLICY}/events?limit=1000")).await;
    let events = found["events"].as_array().cloned().unwrap_or_default();
    events.iter().filter_map(|event| Some(event["kind"].as_str()?.to_owned())).collect()
}

async fn get_as(hub: &Hub, login: (&str, &str), path: &str) -> (u16, Value) {
    let request = hub.client.get(format!("{}/v1{path}", hub.url)).basic_auth(login.0, Some(login.1));
    let response = must(request.send().await, "a response");
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

async fn post_as(hub: &Hub, login: (&str, &str), path: &str) -> u16 {
    let request = hub.client.post(format!("{}/v1{path}", hub.url)).basic_auth(login.0, Some(login.1));
    must(request.send().await, "a response").status().as_u16()
}

async fn bad_queries_are_named(hub: &Hub) {
    for (query, field) in [
        ("orchestration?limit=0", "limit must be an integer from 1 to 1000"),
        ("orchestration?unti=all", "unti is not known; unit was probably meant"),
        ("orchestration?offset=-1", "offset must be"),
        ("tasks?state=gone", "state must be one of new, pending"),
        ("tasks?history=yes", "history must be true or false"),
        ("tasks?slot=0", "slot must be a positive number"),
        ("tasks?node=a&node=b", "node must not be given twice"),
        ("tasks?node=a%00b", "node must not hold a NUL"),
        ("events?since=x", "since must be an integer"),
        ("events?limit=1001", "limit must be an integer from 1 to 1000"),
        ("explain?all=1", "all must be true or false"),
        ("explain?purpose=stop", "purpose must be start"),
    ] {
        let (status, body) = hub.call("GET", &format!("{POLICY}/{query}"), None).await;
        let text = body["msg"].as_str().unwrap_or_default();
        assert!(
            status == 400 && body["code"] == "invalid-input" && text.contains(field),
            "{query}: {status} {body}"
        );
    }
    for path in ["orchestration", "tasks", "events", "explain", "actions/none"] {
        let gone = format!("/orgs/o/business/policies/none/{path}");
        let (status, body) = hub.call("GET", &gone, None).await;
        assert_eq!((status, body["code"].as_str()), (404, Some("not-found")), "{path}: {body}");
    }
    assert_eq!(hub.call("GET", &format!("{POLICY}/orchestration?unit=none"), None).await.0, 404);
    assert_eq!(hub.call("GET", &format!("{POLICY}/explain?node=none"), None).await.0, 404);
}

/// Orchestration 1.5, 2.6: one truth for all, with the nodes that each caller may read.
#[tokio::test]
async fn status_tasks_and_events_show_what_runs_to_whoever_may_read_the_policy() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    let orchestration = json!({"mode": "replicated", "replicas": 2, "restart": {"delaySeconds": 0}});
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration})).await;
    let found = is_up(&hub, 2).await;
    let of = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (of("policy"), of("mode"), of("orchestrate"), of("avail"), of("overall"), of("frozen")),
        ("o/everywhere".into(), "replicated".into(), "ha".into(), "up".into(), "up".into(), "thawed".into()),
        "{found}"
    );
    assert_eq!((&found["specVersion"], &found["globalExpect"]), (&json!(1), &Value::Null));
    let part = &found["units"][0];
    assert_eq!((&part["unit"], &part["instanceCount"]), (&json!("all"), &json!(3)), "{found}");
    let instances = part["instances"].as_array().cloned().unwrap_or_default();
    let avails: Vec<&Value> = instances.iter().map(|one| &one["avail"]).collect();
    assert_eq!(avails, ["up", "up", "down"], "those with tasks come first");
    assert_eq!(instances[0]["monitorState"], "idle");
    assert_eq!(instances[0]["localExpect"], "started");
    assert!(instances[0]["taskId"].is_string() && instances[0]["agreementId"].is_string(), "{found}");
    assert_eq!(get(&hub, &format!("{ALIAS}/orchestration?unit=all")).await["units"], found["units"]);
    let page = get(&hub, &format!("{POLICY}/orchestration?limit=2")).await["units"][0].clone();
    assert_eq!((page["instances"].as_array().map(Vec::len), &page["next"]), (Some(2), &json!(2)));

    let tasks = get(&hub, &format!("{POLICY}/tasks?state=running")).await["tasks"].clone();
    assert_eq!(tasks.as_array().map(Vec::len), Some(2), "{tasks}");
    let task = &tasks[0];
    assert_eq!(
        (&task["slot"], &task["desiredState"], &task["unit"]),
        (&json!(1), &json!("running"), &json!("all"))
    );
    let node = task["node"].as_str().expect("a node");
    assert!(node.starts_with("edge-"), "a node of the policy's organization has no prefix: {task}");
    let of_node = get(&hub, &format!("{ALIAS}/tasks?node=o/{node}&slot=1&history=true")).await;
    assert_eq!(of_node["tasks"][0]["taskId"], task["taskId"]);
    bad_queries_are_named(&hub).await;

    // Accounts that may read the policy read its status; nodes of others are question marks.
    let body = json!({"password": "secret-u", "email": "", "admin": false});
    assert_eq!(hub.call("POST", "/orgs/o/users/u", Some(body)).await.0, 201);
    for path in ["orchestration", "tasks", "events"] {
        let (status, body) = get_as(&hub, ("o/u", "secret-u"), &format!("{POLICY}/{path}")).await;
        assert_eq!(status, 200, "{path}: {body}");
        assert!(!body.to_string().contains("edge-"), "{path}: {body}");
    }
    let (_, body) = get_as(&hub, ("o/u", "secret-u"), &format!("{POLICY}/orchestration")).await;
    assert_eq!(
        (&body["units"][0]["up"], &body["units"][0]["instances"][0]["node"]),
        (&json!(2), &json!("?"))
    );
    let (_, body) = get_as(&hub, ("o/edge-1", "secret-edge-1"), &format!("{POLICY}/orchestration")).await;
    assert!(body.to_string().contains("edge-1") && !body.to_string().contains("edge-2"), "{body}");
    assert_eq!(get_as(&hub, ("o/u", "wrong"), &format!("{POLICY}/tasks")).await.0, 401);
    assert_eq!(post_as(&hub, ("o/u", "secret-u"), &format!("{POLICY}/actions/freeze")).await, 403);
    assert_eq!(post_as(&hub, ("o/edge-1", "secret-edge-1"), &format!("{POLICY}/actions/freeze")).await, 403);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A6-S5. Frozen instances stay as they are; stopped ones start when a user requests it.
#[tokio::test]
async fn user_freezes_thaws_stops_and_starts_a_policy() {
    let scratch = Scratch::new();
    let down_after = DOWN_AFTER.as_secs().to_string();
    let hub =
        Hub::start(&scratch, &["--node-down-after-secs", &down_after, "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let orchestration = json!({
        "mode": "flex", "orchestrate": "ha", "flex": {"min": 1, "max": 2, "target": 1},
        "placement": {"policy": "nodes-order", "nodesOrder": ["edge-1", "edge-2"]},
        "restart": {"delaySeconds": 0}, "timers": {"readyPeriodSeconds": 0},
    });
    let want = async |target: u32| {
        let mut orchestration = orchestration.clone();
        orchestration["flex"]["target"] = json!(target);
        fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration})).await;
    };
    tokio::select! {
        () = send_heartbeats(&hub) => {}
        () = async {
            assert!(refused_before(&hub, &fleet).await.contains("has no tasks"));
            want(1).await;
            // A policy that has just been written accepts actions.
            for action in ["freeze", "thaw"] {
                accepted(&hub, action, json!({})).await;
            }
            is_up(&hub, 1).await;
            assert_eq!(fleet.versions().into_keys().collect::<Vec<_>>(), ["edge-1"]);

            let id = accepted(&hub, "freeze", json!({})).await;
            let action = get(&hub, &format!("{ALIAS}/actions/{id}")).await;
            assert_eq!((&action["action"], &action["actor"]), (&json!("freeze"), &json!("root/root")));
            assert!(refused(&hub, "freeze", json!({})).await.contains("is frozen already"));
            want(2).await;
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            let found = status(&hub).await;
            assert_eq!((&found["frozen"], &found["units"][0]["up"]), (&json!("frozen"), &json!(1)), "{found}");
            assert!(found["units"][0]["instances"][0]["flags"].as_str().is_some_and(|flags| flags.contains('F')));
            accepted(&hub, "thaw", json!({})).await;
            is_up(&hub, 2).await;

            // A frozen instance stays when another one would go.
            accepted(&hub, "freeze", json!({"node": "edge-2"})).await;
            eventually("one of two is frozen", || async { (status(&hub).await["frozen"] == "mixed").then_some(()) }).await;
            accepted(&hub, "thaw", json!({"node": "o/edge-2"})).await;
            assert!(refused(&hub, "thaw", json!({})).await.contains("is not frozen"));

            accepted(&hub, "stop", json!({})).await;
            eventually("nothing runs", || async { (fleet.instances() == 0).then_some(()) }).await;
            assert!(refused(&hub, "stop", json!({})).await.contains("stopped already"));
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            assert_eq!(fleet.instances(), 0, "nothing starts by itself");
            accepted(&hub, "start", json!({})).await;
            assert!(refused(&hub, "start", json!({})).await.contains("started already"));
            eventually("it runs again", || async { (fleet.instances() == 2).then_some(()) }).await;

            for (action, body, status) in [
                ("jump", json!({}), 400),
                ("freeze", json!({"nodes": "edge-1"}), 400),
                ("freeze", json!({"node": 5}), 400),
                ("stop", json!({"unit": "g"}), 404),
                ("takeover", json!({}), 400),
                ("freeze", json!({"destination": ["edge-1"]}), 400),
                ("takeover", json!({"node": "edge-2"}), 409),
                ("pause", json!({}), 409),
                ("rollback", json!({}), 409),
                ("freeze", json!({"node": "none"}), 404),
                ("freeze", json!({"unit": "none"}), 404),
            ] {
                let (found, text) = act(&hub, action, body.clone()).await;
                assert_eq!(found, status, "{action} {body}: {text}");
            }
            assert_eq!(post_as(&hub, ("o/edge-1", "secret-edge-1"), &format!("{ALIAS}/actions/stop")).await, 403);
            let refused = get(&hub, &format!("{ALIAS}/events?kind=orchestration.refused")).await;
            let last = refused["events"].as_array().and_then(|events| events.last()).expect("an event");
            assert_eq!((&last["actor"], &last["data"]["action"]), (&json!("o/edge-1"), &json!("stop")), "{last}");
            let kinds = kinds(&hub).await;
            for kind in ["orchestration.accepted", "orchestration.ended", "orchestration.refused", "instance.freeze", "workload.stop"] {
                assert!(kinds.iter().any(|one| one == kind), "{kind}: {kinds:?}");
            }
        } => {}
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A policy without `orchestration` has no tasks to freeze.
async fn refused_before(hub: &Hub, fleet: &Fleet) -> String {
    fleet.want(hub, "1.0.0").await;
    eventually("both run", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    let found = status(hub).await;
    assert_eq!((&found["mode"], &found["specVersion"]), (&json!("global"), &Value::Null), "{found}");
    refused(hub, "freeze", json!({})).await
}

/// An update is paused, resumed and rolled back by the routes of policies and of rollouts alike.
#[tokio::test]
async fn update_of_a_workload_is_paused_resumed_and_rolled_back() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    for version in ["1.0.0", "2.0.0"] {
        fleet.publish(&hub, version).await;
    }
    let orchestration = json!({
        "mode": "replicated", "replicas": 3, "restart": {"delaySeconds": 0},
        "update": {"parallelism": 1, "delaySeconds": 3, "monitorSeconds": 1, "failureAction": "continue"},
        "rollback": {"monitorSeconds": 1, "failureAction": "continue"},
    });
    let want = async |version: &str| {
        fleet.want_with(&hub, version, json!({"orchestration": orchestration})).await;
    };
    want("1.0.0").await;
    is_up(&hub, 3).await;
    want("2.0.0").await;
    let state = async |wanted: &str| {
        eventually(&format!("the update is {wanted}"), || async {
            let found = status(&hub).await["update"].clone();
            (found["state"] == wanted).then_some(found)
        })
        .await
    };
    state("updating").await;
    accepted(&hub, "pause", json!({})).await;
    let paused = state("paused").await;
    assert_eq!((&paused["message"], &paused["completedAt"]), (&json!("paused by root/root"), &Value::Null));
    let rollouts = get(&hub, "/orgs/o/agbot/rollouts").await;
    assert_eq!(rollouts["workloads"][0]["policy"], "o/everywhere", "{rollouts}");
    assert_eq!(rollouts["workloads"][0]["target"], "o/watch 2.0.0", "{rollouts}");
    let newest = get(&hub, "/orgs/o/agbot/rollouts?newest=true&limit=1").await;
    assert_eq!(newest["workloads"], rollouts["workloads"], "{newest}");
    assert!(refused(&hub, "pause", json!({})).await.contains("it is paused"));
    let (code, body) = hub.call("POST", "/orgs/o/agbot/rollouts/everywhere/resume", None).await;
    assert_eq!((code, &body["workloads"][0]["state"]), (200, &json!("updating")), "{body}");
    state("updating").await;
    accepted(&hub, "rollback", json!({})).await;
    state("rollback-completed").await;
    assert_eq!(status(&hub).await["rolledBackFrom"], 2);
    eventually("the old version runs everywhere", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    let history = get(&hub, &format!("{POLICY}/tasks?history=true")).await;
    let versions: Vec<&Value> =
        history["tasks"].as_array().into_iter().flatten().map(|task| &task["version"]).collect();
    assert!(versions.contains(&&json!("1.0.0")), "{history}");

    // Events are in order of their numbers, and can be read from one on.
    let events = get(&hub, &format!("{POLICY}/events?kind=update.*")).await["events"].clone();
    let events = events.as_array().cloned().unwrap_or_default();
    let numbers: Vec<i64> = events.iter().filter_map(|event| event["seq"].as_i64()).collect();
    assert!(numbers.is_sorted() && numbers.len() > 2, "{events:?}");
    let paused = events.iter().find(|event| event["kind"] == "update.paused").expect("it was paused");
    assert_eq!((&paused["actor"], &paused["policy"]), (&json!("root/root"), &json!("o/everywhere")));
    let rest = get(&hub, &format!("{ALIAS}/events?kind=update.*&since={}&limit=1", numbers[0])).await;
    assert_eq!(rest["events"][0]["seq"], numbers[1]);
    let all = get(&hub, "/orgs/o/orchestration/events?kind=update.paused").await;
    assert_eq!(all["events"][0]["seq"], paused["seq"]);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
