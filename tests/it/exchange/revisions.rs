//! Who changed a document, when and why; what is kept of it, and who may see it.

use std::time::Duration;

use evenkeel_exchange::{ExchangeSettings, RevisionLimits, RevisionSettings};
use serde_json::{Value, json};

use super::api::{Api, ROOT, read_response};
use super::request::{deployment_policy, pattern, service};
use crate::support::TestDatabase;

const ADMIN: &str = "o/admin:pa";
const USER: &str = "o/u:pu";
const OTHER: &str = "o/v:pv";
const NODE: &str = "o/n:token-n";
const POLICY: &str = "/orgs/o/business/policies/p";
const REVISIONS: &str = "/orgs/o/business/policies/p/revisions";

/// An exchange with organizations `o` and `q`, whose users publish a service and own a node `n`.
async fn start(database: &TestDatabase, settings: ExchangeSettings) -> Api {
    let api = Api::start_with(database, settings).await;
    for org in ["o", "q"] {
        api.make_org(org).await;
    }
    api.expect(201, USER, "POST", "/orgs/o/services", service("public", "l", true)).await;
    api.make_node(USER, "o", "n").await;
    api
}

fn policy(label: &str) -> Value {
    let mut body = deployment_policy("o");
    body["label"] = json!(label);
    body
}

/// Writes with a reason.
async fn write(api: &Api, login: &str, method: &str, path: &str, reason: &str, body: Value) {
    let response = api.send(login, method, path, &[("x-reason", reason)], &body).await;
    let (status, found) = read_response(response).await;
    assert!((200..300).contains(&status), "{method} {path}: {found}");
}

async fn list(api: &Api, login: &str, path: &str) -> Vec<Value> {
    let found = api.expect(200, login, "GET", path, Value::Null).await;
    found["revisions"].as_array().expect("a list").clone()
}

/// Number and operation of each revision, newest first.
async fn listed(api: &Api, path: &str) -> Vec<(i64, String)> {
    let of = |one: &Value| {
        (one["revision"].as_i64().expect("a number"), one["operation"].as_str().expect("a word").to_owned())
    };
    list(api, ADMIN, path).await.iter().map(of).collect()
}

fn is(found: &[(i64, String)], expected: &[(i64, &str)]) {
    let found: Vec<(i64, &str)> = found.iter().map(|(number, word)| (*number, word.as_str())).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn revision_has_author_time_reason_and_the_document_to_write_again() {
    let database = TestDatabase::new().await;
    let api = start(&database, Api::settings()).await;
    write(&api, USER, "POST", POLICY, "first", policy("a")).await;
    write(&api, ADMIN, "PATCH", POLICY, "größer", json!({"label": "b"})).await;
    api.expect(201, USER, "PUT", POLICY, policy("c")).await;
    api.expect(201, USER, "PUT", POLICY, policy("c")).await;
    write(&api, USER, "DELETE", POLICY, "gone", Value::Null).await;
    let found = list(&api, USER, REVISIONS).await;
    let shown: Vec<[&str; 3]> = found
        .iter()
        .map(|one| ["author", "operation", "reason"].map(|member| one[member].as_str().expect("a text")))
        .collect();
    let expected = [
        ["o/u", "delete", "gone"],
        ["o/u", "update", ""],
        ["o/admin", "update", "größer"],
        ["o/u", "create", "first"],
    ];
    assert_eq!(shown, expected, "a write that changes nothing adds none");
    let times: Vec<jiff::Timestamp> =
        found.iter().map(|one| one["time"].as_str().expect("a time").parse().expect("RFC 3339")).collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");

    let last = api.expect(200, USER, "GET", &format!("{REVISIONS}/4"), Value::Null).await;
    assert_eq!((last["document"].clone(), last["revision"].clone()), (Value::Null, json!(4)));
    let third = api.expect(200, USER, "GET", &format!("{REVISIONS}/3?from=1"), Value::Null).await;
    assert_eq!(third["document"]["label"], "c");
    let patch = third["patch"].as_array().expect("a patch");
    let label = json!({"op": "replace", "path": "/label", "value": "c"});
    assert!(patch.contains(&label), "{patch:?}");
    assert!(patch.iter().all(|one| one["path"] == "/label" || one["path"] == "/description"), "{patch:?}");
    let undone = api.expect(200, USER, "GET", &format!("{REVISIONS}/1?from=3"), Value::Null).await;
    assert_eq!(undone["patch"].as_array().map(Vec::len), Some(patch.len()));

    // The document is the body of an ordinary write, also under the other path of policies.
    let first = api.expect(200, USER, "GET", "/orgs/o/deployment/policies/p/revisions/1", Value::Null).await;
    api.expect(201, USER, "POST", POLICY, first["document"].clone()).await;
    let again = api.expect(200, USER, "GET", &format!("{REVISIONS}/5?from=1"), Value::Null).await;
    assert_eq!((again["operation"].clone(), again["patch"].clone()), (json!("create"), json!([])));
}

#[tokio::test]
async fn every_kind_of_document_is_restored_by_the_document_of_a_revision() {
    let database = TestDatabase::new().await;
    let api = start(&database, Api::settings()).await;
    let (svc, mut other) = ("/orgs/o/services/public.svc_1.0.0_amd64", service("public", "l", true));
    other["label"] = json!("changed");
    let node_policy =
        |value: &str| json!({"properties": [{"name": "p", "value": value}], "constraints": ["a == b"]});
    api.expect(201, USER, "POST", POLICY, policy("a")).await;
    api.expect(
        201,
        ADMIN,
        "POST",
        "/orgs/o/managementpolicies/m",
        json!({"label": "a", "constraints": ["x == y"]}),
    )
    .await;
    api.expect(201, USER, "POST", "/orgs/o/patterns/t", pattern("o", "a", false)).await;
    api.expect(201, USER, "POST", "/orgs/o/hagroups/g", json!({"description": "a", "members": ["n"]})).await;
    api.expect(201, USER, "PUT", &format!("{svc}/policy"), node_policy("a")).await;
    api.expect(201, USER, "PUT", "/orgs/o/nodes/n/policy", node_policy("a")).await;
    api.expect(201, ADMIN, "PUT", "/orgs/o/orchestration", json!({"readyPeriodSeconds": 5})).await;
    let kinds = [
        (POLICY, policy("b"), 1),
        ("/orgs/o/managementpolicies/m", json!({"label": "b", "patterns": ["x"]}), 1),
        (svc, other, 1),
        (&format!("{svc}/policy"), node_policy("b"), 1),
        ("/orgs/o/patterns/t", pattern("o", "b", false), 1),
        ("/orgs/o/hagroups/g", json!({"description": "b", "orchestration": {"maxUnavailable": 1}}), 1),
        ("/orgs/o/nodes/n/policy", node_policy("b"), 1),
        (
            "/orgs/o/nodes/n/orchestration/spec",
            json!({"availability": "pause", "capacities": {"memoryMb": 5}}),
            1,
        ),
        ("/orgs/o/orchestration", json!({"bufferUse": "upgrade"}), 1),
    ];
    for (path, body, first) in kinds {
        if path.ends_with("/g") {
            // One member is never left undisrupted.
            api.make_node(USER, "o", "n2").await;
            api.expect(201, USER, "PUT", path, json!({"description": "a", "members": ["n", "n2"]})).await;
        }
        let revisions = format!("{path}/revisions");
        api.expect(201, ADMIN, "PUT", path, body).await;
        let changed = listed(&api, &revisions).await;
        let before = changed[1].0;
        assert!(before >= first, "{path}: {changed:?}");
        let earlier = api.expect(200, ADMIN, "GET", &format!("{revisions}/{before}"), Value::Null).await;
        api.expect(201, ADMIN, "PUT", path, earlier["document"].clone()).await;
        let newest = changed[0].0 + 1;
        let again =
            api.expect(200, ADMIN, "GET", &format!("{revisions}/{newest}?from={before}"), Value::Null).await;
        assert_eq!(again["patch"], json!([]), "{path}");
    }
}

#[tokio::test]
async fn agents_add_no_revisions_and_persons_with_the_credentials_of_a_node_do() {
    let database = TestDatabase::new().await;
    let api = start(&database, Api::settings()).await;
    let node = "/orgs/o/nodes/n";
    let of_policy = format!("{node}/policy/revisions");
    let policy = |value: &str| json!({"properties": [{"name": "p", "value": value}], "constraints": []});
    api.expect(201, NODE, "PATCH", node, json!({"arch": "arm64"})).await;
    api.expect(201, NODE, "PUT", &format!("{node}/status"), json!({"connectivity": {}, "services": []}))
        .await;
    api.expect(201, NODE, "POST", &format!("{node}/heartbeat"), Value::Null).await;
    api.expect(201, NODE, "PUT", &format!("{node}/policy"), policy("registered")).await;
    api.expect(201, NODE, "PUT", &format!("{node}/policy"), policy("registered")).await;
    is(&listed(&api, &of_policy).await, &[]);
    // After each change, the agent adds what it knows of the machine.
    let built_in = json!({"properties": [
        {"name": "openhorizon.arch", "value": "amd64"}, {"name": "p", "value": "registered"},
    ], "constraints": []});
    api.expect(201, NODE, "PUT", &format!("{node}/policy"), built_in).await;
    is(&listed(&api, &of_policy).await, &[]);
    is(&listed(&api, &format!("{node}/orchestration/spec/revisions")).await, &[]);
    // `hzn policy update` on the node.
    api.expect(201, NODE, "PUT", &format!("{node}/policy"), policy("by hand")).await;
    is(&listed(&api, &of_policy).await, &[(2, "update"), (1, "found")]);
    assert_eq!(list(&api, NODE, &of_policy).await[0]["author"], "o/n");
    // The policy ends with its node; its revisions remain for those who may write the policy of such a node.
    api.expect(204, USER, "DELETE", node, Value::Null).await;
    assert_eq!(list(&api, USER, &of_policy).await.len(), 2);
    // A new owner of the name sees nothing of the earlier one.
    api.make_node(OTHER, "o", "n").await;
    api.expect(404, OTHER, "GET", &of_policy, Value::Null).await;
    api.expect(404, OTHER, "GET", &format!("{of_policy}/1"), Value::Null).await;
    api.expect(403, USER, "GET", &of_policy, Value::Null).await;
    assert_eq!(list(&api, ADMIN, &of_policy).await.len(), 2);
}

#[tokio::test]
async fn account_that_rewrites_a_large_document_stays_bounded() {
    let database = TestDatabase::new().await;
    let limits = RevisionLimits { count: 5, document_bytes: 100_000, org_bytes: 150_000 };
    let revisions = RevisionSettings { limits, age: Duration::from_secs(86_400) };
    let api = start(&database, ExchangeSettings { revisions, ..Api::settings() }).await;
    let large = |turn: usize| {
        let mut body = policy("l");
        body["description"] = json!(turn.to_string().repeat(30_000));
        body
    };
    for name in ["p", "p2", "p3"] {
        let path = format!("/orgs/o/business/policies/{name}");
        api.expect(201, USER, "POST", &path, policy("small")).await;
        for turn in 1..9 {
            api.expect(201, USER, "PUT", &path, large(turn)).await;
        }
    }
    for turn in 0..20 {
        api.expect(201, USER, "POST", "/orgs/o/business/policies/q", policy(&turn.to_string())).await;
        api.expect(204, USER, "DELETE", "/orgs/o/business/policies/q", Value::Null).await;
    }
    let mut all = 0;
    for name in ["p", "p2", "p3", "q"] {
        let found = list(&api, ADMIN, &format!("/orgs/o/business/policies/{name}/revisions")).await;
        let bytes: i64 = found.iter().map(|one| one["bytes"].as_i64().expect("bytes")).sum();
        assert!(found.len() <= 5 && bytes <= 100_000, "{name}: {} with {bytes} bytes", found.len());
        assert!(name == "q" || found[0]["revision"] == 9, "the newest one stays: {found:?}");
        all += bytes;
    }
    assert!(all <= 150_000, "{all}");
    assert_eq!(listed(&api, "/orgs/o/business/policies/q/revisions").await[0].0, 40);
}

#[tokio::test]
async fn revisions_are_read_by_those_who_may_read_the_document() {
    let database = TestDatabase::new().await;
    let api = start(&database, Api::settings()).await;
    api.expect(201, USER, "POST", POLICY, policy("a")).await;
    let one = format!("{REVISIONS}/1");
    for (login, status) in [(ROOT, 200), (ADMIN, 200), (OTHER, 200), (NODE, 200), ("q/admin:pa", 404)] {
        let of_document = api.call(login, "GET", POLICY, Value::Null).await.0;
        assert!(status == of_document || of_document == 403, "{login}: {of_document}");
        for path in [REVISIONS, &one] {
            assert_eq!(api.call(login, "GET", path, Value::Null).await.0, of_document, "{login} {path}");
        }
    }
    api.expect(403, "q/admin:pa", "GET", REVISIONS, Value::Null).await;
    // Of a removed document: who may write one, so no node.
    api.expect(204, USER, "DELETE", POLICY, Value::Null).await;
    for (login, status) in [(ROOT, 200), (ADMIN, 200), (OTHER, 200), (NODE, 403)] {
        api.expect(status, login, "GET", REVISIONS, Value::Null).await;
        api.expect(status, login, "GET", &one, Value::Null).await;
    }
    let outside = api.call("q/admin:pa", "GET", REVISIONS, Value::Null).await.0;
    assert!(outside == 403 || outside == 404, "{outside}");
    // A public service of today may have been private before; other organizations see none of its revisions.
    let path = "/orgs/o/services/private.svc_1.0.0_amd64";
    let revisions = format!("{path}/revisions");
    let mut private = service("private", "secret plan", false);
    api.expect(201, USER, "POST", "/orgs/o/services", private.clone()).await;
    api.expect(403, OTHER, "GET", &revisions, Value::Null).await;
    (private["public"], private["label"]) = (json!(true), json!("l"));
    api.expect(201, USER, "PUT", path, private).await;
    api.expect(200, "q/u:pu", "GET", path, Value::Null).await;
    api.expect(403, "q/u:pu", "GET", &revisions, Value::Null).await;
    let numbers =
        |found: Vec<Value>| found.iter().filter_map(|one| one["revision"].as_i64()).collect::<Vec<_>>();
    assert_eq!(numbers(list(&api, OTHER, &revisions).await), [2]);
    assert_eq!(numbers(list(&api, USER, &revisions).await), [2, 1]);
    api.expect(404, OTHER, "GET", &format!("{revisions}/1"), Value::Null).await;
    api.expect(404, OTHER, "GET", &format!("{revisions}/2?from=1"), Value::Null).await;
}

#[tokio::test]
async fn revision_of_a_group_shows_no_more_than_the_group() {
    let database = TestDatabase::new().await;
    let api = start(&database, Api::settings()).await;
    api.make_node(OTHER, "o", "foreign").await;
    let group = "/orgs/o/hagroups/g";
    write(&api, ADMIN, "POST", group, "", json!({"description": "secret", "members": ["n", "foreign"]}))
        .await;
    api.expect(204, ADMIN, "DELETE", &format!("{group}/nodes/foreign"), Value::Null).await;
    let one = format!("{group}/revisions/1");
    let shown = async |login: &str| {
        let found = api.expect(200, login, "GET", &one, Value::Null).await;
        [found["document"]["description"].clone(), found["document"]["members"].clone()]
    };
    assert_eq!(shown(ADMIN).await, [json!("secret"), json!(["foreign", "n"])]);
    assert_eq!(shown(USER).await, [json!(""), json!(["n"])]);
    let compared = api.expect(200, USER, "GET", &format!("{group}/revisions/2?from=1"), Value::Null).await;
    assert_eq!(compared["patch"], json!([]), "the member that left belongs to another user");
}

#[tokio::test]
async fn wrong_numbers_and_reasons_are_refused_with_the_rule() {
    let database = TestDatabase::new().await;
    let api = start(&database, Api::settings()).await;
    api.expect(201, USER, "POST", POLICY, policy("a")).await;
    for (rest, field) in [
        ("/0", "revision"),
        ("/-1", "revision"),
        ("/99999999999999999999", "revision"),
        ("/x", "revision"),
        ("/1?from=0", "from"),
        ("/1?from=x", "from"),
        ("?limit=0", "limit"),
        ("?limit=1000000", "limit"),
        ("?limit=x", "limit"),
        ("?after=0", "after"),
        ("?after=x", "after"),
    ] {
        let refused = api.expect(400, USER, "GET", &format!("{REVISIONS}{rest}"), Value::Null).await;
        assert!(refused["msg"].as_str().is_some_and(|text| text.contains(field)), "{rest}: {refused}");
    }
    for rest in ["/2", "/9223372036854775807", "/1?from=2"] {
        api.expect(404, USER, "GET", &format!("{REVISIONS}{rest}"), Value::Null).await;
    }
    api.expect(404, USER, "GET", "/orgs/o/business/policies/absent/revisions", Value::Null).await;
    assert_eq!(list(&api, USER, &format!("{REVISIONS}?after=1")).await, [] as [Value; 0]);
    for reason in ["x".repeat(1_001), "a\tb".to_owned()] {
        let headers = [("x-reason", reason.as_str())];
        let refused = api.send(USER, "PUT", POLICY, &headers, &policy("b")).await;
        let (status, body) = read_response(refused).await;
        assert_eq!(status, 400, "{body}");
        assert!(body["msg"].as_str().is_some_and(|text| text.contains("X-Reason")), "{body}");
    }
    assert_eq!(listed(&api, REVISIONS).await.len(), 1);
    for number in 1..=25 {
        api.expect(201, USER, "PUT", POLICY, policy(&number.to_string())).await;
    }
    let first = api.expect(200, USER, "GET", &format!("{REVISIONS}?limit=15"), Value::Null).await;
    assert_eq!((first["revisions"][0]["revision"].clone(), first["next"].clone()), (json!(26), json!(12)));
    let rest = api.expect(200, USER, "GET", &format!("{REVISIONS}?limit=15&after=12"), Value::Null).await;
    assert_eq!((rest["revisions"][0]["revision"].clone(), rest.get("next")), (json!(11), None));
}
