//! Health reports of users and nodes, and their evaluation, by the routes of the hub.

use serde_json::{Value, json};

use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

const ORG: &str = "/orgs/o/health";
const NODE: &str = "/orgs/o/nodes/n1/health";
const GROUP: &str = "/orgs/o/hagroups/g/health";
const POLICY: &str = "/orgs/o/business/policies/cam/health";
const UNIT: &str = "/orgs/o/business/policies/cam/units/g/health";
const INSTANCE: &str = "/orgs/o/business/policies/cam/instances/n1/health";

/// An organization with an administrator, two users, three nodes in a group, and a policy of one of the users.
async fn start(scratch: &Scratch) -> Hub {
    let hub = Hub::start(scratch, &[]).await;
    let created = |(status, body): (u16, Value)| assert_eq!(status, 201, "{body}");
    created(hub.call("POST", "/orgs/o", Some(json!({"label": "o", "description": "o"}))).await);
    for (user, admin) in [("admin", true), ("owner", false), ("other", false)] {
        let body = json!({"password": "secret", "email": "", "admin": admin});
        created(hub.call("POST", &format!("/orgs/o/users/{user}"), Some(body)).await);
    }
    for node in ["n1", "n2", "n3"] {
        let body = json!({"token": "secret", "name": node, "pattern": "", "publicKey": "", "arch": "amd64"});
        created(hub.call("PUT", &format!("/orgs/o/nodes/{node}"), Some(body)).await);
    }
    created(hub.call("POST", "/orgs/o/hagroups/g", Some(json!({"members": ["n1", "n2", "n3"]}))).await);
    let service = json!({"label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
        "deployment": "{\"services\":{}}", "deploymentSignature": "a"});
    created(hub.call("POST", "/orgs/o/services", Some(service)).await);
    let policy = json!({
        "label": "cam",
        "service": {"name": "s", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]},
        "orchestration": {"mode": "flex", "scope": {"type": "hagroups", "haGroups": ["g"]}, "flex": {"max": 3}},
    });
    let response = send(&hub, "owner", "POST", "/orgs/o/business/policies/cam", Some(policy)).await;
    created(response);
    hub
}

async fn send(hub: &Hub, login: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let method = must(method.parse(), "a method");
    let request = hub.client.request(method, format!("{}/v1{path}", hub.url));
    let request = match login {
        "root" => request.basic_auth("root/root", Some(hub.root_password())),
        login => request.basic_auth(format!("o/{login}"), Some("secret")),
    };
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let response = must(request.send().await, "a response");
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

fn body(source: &str, state: &str) -> Value {
    json!({"sourceId": source, "property": "p", "healthState": state})
}

async fn report(hub: &Hub, login: &str, path: &str, body: Value) -> (u16, Value) {
    send(hub, login, "POST", path, Some(body)).await
}

async fn reported(hub: &Hub, path: &str, body: Value) {
    let (status, body) = report(hub, "admin", path, body).await;
    assert_eq!((status, &body["code"]), (201, &json!("ok")), "{path}: {body}");
}

async fn health(hub: &Hub, path: &str) -> Value {
    let (status, body) = send(hub, "admin", "GET", path, None).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

async fn state(hub: &Hub, path: &str) -> String {
    health(hub, path).await["aggregatedHealthState"].as_str().unwrap_or_default().to_owned()
}

/// Removes what the hub itself reports of nodes that have no agent.
fn own_events(found: &Value) -> Vec<Value> {
    let events = found["healthEvents"].as_array().cloned().unwrap_or_default();
    let is_own = |event: &Value| !event["sourceId"].as_str().unwrap_or_default().starts_with("System.");
    events.into_iter().filter(is_own).collect()
}

/// D1-S1, D1-S2, D1-S3, D1-S5.
#[tokio::test]
async fn reports_are_kept_by_number_and_time_and_aggregated() {
    let scratch = Scratch::new();
    let hub = start(&scratch).await;
    for path in [ORG, NODE, GROUP, POLICY, UNIT, INSTANCE] {
        let found = health(&hub, path).await;
        assert_eq!(own_events(&found), Vec::<Value>::new(), "{found}");
    }
    // D1-S1.
    reported(&hub, UNIT, body("A", "Warning")).await;
    reported(&hub, UNIT, body("B", "Ok")).await;
    let found = health(&hub, UNIT).await;
    assert_eq!((&found["entity"], &found["id"]), (&json!("unit"), &json!("o/cam/g")));
    assert_eq!(own_events(&found).len(), 2, "{found}");
    let event = &own_events(&found)[0];
    assert_eq!((&event["sourceId"], &event["sequenceNumber"]), (&json!("A"), &json!("1")));
    assert_eq!((&event["isExpired"], &event["removeWhenExpired"]), (&json!(false), &json!(false)));
    assert_eq!((&event["ttlSeconds"], &event["sentAt"]), (&Value::Null, &Value::Null));
    assert!(
        event["transitions"]["lastWarningAt"].is_string() && event["transitions"]["lastErrorAt"].is_null()
    );
    let reasons: Vec<Value> = found["unhealthyEvaluations"].as_array().cloned().unwrap_or_default();
    let of_a = json!({"kind": "event", "sourceId": "A", "property": "p", "healthState": "Warning", "considerWarningAsError": false});
    assert!(reasons.contains(&of_a) && !reasons.iter().any(|one| one["sourceId"] == "B"), "{found}");
    assert_eq!(state(&hub, &format!("{UNIT}?considerWarningAsError=true")).await, "Error");
    // D1-S3.
    let numbered = |number: Value, state: &str| {
        let mut body = body("N", state);
        body["sequenceNumber"] = number;
        body
    };
    reported(&hub, INSTANCE, numbered(json!("10"), "Warning")).await;
    let (status, refused) = report(&hub, "admin", INSTANCE, numbered(json!(9), "Ok")).await;
    assert_eq!((status, &refused["code"]), (409, &json!("conflict")), "{refused}");
    assert!(refused["msg"].as_str().is_some_and(|text| text.contains("stale")), "{refused}");
    assert_eq!(state(&hub, INSTANCE).await, "Warning");
    reported(&hub, INSTANCE, numbered(json!(10), "Warning")).await;
    reported(&hub, INSTANCE, body("N", "Ok")).await;
    assert_eq!(own_events(&health(&hub, INSTANCE).await)[0]["sequenceNumber"], "11");
    // D1-S5.
    reported(&hub, INSTANCE, body("dog", "Error")).await;
    assert_eq!(state(&hub, UNIT).await, "Error");
    assert_eq!(state(&hub, POLICY).await, "Error");
    assert_eq!(state(&hub, ORG).await, "Error");
    assert_eq!(state(&hub, &format!("{UNIT}?maxPercentUnhealthyInstances=40")).await, "Warning");
    reported(&hub, INSTANCE, body("dog", "Ok")).await;
    // D1-S2.
    for (is_removed, expected) in [(true, "Ok"), (false, "Error")] {
        let mut value = body("ttl", "Ok");
        value["ttlSeconds"] = json!(1);
        value["removeWhenExpired"] = json!(is_removed);
        value["healthState"] = json!("Warning");
        reported(&hub, INSTANCE, value).await;
        let found = eventually("the report expires", || async {
            let found = health(&hub, INSTANCE).await;
            (found["aggregatedHealthState"] == expected).then_some(found)
        })
        .await;
        let ttl = own_events(&found).into_iter().find(|event| event["sourceId"] == "ttl");
        assert_eq!(ttl.map(|event| event["isExpired"].clone()), (!is_removed).then_some(json!(true)));
    }
    let kinds = health_changes(&hub).await;
    assert!(kinds.iter().any(|text| text == "dog reports p of o/cam@n1: Ok -> Error"), "{kinds:?}");
}

async fn health_changes(hub: &Hub) -> Vec<String> {
    let (_, found) =
        send(hub, "admin", "GET", "/orgs/o/business/policies/cam/events?kind=health.changed", None).await;
    let events = found["events"].as_array().cloned().unwrap_or_default();
    events.iter().filter_map(|event| Some(event["reason"].as_str()?.to_owned())).collect()
}

/// D1-S4.
#[tokio::test]
async fn reports_are_for_nodes_themselves_owners_and_administrators() {
    let scratch = Scratch::new();
    let hub = start(&scratch).await;
    for path in [ORG, NODE, GROUP, POLICY, UNIT, INSTANCE] {
        for login in ["admin", "root", "owner", "other", "n1", "n2"] {
            let is_of_policy = [POLICY, UNIT, INSTANCE].contains(&path);
            let expected = match login {
                "admin" | "root" => 201,
                "owner" if is_of_policy => 201,
                "n1" if path == NODE || path == INSTANCE => 201,
                _ => 403,
            };
            let (status, found) = report(&hub, login, path, body(login, "Ok")).await;
            assert_eq!(status, expected, "{login} {path}: {found}");
        }
        let (status, refused) = report(&hub, "admin", path, body("System.X", "Ok")).await;
        assert_eq!((status, &refused["code"]), (403, &json!("access-denied")), "{path}: {refused}");
        let (status, refused) = report(&hub, "admin", path, body("s", "fine")).await;
        assert_eq!((status, &refused["code"]), (400, &json!("invalid-input")), "{path}: {refused}");
        let gone =
            path.replace("/n1/", "/gone/").replace("/g/", "/gone/").replace("/cam/health", "/gone/health");
        if gone != path && path != ORG {
            for (method, body) in [("POST", Some(body("s", "Ok"))), ("GET", None)] {
                let (status, found) = send(&hub, "admin", method, &gone, body).await;
                assert_eq!((status, &found["code"]), (404, &json!("not-found")), "{method} {gone}: {found}");
            }
        }
    }
    // A user sees no node of others, and may not read its health.
    let (status, found) = send(&hub, "other", "GET", UNIT, None).await;
    assert_eq!(status, 200, "{found}");
    assert!(!found.to_string().contains("@n1"), "{found}");
    assert_eq!(send(&hub, "other", "GET", NODE, None).await.0, 403);
    assert_eq!(send(&hub, "n1", "GET", NODE, None).await.0, 200);
    assert_eq!(send(&hub, "nobody", "GET", ORG, None).await.0, 401);
    for query in ["considerWarningAsError=1", "maxPercentUnhealthyNodes=101", "limit=0", "maxPercent=1"] {
        let (status, refused) = send(&hub, "admin", "GET", &format!("{ORG}?{query}"), None).await;
        assert_eq!((status, &refused["code"]), (400, &json!("invalid-input")), "{query}: {refused}");
    }
    // The number of events of an entity is limited.
    for number in 0..100 {
        let (status, _) = report(&hub, "admin", GROUP, body(&format!("s{number}"), "Ok")).await;
        if status == 409 {
            return assert!(number >= 90, "{number}");
        }
    }
    panic!("no limit");
}

const EVERYWHERE: &str = "/orgs/o/business/policies/everywhere";

/// D1-S7, D2-S1: the node's watchdog finds that the new version hangs, and every instance returns to the version before.
#[tokio::test]
async fn watchdog_that_reports_an_error_during_an_update_rolls_it_back() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.publish(&hub, "2.0.0").await;
    let orchestration = json!({
        "mode": "replicated", "replicas": 2,
        "update": {"monitorSeconds": 60, "delaySeconds": 60, "failureAction": "rollback"},
        "rollback": {"monitorSeconds": 0, "delaySeconds": 0, "failureAction": "pause"},
    });
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration})).await;
    eventually("both run", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    fleet.want_with(&hub, "2.0.0", json!({"orchestration": orchestration})).await;
    let first = eventually("one runs the new version", || async {
        let versions = fleet.versions();
        versions.into_iter().find(|(_, version)| version == "2.0.0").map(|(node, _)| node)
    })
    .await;
    let seen = eventually("the hub sees it", || async {
        let path = format!("{EVERYWHERE}/tasks?state=running&node={first}");
        let (_, found) = hub.call("GET", &path, None).await;
        let tasks = found["tasks"].as_array().cloned().unwrap_or_default();
        tasks.iter().any(|task| task["version"] == "2.0.0").then_some(())
    });
    seen.await;
    let report = json!({"sourceId": "watchdog", "property": "Deadlock", "healthState": "Error"});
    let path = format!("{EVERYWHERE}/instances/{first}/health");
    let request = hub.client.post(format!("{}/v1{path}", hub.url));
    let request = request.basic_auth(format!("o/{first}"), Some(format!("secret-{first}")));
    assert_eq!(must(request.json(&report).send().await, "a response").status().as_u16(), 201);
    let status = eventually("the update is rolled back", || async {
        let (_, found) = hub.call("GET", &format!("{EVERYWHERE}/orchestration"), None).await;
        (found["update"]["state"] == "rollback-completed").then_some(found)
    })
    .await;
    assert!(fleet.all_run("1.0.0"), "{:?} {status}", fleet.versions());
    let (_, found) =
        hub.call("GET", &format!("{EVERYWHERE}/events?kind=update.rollback-started"), None).await;
    let reason = found["events"][0]["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains(&format!("watchdog reports Deadlock of o/everywhere@{first} as Error")),
        "{found}"
    );
    // It is still in error, which the whole shows, until the watchdog says otherwise.
    let (_, found) = hub.call("GET", &format!("{EVERYWHERE}/health"), None).await;
    assert_eq!(found["aggregatedHealthState"], "Error", "{found}");
}

/// D2: what cannot be placed is reported, and what is placed again is not.
#[tokio::test]
async fn hub_reports_what_it_cannot_place_while_that_lasts() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    let want = async |count: u32| {
        let orchestration = json!({"mode": "replicated", "replicas": count});
        fleet.want_with(&hub, "1.0.0", json!({"orchestration": orchestration, "constraints": []})).await;
    };
    want(2).await;
    let part = format!("{EVERYWHERE}/units/all/health");
    let state_of = async |property: &str| {
        let (_, found) = hub.call("GET", &part, None).await;
        let events = found["healthEvents"].as_array().cloned().unwrap_or_default();
        events.into_iter().find(|event| event["property"] == property)
    };
    let event = eventually("the hub reports it", || async {
        state_of("Unplaced").await.filter(|event| event["healthState"] == "Warning")
    })
    .await;
    assert_eq!((&event["sourceId"], &event["ttlSeconds"]), (&json!("System.Placement"), &json!(65)));
    assert_eq!((&event["removeWhenExpired"], &event["isExpired"]), (&json!(true), &json!(false)));
    assert!(event["description"].as_str().is_some_and(|text| text.contains("0 of 1 placed")), "{event}");
    want(1).await;
    eventually("the hub reports that it is over", || async {
        state_of("Unplaced").await.filter(|event| event["healthState"] == "Ok")
    })
    .await;
    eventually("all is well", || async {
        let (_, found) = hub.call("GET", &format!("{EVERYWHERE}/orchestration"), None).await;
        (found["overall"] == "up").then_some(())
    })
    .await;
}

#[tokio::test]
async fn node_of_another_organization_does_not_learn_which_policies_exist() {
    let scratch = Scratch::new();
    let hub = start(&scratch).await;
    let created = |(status, body): (u16, Value)| assert_eq!(status, 201, "{body}");
    created(hub.call("POST", "/orgs/p", Some(json!({"label": "p", "description": "p"}))).await);
    let node = json!({"token": "secret", "name": "n", "pattern": "", "publicKey": ""});
    created(hub.call("PUT", "/orgs/p/nodes/n", Some(node)).await);
    let mut refusals = Vec::new();
    for policy in ["cam", "none"] {
        let path = format!("/orgs/o/business/policies/{policy}/instances/p%2Fn/health");
        refusals.push(hub.call_as(("p/n", "secret"), "POST", &path, Some(body("s", "OK"))).await);
    }
    assert_eq!(refusals[0].0, 403, "{refusals:?}");
    assert_eq!(refusals[0], refusals[1]);
    assert_eq!(hub.stop().await, 0);
}
