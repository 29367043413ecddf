//! Users start, move, restart and stop instances that are not started automatically (orchestration A1, A6).

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, TestDatabase, eventually, free_address};

const POLICY: &str = "/orgs/o/business/policies/everywhere";

async fn get(hub: &Hub, path: &str) -> Value {
    let (status, body) = hub.call("GET", &format!("{POLICY}{path}"), None).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

async fn begin(hub: &Hub, action: &str, body: Value) -> String {
    let (status, found) = hub.call("POST", &format!("{POLICY}/actions/{action}"), Some(body)).await;
    assert_eq!(status, 202, "{action}: {found}");
    found["actionId"].as_str().unwrap_or_default().to_owned()
}

async fn end(hub: &Hub, id: &str) -> Value {
    eventually(&format!("action {id} is over"), || async {
        let found = get(hub, &format!("/actions/{id}")).await;
        (!matches!(found["state"].as_str(), Some("pending" | "running"))).then_some(found)
    })
    .await
}

async fn done(hub: &Hub, action: &str, body: Value) {
    let found = end(hub, &begin(hub, action, body).await).await;
    assert_eq!((&found["action"], &found["state"]), (&json!(action), &json!("done")), "{found}");
    assert!(found["startedAt"].as_str() < found["endedAt"].as_str(), "{found}");
    let status = get(hub, "/orchestration").await;
    assert_eq!((&status["globalExpect"], &status["action"]), (&Value::Null, &Value::Null), "{status}");
}

async fn refused(hub: &Hub, action: &str, body: Value) -> String {
    let (status, found) = hub.call("POST", &format!("{POLICY}/actions/{action}"), Some(body)).await;
    assert_eq!((status, &found["code"]), (409, &json!("conflict")), "{action}: {found}");
    found["msg"].as_str().unwrap_or_default().to_owned()
}

async fn runs_on(hub: &Hub, fleet: &Fleet, node: &str) -> Value {
    eventually(&format!("the only instance runs on {node}"), || async {
        let status = get(hub, "/orchestration").await;
        let instances = status["units"][0]["instances"].as_array().cloned().unwrap_or_default();
        let up = instances.into_iter().find(|one| one["avail"] == "up")?;
        let is_there = up["node"] == node && fleet.versions().into_keys().eq([node.to_owned()]);
        (is_there && fleet.instances() == 1)
            .then_some(json!({"instance": up, "placement": status["placement"]}))
    })
    .await
}

/// A6-S1, A6-S4, A6-S7.
#[tokio::test]
async fn users_move_the_instance_of_a_failover_pair() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    // The default of the mode: only users start instances.
    let orchestration = json!({
        "mode": "failover", "placement": {"nodesOrder": ["edge-1", "edge-2"]}, "restart": {"delaySeconds": 0},
    });
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration})).await;
    let known = eventually("the agbot has read the policy", || async {
        let (status, body) = hub.call("GET", &format!("{POLICY}/orchestration"), None).await;
        (status == 200 && body["specVersion"] == 1).then_some(body)
    })
    .await;
    assert_eq!(known["orchestrate"], "no");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(fleet.instances(), 0, "nothing starts by itself");

    done(&hub, "start", json!({})).await;
    assert_eq!(runs_on(&hub, &fleet, "edge-1").await["placement"], "optimal");
    assert!(refused(&hub, "start", json!({})).await.contains("is started already"));
    assert!(refused(&hub, "giveback", json!({})).await.contains("on its leaders already"));

    let id = begin(&hub, "takeover", json!({"node": "edge-2"})).await;
    let text = refused(&hub, "switch", json!({})).await;
    assert!(text.starts_with(&format!("orchestration {id} (placed@edge-2) in progress")), "{text}");
    assert_eq!(end(&hub, &id).await["state"], "done");
    let moved = runs_on(&hub, &fleet, "edge-2").await;
    assert_eq!((&moved["placement"], &moved["instance"]["pinned"]), (&json!("non-optimal"), &json!(true)));
    done(&hub, "giveback", json!({})).await;
    assert_eq!(runs_on(&hub, &fleet, "edge-1").await["placement"], "optimal");
    done(&hub, "switch", json!({})).await;
    let moved = runs_on(&hub, &fleet, "edge-2").await;
    assert_eq!(moved["instance"]["pinned"], true, "a second time as well");
    let marks = get(&hub, "/events?kind=placement.pinned").await["events"].clone();
    assert_eq!(marks.as_array().map(Vec::len), Some(2), "each is recorded once: {marks}");
    done(&hub, "restart", json!({})).await;
    let restarted = runs_on(&hub, &fleet, "edge-2").await;
    assert_ne!(moved["instance"]["taskId"], restarted["instance"]["taskId"]);

    done(&hub, "stop", json!({})).await;
    assert_eq!(fleet.instances(), 0);
    done(&hub, "start", json!({"node": "edge-2"})).await;
    runs_on(&hub, &fleet, "edge-2").await;

    let id = begin(&hub, "takeover", json!({"node": "edge-1"})).await;
    let abort = begin(&hub, "abort", json!({})).await;
    assert_eq!(end(&hub, &id).await["state"], "aborted");
    assert_eq!(end(&hub, &abort).await["state"], "done");
    assert!(refused(&hub, "abort", json!({})).await.contains("no action of o/everywhere is in progress"));
    let status = get(&hub, "/orchestration").await;
    assert_eq!((&status["globalExpect"], &status["action"]), (&Value::Null, &Value::Null), "{status}");

    for (action, body, expected) in [
        ("takeover", json!({}), 400),
        ("takeover", json!({"node": "none"}), 404),
        ("takeover", json!({"node": "edge-1", "destination": ["edge-2"]}), 400),
        ("switch", json!({"destination": ["edge-1", "edge-2"]}), 409),
        ("switch", json!({"unit": "none"}), 404),
    ] {
        let (found, text) = hub.call("POST", &format!("{POLICY}/actions/{action}"), Some(body.clone())).await;
        assert_eq!(found, expected, "{action} {body}: {text}");
    }
    let events = get(&hub, "/events?kind=orchestration.*&limit=1000").await["events"].clone();
    let kinds: Vec<&str> =
        events.as_array().into_iter().flatten().filter_map(|event| event["kind"].as_str()).collect();
    for kind in ["accepted", "ended", "aborted", "refused"] {
        assert!(kinds.contains(&format!("orchestration.{kind}").as_str()), "{kind}: {kinds:?}");
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// A6.4, B5: an agbot dies while the stop of a move is not confirmed; the next one continues with the move,
/// and never starts a second instance before.
#[tokio::test]
async fn move_goes_on_after_the_death_of_the_agbot_that_began_it() {
    let (scratch, database, address) = (Scratch::new(), TestDatabase::new().await, free_address());
    let options = ["--database-url", database.url(), "--listen", &address, "--upgrade-grace-secs", "1"];
    let mut hub = Hub::start(&scratch, &options).await;
    let mut fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    let orchestration = json!({"mode": "failover", "placement": {"nodesOrder": ["edge-1", "edge-2"]}});
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration})).await;
    eventually("the agbot has read the policy", || async {
        let (status, body) = hub.call("GET", &format!("{POLICY}/orchestration"), None).await;
        (status == 200 && body["specVersion"] == 1).then_some(())
    })
    .await;
    done(&hub, "start", json!({})).await;
    runs_on(&hub, &fleet, "edge-1").await;

    fleet.agent(0).signal(Signal::SIGSTOP);
    let id = begin(&hub, "takeover", json!({"node": "edge-2"})).await;
    let stopping = |status: &Value| status["units"][0]["instances"][0]["monitorState"] == "stopping";
    eventually("the instance is to stop", || async {
        stopping(&get(&hub, "/orchestration").await).then_some(())
    })
    .await;
    hub.program.kill().await;
    drop(hub);

    let hub = Hub::start(&scratch, &options).await;
    eventually("the next agbot knows the move", || async {
        let status = get(&hub, "/orchestration").await;
        (stopping(&status) && status["globalExpect"] == "placed@edge-2").then_some(())
    })
    .await;
    assert_eq!(get(&hub, &format!("/actions/{id}")).await["state"], "running");
    assert!(fleet.versions().into_keys().eq(["edge-1".to_owned()]), "the stop is not confirmed");
    fleet.agent(0).signal(Signal::SIGCONT);
    let mut most = 0;
    eventually("the move ends", || {
        most = most.max(fleet.instances());
        let hub = &hub;
        let path = format!("/actions/{id}");
        async move { (get(hub, &path).await["state"] == "done").then_some(()) }
    })
    .await;
    assert!(most <= 1, "{most} instances at once");
    runs_on(&hub, &fleet, "edge-2").await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
