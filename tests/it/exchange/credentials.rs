//! Credentials that are changed or deleted on one exchange stop working on all others at once.

use serde_json::{Value, json};

use super::api::{Api, ROOT, two_exchanges};

/// Asks once: the change was acknowledged, so every exchange knows it.
async fn becomes(api: &Api, login: &str, path: &str, status: u16) {
    let (found, body) = api.call(login, "GET", path, Value::Null).await;
    assert_eq!(found, status, "{login} on {path}: {body}");
}

#[tokio::test]
async fn changed_password_stops_working_everywhere() {
    let (_database, [first, second]) = two_exchanges().await;
    second.expect(200, "o/u:pu", "GET", "/orgs/o", Value::Null).await;
    first.expect(201, "o/u:pu", "POST", "/orgs/o/users/u/changepw", json!({"newPassword": "fresh"})).await;
    first.expect(401, "o/u:pu", "GET", "/orgs/o", Value::Null).await;
    becomes(&second, "o/u:pu", "/orgs/o", 401).await;
    second.expect(200, "o/u:fresh", "GET", "/orgs/o", Value::Null).await;
    // An empty password disables the login.
    first.expect(201, ROOT, "PATCH", "/orgs/o/users/u", json!({"password": ""})).await;
    becomes(&second, "o/u:fresh", "/orgs/o", 401).await;
}

/// Creates an API key; returns the login with it.
async fn make_key(api: &Api, login: &str, account: &str, body: Value) -> String {
    let path = format!("/orgs/o/users/{account}/apikeys");
    let key = api.expect(201, login, "POST", &path, body).await;
    format!("o/apikey:{}", key["value"].as_str().expect("a value"))
}

#[tokio::test]
async fn sessions_end_with_the_password_and_so_do_keys_that_were_created_by_means_of_them() {
    let (_database, [first, second]) = two_exchanges().await;
    let session = json!({"label": "console session", "expiresIn": 3600});
    let admin = "o/admin:pa";
    first.expect(201, ROOT, "PUT", "/orgs/o/users/w", json!({"password": "pw", "email": "e"})).await;
    let changes = [
        ("POST", "/orgs/o/users/u/changepw", json!({"newPassword": "pu"})),
        ("PATCH", "/orgs/o/users/u", json!({"password": "pu"})),
        ("PATCH", "/orgs/o/users/u", json!({"password": ""})),
    ];
    for (method, path, body) in changes {
        let own = make_key(&first, "o/u:pu", "u", session.clone()).await;
        let derived = make_key(&second, &own, "u", json!({"label": "derived"})).await;
        let further = make_key(&second, &derived, "u", json!({"label": "further", "expiresIn": 60})).await;
        let lasting = make_key(&first, "o/u:pu", "u", json!({"label": "console session"})).await;
        let expiring = make_key(&first, "o/u:pu", "u", json!({"label": "ci", "expiresIn": 3600})).await;
        let other = make_key(&first, "o/w:pw", "w", session.clone()).await;
        for login in [&own, &derived, &further, &lasting, &expiring, &other] {
            second.expect(200, login, "GET", "/orgs/o", Value::Null).await;
        }
        first.expect(201, admin, method, path, body).await;
        for login in [&own, &derived, &further] {
            first.expect(401, login, "GET", "/orgs/o", Value::Null).await;
            becomes(&second, login, "/orgs/o", 401).await;
        }
        for login in [&lasting, &expiring, &other] {
            becomes(&second, login, "/orgs/o", 200).await;
        }
    }
    // What an administrator created for another account in a session ends with the password of the administrator.
    let own = make_key(&first, admin, "admin", session.clone()).await;
    let for_other = make_key(&first, &own, "w", json!({"label": "made in a session"})).await;
    first.expect(201, admin, "PATCH", "/orgs/o/users/admin", json!({"email": "new"})).await;
    becomes(&second, &for_other, "/orgs/o", 200).await;
    first.expect(201, admin, "POST", "/orgs/o/users/admin/changepw", json!({"newPassword": "new"})).await;
    becomes(&second, &for_other, "/orgs/o", 401).await;
}

#[tokio::test]
async fn replaced_account_keeps_its_sessions_with_its_password_and_their_rights_follow_it() {
    let (_database, [first, second]) = two_exchanges().await;
    let (admin, path) = ("o/admin:pa", "/orgs/o/users/u");
    let session = json!({"label": "console session", "expiresIn": 3600});
    let put = |password: &str, email: &str, is_admin: bool| json!({"password": password, "email": email, "admin": is_admin});
    first.expect(201, admin, "PUT", path, put("pu", "e", true)).await;
    let own = make_key(&first, "o/u:pu", "u", session.clone()).await;
    let derived = make_key(&second, &own, "u", json!({"label": "derived"})).await;

    first.expect(201, admin, "PUT", path, put("pu", "renamed@o.example", true)).await;
    for login in ["o/u:pu", &own, &derived] {
        becomes(&second, login, "/orgs/o/users", 200).await;
    }
    // A demotion ends no session: it counts in all of them at once.
    first.expect(201, admin, "PUT", path, put("pu", "e", false)).await;
    for login in ["o/u:pu", &own, &derived] {
        becomes(&second, login, "/orgs/o/users", 403).await;
        becomes(&second, login, "/orgs/o", 200).await;
    }
    first.expect(201, admin, "PUT", path, put("another", "e", false)).await;
    for login in ["o/u:pu", &own, &derived] {
        becomes(&second, login, "/orgs/o", 401).await;
    }
    // A login that was disabled has no password to keep.
    first.expect(201, admin, "PATCH", path, json!({"password": ""})).await;
    first.expect(201, admin, "PUT", path, put("another", "e", false)).await;
    becomes(&second, "o/u:another", "/orgs/o", 200).await;
}

#[tokio::test]
async fn password_known_to_be_wrong_works_at_once_when_it_becomes_right() {
    let (_database, [first, second]) = two_exchanges().await;
    second.expect(401, "o/u:later", "GET", "/orgs/o", Value::Null).await;
    first.expect(201, ROOT, "PATCH", "/orgs/o/users/u", json!({"password": "later"})).await;
    becomes(&second, "o/u:later", "/orgs/o", 200).await;
}

#[tokio::test]
async fn deleted_users_take_their_nodes_and_keys_along() {
    let (_database, [first, second]) = two_exchanges().await;
    first.make_node("o/u:pu", "o", "n").await;
    let key = first.expect(201, "o/u:pu", "POST", "/orgs/o/users/u/apikeys", json!({})).await;
    let key_login = format!("o/apikey:{}", key["value"].as_str().expect("a value"));
    for login in ["o/u:pu", "o/n:token-n", &key_login] {
        second.expect(200, login, "GET", "/orgs/o", Value::Null).await;
    }
    first.expect(204, ROOT, "DELETE", "/orgs/o/users/u", Value::Null).await;
    for login in ["o/u:pu", "o/n:token-n", &key_login] {
        first.expect(401, login, "GET", "/orgs/o", Value::Null).await;
        becomes(&second, login, "/orgs/o", 401).await;
    }
}

#[tokio::test]
async fn deleted_api_key_stops_working_and_its_user_does_not() {
    let (_database, [first, second]) = two_exchanges().await;
    let key = first.expect(201, "o/u:pu", "POST", "/orgs/o/users/u/apikeys", json!({"label": "l"})).await;
    let value = key["value"].as_str().expect("a value");
    assert!(value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
    let login = format!("o/apikey:{value}");
    let own = second.expect(200, &login, "GET", "/orgs/o/users/apikey", Value::Null).await;
    assert!(own["users"]["o/u"].is_object(), "{own}");
    let path = format!("/orgs/o/users/u/apikeys/{}", key["id"].as_str().expect("an id"));
    first.expect(204, "o/u:pu", "DELETE", &path, Value::Null).await;
    becomes(&second, &login, "/orgs/o", 401).await;
    second.expect(200, "o/u:pu", "GET", "/orgs/o", Value::Null).await;
}

#[tokio::test]
async fn rights_follow_the_flags_of_an_account_everywhere() {
    let (_database, [first, second]) = two_exchanges().await;
    second.expect(403, "o/u:pu", "GET", "/orgs/o/users", Value::Null).await;
    first.expect(201, "o/admin:pa", "PATCH", "/orgs/o/users/u", json!({"admin": true})).await;
    becomes(&second, "o/u:pu", "/orgs/o/users", 200).await;
    first.expect(201, "o/admin:pa", "PATCH", "/orgs/o/users/u", json!({"admin": false})).await;
    becomes(&second, "o/u:pu", "/orgs/o/users", 403).await;
}

#[tokio::test]
async fn logins_of_a_deleted_organization_are_gone_everywhere() {
    let (_database, [first, second]) = two_exchanges().await;
    first.make_node("o/u:pu", "o", "n").await;
    for login in ["o/u:pu", "o/n:token-n"] {
        second.expect(200, login, "GET", "/orgs/o", Value::Null).await;
    }
    first.expect(204, ROOT, "DELETE", "/orgs/o", Value::Null).await;
    for login in ["o/u:pu", "o/n:token-n"] {
        becomes(&second, login, "/orgs/o", 401).await;
    }
    // Clearing the caches forgets nothing but what can be checked again.
    first.expect(201, ROOT, "POST", "/admin/clearauthcaches", Value::Null).await;
    second.expect(200, ROOT, "GET", "/orgs", Value::Null).await;
}
