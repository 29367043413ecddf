//! API keys that one account creates for another: who created them stays known, and they end with the creator's rights.

use serde_json::{Value, json};

use super::api::{Api, ROOT};
use crate::support::TestDatabase;

const ADMIN: &str = "o/admin:pa";
const ZED: &str = "o/zed:pz";

/// An organization with a second administrator, `zed`.
async fn world() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    make_zed(&api).await;
    (database, api)
}

async fn make_zed(api: &Api) {
    let zed = json!({"password": "pz", "email": "e", "admin": true});
    api.expect(201, ROOT, "POST", "/orgs/o/users/zed", zed).await;
}

/// Creates a key for an account; returns it and the login with it.
async fn make_key(api: &Api, login: &str, account: &str) -> (Value, String) {
    let path = format!("/orgs/o/users/{account}/apikeys");
    let key = api.expect(201, login, "POST", &path, json!({"label": "k"})).await;
    let login = format!("o/apikey:{}", key["value"].as_str().expect("a value"));
    (key, login)
}

#[tokio::test]
async fn record_of_a_key_and_of_what_is_done_with_it_name_its_creator_and_its_id() {
    let (_database, api) = world().await;
    let (key, login) = make_key(&api, ZED, "admin").await;
    assert_eq!((&key["owner"], &key["createdBy"]), (&json!("o/admin"), &json!("o/zed")));
    let id = key["id"].as_str().expect("an id");
    let one = format!("/orgs/o/users/admin/apikeys/{id}");
    assert_eq!(api.expect(200, ADMIN, "GET", &one, Value::Null).await["createdBy"], "o/zed");
    let account = api.expect(200, ADMIN, "GET", "/orgs/o/users/admin", Value::Null).await;
    assert_eq!(account["users"]["o/admin"]["apikeys"][0]["createdBy"], "o/zed", "{account}");

    api.expect(201, &login, "POST", "/orgs/o/hagroups/g", json!({"members": []})).await;
    let found = api.expect(200, ADMIN, "GET", "/orgs/o/audit?resource=/orgs/o/hagroups/g", Value::Null).await;
    assert_eq!(found["records"][0]["caller"], "o/admin", "{found}");
    assert_eq!(
        found["records"][0]["role"],
        format!("organization administrator with API key {id}"),
        "{found}"
    );
    let checked = api.expect(200, ADMIN, "GET", "/orgs/o/audit/verify", Value::Null).await;
    assert_eq!(checked["intact"], true, "{checked}");
}

#[tokio::test]
async fn keys_that_an_account_created_for_others_end_with_its_rights() {
    let (_database, api) = world().await;
    for ends in ["PATCH", "DELETE"] {
        let (_, own) = make_key(&api, ZED, "zed").await;
        let (_, given) = make_key(&api, ZED, "admin").await;
        // The key creates another one: that is the creator's, too.
        let (next, more) = make_key(&api, &given, "admin").await;
        assert_eq!(next["createdBy"], "o/zed");
        let (_, kept) = make_key(&api, ADMIN, "admin").await;
        for login in [&own, &given, &more, &kept] {
            api.expect(200, login, "GET", "/orgs/o/users", Value::Null).await;
        }
        let (body, status) = match ends {
            "PATCH" => (json!({"admin": false}), 201),
            _ => (Value::Null, 204),
        };
        api.expect(status, ADMIN, ends, "/orgs/o/users/zed", body).await;
        for login in [&given, &more] {
            api.expect(401, login, "GET", "/orgs/o", Value::Null).await;
        }
        api.expect(200, &kept, "GET", "/orgs/o/users", Value::Null).await;
        let own_status = if ends == "PATCH" { 403 } else { 401 };
        api.expect(own_status, &own, "GET", "/orgs/o/users", Value::Null).await;
        if ends == "PATCH" {
            api.expect(201, ADMIN, "PATCH", "/orgs/o/users/zed", json!({"admin": true})).await;
        }
    }
}

#[tokio::test]
async fn many_agent_runs_of_one_node_are_refused() {
    let (_database, api) = world().await;
    api.make_node(ADMIN, "o", "n").await;
    let mut refused = None;
    for run in 0..40 {
        let header = format!("run=r{run};boot=b;journal=j");
        let headers = [("evenkeel-agent", header.as_str())];
        let response = api.send("o/n:token-n", "GET", "/orgs/o/nodes/n", &headers, &Value::Null).await;
        if response.status() != 200 {
            refused = Some((run, response));
            break;
        }
    }
    let (run, response) = refused.expect("a refusal");
    assert_eq!((response.status().as_u16(), response.headers().contains_key("retry-after")), (429, true));
    assert!(run >= 20, "{run}");
    // The run that reports goes on.
    let last = format!("run=r{};boot=b;journal=j", run - 1);
    let sent =
        api.send("o/n:token-n", "GET", "/orgs/o/nodes/n", &[("evenkeel-agent", &last)], &Value::Null).await;
    assert_eq!(sent.status(), 200);
}

#[tokio::test]
async fn key_that_expires_is_no_login_afterwards_and_creates_none_that_lives_longer() {
    let (database, api) = world().await;
    let path = "/orgs/o/users/admin/apikeys";
    for secs in [-1, 0, 59, 31_536_001] {
        let refused = api.expect(400, ADMIN, "POST", path, json!({"expiresIn": secs})).await;
        assert_eq!(refused["msg"], "expiresIn must be from 60 to 31536000 seconds");
    }
    let (kept, _) = make_key(&api, ADMIN, "admin").await;
    assert_eq!(kept.get("expiresAt"), None, "{kept}");
    let key = api.expect(201, ADMIN, "POST", path, json!({"expiresIn": 3_600})).await;
    let login = format!("o/apikey:{}", key["value"].as_str().expect("a value"));
    for body in [json!({}), json!({"expiresIn": 31_536_000})] {
        let next = api.expect(201, &login, "POST", path, body).await;
        assert_eq!(next["expiresAt"], key["expiresAt"], "{next}");
    }
    let sooner = api.expect(201, &login, "POST", path, json!({"expiresIn": 60})).await;
    assert!(sooner["expiresAt"].as_str() < key["expiresAt"].as_str(), "{sooner}");
    let account = api.expect(200, &login, "GET", "/orgs/o/users/admin", Value::Null).await;
    assert_eq!(account["users"]["o/admin"]["apikeys"][1]["expiresAt"], key["expiresAt"], "{account}");

    let end_all = "UPDATE api_key SET expires_at = now() WHERE expires_at IS NOT NULL";
    sqlx::query(end_all).execute(&mut database.connection().await).await.expect("the keys end");
    let other = Api::start(&database).await;
    other.expect(401, &login, "GET", "/orgs/o", Value::Null).await;
}
