//! Viewers, deployers and API keys with a role try every operation on everything: no row changes that their role does not include, and they
//! read no secrets.

use evenkeel_api::{Operation, RequiredAccess};
use evenkeel_exchange::operation::Operation as ExchangeOperation;
use evenkeel_exchange::routes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::{Aim, body, path};
use super::world::{ABROAD, Caller, HOME, MARK, ROOT, SHARED, World};

/// A login that a role limits.
struct Limited {
    what: &'static str,
    credentials: String,
    /// The deployment policies that it may change, as texts of their rows.
    policies: &'static [&'static str],
    /// A text that a row of its own API keys contains.
    own_keys: &'static str,
}

const VERA: Caller = Caller { title: "vera", login: Some("acme/vera") };

/// Creates a deployer of other policies, and keys of an administrator and of the owner of everything.
async fn limited_logins(world: &World) -> Vec<Limited> {
    let deployer =
        json!({"password": "open-sesame", "email": "e", "role": "deployer", "policies": ["other-*"]});
    create(world, "/orgs/acme/users/dirk", &deployer).await;
    let key = async |user: &str, role: Value| {
        let key = create(world, &format!("/orgs/acme/users/{user}/apikeys"), &role).await;
        format!("acme/apikey:{}", key["value"].as_str().unwrap_or_default())
    };
    let viewer = json!({"role": "viewer"});
    let deployer = json!({"role": "deployer", "policies": ["pol", "fresh"]});
    let login = |what, credentials: &str, policies, own_keys| Limited {
        what,
        credentials: credentials.to_owned(),
        policies,
        own_keys,
    };
    let named: &[&str] = &["pol", "fresh"];
    vec![
        login("viewer", "acme/vera:open-sesame", &[], ",vera,"),
        login("deployer of others", "acme/dirk:open-sesame", &[], ",dirk,"),
        login("deployer", "acme/dora:open-sesame", named, ",dora,"),
        login("viewer key of an administrator", &key("anna", viewer.clone()).await, &[], ",viewer,"),
        login("deployer key of an administrator", &key("anna", deployer.clone()).await, named, ",deployer,"),
        login("viewer key of the owner", &key("olga", viewer.clone()).await, &[], ",viewer,"),
        login("deployer key of the owner", &key("olga", deployer.clone()).await, named, ",deployer,"),
        login("deployer key of another user", &key("uwe", deployer.clone()).await, &["fresh"], ",deployer,"),
        login("viewer key of a viewer", &key("vera", viewer).await, &[], ",viewer,"),
    ]
}

async fn create(world: &World, path: &str, body: &Value) -> Value {
    let (status, response) = world.call(ROOT, &Method::POST, path, Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{path}: {response:?}");
    serde_json::from_slice(&response).unwrap_or_default()
}

async fn call(
    world: &World,
    login: &Limited,
    method: &Method,
    target: &str,
    wanted: Option<&Value>,
) -> (StatusCode, Vec<u8>) {
    let sent = match wanted {
        Some(Value::String(text)) => (None, text.clone()),
        Some(body) => (Some("application/json"), body.to_string()),
        None => (None, String::new()),
    };
    let (status, found) = world.send_with(Some(&login.credentials), method, target, sent).await;
    (status, found.to_vec())
}

/// Returns whether a login may have changed a row.
fn may_change(login: &Limited, row: &str) -> bool {
    let of_policies = ["deployment_policy (", "document_revision (", "document_usage (", "plan_approval ("];
    let names = |policy: &&str| row.contains(&format!(",{policy},")) || row.contains(&format!("/{policy},"));
    let is_policy =
        of_policies.iter().any(|table| row.starts_with(table)) && login.policies.iter().any(names);
    let is_counter =
        row.starts_with("document_revision_usage (acme,") || row.starts_with("organization_bytes (acme,");
    is_policy
        || (is_counter && !login.policies.is_empty())
        || (row.starts_with("api_key (") && row.contains(login.own_keys))
}

/// Operations of the exchange and of the agbot that need credentials.
fn operations(of_agbot: bool) -> Vec<Operation> {
    let all: Vec<Operation> = match of_agbot {
        true => evenkeel_agbot_api::part().operations,
        false => routes::all().iter().map(ExchangeOperation::described).collect(),
    };
    all.into_iter().filter(|operation| !operation.is_public()).collect()
}

/// Paths that only an operation of the rights of secrets has.
fn is_secret(operation: &Operation) -> bool {
    let secrets = ["ServiceSecretsRead", "NodeMessagesRead", "AgbotMessagesRead"];
    secrets.iter().any(|right| operation.access == RequiredAccess::Right(right))
}

#[tokio::test]
async fn limited_logins_change_only_policies_of_their_role_and_read_no_secrets() {
    let mut world = World::new().await;
    let logins = limited_logins(&world).await;
    world.settle().await;
    for operation in operations(false) {
        for aim in [HOME, SHARED, ABROAD].map(|org| Aim { org, name: "private" }) {
            let wanted = body(&operation, aim);
            for template in &operation.paths {
                let target = path(&world, &operation, template, aim);
                for login in &logins {
                    let (status, found) =
                        call(&world, login, &operation.method, &target, wanted.as_ref()).await;
                    let what = format!("{} {target} as {}: {status}", operation.method, login.what);
                    assert!(!is_secret(&operation) || !status.is_success(), "{what}");
                    let is_foreign = aim.org != HOME && target.starts_with(&format!("/orgs/{}", aim.org));
                    let shows = is_foreign && String::from_utf8_lossy(&found).contains(MARK);
                    assert!(!shows, "{what} shows something of another organization");
                    if operation.method == Method::GET || !status.is_success() {
                        continue;
                    }
                    let changed = world.changed_rows().await;
                    let beyond: Vec<&String> = changed.iter().filter(|row| !may_change(login, row)).collect();
                    assert!(beyond.is_empty(), "{what} changed {beyond:#?}");
                    if !changed.is_empty() {
                        world.restore().await;
                    }
                }
            }
        }
    }
    world.must_be_untouched("a refused write").await;
}

#[tokio::test]
async fn agbot_acts_for_limited_logins_only_on_policies_of_their_role() {
    let mut world = World::new().await;
    let logins = limited_logins(&world).await;
    let agbot = world.start_agbot().await;
    // Nothing is approved here, so that carrying it out is a conflict for everybody who reads it.
    let others = ["plan_deployment_policy", "plan_stops", "apply_plan_approval"];
    for operation in operations(true).iter().filter(|operation| operation.method != Method::GET) {
        let aim = Aim { org: HOME, name: "private" };
        let target = path(&world, operation, operation.paths[0], aim);
        let wanted = body(operation, aim);
        for login in &logins {
            let (status, _) = call(&world, login, &operation.method, &target, wanted.as_ref()).await;
            let what = format!("{} {target} as {}: {status}", operation.method, login.what);
            // The request for an approval is about this policy.
            let of_it = ["/policies/pol/", "/rollouts/pol/", "/agbot/approvals"];
            let is_of_policy = of_it.iter().any(|part| target.contains(part));
            let is_of_user = login.what.ends_with("key of the owner") && target.contains("/rollouts/");
            let may = is_of_policy && login.policies.contains(&"pol") && !is_of_user;
            let is_refused = matches!(status, StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST);
            if !others.contains(&operation.operation) {
                assert_eq!(is_refused, !may, "{what}");
            }
        }
    }
    drop(agbot);
}

#[tokio::test]
async fn viewer_sees_accounts_but_no_keys_of_others() {
    let world = World::new().await;
    let (status, found) = world.call(VERA, &Method::GET, "/orgs/acme/users", None).await;
    let found: Value = serde_json::from_slice(&found).unwrap_or_default();
    assert!(status.is_success() && found["users"]["acme/olga"].is_object(), "{status} {found}");
    assert_eq!(found["users"]["acme/olga"]["apikeys"], json!([]), "{found}");
    let one = format!("/orgs/acme/users/olga/apikeys/{}", world.number(HOME, "apikey"));
    let (status, _) = world.call(VERA, &Method::GET, &one, None).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}
