//! Objects that get another owner, or come to exist, between the authorization of a write and its transaction; and what a change of owner or
//! rights ends.

use serde_json::{Value, json};

use super::api::{Api, ROOT};
use super::request::{deployment_policy, pattern, service};
use crate::support::wait::must;
use crate::support::{TestDatabase, eventually};

const ADMIN: &str = "o/admin:pa";
const USER: &str = "o/u:pu";
const SERVICE: &str = "public.svc_1.0.0_amd64";

/// Method and path of a write below the organization, with its body.
type Write = (&'static str, String, Value);

/// An organization in which `login` owns one object `x` of each kind.
async fn world(login: &str) -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    make_objects(&api, login, "x").await;
    (database, api)
}

async fn make_objects(api: &Api, login: &str, name: &str) {
    for (method, path, body) in [
        ("PUT", format!("nodes/{name}"), node("t")),
        ("PUT", format!("agbots/b{name}"), agbot("t")),
        ("POST", "services".to_owned(), service("public", "s", false)),
        ("POST", format!("patterns/{name}"), pattern("o", "p", false)),
        ("POST", format!("business/policies/{name}"), deployment_policy("o")),
    ] {
        api.expect(201, login, method, &format!("/orgs/o/{path}"), body).await;
    }
}

fn node(token: &str) -> Value {
    json!({"token": token, "name": "n", "pattern": "", "publicKey": ""})
}

fn agbot(token: &str) -> Value {
    json!({"token": token, "name": "b", "publicKey": ""})
}

/// Sends a write that waits for a lock of `statement`, whose transaction ends after the write was authorized; returns status and body.
async fn overtaken(api: &Api, login: &'static str, write: Write, statements: &[String]) -> (u16, Value) {
    let mut tx = must(api.database.begin().await, "a transaction");
    for statement in statements {
        must(sqlx::query(sqlx::AssertSqlSafe(statement.clone())).execute(&mut *tx).await, statement);
    }
    let (sender, (method, path, body)) = (api.clone(), write);
    let sent =
        tokio::spawn(async move { sender.call(login, method, &format!("/orgs/o/{path}"), body).await });
    eventually("the write waits for the transaction", || async {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: (i64,) = sqlx::query_as(waiting).fetch_one(api.database.pool()).await.ok()?;
        (waiting.0 >= 1).then_some(())
    })
    .await;
    must(tx.commit().await, "a commit");
    must(sent.await, "the write")
}

/// Writes of the owner of each kind of object, and of what belongs to it, with the table and the column of its name.
fn writes() -> Vec<(&'static str, &'static str, &'static str, Write)> {
    let keyed = |kind: &'static str, id: &str| ("PUT", format!("{kind}/{id}/keys/k.pem"), json!("key"));
    let dockauth = json!({"registry": "r", "username": "n", "token": "t"});
    let entry = json!({"businessPolOrgid": "o", "businessPol": "x", "nodeOrgid": "o"});
    vec![
        ("node", "node", "x", ("PUT", "nodes/x".to_owned(), node("u2"))),
        ("node", "node", "x", ("PATCH", "nodes/x".to_owned(), json!({"token": "u2"}))),
        ("node", "node", "x", ("PUT", "nodes/x/policy".to_owned(), json!({"properties": []}))),
        ("node", "node", "x", ("DELETE", "nodes/x".to_owned(), Value::Null)),
        ("agbot", "agbot", "bx", ("PUT", "agbots/bx".to_owned(), agbot("u2"))),
        ("agbot", "agbot", "bx", ("PATCH", "agbots/bx".to_owned(), json!({"token": "u2"}))),
        ("agbot", "agbot", "bx", ("POST", "agbots/bx/businesspols".to_owned(), entry)),
        ("agbot", "agbot", "bx", ("DELETE", "agbots/bx".to_owned(), Value::Null)),
        (
            "service",
            "service",
            SERVICE,
            ("PUT", format!("services/{SERVICE}"), service("public", "l", false)),
        ),
        ("service", "service", SERVICE, ("PATCH", format!("services/{SERVICE}"), json!({"label": "l"}))),
        ("service", "service", SERVICE, ("POST", format!("services/{SERVICE}/dockauths"), dockauth)),
        ("service", "service", SERVICE, ("DELETE", format!("services/{SERVICE}"), Value::Null)),
        ("pattern", "pattern", "x", ("PUT", "patterns/x".to_owned(), pattern("o", "l", false))),
        ("pattern", "pattern", "x", ("PATCH", "patterns/x".to_owned(), json!({"label": "l"}))),
        ("pattern", "pattern", "x", keyed("patterns", "x")),
        ("pattern", "pattern", "x", ("DELETE", "patterns/x".to_owned(), Value::Null)),
        (
            "deployment_policy",
            "policy",
            "x",
            ("PUT", "business/policies/x".to_owned(), deployment_policy("o")),
        ),
        (
            "deployment_policy",
            "policy",
            "x",
            ("PATCH", "business/policies/x".to_owned(), json!({"label": "l"})),
        ),
        ("deployment_policy", "policy", "x", ("DELETE", "business/policies/x".to_owned(), Value::Null)),
    ]
}

#[tokio::test]
async fn object_that_gets_another_owner_before_the_transaction_is_not_written() {
    let (_database, api) = world(USER).await;
    for (table, column, id, write) in writes() {
        let what = format!("{} {}", write.0, write.1);
        let give = |owner: &str| format!("UPDATE {table} SET owner = '{owner}' WHERE {column} = '{id}'");
        let (status, body) = overtaken(&api, USER, write, &[give("v")]).await;
        assert_eq!(status, 403, "{what}: {body}");
        let owner: (String,) = must(
            sqlx::query_as(sqlx::AssertSqlSafe(format!("SELECT owner FROM {table} WHERE {column} = '{id}'")))
                .fetch_one(api.database.pool())
                .await,
            "the owner",
        );
        assert_eq!(owner.0, "v", "{what}");
        must(sqlx::query(sqlx::AssertSqlSafe(give("u"))).execute(api.database.pool()).await, "the owner");
    }
}

#[tokio::test]
async fn object_that_another_user_creates_before_the_transaction_is_not_written() {
    let (_database, api) = world(ADMIN).await;
    for (table, column, id, (method, path, body)) in writes() {
        if id == SERVICE && method == "PUT" {
            // The path of a service follows from its body.
            continue;
        }
        let path = path.replacen(&format!("/{id}"), "/fresh", 1);
        let what = format!("{method} {path}");
        let create = [
            "SELECT pg_advisory_xact_lock(hashtextextended('o/fresh', 0))".to_owned(),
            // They belong to a node by its name.
            format!("DELETE FROM node_heartbeat WHERE node = '{id}'"),
            format!("UPDATE {table} SET {column} = 'fresh' WHERE {column} = '{id}'"),
        ];
        let (status, body) = overtaken(&api, USER, (method, path, body), &create).await;
        assert_eq!(status, 403, "{what}: {body}");
        let back =
            format!("UPDATE {table} SET {column} = '{id}' WHERE {column} = 'fresh' AND owner = 'admin'");
        let back =
            must(sqlx::query(sqlx::AssertSqlSafe(back)).execute(api.database.pool()).await, "the name");
        assert_eq!(back.rows_affected(), 1, "{what}: it belongs to its creator");
    }
    let approval = api.expect(200, ADMIN, "GET", "/orgs/o/agbots/bx/approval", Value::Null).await;
    assert_eq!((&approval["owner"], &approval["approvedBy"]), (&json!("o/admin"), &json!("o/admin")));
}

#[tokio::test]
async fn two_writes_of_the_same_user_that_create_a_node_both_succeed() {
    let (_database, api) = world(USER).await;
    let writes = (0..8).map(|_| api.call(USER, "PUT", "/orgs/o/nodes/twice", node("t")));
    for (status, body) in futures_util::future::join_all(writes).await {
        assert_eq!(status, 201, "{body}");
    }
}

/// Changes about an agbot from a number on, as `resource operation`.
async fn changes(api: &Api, from: i64, id: &str) -> Vec<String> {
    let body = json!({"changeId": from, "maxRecords": 1000, "extensions": true});
    let found = api.expect(201, ROOT, "POST", "/orgs/o/changes", body).await;
    let list = found["changes"].as_array().expect("a list").iter();
    list.filter(|change| {
        change["id"] == id && change["resource"].as_str().is_some_and(|word| word.starts_with("agbot"))
    })
    .map(|change| {
        let text = |field: &str| change[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("resource"), text("operation"))
    })
    .collect()
}

async fn next_number(api: &Api) -> i64 {
    let last = api.expect(200, ROOT, "GET", "/changes/maxchangeid", Value::Null).await;
    last["maxChangeId"].as_i64().expect("a number") + 1
}

async fn is_approved(api: &Api, agbot: &str) -> bool {
    let path = format!("/orgs/o/agbots/{agbot}/approval");
    api.expect(200, ADMIN, "GET", &path, Value::Null).await["approvedBy"].is_string()
}

#[tokio::test]
async fn owner_who_replaces_the_token_of_an_approved_agbot_ends_the_approval() {
    let (_database, api) = world(USER).await;
    let generated = format!("ek1.{}", "0f".repeat(32));
    for (method, body, stays) in [
        ("PATCH", json!({"name": "other"}), true),
        ("PATCH", json!({"token": "u2"}), false),
        ("PUT", agbot("u3"), false),
        ("PUT", agbot(&generated), false),
        ("PUT", agbot(&generated), true),
    ] {
        api.expect(201, ADMIN, "PUT", "/orgs/o/agbots/bx/approval", Value::Null).await;
        let from = next_number(&api).await;
        api.expect(201, USER, method, "/orgs/o/agbots/bx", body.clone()).await;
        assert_eq!(is_approved(&api, "bx").await, stays, "{method} {body}");
        let seen = changes(&api, from, "bx").await;
        let is_reported = seen.iter().any(|change| change == "agbotapproval modified");
        assert_eq!(is_reported, !stays, "{method} {body}: {seen:?}");
    }
    // The agbot itself and an administrator replace the token, and the approval stays.
    let own = format!("o/bx:{generated}");
    api.expect(201, &own, "PATCH", "/orgs/o/agbots/bx", json!({"token": "own"})).await;
    assert!(is_approved(&api, "bx").await);
    api.expect(201, ADMIN, "PATCH", "/orgs/o/agbots/bx", json!({"token": "given"})).await;
    assert!(is_approved(&api, "bx").await);
}

#[tokio::test]
async fn demotion_and_deletion_of_an_owner_are_reported_for_its_agbots() {
    let (_database, api) = world(USER).await;
    api.expect(201, ADMIN, "PATCH", "/orgs/o/users/u", json!({"admin": true})).await;
    let entry = json!({"businessPolOrgid": "o", "businessPol": "*", "nodeOrgid": "o"});
    // One that its owner approved, one of whose entries the owner confirmed only.
    api.expect(201, USER, "PUT", "/orgs/o/agbots/own", agbot("t")).await;
    for agbot in ["own", "bx"] {
        let path = format!("/orgs/o/agbots/{agbot}/businesspols");
        api.expect(201, USER, "POST", &path, entry.clone()).await;
    }
    let from = next_number(&api).await;
    api.expect(201, ADMIN, "PATCH", "/orgs/o/users/u", json!({"admin": false})).await;
    for agbot in ["own", "bx"] {
        assert_eq!(changes(&api, from, agbot).await, ["agbotapproval modified"], "{agbot}");
    }
    let approvals = api.expect(200, ADMIN, "GET", "/orgs/o/agbot-approvals", Value::Null).await;
    let entries = approvals["entries"].as_array().expect("a list");
    assert!(entries.iter().all(|entry| entry["confirmedBy"].is_null()), "{entries:?}");
    assert!(!is_approved(&api, "own").await);

    let from = next_number(&api).await;
    api.expect(204, ADMIN, "DELETE", "/orgs/o/users/u", Value::Null).await;
    for agbot in ["own", "bx"] {
        assert_eq!(changes(&api, from, agbot).await, ["agbot deleted"], "{agbot}");
    }
}
