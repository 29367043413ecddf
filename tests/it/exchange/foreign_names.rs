//! What an organization stores is not shown to other tenants: not by what documents may refer to, nor by what agbots keep for several
//! organizations.

use serde_json::{Value, json};

use super::api::{Api, ROOT};
use super::request::service;
use crate::support::TestDatabase;

const USER: &str = "p/u:pu";

/// Organizations `o` and `p`; `o` has a private service `secret.svc` and a public one, `IBM` a private one.
async fn start(database: &TestDatabase) -> Api {
    let api = Api::start(database).await;
    for org in ["o", "p"] {
        api.make_org(org).await;
    }
    api.expect(201, "o/u:pu", "POST", "/orgs/o/services", service("secret", "l", false)).await;
    api.expect(201, "o/u:pu", "POST", "/orgs/o/services", service("open", "l", true)).await;
    api.expect(201, ROOT, "POST", "/orgs/IBM/services", service("shared", "l", false)).await;
    api
}

fn policy(org: &str, name: &str) -> Value {
    json!({"label": "l", "constraints": ["a == b"], "service": {
        "name": format!("{name}.svc"), "org": org, "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]}})
}

fn input(org: &str, name: &str) -> Value {
    json!([{"serviceOrgid": org, "serviceUrl": format!("{name}.svc"), "inputs": []}])
}

/// Documents of `p` that refer to a service.
fn documents(number: usize, org: &str, name: &str) -> Vec<(&'static str, String, Value)> {
    let pattern = json!({"label": "l", "services": [{"serviceUrl": format!("{name}.svc"), "serviceOrgid": org,
        "serviceArch": "amd64", "serviceVersions": [{"version": "1.0.0"}]}]});
    let mut with_input = policy("o", "open");
    with_input["userInput"] = input(org, name);
    vec![
        ("POST", format!("/orgs/p/business/policies/p{number}"), policy(org, name)),
        ("POST", format!("/orgs/p/business/policies/i{number}"), with_input),
        ("POST", format!("/orgs/p/patterns/p{number}"), pattern),
        ("PUT", "/orgs/p/business/policies/mine".to_owned(), policy(org, name)),
        (
            "PATCH",
            "/orgs/p/business/policies/mine".to_owned(),
            json!({"service": policy(org, name)["service"]}),
        ),
        ("PATCH", "/orgs/p/business/policies/mine".to_owned(), json!({"userInput": input(org, name)})),
    ]
}

#[tokio::test]
async fn private_service_of_another_organization_does_not_exist_for_documents() {
    let database = TestDatabase::new().await;
    let api = start(&database).await;
    api.expect(201, USER, "POST", "/orgs/p/business/policies/mine", policy("o", "open")).await;
    for (method, path, body) in documents(0, "o", "secret") {
        let hidden = api.expect(400, USER, method, &path, body.clone()).await;
        let absent = body.to_string().replace("secret.svc", "absent.svc");
        let absent = serde_json::from_str(&absent).expect("JSON");
        let absent = api.expect(400, USER, method, &path, absent).await;
        let text =
            |body: &Value| body["msg"].as_str().unwrap_or_default().replace("absent.svc", "secret.svc");
        assert_eq!(text(&hidden), text(&absent), "{method} {path}");
    }
    for (number, (org, name)) in [("o", "open"), ("IBM", "shared")].into_iter().enumerate() {
        for (method, path, body) in documents(number + 1, org, name) {
            api.expect(201, USER, method, &path, body).await;
        }
    }
    api.expect(201, ROOT, "POST", "/orgs/p/business/policies/by-root", policy("o", "secret")).await;
    api.expect(201, "o/v:pv", "POST", "/orgs/o/business/policies/own", policy("o", "secret")).await;
}

#[tokio::test]
async fn scope_of_a_policy_says_nothing_about_groups_of_other_organizations() {
    let database = TestDatabase::new().await;
    let api = start(&database).await;
    api.make_node("o/u:pu", "o", "n").await;
    api.expect(201, "o/u:pu", "POST", "/orgs/o/hagroups/g", json!({"members": ["n"]})).await;
    let mut warnings = Vec::new();
    for group in ["o/g", "o/none"] {
        let mut body = policy("o", "open");
        body["orchestration"] =
            json!({"mode": "replicated", "replicas": 50, "scope": {"type": "hagroups", "haGroups": [group]}});
        let path = format!("/orgs/p/business/policies/{}", group.replace('/', "-"));
        warnings.push(api.warnings_of(USER, "POST", &path, body).await);
    }
    assert_eq!(warnings[0], warnings[1]);
    // Nor does the removal of the group name policies of others.
    let found = api.warnings_of("o/u:pu", "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
    assert!(!found.iter().any(|text| text.contains("p/")), "{found:?}");
}

#[tokio::test]
async fn nodes_read_neither_mailboxes_of_agbots_nor_agreements_with_others() {
    let database = TestDatabase::new().await;
    let api = start(&database).await;
    for (login, org) in [("o/u:pu", "o"), (USER, "p")] {
        let node = json!({"token": "t", "name": "n", "pattern": "", "publicKey": "key"});
        api.expect(201, login, "PUT", &format!("/orgs/{org}/nodes/n"), node).await;
    }
    let agbot = json!({"token": "t", "name": "b", "publicKey": "key"});
    api.expect(201, ROOT, "PUT", "/orgs/IBM/agbots/b", agbot.clone()).await;
    api.expect(201, "o/u:pu", "PUT", "/orgs/o/agbots/b", agbot).await;
    for org in ["IBM", "o"] {
        let message = json!({"message": "m", "ttl": 600});
        api.expect(201, "o/n:t", "POST", &format!("/orgs/{org}/agbots/b/msgs"), message).await;
    }
    let (of_hub, of_org) = ("/orgs/IBM/agbots/b/msgs", "/orgs/o/agbots/b/msgs");
    // In a mailbox of the shared organization nodes see the messages that they sent, users those of their nodes.
    for (status, login, path) in [
        (404, "p/n:t", of_hub),
        (200, "o/n:t", of_hub),
        (403, "p/u:pu", of_hub),
        (403, "p/admin:pa", of_hub),
        (200, "IBM/b:t", of_hub),
        (403, "o/v:pv", of_hub),
        (200, "o/v:pv", of_org),
        (200, "o/u:pu", of_org),
        (200, "o/n:t", of_org),
        (200, "o/admin:pa", of_org),
        (200, "o/b:t", of_org),
    ] {
        let found = api.expect(status, login, "GET", path, Value::Null).await;
        if let Some(number) = found["messages"][0]["msgId"].as_i64() {
            assert_eq!(found["messages"][0]["nodeId"], "o/n", "{login} {path}");
            api.expect(404, "p/n:t", "GET", &format!("{of_hub}/{number}"), Value::Null).await;
        }
    }

    let agreement =
        json!({"service": {"orgid": "o", "pattern": "", "url": "secret.svc"}, "state": "finalized"});
    let path = "/orgs/IBM/agbots/b/agreements";
    for (id, node) in [("of-o", "o/n"), ("of-p", "p/n")] {
        let written = format!("{path}/{id}?node={node}");
        api.expect(201, "IBM/b:t", "PUT", &written, agreement.clone()).await;
    }
    let listed = api.expect(200, "p/n:t", "GET", path, Value::Null).await;
    let ids: Vec<&String> = listed["agreements"].as_object().expect("agreements").keys().collect();
    assert_eq!(ids, ["of-p"]);
    api.expect(404, "p/n:t", "GET", &format!("{path}/of-o"), Value::Null).await;
    let all = api.expect(200, ROOT, "GET", path, Value::Null).await;
    assert_eq!(all["agreements"].as_object().map(serde_json::Map::len), Some(2));
}
