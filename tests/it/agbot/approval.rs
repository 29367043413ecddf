//! Approval of plans by a second person: what needs one, who gives it, and what it is worth when the world has changed.

use serde_json::{Value, json};

use crate::support::fleet::{Fleet, arch};
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

const POLICY: &str = "/orgs/o/business/policies/everywhere";
const REQUEST: &str = "/orgs/o/agbot/approvals";
const ALL: &str = "/orgs/o/approvals";
const SETTINGS: &str = "/orgs/o/orchestration";

/// Sends a request as a user, with further headers.
async fn send(
    hub: &Hub,
    login: (&str, &str),
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> (u16, Value) {
    let method = must(method.parse(), "a method");
    let mut request = hub.client.request(method, format!("{}/v1{path}", hub.url));
    request = request.basic_auth(login.0, Some(login.1));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = must(request.send().await, "a response");
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

pub(super) async fn call(
    hub: &Hub,
    who: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    send(hub, (who, "secret"), (method, path), &[], body).await
}

fn document(version: &str) -> Value {
    json!({
        "label": "everywhere",
        "service": {"name": "watch", "org": "o", "arch": arch(), "serviceVersions": [{"version": version}]},
        "constraints": ["openhorizon.hagroup == g"],
        "orchestration": {"mode": "global"},
    })
}

pub(super) fn of_policy(policy: &str, version: &str) -> Value {
    json!({"kind": "deploymentPolicy", "policy": policy, "document": document(version)})
}

pub(super) fn action(name: &str) -> Value {
    json!({"kind": "policyAction", "policy": "everywhere", "action": name})
}

pub(super) async fn request(hub: &Hub, who: &str, write: &Value) -> (u16, Value) {
    let body = json!({"write": write, "reason": "ticket 4711"});
    call(hub, who, "POST", REQUEST, Some(body)).await
}

pub(super) async fn requested(hub: &Hub, who: &str, write: &Value) -> (String, Value) {
    let (status, found) = request(hub, who, write).await;
    assert_eq!((status, &found["state"]), (200, &json!("pending")), "{found}");
    (found["id"].as_str().unwrap_or_default().to_owned(), found)
}

pub(super) async fn decide(hub: &Hub, who: &str, id: &str, verdict: &str) -> (u16, Value) {
    call(hub, who, "POST", &format!("{ALL}/{id}/{verdict}"), Some(json!({"reason": "seen"}))).await
}

pub(super) async fn apply(hub: &Hub, who: &str, id: &str) -> (u16, Value) {
    call(hub, who, "POST", &format!("{REQUEST}/{id}/apply"), None).await
}

/// Requests a write as ann, approves it as bob and applies it; a fleet whose state still changes gets another plan.
async fn carried_out(hub: &Hub, write: &Value, by: &str) -> (String, Value) {
    eventually("a plan that still holds", async || {
        let (id, _) = requested(hub, "o/ann", write).await;
        let (status, found) = decide(hub, "o/bob", &id, "approve").await;
        assert_eq!((status, &found["state"]), (200, &json!("approved")), "{found}");
        let (status, found) = apply(hub, by, &id).await;
        let msg = found["msg"].as_str().unwrap_or_default();
        let is_early = msg.contains("has changed") || msg.contains("is in progress");
        assert!(status == 200 || status == 409 && is_early, "{found}");
        if status == 200 {
            return Some((id, found));
        }
        // That of an action is used up already when the action is refused.
        assert!(matches!(decide(hub, "o/ann", &id, "cancel").await.0, 200 | 409));
        None
    })
    .await
}

fn required(outcome: &(u16, Value)) -> bool {
    outcome.0 == 403 && outcome.1["code"] == "approval-required"
}

async fn add_user(hub: &Hub, name: &str, more: Value) {
    let mut body = json!({"password": "secret", "email": "e", "admin": false});
    for (member, value) in more.as_object().into_iter().flatten() {
        body[member] = value.clone();
    }
    let (status, found) = hub.call("POST", &format!("/orgs/{name}"), Some(body)).await;
    assert_eq!(status, 201, "{name}: {found}");
}

/// A hub with two nodes that run version 1.0.0, whose organization requires approvals, and people of every kind.
async fn plant(scratch: &Scratch) -> (Hub, Fleet) {
    let hub = Hub::start(scratch, &["--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(scratch, &hub, 2).await;
    for version in ["1.0.0", "2.0.0"] {
        fleet.publish(&hub, version).await;
    }
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": {"mode": "global"}})).await;
    assert_eq!(hub.call("POST", "/orgs/p", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for name in ["o/users/ann", "o/users/bob", "p/users/pam"] {
        add_user(&hub, name, json!({"admin": true})).await;
    }
    add_user(&hub, "o/users/uma", json!({})).await;
    add_user(&hub, "o/users/vera", json!({"role": "viewer"})).await;
    add_user(&hub, "o/users/dora", json!({"role": "deployer", "policies": ["shop-*"]})).await;
    eventually("two instances run", async || (fleet.versions().len() == 2).then_some(())).await;
    let changed = call(&hub, "o/ann", "PATCH", SETTINGS, Some(json!({"approval": "changes"}))).await;
    assert_eq!(changed.0, 201, "one administrator turns it on: {}", changed.1);
    (hub, fleet)
}

async fn nothing_is_written_without_an_approval(hub: &Hub) {
    for (method, path, body) in [
        ("PUT", POLICY.to_owned(), Some(document("2.0.0"))),
        ("PATCH", POLICY.to_owned(), Some(json!({"label": "another"}))),
        ("DELETE", POLICY.to_owned(), None),
        ("POST", "/orgs/o/business/policies/other".to_owned(), Some(document("1.0.0"))),
        ("POST", format!("{POLICY}/actions/restart"), None),
        ("POST", format!("{POLICY}/actions/%72estart"), None),
        ("POST", format!("{POLICY}/actions/stop"), Some(json!({}))),
        ("POST", "/orgs/o/agbot/rollouts/everywhere/rollback".to_owned(), None),
        ("PATCH", SETTINGS.to_owned(), Some(json!({"approval": "none"}))),
        ("PATCH", SETTINGS.to_owned(), Some(json!({"approval": null}))),
        ("PUT", SETTINGS.to_owned(), Some(json!({}))),
    ] {
        let outcome = call(hub, "o/ann", method, &path, body).await;
        assert!(required(&outcome), "{method} {path}: {outcome:?}");
        assert!(
            outcome.1["msg"].as_str().is_some_and(|text| text.contains("hzn approval request")),
            "{outcome:?}"
        );
    }
    assert!(!required(&call(hub, "o/ann", "POST", &format!("{POLICY}/actions/freeze"), None).await));
    assert_eq!(carried_out(hub, &action("thaw"), "o/ann").await.1["code"], "ok");
}

async fn nobody_else_approves(hub: &Hub, id: &str) {
    let (_, key) =
        call(hub, "o/ann", "POST", "/orgs/o/users/ann/apikeys", Some(json!({"label": "second"}))).await;
    let key = key["value"].as_str().unwrap_or_default();
    let path = format!("{ALL}/{id}/approve");
    let own = send(hub, ("o/apikey", key), ("POST", &path), &[], Some(json!({}))).await;
    assert!(own.0 == 403 && own.1["msg"].as_str().is_some_and(|text| text.contains("requested")), "{own:?}");
    for who in ["o/ann", "o/vera", "o/dora", "o/uma", "p/pam"] {
        let (status, found) = decide(hub, who, id, "approve").await;
        assert_eq!(status, 403, "{who}: {found}");
        let (status, found) = decide(hub, who, id, "reject").await;
        assert_eq!(status, 403, "{who}: {found}");
    }
    let root = hub.call("POST", &path, Some(json!({}))).await;
    assert_eq!(root.0, 403, "root is no user of the organization: {}", root.1);
    // An account and an API key that the requester made are no second person.
    let body = json!({"password": "secret", "email": "e", "admin": true});
    assert_eq!(call(hub, "o/ann", "POST", "/orgs/o/users/sock", Some(body)).await.0, 201);
    let (status, found) = decide(hub, "o/sock", id, "approve").await;
    assert!(
        status == 403 && found["msg"].as_str().is_some_and(|text| text.contains("written last")),
        "{found}"
    );
    let (_, key) =
        call(hub, "o/ann", "POST", "/orgs/o/users/bob/apikeys", Some(json!({"label": "lent"}))).await;
    let key = key["value"].as_str().unwrap_or_default();
    let lent = send(hub, ("o/apikey", key), ("POST", &path), &[], Some(json!({}))).await;
    assert!(
        lent.0 == 403 && lent.1["msg"].as_str().is_some_and(|text| text.contains("created by")),
        "{lent:?}"
    );
    let early = apply(hub, "o/ann", id).await;
    assert!(
        early.0 == 409 && early.1["msg"].as_str().is_some_and(|text| text.contains("pending")),
        "{early:?}"
    );
}

#[tokio::test]
async fn write_is_carried_out_once_with_the_approval_of_a_second_person_while_its_plan_holds() {
    let scratch = Scratch::new();
    let (hub, fleet) = plant(&scratch).await;
    nothing_is_written_without_an_approval(&hub).await;

    let update = of_policy("everywhere", "2.0.0");
    let (id, found) = requested(&hub, "o/ann", &update).await;
    let lines = found["plan"]["lines"].to_string();
    assert!(lines.contains("~ replace slot") && found["plan"]["summary"].as_str().is_some(), "{found}");
    nobody_else_approves(&hub, &id).await;
    let other = json!({"token": "0123456789abcdef0123456789abcdef"});
    let (status, refused) = call(&hub, "o/bob", "POST", &format!("{ALL}/{id}/approve"), Some(other)).await;
    assert!(
        status == 409 && refused["msg"].as_str().is_some_and(|text| text.starts_with("token")),
        "{refused}"
    );
    assert_eq!(decide(&hub, "o/bob", &id, "approve").await.0, 200);
    assert_eq!(decide(&hub, "o/bob", &id, "approve").await.0, 409, "it is decided");

    // The exchange believes an approval only from an agbot that has made the plan again.
    let headers = [("x-evenkeel-approval", id.as_str())];
    let direct = send(&hub, ("o/ann", "secret"), ("PUT", POLICY), &headers, Some(document("2.0.0"))).await;
    assert_eq!(direct.0, 403, "{}", direct.1);
    let (status, found) = apply(&hub, "o/dora", &id).await;
    assert!(matches!(status, 403 | 409), "neither requester nor approver: {found}");

    // The world changes.
    assert_eq!(hub.call("POST", "/orgs/o/nodes/edge-2/actions/pause", None).await.0, 201);
    eventually("the agbot knows of the pause", async || {
        let (_, found) = hub.call("GET", "/orgs/o/agbot/nodes", None).await;
        let paused =
            found["nodes"].as_array()?.iter().find(|node| node["node"] == "o/edge-2")?["availability"]
                .clone();
        (paused == "pause").then_some(())
    })
    .await;
    let (status, found) = apply(&hub, "o/ann", &id).await;
    let refused = found["msg"].as_str().unwrap_or_default();
    assert_eq!(status, 409, "{found}");
    assert!(refused.contains("has changed since") && refused.contains("plan again"), "{refused}");
    assert!(fleet.versions().values().all(|version| version == "1.0.0"));
    let state = call(&hub, "o/ann", "GET", &format!("{ALL}/{id}"), None).await.1["state"].clone();
    assert_eq!(state, "approved", "what was refused is not used up");
    assert_eq!(hub.call("POST", "/orgs/o/nodes/edge-2/actions/activate", None).await.0, 201);

    let (used, _) = carried_out(&hub, &update, "o/ann").await;
    eventually("both instances are replaced", async || {
        fleet.versions().values().all(|version| version == "2.0.0").then_some(())
    })
    .await;
    let (status, again) = apply(&hub, "o/ann", &used).await;
    assert!(
        status == 409 && again["msg"].as_str().is_some_and(|text| text.ends_with("it is used")),
        "{again}"
    );
    let (_, revisions) = hub.call("GET", &format!("{POLICY}/revisions"), None).await;
    let reason = revisions["revisions"][0]["reason"].as_str().unwrap_or_default();
    assert_eq!(reason, format!("approval {used}: ticket 4711"));

    let (used, done) = carried_out(&hub, &action("restart"), "o/bob").await;
    assert!(done["actionId"].as_str().is_some_and(|id| !id.is_empty()), "{done}");
    assert_eq!(apply(&hub, "o/bob", &used).await.0, 409);
    for kind in ["approval.requested", "approval.approved", "approval.stale", "approval.applied"] {
        eventually(kind, async || {
            let (_, found) = hub.call("GET", &format!("{POLICY}/events?kind={kind}"), None).await;
            found["events"].as_array().is_some_and(|found| !found.is_empty()).then_some(())
        })
        .await;
    }
    let (_, records) = hub.call("GET", "/orgs/o/audit?limit=1000", None).await;
    for operation in ["create_plan_approval", "approve_plan", "apply_plan_approval", "use_plan_approval"] {
        assert!(records.to_string().contains(operation), "{operation}");
    }
    setting_is_turned_off_with_an_approval_or_by_root(&hub).await;
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

async fn setting_is_turned_off_with_an_approval_or_by_root(hub: &Hub) {
    let off = json!({"kind": "settings", "settings": {"approval": "none"}});
    let (id, found) = requested(hub, "o/ann", &off).await;
    assert!(found["plan"]["lines"].to_string().contains("approval: "), "{found}");
    assert_eq!(decide(hub, "o/dora", &id, "approve").await.0, 403, "it is a setting of administrators");
    // Who has approved it loses the right to do it.
    assert_eq!(decide(hub, "o/bob", &id, "approve").await.0, 200);
    assert_eq!(hub.call("PATCH", "/orgs/o/users/bob", Some(json!({"admin": false}))).await.0, 201);
    let (status, void) = apply(hub, "o/ann", &id).await;
    assert!(status == 409 && void["msg"].as_str().is_some_and(|text| text.contains("is void")), "{void}");
    assert_eq!(hub.call("PATCH", "/orgs/o/users/bob", Some(json!({"admin": true}))).await.0, 201);
    assert_eq!(apply(hub, "o/ann", &id).await.0, 200, "the approval counts again with the right");
    assert_eq!(call(hub, "o/ann", "PATCH", POLICY, Some(json!({"label": "free"}))).await.0, 201);
    assert_eq!(call(hub, "o/ann", "PATCH", SETTINGS, Some(json!({"approval": "changes"}))).await.0, 201);
    assert!(required(&call(hub, "o/ann", "PATCH", POLICY, Some(json!({"label": "held"}))).await));
    assert_eq!(hub.call("PATCH", POLICY, Some(json!({"label": "root"}))).await.0, 201, "root needs none");
    assert_eq!(hub.call("PATCH", SETTINGS, Some(json!({"approval": "none"}))).await.0, 201);
}

#[tokio::test]
async fn approval_of_one_write_is_worth_nothing_for_another() {
    let scratch = Scratch::new();
    let (hub, fleet) = plant(&scratch).await;
    eventually("the agbot plans", async || {
        (request(&hub, "o/ann", &action("restart")).await.0 == 200).then_some(())
    })
    .await;
    let (id, found) = requested(&hub, "o/ann", &of_policy("everywhere", "2.0.0")).await;
    assert_eq!(decide(&hub, "o/bob", &id, "approve").await.0, 200);

    // An administrator approves an agbot of its own, and proves itself with it.
    let agbot = json!({"token": "secret-of-agbot", "name": "a", "msgEndPoint": "", "publicKey": "key"});
    assert_eq!(call(&hub, "o/ann", "PUT", "/orgs/o/agbots/mine", Some(agbot)).await.0, 201);
    assert_eq!(call(&hub, "o/ann", "PUT", "/orgs/o/agbots/mine/approval", Some(json!({}))).await.0, 201);
    let proof = must(
        reqwest::Client::new().get(&hub.url).basic_auth("o/mine", Some("secret-of-agbot")).build(),
        "a request",
    );
    let proof = must(proof.headers()["authorization"].to_str(), "a header").to_owned();
    let forged = [("x-evenkeel-approval", id.as_str()), ("x-evenkeel-forwarded-by", proof.as_str())];
    let as_ann = ("o/ann", "secret");
    let using = format!("{ALL}/{id}/use");
    for (method, path, body) in [
        ("POST", "/orgs/o/business/policies/other", Some(document("2.0.0"))),
        ("PUT", POLICY, Some(document("1.0.0"))),
        ("DELETE", POLICY, None),
        ("PATCH", SETTINGS, Some(json!({"approval": "none"}))),
        ("PATCH", POLICY, Some(json!({"label": "x"}))),
        ("POST", using.as_str(), Some(json!({"token": found["plan"]["token"]}))),
    ] {
        let (status, refused) = send(&hub, as_ann, (method, path), &forged, body).await;
        let text = refused["msg"].as_str().unwrap_or_default();
        assert!(
            status == 409 && text.contains("is about another write"),
            "{method} {path}: {status} {refused}"
        );
    }
    let (status, refused) =
        send(&hub, ("o/uma", "secret"), ("PUT", POLICY), &forged, Some(document("2.0.0"))).await;
    assert_eq!(status, 403, "{refused}");
    let of_p =
        send(&hub, ("p/pam", "secret"), ("PATCH", "/orgs/p/orchestration"), &forged, Some(json!({}))).await;
    assert_eq!(of_p.0, 403, "the agbot is not believed about another organization: {}", of_p.1);
    // A plan that nobody made.
    let body = json!({
        "request": {"write": action("restart"), "reason": "r"},
        "plan": {"token": "0", "summary": "nothing happens", "lines": [], "others": 0},
    });
    assert_eq!(call(&hub, "o/ann", "POST", ALL, Some(body)).await.0, 403);

    // The policy is written meanwhile, by one who needs no approval.
    assert_eq!(hub.call("PATCH", POLICY, Some(json!({"label": "meanwhile"}))).await.0, 201);
    let (status, refused) = send(&hub, as_ann, ("PUT", POLICY), &forged, Some(document("2.0.0"))).await;
    assert!(
        status == 409 && refused["msg"].as_str().is_some_and(|text| text.contains("was written since")),
        "{refused}"
    );
    assert!(fleet.versions().values().all(|version| version == "1.0.0"));

    // Policies do not go with their owner, whom one administrator could remove alone.
    assert_eq!(hub.call("PATCH", SETTINGS, Some(json!({"approval": "none"}))).await.0, 201);
    let owned = "/orgs/o/business/policies/owned";
    assert_eq!(call(&hub, "o/uma", "POST", owned, Some(document("1.0.0"))).await.0, 201);
    assert_eq!(hub.call("PATCH", SETTINGS, Some(json!({"approval": "changes"}))).await.0, 201);
    assert!(required(&call(&hub, "o/ann", "DELETE", "/orgs/o/users/uma", None).await));
    assert_eq!(hub.call("GET", owned, None).await.0, 200);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}

#[tokio::test]
async fn requests_are_bounded_and_their_texts_are_texts() {
    let scratch = Scratch::new();
    let (hub, fleet) = plant(&scratch).await;
    let ask = async |who: &str, body: Value| call(&hub, who, "POST", REQUEST, Some(body)).await;
    let hostile = "<script>alert(1)</script> \u{202e}'\"--";
    for (status, body) in [
        (400, json!({"write": action("restart"), "reason": ""})),
        (400, json!({"write": action("restart"), "reason": "x".repeat(1_001)})),
        (400, json!({"write": action("restart"), "reason": "a\u{0}b"})),
        (400, json!({"write": action("restart"), "reason": "r", "expiresSeconds": 1})),
        (400, json!({"write": action("restart"), "reason": "r", "expiresSeconds": -1})),
        (400, json!({"write": action("freeze"), "reason": "r"})),
        (400, json!({"write": action("explode"), "reason": "r"})),
        (400, json!({"write": {"kind": "node", "node": "edge-1"}, "reason": "r"})),
        (400, json!({"write": {"kind": "settings", "settings": {"approval": "all"}}, "reason": "r"})),
        (400, json!({"write": {"kind": "deploymentPolicy", "policy": "q", "document": {}}, "reason": "r"})),
        (404, json!({"write": {"kind": "deploymentPolicyRemoval", "policy": "none"}, "reason": "r"})),
        (404, json!({"write": {"kind": "deploymentPolicyRemoval", "policy": "a\u{0}"}, "reason": "r"})),
    ] {
        let outcome = ask("o/ann", body.clone()).await;
        assert_eq!(outcome.0, status, "{body}: {}", outcome.1);
    }
    for who in ["o/vera", "o/dora", "o/uma", "p/pam"] {
        let (status, found) = request(&hub, who, &action("restart")).await;
        assert_eq!(status, 403, "{who}: {found}");
    }
    let (status, found) = ask("o/ann", json!({"write": action("restart"), "reason": hostile})).await;
    assert_eq!((status, &found["reason"]), (200, &json!(hostile)), "{found}");
    let mut refused = 0;
    for _ in 0..60 {
        let (status, found) = request(&hub, "o/ann", &action("restart")).await;
        assert!(
            status == 200
                || status == 409 && found["msg"].as_str().is_some_and(|text| text.contains("50 open")),
            "{found}"
        );
        refused += u32::from(status == 409);
    }
    assert_eq!(refused, 11);
    assert_eq!(request(&hub, "o/bob", &action("restart")).await.0, 200, "others are not locked out");

    let (mut seen, mut after) = (0, String::new());
    loop {
        let path = format!("{ALL}?state=pending&limit=20{after}");
        let (status, page) = call(&hub, "o/vera", "GET", &path, None).await;
        assert_eq!(status, 200, "{page}");
        seen += page["approvals"].as_array().map_or(0, Vec::len);
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, 51);
    let own = call(&hub, "o/uma", "GET", ALL, None).await;
    assert_eq!((own.0, own.1["approvals"].as_array().map(Vec::len)), (200, Some(0)), "others are not shown");
    for query in ["state=open", "limit=0", "limit=101", "after=x"] {
        assert_eq!(call(&hub, "o/ann", "GET", &format!("{ALL}?{query}"), None).await.0, 400, "{query}");
    }
    for path in ["none", "01932f0e-7a5b-7cc3-98c4-dc0c0c07398f", "%00", "..%2F"] {
        let status = call(&hub, "o/ann", "GET", &format!("{ALL}/{path}"), None).await.0;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
        assert!(matches!(decide(&hub, "o/ann", path, "approve").await.0, 400 | 404), "{path}");
    }
    assert_eq!(call(&hub, "p/pam", "GET", ALL, None).await.0, 403);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
