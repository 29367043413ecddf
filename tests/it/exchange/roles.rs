//! Viewers and deployers: who gives the roles, what they allow, and what API keys that have one allow.

use serde_json::{Value, json};

use super::api::{Api, ROOT};
use crate::support::TestDatabase;

const ADMIN: &str = "o/admin:pa";
const USER: &str = "o/u:pu";
const VIEWER: &str = "o/vera:pv";
const DEPLOYER: &str = "o/dora:pd";

/// An organization with a viewer `vera`, a deployer `dora` of `shop-*` and `web`, and policies `shop-1` and `other` of user `u`.
async fn world() -> (TestDatabase, Api) {
    let database = TestDatabase::new().await;
    let api = Api::start(&database).await;
    api.make_org("o").await;
    let viewer = json!({"password": "pv", "email": "e", "role": "viewer"});
    api.expect(201, ADMIN, "POST", "/orgs/o/users/vera", viewer).await;
    let deployer = json!({"password": "pd", "email": "e", "role": "deployer", "policies": ["shop-*", "web"]});
    api.expect(201, ADMIN, "POST", "/orgs/o/users/dora", deployer).await;
    for policy in ["shop-1", "other"] {
        api.make_policy("o", policy, Value::Null).await;
    }
    api.make_node(USER, "o", "n").await;
    (database, api)
}

fn policy() -> Value {
    json!({"label": "l", "service": {"name": "s", "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]}})
}

async fn user(api: &Api, login: &str, name: &str) -> Value {
    let found = api.expect(200, login, "GET", &format!("/orgs/o/users/{name}"), Value::Null).await;
    found["users"].as_object().and_then(|users| users.values().next().cloned()).unwrap_or_default()
}

/// Creates an API key and returns the login with it.
async fn key(api: &Api, login: &str, account: &str, body: Value) -> String {
    let path = format!("/orgs/o/users/{account}/apikeys");
    let key = api.expect(201, login, "POST", &path, body).await;
    format!("o/apikey:{}", key["value"].as_str().expect("a value"))
}

#[tokio::test]
async fn role_is_shown_where_it_is_set_and_nowhere_else() {
    let (_database, api) = world().await;
    let found = user(&api, ADMIN, "dora").await;
    assert_eq!((&found["role"], &found["policies"]), (&json!("deployer"), &json!(["shop-*", "web"])));
    assert_eq!(user(&api, VIEWER, "vera").await["role"], "viewer");
    let plain = user(&api, ADMIN, "u").await;
    let names: Vec<&String> = plain.as_object().expect("an object").keys().collect();
    assert_eq!(
        names,
        ["admin", "apikeys", "email", "hubAdmin", "lastUpdated", "password", "updatedBy"],
        "users without a role have the members of before"
    );
}

#[tokio::test]
async fn viewer_reads_the_organization_and_writes_nothing() {
    let (_database, api) = world().await;
    for path in [
        "/orgs/o",
        "/orgs/o/users",
        "/orgs/o/nodes",
        "/orgs/o/nodes/n",
        "/orgs/o/business/policies/other",
        "/orgs/o/audit",
        "/orgs/o/agbot-approvals",
        "/orgs/o/node-details",
        "/orgs/o/services",
        "/orgs/o/status",
        "/admin/status",
        "/changes/maxchangeid",
    ] {
        api.expect(200, VIEWER, "GET", path, Value::Null).await;
    }
    api.expect(403, VIEWER, "GET", "/orgs/o/nodes/n/msgs", Value::Null).await;
    for (method, path, body) in [
        ("POST", "/orgs/o/business/policies/shop-2", policy()),
        ("PATCH", "/orgs/o/business/policies/other", json!({"label": "x"})),
        ("DELETE", "/orgs/o/nodes/n", Value::Null),
        ("POST", "/orgs/o/users/fresh", json!({"password": "p", "email": "e"})),
        ("POST", "/orgs/o/users/u/apikeys", json!({})),
        ("POST", "/orgs/o/users/u/changepw", json!({"newPassword": "x"})),
        ("PATCH", "/orgs/o/users/vera", json!({"role": "user"})),
        ("PATCH", "/orgs/o/users/vera", json!({"admin": true})),
        ("PATCH", "/orgs/o/users/vera", json!({"email": "x"})),
        ("PUT", "/orgs/o/users/vera", json!({"password": "p", "email": "e", "role": "user"})),
        ("DELETE", "/orgs/o/users/vera", Value::Null),
        ("PUT", "/orgs/o/nodes/m", json!({"token": "t", "name": "m", "pattern": ""})),
        ("PUT", "/orgs/o/agbots/b", json!({"token": "t", "name": "b", "publicKey": ""})),
    ] {
        api.expect(403, VIEWER, method, path, body).await;
    }
    let (_, refused) = api.call(VIEWER, "DELETE", "/orgs/o/nodes/n", Value::Null).await;
    assert!(refused["msg"].as_str().is_some_and(|msg| msg.contains("'o/vera'")), "{refused}");
}

#[tokio::test]
async fn viewer_changes_its_own_password_by_both_operations() {
    let (_database, api) = world().await;
    api.expect(201, VIEWER, "POST", "/orgs/o/users/vera/changepw", json!({"newPassword": "second"})).await;
    api.expect(401, VIEWER, "GET", "/orgs/o", Value::Null).await;
    api.expect(201, "o/vera:second", "PATCH", "/orgs/o/users/vera", json!({"password": "third"})).await;
    assert_eq!(user(&api, "o/vera:third", "vera").await["role"], "viewer", "the role stays");
    let found = api.expect(200, ADMIN, "GET", "/orgs/o/audit?caller=o/vera", Value::Null).await;
    assert_eq!(found["records"][0]["role"], "viewer", "records state the role: {found}");
}

#[tokio::test]
async fn deployer_writes_policies_of_its_patterns_and_of_any_owner() {
    let (_database, api) = world().await;
    let path = |name: &str| format!("/orgs/o/business/policies/{name}");
    for alias in ["business", "deployment"] {
        let one = format!("/orgs/o/{alias}/policies/shop-2");
        api.expect(201, DEPLOYER, "POST", &one, policy()).await;
        api.expect(204, DEPLOYER, "DELETE", &one, Value::Null).await;
    }
    api.expect(201, DEPLOYER, "POST", &path("web"), policy()).await;
    api.expect(201, DEPLOYER, "PUT", &path("shop-1"), policy()).await;
    api.expect(201, DEPLOYER, "PATCH", &path("shop-1"), json!({"label": "x"})).await;
    let found = api.expect(200, ADMIN, "GET", &path("shop-1"), Value::Null).await;
    assert_eq!(found["businessPolicy"]["o/shop-1"]["owner"], "o/u", "the owner stays: {found}");
    for name in ["other", "web2", "SHOP-1", "xshop-1", "shop", "%73hop"] {
        api.expect(403, DEPLOYER, "POST", &path(name), policy()).await;
        api.expect(403, DEPLOYER, "PUT", &path(name), policy()).await;
        api.expect(403, DEPLOYER, "PATCH", &path(name), json!({"label": "x"})).await;
        api.expect(403, DEPLOYER, "DELETE", &path(name), Value::Null).await;
    }
    // Nothing besides deployment policies, and nothing of another organization.
    api.expect(403, DEPLOYER, "POST", "/orgs/o/managementpolicies/shop-1", json!({"label": "l"})).await;
    api.expect(403, DEPLOYER, "POST", "/orgs/o/patterns/shop-1", json!({"label": "l", "services": []})).await;
    api.expect(403, DEPLOYER, "PATCH", "/orgs/o/nodes/n", json!({"arch": "arm"})).await;
    api.make_org("p").await;
    api.expect(403, DEPLOYER, "POST", "/orgs/p/business/policies/shop-1", policy()).await;
    api.expect(204, DEPLOYER, "DELETE", &path("shop-1"), Value::Null).await;
}

#[tokio::test]
async fn only_administrators_of_the_organization_give_roles() {
    let (_database, api) = world().await;
    let role = json!({"role": "viewer"});
    for login in [USER, VIEWER, DEPLOYER] {
        for name in ["u", "v", "vera", "dora"] {
            let (status, found) =
                api.call(login, "PATCH", &format!("/orgs/o/users/{name}"), json!({"role": "user"})).await;
            assert_eq!(status, 403, "{login} of {name}: {found}");
        }
    }
    let put = json!({"password": "pu", "email": "e", "role": "deployer", "policies": ["*"]});
    api.expect(403, USER, "PUT", "/orgs/o/users/u", put).await;
    let hub = json!({"password": "ph", "email": "e", "hubAdmin": true});
    api.expect(201, ROOT, "POST", "/orgs/root/users/hub", hub).await;
    api.expect(403, "root/hub:ph", "PATCH", "/orgs/o/users/u", role.clone()).await;
    api.make_org("p").await;
    api.expect(403, "p/admin:pa", "PATCH", "/orgs/o/users/u", role.clone()).await;
    api.expect(201, ROOT, "PATCH", "/orgs/o/users/u", role.clone()).await;
    // An administrator has no role, in whatever order both are given.
    api.expect(400, ADMIN, "PATCH", "/orgs/o/users/admin", role.clone()).await;
    api.expect(400, ADMIN, "PATCH", "/orgs/o/users/vera", json!({"admin": true})).await;
    let both = json!({"password": "p", "email": "e", "admin": true, "role": "viewer"});
    api.expect(400, ADMIN, "POST", "/orgs/o/users/fresh", both).await;
    let promoted = json!({"password": "p", "email": "e", "admin": true});
    api.expect(400, ADMIN, "PUT", "/orgs/o/users/vera", promoted.clone()).await;
    api.expect(201, ADMIN, "PATCH", "/orgs/o/users/vera", json!({"role": "user"})).await;
    api.expect(201, ADMIN, "PUT", "/orgs/o/users/vera", promoted).await;
    let hub_role = json!({"password": "p", "email": "e", "hubAdmin": true, "role": "viewer"});
    api.expect(400, ROOT, "POST", "/orgs/root/users/other", hub_role).await;
}

#[tokio::test]
async fn client_that_does_not_know_roles_lifts_no_limit() {
    let (_database, api) = world().await;
    let put = json!({"password": "pv", "email": "new"});
    api.expect(201, ADMIN, "PUT", "/orgs/o/users/vera", put).await;
    let found = user(&api, ADMIN, "vera").await;
    assert_eq!((&found["role"], &found["email"]), (&json!("viewer"), &json!("new")));
    let put = json!({"password": "pv", "email": "new", "role": "user"});
    api.expect(201, ADMIN, "PUT", "/orgs/o/users/vera", put).await;
    assert_eq!(user(&api, ADMIN, "vera").await["role"], Value::Null);
}

#[tokio::test]
async fn hostile_roles_are_refused_by_member_and_rule() {
    let (_database, api) = world().await;
    let many: Vec<String> = (0..33).map(|number| format!("p{number}")).collect();
    for (body, expected) in [
        (json!({"role": "root"}), "role: must be one of user, viewer and deployer"),
        (json!({"role": ""}), "role: must be one of"),
        (json!({"role": "Viewer"}), "role: must be one of"),
        (json!({"role": "deployer"}), "policies: the role deployer needs at least one"),
        (json!({"role": "deployer", "policies": []}), "policies: the role deployer needs"),
        (json!({"role": "viewer", "policies": ["a"]}), "policies: only the role deployer"),
        (json!({"policies": ["a"]}), "policies: can only be given with role"),
        (json!({"role": "deployer", "policies": many}), "policies: at most 32"),
        (json!({"role": "deployer", "policies": ["a", "o/a"]}), "policies[1]: must be the name"),
        (json!({"role": "deployer", "policies": ["a*b"]}), "policies[0]: * may only be the last"),
        (json!({"role": "deployer", "policies": ["a\u{7}"]}), "policies[0]: must not contain"),
        (json!({"role": "deployer", "policies": ["x".repeat(300)]}), "policies[0]: must not have more"),
        (json!({"role": "viewer", "admin": false}), "exactly one of"),
        (json!({"role": {"name": "viewer"}}), "expected a text"),
        (json!({"role": "deployer", "policies": "a"}), "expected a list of texts"),
    ] {
        let (status, found) = api.call(ADMIN, "PATCH", "/orgs/o/users/u", body.clone()).await;
        let msg = found["msg"].as_str().unwrap_or_default();
        assert!(status == 400 && msg.contains(expected), "{body}: {status} {found}");
        if body.get("admin").is_none() {
            let (status, found) = api.call(ADMIN, "POST", "/orgs/o/users/u/apikeys", body.clone()).await;
            assert_eq!(status, 400, "{body} of a key: {found}");
        }
    }
    assert_eq!(user(&api, ADMIN, "u").await["role"], Value::Null);
}

#[tokio::test]
async fn key_with_a_role_has_the_rights_of_both() {
    let (_database, api) = world().await;
    let viewer = json!({"role": "viewer"});
    let shop = json!({"role": "deployer", "policies": ["shop-*", "other"]});
    let one = |name: &str| format!("/orgs/o/business/policies/{name}");
    let label = json!({"label": "x"});

    // Of an administrator: no more than the role, also for programs that decide by the record of the caller.
    let login = key(&api, ADMIN, "admin", viewer.clone()).await;
    api.expect(200, &login, "GET", "/orgs/o/users", Value::Null).await;
    api.expect(403, &login, "PATCH", &one("shop-1"), label.clone()).await;
    let own = user(&api, &login, "apikey").await;
    assert_eq!((&own["admin"], &own["role"]), (&json!(false), &json!("viewer")), "{own}");
    assert_eq!(user(&api, ADMIN, "admin").await["admin"], true, "the account stays what it is");
    let login = key(&api, ADMIN, "admin", shop.clone()).await;
    api.expect(201, &login, "PATCH", &one("shop-1"), label.clone()).await;
    api.expect(403, &login, "DELETE", "/orgs/o/nodes/n", Value::Null).await;

    // Of an ordinary user: of what the role allows, what the user may do.
    let login = key(&api, USER, "u", viewer.clone()).await;
    api.expect(200, &login, "GET", "/orgs/o/nodes/n", Value::Null).await;
    api.expect(403, &login, "GET", "/orgs/o/users", Value::Null).await;
    api.expect(403, &login, "PATCH", &one("shop-1"), label.clone()).await;
    let login = key(&api, USER, "u", shop.clone()).await;
    api.expect(201, &login, "PATCH", &one("shop-1"), label.clone()).await;
    assert_eq!(user(&api, &login, "apikey").await["ordinaryUser"], true);
    let other = key(&api, "o/v:pv", "v", shop.clone()).await;
    api.expect(403, &other, "PATCH", &one("shop-1"), label.clone()).await;
    api.expect(201, &other, "POST", &one("shop-3"), policy()).await;

    // Of a deployer: what both name.
    let narrow = json!({"role": "deployer", "policies": ["shop-1"]});
    let login = key(&api, DEPLOYER, "dora", narrow).await;
    api.expect(201, &login, "PATCH", &one("shop-1"), label.clone()).await;
    api.expect(403, &login, "PATCH", &one("shop-3"), label.clone()).await;
    for wide in [shop, json!({"role": "deployer", "policies": ["*"]})] {
        api.expect(403, DEPLOYER, "POST", "/orgs/o/users/dora/apikeys", wide.clone()).await;
        api.expect(403, VIEWER, "POST", "/orgs/o/users/vera/apikeys", wide.clone()).await;
        let (_, found) = api.call(ADMIN, "POST", "/orgs/o/users/vera/apikeys", wide).await;
        assert!(found["msg"].as_str().is_some_and(|msg| msg.contains("exceed the role viewer")), "{found}");
    }
    // A narrower account narrows its keys.
    api.expect(201, ADMIN, "PATCH", "/orgs/o/users/dora", viewer).await;
    api.expect(403, &login, "PATCH", &one("shop-1"), label).await;
    api.expect(400, ROOT, "POST", "/orgs/root/users/root/apikeys", json!({"role": "viewer"})).await;
}

#[tokio::test]
async fn key_with_a_role_cannot_get_rid_of_it() {
    let (_database, api) = world().await;
    let full = api.expect(201, ADMIN, "POST", "/orgs/o/users/admin/apikeys", json!({"label": "full"})).await;
    let shop = json!({"role": "deployer", "policies": ["shop-*"]});
    let login = key(&api, ADMIN, "admin", shop.clone()).await;
    let keys = "/orgs/o/users/admin/apikeys";
    // With the password it would be the administrator.
    api.expect(403, &login, "POST", "/orgs/o/users/admin/changepw", json!({"newPassword": "x"})).await;
    api.expect(403, &login, "PATCH", "/orgs/o/users/admin", json!({"password": "x"})).await;
    // Its keys have its role, or a narrower one.
    let inherited = key(&api, &login, "admin", json!({"label": "inherited"})).await;
    let own = user(&api, &inherited, "apikey").await;
    assert_eq!((&own["role"], &own["policies"]), (&json!("deployer"), &json!(["shop-*"])), "{own}");
    let narrower = key(&api, &inherited, "admin", json!({"role": "viewer"})).await;
    assert_eq!(user(&api, &narrower, "apikey").await["role"], "viewer");
    for wide in [
        json!({"role": "deployer", "policies": ["*"]}),
        json!({"role": "deployer", "policies": ["shop-*", "web"]}),
    ] {
        api.expect(403, &login, "POST", keys, wide).await;
    }
    api.expect(403, &narrower, "POST", keys, shop).await;
    api.expect(403, &login, "POST", "/orgs/o/users/u/apikeys", json!({})).await;
    // It sees and deletes keys within its role only.
    let listed = user(&api, &login, "apikey").await;
    let roles: Vec<&Value> =
        listed["apikeys"].as_array().expect("a list").iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["deployer", "deployer", "viewer"], "{listed}");
    let unlimited = format!("{keys}/{}", full["id"].as_str().expect("an id"));
    api.expect(404, &login, "GET", &unlimited, Value::Null).await;
    api.expect(404, &login, "DELETE", &unlimited, Value::Null).await;
    api.expect(200, ADMIN, "GET", &unlimited, Value::Null).await;
    let shown = listed["apikeys"][0]["id"].as_str().expect("an id");
    api.expect(404, &narrower, "DELETE", &format!("{keys}/{shown}"), Value::Null).await;
    api.expect(204, &login, "DELETE", &format!("{keys}/{shown}"), Value::Null).await;
}

#[tokio::test]
async fn change_of_a_role_takes_effect_at_once_on_every_exchange() {
    let (database, api) = world().await;
    let second = Api::start(&database).await;
    let login = key(&api, VIEWER, "vera", json!({})).await;
    let writes = async |api: &Api, login: &str| {
        api.call(login, "POST", "/orgs/o/business/policies/shop-9", policy()).await.0
    };
    for api in [&api, &second] {
        api.expect(200, VIEWER, "GET", "/orgs/o/users", Value::Null).await;
        api.expect(200, &login, "GET", "/orgs/o/users", Value::Null).await;
    }
    let role = json!({"role": "deployer", "policies": ["shop-9"]});
    api.expect(201, ADMIN, "PATCH", "/orgs/o/users/vera", role).await;
    assert_eq!(writes(&second, &login).await, 201);
    api.expect(201, ADMIN, "PATCH", "/orgs/o/users/vera", json!({"role": "viewer"})).await;
    for api in [&api, &second] {
        api.expect(403, &login, "DELETE", "/orgs/o/business/policies/shop-9", Value::Null).await;
    }
    api.expect(201, ADMIN, "PATCH", "/orgs/o/users/vera", json!({"role": "user"})).await;
    for api in [&api, &second] {
        api.expect(403, VIEWER, "GET", "/orgs/o/users", Value::Null).await;
        api.expect(403, &login, "GET", "/orgs/o/users", Value::Null).await;
    }
}
