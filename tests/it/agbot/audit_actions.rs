//! Actions that the agbot carries out for its callers are in the sealed audit chain of the exchange.

use serde_json::{Value, json};

use crate::support::wait::must;
use crate::support::{Hub, Scratch};

async fn call(
    hub: &Hub,
    who: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> (u16, Value) {
    let method = must(method.parse(), "a method");
    let request = hub.client.request(method, format!("{}/v1{path}", hub.url));
    let mut request = request.basic_auth(who, Some("secret")).json(&body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = must(request.send().await, "a response");
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

/// Caller, operation, resource and status of each record of organization `o` about the agbot's routes.
async fn records(hub: &Hub) -> Vec<(String, String, String, u64)> {
    let (status, body) = hub.call("GET", "/orgs/o/audit?limit=1000", None).await;
    assert_eq!(status, 200, "{body}");
    let records = body["records"].as_array().cloned().unwrap_or_default();
    let text = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let all = records.iter().map(|record| {
        let status = record["status"].as_u64().unwrap_or_default();
        (text(record, "caller"), text(record, "operation"), text(record, "resource"), status)
    });
    all.filter(|(_, operation, ..)| !operation.starts_with("create_") && !operation.starts_with("replace_"))
        .collect()
}

async fn made(hub: &Hub, method: &str, path: &str, body: Value) {
    let (status, found) = hub.call(method, path, Some(body)).await;
    assert_eq!(status, 201, "{path}: {found}");
}

#[tokio::test]
async fn actions_leave_a_record_of_their_caller_before_they_are_carried_out() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    made(&hub, "POST", "/orgs/o", json!({"label": "", "description": ""})).await;
    for (name, is_admin) in [("admin", true), ("user", false)] {
        let body = json!({"password": "secret", "email": "", "admin": is_admin});
        made(&hub, "POST", &format!("/orgs/o/users/{name}"), body).await;
    }
    let node = json!({"token": "secret", "name": "n", "pattern": "", "publicKey": ""});
    made(&hub, "PUT", "/orgs/o/nodes/n", node).await;
    made(&hub, "POST", "/orgs/o/hagroups/g", json!({"members": ["n"]})).await;
    let service = json!({
        "label": "s", "public": false, "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "singleton",
        "deployment": "", "deploymentSignature": "",
    });
    made(&hub, "POST", "/orgs/o/services", service).await;
    let policy = json!({
        "label": "p", "orchestration": {"mode": "replicated", "replicas": 1},
        "service": {"name": "s", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]},
    });
    made(&hub, "POST", "/orgs/o/business/policies/p", policy).await;
    let actions = [
        ("POST", "/orgs/o/business/policies/p/actions/freeze", "act_on_policy"),
        ("POST", "/orgs/o/agbot/rollouts/p/pause", "act_on_rollouts"),
        ("DELETE", "/orgs/o/hagroups/g/upgrades", "free_claims"),
        ("DELETE", "/orgs/o/hagroups/g/upgrades/n", "free_claims_of_member"),
        ("DELETE", "/orgs/o/blocklist", "clear_blocklist"),
        ("POST", "/orgs/o/nodes/n/actions/fence-confirm", "confirm_fence"),
        ("POST", "/orgs/o/agbot/agreements/none/confirm-stop", "confirm_stop"),
    ];
    for (method, path, operation) in actions {
        let before = records(&hub).await.len();
        let (status, body) = call(&hub, "o/admin", method, path, &[], json!({})).await;
        let found = records(&hub).await.split_off(before);
        let record = |status: u64| ("o/admin".to_owned(), operation.to_owned(), path.to_owned(), status);
        let expected = match status {
            200..=299 => vec![record(202)],
            failed => vec![record(202), record(u64::from(failed))],
        };
        assert_eq!(found, expected, "{method} {path} {status} {body}");
        let before = records(&hub).await.len();
        let (status, _) = call(&hub, "o/user", method, path, &[], json!({})).await;
        let found = records(&hub).await.split_off(before);
        if status == 403 {
            assert_eq!(found, [("o/user".to_owned(), operation.to_owned(), path.to_owned(), 403)], "{path}");
        }
    }
    let (status, _) = call(&hub, "o/nobody", "DELETE", "/orgs/o/blocklist", &[], json!({})).await;
    assert_eq!(status, 401);
    let (_, chain) = hub.call("GET", "/orgs/o/audit/verify", None).await;
    assert_eq!(chain["intact"], true, "{chain}");
}

#[tokio::test]
async fn nobody_but_an_agbot_records_actions_and_a_repetition_adds_none() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    made(&hub, "POST", "/orgs/o", json!({"label": "", "description": ""})).await;
    made(&hub, "POST", "/orgs/o/users/u", json!({"password": "secret", "email": "", "admin": true})).await;
    for (org, agbot) in [("IBM", "other"), ("o", "own"), ("root", "foreign")] {
        made(
            &hub,
            "PUT",
            &format!("/orgs/{org}/agbots/{agbot}"),
            json!({"token": "t", "name": "a", "publicKey": ""}),
        )
        .await;
    }
    let record = |action: &str, resource: &str| json!({"action": action, "operation": "act_on_policy", "method": "POST", "resource": resource, "status": 202});
    const ID: &str = "0e0c7f2e-7a0f-4c43-a0fd-1a7b3c2d4e5f";
    const RESOURCE: &str = "/orgs/o/business/policies/p/actions/freeze";
    let send = async |proof: Option<&str>, body: Value| {
        let proof = proof.map(|login| format!("Basic {}", base64(login)));
        let headers: Vec<(&str, &str)> =
            proof.iter().map(|proof| ("x-evenkeel-forwarded-by", proof.as_str())).collect();
        call(&hub, "o/u", "POST", "/orgs/o/audit/actions", &headers, body).await
    };
    for proof in [None, Some("IBM/other:wrong"), Some("o/u:secret"), Some("root/foreign:t"), Some("nonsense")]
    {
        let (status, body) = send(proof, record(ID, RESOURCE)).await;
        assert_eq!(status, 403, "{proof:?} {body}");
    }
    assert!(records(&hub).await.iter().all(|(_, operation, ..)| operation != "act_on_policy"));
    for proof in ["IBM/other:t", "o/own:t", "IBM/other:t"] {
        assert_eq!(send(Some(proof), record(ID, RESOURCE)).await.0, 201, "{proof}");
    }
    let found = records(&hub).await;
    let recorded: Vec<_> = found.iter().filter(|(_, operation, ..)| operation == "act_on_policy").collect();
    assert_eq!(recorded.len(), 1, "{found:?}");
    assert_eq!(recorded[0].0, "o/u", "the caller is whose credentials are passed on");
    for (action, resource) in [("x", RESOURCE), (ID, "/orgs/p/nodes"), (ID, "/orgs/other"), (ID, "")] {
        let (status, body) = send(Some("IBM/other:t"), record(action, resource)).await;
        assert_eq!(status, 400, "{action} {resource} {body}");
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test]
async fn actions_are_recorded_whatever_the_name_of_the_organization_and_bad_names_are_refused() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let blocklist = "/orgs/pl%20%C3%A4nt/blocklist";
    made(&hub, "POST", "/orgs/pl%20%C3%A4nt", json!({"label": "", "description": ""})).await;
    let (status, body) = hub.call("DELETE", blocklist, None).await;
    assert!(status < 300, "{status} {body}");
    let (_, found) = hub.call("GET", "/orgs/pl%20%C3%A4nt/audit", None).await;
    let records = found["records"].as_array().expect("a list");
    let is_it = |record: &Value| record["operation"] == "clear_blocklist" && record["resource"] == blocklist;
    assert!(records.iter().any(is_it), "{found}");
    let (status, body) = hub.call("DELETE", &format!("/orgs/{}/blocklist", "a".repeat(1_025)), None).await;
    assert_eq!(status, 400, "{body}");
}
