//! What one account stores must not fill the memory of the exchange, nor the lists that the hub's agbot reads.

use evenkeel_exchange::{DocumentBytes, ExchangeSettings};
use serde_json::{Value, json};

use super::api::{Api, ROOT};
use super::request::{deployment_policy, pattern, service};
use crate::support::TestDatabase;

const KIB: usize = 1_024;
const USER: &str = "o/u:pu";
const OTHER: &str = "o/v:pv";

/// An exchange whose accounts may have 40 KiB beyond the shares of their documents, with organization `o`.
async fn start(database: &TestDatabase) -> Api {
    let limit = 40 * 1_024;
    let document_bytes = DocumentBytes { nodes: limit, services: limit, policies: limit };
    let api = Api::start_with(database, ExchangeSettings { document_bytes, ..Api::settings() }).await;
    api.make_org("o").await;
    api.expect(201, "o/admin:pa", "POST", "/orgs/o/services", service("public", "l", true)).await;
    api
}

fn text(kib: usize) -> String {
    "x".repeat(kib * KIB)
}

async fn refused(api: &Api, login: &str, method: &str, path: &str, body: Value, what: &str) {
    let refused = api.expect(413, login, method, path, body).await;
    let text = refused["msg"].as_str().unwrap_or_default();
    assert!(text.contains(what) && text.contains("40960"), "{method} {path}: {refused}");
}

fn node(kib: usize) -> Value {
    json!({"token": "t", "name": "n", "pattern": "", "publicKey": "",
           "userInput": [{"serviceOrgid": "o", "serviceUrl": "public.svc", "inputs": [{"name": "v", "value": text(kib)}]}]})
}

#[tokio::test]
async fn nodes_of_an_account_share_the_bytes_beyond_what_each_may_have() {
    let database = TestDatabase::new().await;
    let api = start(&database).await;
    let path = |node: &str| format!("/orgs/o/nodes/{node}");
    for ordinary in 0..12 {
        api.expect(201, USER, "PUT", &path(&format!("small-{ordinary}")), node(3)).await;
    }
    api.expect(201, USER, "PUT", &path("large"), node(40)).await;
    refused(&api, USER, "PUT", &path("more"), node(40), "nodes of 'o/u'").await;
    api.expect(404, USER, "GET", &path("more"), Value::Null).await;
    let input = node(40)["userInput"].clone();
    let change = json!({"userInput": input});
    refused(&api, USER, "PATCH", &path("small-1"), change, "nodes of 'o/u'").await;
    // Another account is not affected, and what does not grow passes.
    api.expect(201, OTHER, "PUT", &path("other"), node(40)).await;
    api.expect(201, USER, "PUT", &path("large"), node(40)).await;
    api.expect(201, USER, "PUT", &path("large"), node(5)).await;
    api.expect(201, USER, "PUT", &path("more"), node(38)).await;
    api.expect(204, USER, "DELETE", &path("more"), Value::Null).await;
    api.expect(201, USER, "PUT", &path("large"), node(40)).await;
}

#[tokio::test]
async fn parts_of_a_node_count_for_its_owner() {
    let database = TestDatabase::new().await;
    let api = start(&database).await;
    api.expect(201, USER, "PUT", "/orgs/o/nodes/n", node(1)).await;
    let policy = |kib| json!({"properties": [{"name": "p", "value": text(kib)}], "constraints": []});
    let errors = |kib| json!({"errors": [{"text": text(kib)}]});
    let status = |kib| json!({"connectivity": {"host": text(kib)}, "services": []});
    let path = |part: &str| format!("/orgs/o/nodes/n/{part}");
    api.expect(201, USER, "PUT", &path("policy"), policy(3)).await;
    api.expect(201, "o/n:t", "PUT", &path("status"), status(15)).await;
    api.expect(201, "o/n:t", "PUT", &path("errors"), errors(15)).await;
    api.expect(201, USER, "PUT", &path("policy"), policy(43)).await;
    refused(&api, "o/n:t", "PUT", &path("status"), status(18), "nodes of 'o/u'").await;
    refused(&api, "o/n:t", "PUT", &path("errors"), errors(18), "nodes of 'o/u'").await;
    refused(&api, USER, "PUT", &path("policy"), policy(45), "nodes of 'o/u'").await;
    api.expect(201, "o/n:t", "PUT", &path("status"), status(15)).await;
    api.expect(204, USER, "DELETE", &path("policy"), Value::Null).await;
    api.expect(201, "o/n:t", "PUT", &path("status"), status(50)).await;
}

#[tokio::test]
async fn services_and_their_policies_share_a_limit() {
    let database = TestDatabase::new().await;
    let api = start(&database).await;
    let of = |name: &str, kib| {
        let mut body = service(name, "l", false);
        body["description"] = Value::String(text(kib));
        body
    };
    api.expect(201, USER, "POST", "/orgs/o/services", of("a", 7)).await;
    api.expect(201, USER, "POST", "/orgs/o/services", of("b", 30)).await;
    refused(&api, USER, "POST", "/orgs/o/services", of("c", 30), "services of 'o/u'").await;
    let a = "/orgs/o/services/a.svc_1.0.0_amd64";
    refused(&api, USER, "PUT", a, of("a", 30), "services of 'o/u'").await;
    refused(&api, USER, "PATCH", a, json!({"description": text(30)}), "services of 'o/u'").await;
    let policy = json!({"properties": [{"name": "p", "value": text(30)}], "constraints": []});
    refused(&api, USER, "PUT", &format!("{a}/policy"), policy, "services of 'o/u'").await;
    api.expect(201, OTHER, "POST", "/orgs/o/services", of("c", 30)).await;
    api.expect(201, USER, "PATCH", a, json!({"description": text(6)})).await;
}

#[tokio::test]
async fn patterns_and_policies_share_a_limit() {
    let database = TestDatabase::new().await;
    let api = start(&database).await;
    let with = |mut body: Value, kib| {
        body["description"] = Value::String(text(kib));
        body
    };
    let (pattern, policy) = (pattern("o", "l", false), deployment_policy("o"));
    let admin = "o/admin:pa";
    let kinds = [
        ("/orgs/o/patterns", pattern),
        ("/orgs/o/business/policies", policy),
        ("/orgs/o/managementpolicies", management_policy()),
    ];
    for (number, (kind, body)) in kinds.iter().enumerate() {
        api.expect(201, admin, "POST", &format!("{kind}/small"), with(body.clone(), 7)).await;
        api.expect(201, admin, "POST", &format!("{kind}/large"), with(body.clone(), 20)).await;
        if number == 2 {
            continue;
        }
        api.expect(201, admin, "PATCH", &format!("{kind}/small"), json!({"label": "l"})).await;
    }
    for (kind, body) in &kinds {
        let large = with(body.clone(), 30);
        refused(
            &api,
            admin,
            "POST",
            &format!("{kind}/more"),
            large.clone(),
            "patterns and policies of 'o/admin'",
        )
        .await;
        refused(&api, admin, "PUT", &format!("{kind}/small"), large, "patterns and policies of 'o/admin'")
            .await;
        api.expect(201, admin, "PUT", &format!("{kind}/large"), with(body.clone(), 20)).await;
    }
    let change = json!({"description": text(30)});
    refused(&api, admin, "PATCH", "/orgs/o/patterns/small", change.clone(), "patterns").await;
    refused(&api, admin, "PATCH", "/orgs/o/business/policies/small", change, "patterns").await;
}

#[tokio::test]
async fn values_that_are_read_with_many_others_have_a_length() {
    let database = TestDatabase::new().await;
    let api = start(&database).await;
    api.expect(201, USER, "PUT", "/orgs/o/nodes/n", node(1)).await;
    let agbot = json!({"token": "t", "name": "b", "publicKey": "key"});
    api.expect(201, USER, "PUT", "/orgs/o/agbots/b", agbot.clone()).await;
    api.expect(201, "o/admin:pa", "POST", "/orgs/o/managementpolicies/m", management_policy()).await;
    api.expect(201, USER, "POST", "/orgs/o/services", service("a", "l", false)).await;
    let named = |field: &str, kib| {
        let mut body = agbot.clone();
        body[field] = Value::String(text(kib));
        body
    };
    let served_entry =
        |org: &str, name: String| json!({"patternOrgid": org, "pattern": name, "nodeOrgid": "o"});
    let agreement = json!({"orgid": "o", "pattern": "", "url": "s"});
    let dockauth = |registry: String| json!({"registry": registry, "username": "u", "token": "t"});
    let a = "/orgs/o/services/a.svc_1.0.0_amd64";
    let service_auths = format!("{a}/dockauths");
    for (login, method, path, body, field) in [
        (USER, "PUT", "/orgs/o/agbots/b", named("name", 2), "name"),
        (USER, "PUT", "/orgs/o/agbots/b", named("msgEndPoint", 2), "msgEndPoint"),
        (USER, "PUT", "/orgs/o/agbots/b", named("publicKey", 17), "publicKey"),
        (USER, "PATCH", "/orgs/o/agbots/b", json!({"name": text(2)}), "name"),
        (USER, "POST", "/orgs/o/agbots/b/patterns", served_entry("o", text(2)), "pattern"),
        (
            USER,
            "PUT",
            "/orgs/o/agbots/b/agreements/x",
            json!({"service": agreement.clone(), "state": text(17)}),
            "state",
        ),
        (
            "o/n:t",
            "PUT",
            "/orgs/o/nodes/n/agreements/x",
            json!({"services": [], "agreementService": agreement.clone(), "state": text(17)}),
            "state",
        ),
        (
            "o/n:t",
            "PUT",
            "/orgs/o/nodes/n/managementStatus/m",
            json!({"agentUpgradePolicyStatus": {"scheduledTime": "now", "errorMessage": text(17)}}),
            "agentUpgradePolicyStatus",
        ),
        (USER, "POST", "/orgs/o/hagroups/g", json!({"description": text(17), "members": []}), "description"),
        (USER, "POST", "/orgs/o/users/u/apikeys", json!({"description": text(2)}), "description"),
        (USER, "POST", "/orgs/o/users/u/apikeys", json!({"label": text(2)}), "label"),
        (USER, "POST", &service_auths, dockauth(text(2)), "registry"),
        (USER, "PUT", &format!("{a}/keys/k"), Value::String(text(17)), "key"),
    ] {
        let refused = api.expect(400, login, method, path, body).await;
        let text = refused["msg"].as_str().unwrap_or_default();
        assert!(text.contains(field) && text.contains("and may have"), "{method} {path}: {refused}");
    }
    // What is in use is shorter than the limits.
    api.expect(201, ROOT, "PUT", "/orgs/o/agbots/b", named("publicKey", 15)).await;
}

fn management_policy() -> Value {
    json!({"label": "l"})
}
