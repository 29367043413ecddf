//! The object `orchestration` of a deployment policy: kept as given, shown only when set, refused by name.

use http::Method;
use serde_json::{Value, json};

use super::api::Api;
use super::world::{CALLERS, Caller, HOME, World};
use crate::support::TestDatabase;

fn owner() -> Caller {
    *CALLERS.iter().find(|caller| caller.title == "owner").expect("a known caller")
}

fn path() -> String {
    format!("/orgs/{HOME}/business/policies/pol")
}

async fn call(world: &World, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
    let (status, response) = world.call(owner(), &method, path, body).await;
    (status.as_u16(), serde_json::from_slice(&response).unwrap_or_default())
}

async fn stored(world: &World) -> Value {
    let (status, response) = call(world, Method::GET, &path(), None).await;
    assert_eq!(status, 200, "{response}");
    response["businessPolicy"][format!("{HOME}/pol")].clone()
}

/// The policy that is stored, as a body, with an orchestration.
fn with(policy: &Value, orchestration: Value) -> Value {
    let mut body = policy.clone();
    for member in ["owner", "created", "lastUpdated"] {
        body.as_object_mut().expect("a policy").remove(member);
    }
    body["orchestration"] = orchestration;
    body
}

fn settings() -> Value {
    json!({
        "version": 1, "mode": "global", "orchestrate": "ha",
        "scope": {"type": "hagroups", "haGroups": ["grp"]},
        "update": {"parallelism": 2, "delaySeconds": 30, "order": "stop-first", "monitorSeconds": 20,
                   "maxFailureRatio": 0.25, "failureAction": "rollback", "startTimeoutSeconds": 90},
        "ha": {"minRunning": 2, "offlinePeerPolicy": "proceed"},
    })
}

#[tokio::test]
async fn settings_of_a_policy_are_kept_and_a_policy_without_them_has_no_such_member() {
    let world = World::new().await;
    let plain = stored(&world).await;
    assert!(plain.get("orchestration").is_none());
    let body = with(&plain, settings());
    assert_eq!(call(&world, Method::PUT, &path(), Some(&body)).await.0, 201);
    assert_eq!(stored(&world).await["orchestration"], settings());
    let list = format!("/orgs/{HOME}/deployment/policies");
    let (_, listed) = call(&world, Method::GET, &list, None).await;
    assert_eq!(listed["businessPolicy"][format!("{HOME}/pol")]["orchestration"], settings());
    // Another attribute keeps it; a whole policy of a client that does not know it takes it away.
    assert_eq!(call(&world, Method::PATCH, &path(), Some(&json!({"label": "new"}))).await.0, 201);
    assert_eq!(stored(&world).await["orchestration"], settings());
    let mut old = with(&plain, Value::Null);
    old.as_object_mut().expect("a policy").remove("orchestration");
    assert_eq!(call(&world, Method::PUT, &path(), Some(&old)).await.0, 201);
    assert!(stored(&world).await.get("orchestration").is_none());
    for (change, expected) in
        [(json!({"ha": {"minRunning": 3}}), json!({"ha": {"minRunning": 3}})), (Value::Null, Value::Null)]
    {
        let change = json!({"orchestration": change});
        assert_eq!(call(&world, Method::PATCH, &path(), Some(&change)).await.0, 201);
        assert_eq!(stored(&world).await.get("orchestration").cloned().unwrap_or_default(), expected);
    }
}

/// A2-S4, A5-S8.
#[tokio::test]
async fn settings_that_cannot_be_honoured_are_refused_by_name_and_change_nothing() {
    let world = World::new().await;
    let before = stored(&world).await;
    for (orchestration, expected) in [
        (json!({"orchestrate": "start"}), "orchestration.orchestrate start needs the mode failover or flex"),
        (
            json!({"update": {"paralelism": 1}}),
            "orchestration.update.paralelism is not known; parallelism was probably meant",
        ),
        (json!({"ha": {"minRunning": 0}}), "orchestration.ha.minRunning must be"),
        (
            json!({"mode": "flex", "flex": {"target": 5, "max": 3}}),
            "orchestration.flex.target must not be greater than max, 3",
        ),
        (
            json!({"placement": {"expression": "a <"}}),
            "orchestration.placement.expression is not an expression: column 4",
        ),
        (json!({"placement": {"expression": "(".repeat(10_000)}}), "must not be longer than 4096 bytes"),
        (json!({"parents": ["pol"]}), "orchestration.parents has the cycle pol, pol"),
        (
            json!({"parents": ["elsewhere/db"]}),
            "orchestration.parents must name policies of the organization",
        ),
        (json!({"healthPolicy": {}}), "orchestration.healthPolicy.detection must be an object"),
        (
            json!({"loads": {"memoryMb": 1e300}}),
            "orchestration.loads.memoryMb must be a number from 0 to 1000000000000",
        ),
        (json!([1]), "orchestration must be an object"),
        (json!("global"), "orchestration must be an object"),
    ] {
        for (method, body) in [
            (Method::PUT, with(&before, orchestration.clone())),
            (Method::PATCH, json!({"orchestration": orchestration})),
            (Method::PATCH, json!({"label": "new", "orchestration": orchestration})),
        ] {
            let (status, response) = call(&world, method, &path(), Some(&body)).await;
            assert_eq!((status, &response["code"]), (400, &json!("invalid-input")), "{response}");
            assert!(response["msg"].as_str().is_some_and(|text| text.contains(expected)), "{response}");
        }
    }
    assert_eq!(stored(&world).await, before);
    let alias = format!("/orgs/{HOME}/deployment/policies/new");
    let body = with(&before, json!({"orchestrate": "start"}));
    assert_eq!(call(&world, Method::POST, &alias, Some(&body)).await.0, 400);
    assert_eq!(call(&world, Method::GET, &alias, None).await.0, 404);
}

#[tokio::test]
async fn policy_that_asks_for_more_than_there_is_is_written_with_a_warning() {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    for node in ["n1", "n2"] {
        api.make_node("o/u:pu", "o", node).await;
    }
    let replicated = |count: u32| json!({"mode": "replicated", "replicas": count});
    assert_eq!(api.make_policy("o", "fits", replicated(2)).await, Vec::<String>::new());
    let warnings = api.make_policy("o", "large", replicated(100_000)).await;
    let expected = "100000 instances are wanted and the fleet can hold 2 (nodes: 2, maxPerNode: 1)";
    assert!(warnings.len() == 1 && warnings[0].contains(expected), "{warnings:?}");
    let absent = json!({"mode": "global", "scope": {"type": "hagroups", "haGroups": ["none"]}});
    let warnings = api.make_policy("o", "nowhere", absent).await;
    let expected = "orchestration.scope: HA group o/none does not exist, nothing starts there";
    assert!(warnings.len() == 1 && warnings[0].contains(expected), "{warnings:?}");
    let patch = json!({"orchestration": replicated(7)});
    let warnings = api.warnings_of("o/u:pu", "PATCH", "/orgs/o/business/policies/fits", patch).await;
    assert!(warnings.len() == 1 && warnings[0].contains("7 instances are wanted"), "{warnings:?}");
}
