//! Plans of writes: what they name, that nothing is done, and who may ask.

use serde_json::{Value, json};

use crate::support::fleet::{Fleet, arch};
use crate::support::{Hub, Scratch, eventually};

const PLAN: &str = "/orgs/o/business/policies/counted/plan";
const POLICY: &str = "/orgs/o/business/policies/counted";

fn policy(version: &str, count: u32) -> Value {
    json!({
        "label": "counted",
        "service": {"name": "watch", "org": "o", "arch": arch(), "serviceVersions": [{"version": version}]},
        "orchestration": {"mode": "replicated", "replicas": count, "update": {"parallelism": 1}},
    })
}

/// Returns the actions of a plan with their slots, by slot: what is not seen running yet comes first.
fn actions(plan: &Value) -> Vec<(String, u64)> {
    let changes = plan["units"][0]["changes"].as_array().cloned().unwrap_or_default();
    let action = |change: &Value| change["action"].as_str().unwrap_or_default().to_owned();
    let mut actions: Vec<_> =
        changes.iter().map(|change| (action(change), change["slot"].as_u64().unwrap_or_default())).collect();
    actions.sort_by_key(|(_, slot)| *slot);
    actions
}

fn expected(actions: &[(&str, u64)]) -> Vec<(String, u64)> {
    actions.iter().map(|(action, slot)| ((*action).to_owned(), *slot)).collect()
}

/// A plan is refused with the status and the body with which the exchange refuses the write.
async fn writes_that_the_exchange_refuses_are_not_planned(hub: &Hub) {
    eventually("the exchange has the tasks", || async {
        let (_, found) = hub.call("GET", &format!("{POLICY}/tasks?state=running"), None).await;
        (found["tasks"].as_array()?.len() == 2).then_some(())
    })
    .await;
    let form = |orchestration: Value| {
        let mut policy = policy("1.0.0", 2);
        policy["orchestration"] = orchestration;
        policy
    };
    let listed = json!({"type": "nodes", "nodes": ["edge-1"]});
    for (status, body) in [
        (400, policy("9.9.9", 2)),
        (409, form(json!({"mode": "global"}))),
        (409, form(json!({"mode": "replicated", "replicas": 2, "scope": listed}))),
    ] {
        let planned = hub.call("POST", PLAN, Some(body.clone())).await;
        assert_eq!(planned.0, status, "{}", planned.1);
        assert_eq!(planned, hub.call("PUT", POLICY, Some(body)).await);
    }
}

#[tokio::test]
async fn plan_names_the_changes_of_a_write_and_its_token_follows_the_world() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    for version in ["1.0.0", "2.0.0"] {
        fleet.publish(&hub, version).await;
    }
    eventually("the plan of a new policy fills its slots", || async {
        let (status, plan) = hub.call("POST", PLAN, Some(policy("1.0.0", 2))).await;
        let filled = expected(&[("create", 1), ("create", 2)]);
        (status == 200 && actions(&plan) == filled && plan["complete"] == true).then_some(())
    })
    .await;
    assert_eq!(hub.call("GET", POLICY, None).await.0, 404, "nothing is written");
    assert_eq!(fleet.instances(), 0, "nothing is started");

    assert_eq!(hub.call("POST", POLICY, Some(policy("1.0.0", 2))).await.0, 201);
    eventually("two instances run", || async { (fleet.versions().len() == 2).then_some(()) }).await;
    let plan_of = async |body: Option<Value>| {
        let (status, plan) = hub.call("POST", PLAN, body).await;
        assert_eq!(status, 200, "{plan}");
        plan
    };
    eventually("nothing is left to do", || async { actions(&plan_of(None).await).is_empty().then_some(()) })
        .await;
    // Reports of the instances and their agreements change the state for some time.
    let update = eventually("nothing changes any more", || async {
        let update = plan_of(Some(policy("2.0.0", 2))).await;
        let again = plan_of(Some(policy("2.0.0", 2))).await;
        (update["token"] == again["token"]).then_some(update)
    })
    .await;
    assert_eq!(actions(&update), expected(&[("replace", 1), ("replace", 2)]));
    for change in update["units"][0]["changes"].as_array().into_iter().flatten() {
        assert!(change["from"].as_str().is_some_and(|node| node.starts_with("edge-")), "{change}");
        assert_eq!(change["from"], change["to"]);
    }
    writes_that_the_exchange_refuses_are_not_planned(&hub).await;
    let scaled = plan_of(Some(policy("1.0.0", 1))).await;
    assert_eq!(actions(&scaled).len(), 1);
    assert_ne!(update["token"], scaled["token"], "another document");
    assert_eq!(fleet.versions().values().filter(|version| *version == "1.0.0").count(), 2);

    let path = "/orgs/o/nodes/edge-3/actions/pause";
    assert_eq!(hub.call("POST", path, None).await.0, 201);
    eventually("the plan names which nodes are removed, and creates nothing that has no node", || async {
        let plan = plan_of(Some(policy("1.0.0", 3))).await;
        let unit = &plan["units"][0];
        let is_created = actions(&plan).iter().any(|(action, _)| *action == "create");
        let stages = unit["sequence"].as_array()?;
        let of_state = stages.iter().find(|stage| stage["constraint"] == "NodeState")?;
        (!is_created && of_state["eliminated"][0]["node"] == "edge-3").then_some(())
    })
    .await;
    assert_eq!(hub.call("PUT", POLICY, Some(policy("1.0.0", 1))).await.0, 201);
    eventually("one instance is left", || async { (fleet.versions().len() == 1).then_some(()) }).await;
    assert_ne!(plan_of(Some(policy("2.0.0", 2))).await["token"], update["token"], "the world has changed");
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn plan_of_what_is_no_policy_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 0).await;
    eventually("the policy is unknown", || async {
        (hub.call("POST", PLAN, None).await.0 == 404).then_some(())
    })
    .await;
    for body in [json!([]), json!({"label": "l"}), json!({"label": "l", "service": {}, "unknown": 1})] {
        assert_eq!(hub.call("POST", PLAN, Some(body)).await.0, 400);
    }
    let mut wrong = policy("1.0.0", 1);
    wrong["orchestration"]["replicas"] = json!(-1);
    let (status, body) = hub.call("POST", PLAN, Some(wrong)).await;
    assert_eq!(status, 400);
    assert!(body["msg"].as_str().unwrap_or_default().contains("orchestration.replicas"), "{body}");

    // The exchange does not show another tenant that a policy is none of its business when there is no such policy.
    let created =
        hub.call("POST", "/orgs/evil", Some(json!({"label": "evil", "description": "another tenant"}))).await;
    assert_eq!(created.0, 201, "{}", created.1);
    let user = json!({"password": "secret-mal", "admin": true, "email": "mal@example.com"});
    assert_eq!(hub.call("POST", "/orgs/evil/users/mal", Some(user)).await.0, 201);
    let mal = ("evil/mal", "secret-mal");
    let write = json!({"settings": {"settings": {}}});
    for (path, body) in [(PLAN, policy("1.0.0", 1)), ("/orgs/o/orchestration/stops", write)] {
        let (status, body) = hub.call_as(mal, "POST", path, Some(body)).await;
        assert_eq!(status, 403, "{path}: {body}");
    }
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
