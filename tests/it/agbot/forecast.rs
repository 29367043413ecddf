//! The time left of a rollout, its waves and steps, and what nodes have in common.

use serde_json::{Value, json};

use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const FAST: [&str; 4] = ["--upgrade-monitor-secs", "2", "--upgrade-grace-secs", "1"];
const PATH: &str = "/orgs/o/agbot/rollouts/everywhere";

async fn deployed(fleet: &Fleet, version: &str) {
    eventually("every member runs the version", || async { fleet.all_run(version).then_some(()) }).await;
}

/// Returns the rollout in detail once the condition holds.
async fn detail(hub: &Hub, what: &str, is_met: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || async {
        let (status, body) = hub.call("GET", PATH, None).await;
        (status == 200 && is_met(&body)).then_some(body)
    })
    .await
}

async fn user(hub: &Hub, name: &str) {
    let body = json!({"password": "secret", "email": "e", "admin": false});
    assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
}

#[tokio::test]
async fn rollout_through_a_group_says_how_long_it_still_takes() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &FAST).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    for version in ["1.0.0", "2.0.0", "3.0.0"] {
        fleet.publish(&hub, version).await;
    }
    assert_eq!(hub.call("GET", PATH, None).await.0, 404, "there is no such policy");
    fleet.want(&hub, "1.0.0").await;
    deployed(&fleet, "1.0.0").await;
    fleet.want(&hub, "2.0.0").await;
    let found = detail(&hub, "the first step is measured", |body| {
        body["waves"][0]["done"] == 1 && body["timeLeft"]["measuredSteps"] == 1
    })
    .await;
    let (left, wave) = (&found["timeLeft"], &found["waves"][0]);
    assert_eq!((&wave["kind"], &wave["name"], &wave["total"]), (&json!("ha-group"), &json!("g"), &json!(3)));
    assert_eq!((&left["basis"], &left["stepsLeft"]), (&json!("own"), &json!(2)), "{left}");
    let number = |name: &str| left[name].as_u64().unwrap_or_default();
    assert!(number("earliestSeconds") <= number("seconds") && number("seconds") <= number("latestSeconds"));
    assert!(number("latestSeconds") >= 2, "{left}");
    let text = left["text"].as_str().unwrap_or_default();
    assert!(text.contains("80 % probability") && text.contains("2 steps left"), "{text}");
    assert!(found["phases"].as_array().is_some_and(|phases| phases.len() == 2), "{found}");

    // A user who may read none of the nodes learns neither their number nor their names.
    user(&hub, "u").await;
    let (status, body) = hub.call_as(("o/u", "secret"), "GET", PATH, None).await;
    assert_eq!(status, 200, "{body}");
    for member in ["timeLeft", "waves", "phases", "common"] {
        assert!(body.get(member).is_none(), "{member}: {body}");
    }
    assert_eq!(body["steps"], json!([]), "{body}");

    deployed(&fleet, "2.0.0").await;
    let over = detail(&hub, "it is over", |body| body["state"] == "completed").await;
    assert!(over.get("timeLeft").is_none() && over["waves"][0]["finishedAt"].is_string(), "{over}");
    let steps = over["steps"].as_array().cloned().unwrap_or_default();
    assert!(steps.len() == 3 && steps.iter().all(|step| step["state"] == "done"), "{over}");

    // The next rollout is forecast from the steps of this one before any of its own is finished.
    fleet.want(&hub, "3.0.0").await;
    let next = detail(&hub, "the next rollout", |body| body["timeLeft"]["basis"] == "earlier").await;
    assert_eq!(next["timeLeft"]["earlierSteps"], 3, "{next}");
    assert_eq!(hub.call("POST", &format!("{PATH}/pause"), None).await.0, 200);
    let paused = detail(&hub, "it is paused", |body| body["state"] == "paused").await;
    let wait = &paused["timeLeft"]["waitsFor"];
    assert_eq!(wait["role"], "administrator", "{paused}");
    assert!(wait["text"].as_str().is_some_and(|text| text.contains("paused")), "{paused}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn update_of_a_policy_with_tasks_is_forecast_too_and_names_what_failed() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &FAST).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish_broken(&hub, "2.0.0").await;
    let orchestration = json!({"mode": "global", "update": {"parallelism": 1, "monitorSeconds": 2}});
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration})).await;
    deployed(&fleet, "1.0.0").await;
    fleet.want_with(&hub, "2.0.0", json!({"orchestration": orchestration})).await;
    let found = detail(&hub, "the update is paused", |body| body["state"] == "paused").await;
    let wait = &found["timeLeft"]["waitsFor"];
    assert_eq!(wait["role"], "owner", "{found}");
    assert!(wait["hint"].as_str().is_some_and(|hint| hint.contains("resume")), "{found}");
    let failed =
        found["steps"].as_array().and_then(|steps| steps.iter().find(|step| step["state"] == "failed"));
    let failed = failed.unwrap_or_else(|| panic!("a failed step: {found}"));
    assert!(failed["node"].as_str().is_some_and(|node| node.starts_with("edge-")), "{failed}");
    assert!(failed["evidence"].as_str().is_some_and(|text| !text.is_empty()), "{failed}");
    assert_eq!(found["common"]["failing"], 1, "one node has nothing in common: {found}");
    assert_eq!(found["common"]["causes"], json!([]), "{found}");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

/// Twelve nodes, of which the first four have an old kernel and are drained.
async fn kernels(hub: &Hub) {
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await.0, 201);
    user(hub, "u").await;
    for number in 0..12 {
        let node = format!("/orgs/o/nodes/n{number}");
        let body = json!({"token": "secret-n", "name": "n", "pattern": "", "publicKey": "", "arch": "amd64"});
        assert_eq!(hub.call("PUT", &node, Some(body)).await.0, 201);
        let kernel = if number < 4 { "5.10" } else { "6.1" };
        let properties = json!([{"name": "kernel", "value": kernel}, {"name": "serial", "value": number}]);
        let policy = json!({"properties": properties, "constraints": []});
        assert_eq!(hub.call("PUT", &format!("{node}/policy"), Some(policy)).await.0, 201);
        if number < 4 {
            let drained = json!({"availability": "drain"});
            assert_eq!(hub.call("PUT", &format!("{node}/orchestration/spec"), Some(drained)).await.0, 201);
        }
    }
}

#[tokio::test]
async fn selected_nodes_show_what_they_have_in_common() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    kernels(&hub).await;
    let path = "/orgs/o/agbot/nodes/common";
    let drained = format!("{path}?availability=drain");
    let found = eventually("all nodes are known", || async {
        let (status, body) = hub.call("GET", &drained, None).await;
        (status == 200 && body["whole"] == 12 && body["failing"] == 4).then_some(body)
    })
    .await;
    let first = &found["causes"][0];
    assert_eq!(
        (&first["kind"], &first["name"], &first["value"]),
        (&json!("property"), &json!("kernel"), &json!("5.10"))
    );
    assert_eq!(
        (&first["failing"], &first["whole"], &first["lift"]),
        (&json!(4), &json!(4), &json!(3.0)),
        "{found}"
    );
    assert_eq!(first["text"], "4 of 4 selected nodes have kernel = 5.10 (33 % of all; lift 3.0)");
    assert!(!found["causes"].to_string().contains("serial"), "{found}");
    assert_eq!(found["reference"], "organization");

    let (status, filtered) =
        hub.call("GET", &format!("{path}?filter=kernel%20%3D%3D%205.10&limit=1"), None).await;
    assert_eq!((status, &filtered["failing"]), (200, &json!(4)), "{filtered}");
    for (query, text) in [
        ("?filter=kernel%20%3D%20%3D", "filter"),
        ("?state=asleep", "state"),
        ("?state=up&limit=0", "limit"),
        ("?node=n1", "node"),
    ] {
        let (status, body) = hub.call("GET", &format!("{path}{query}"), None).await;
        assert!(
            status == 400 && body["msg"].as_str().is_some_and(|msg| msg.contains(text)),
            "{query}: {body}"
        );
    }
    let (status, down) = hub.call("GET", path, None).await;
    assert_eq!((status, &down["failing"]), (200, &json!(0)), "no node is down: {down}");
    // A user without nodes learns nothing of the others, neither values nor numbers.
    let (status, body) = hub.call_as(("o/u", "secret"), "GET", &drained, None).await;
    assert_eq!((status, &body["failing"], &body["whole"]), (200, &json!(0), &json!(0)), "{body}");
    assert_eq!(body["causes"], json!([]));
    assert_eq!(hub.stop().await, 0);
}
