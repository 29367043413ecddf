//! Policies with constraints that cannot be read, and documents with what can never work.

use serde_json::{Value, json};

use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

const ORG: &str = "/orgs/o";

/// Sends a request as root; status, warning and body of the response.
async fn send(hub: &Hub, method: &str, path: &str, body: Value) -> (u16, Option<String>, Value) {
    let request = hub.client.request(must(method.parse(), "a method"), format!("{}/v1{path}", hub.url));
    let request = request.basic_auth("root/root", Some(hub.root_password())).json(&body);
    let response = must(request.send().await, "a response");
    let warning = response.headers().get("warning").and_then(|value| value.to_str().ok()).map(str::to_owned);
    (response.status().as_u16(), warning, response.json().await.unwrap_or_default())
}

async fn create_node_and_service(hub: &Hub) {
    let service = json!({
        "label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple",
        "deployment": r#"{"services":{"s":{"image":"x"}}}"#, "deploymentSignature": "x",
    });
    let node = json!({"token": "secret-n", "name": "n", "pattern": "", "publicKey": "", "arch": "amd64"});
    for (method, path, body) in [
        ("POST", ORG.to_owned(), json!({"label": "o", "description": "o"})),
        ("POST", format!("{ORG}/services"), service),
        ("PUT", format!("{ORG}/nodes/n"), node),
    ] {
        let (status, warning, body) = send(hub, method, &path, body).await;
        assert!(status == 201 && warning.is_none(), "{path}: {body}");
    }
}

/// One policy of each kind: method, path, kind, body with the given constraint.
fn policies(constraint: &str) -> [(&'static str, String, &'static str, Value); 4] {
    let service =
        json!({"name": "s", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]});
    let list = [constraint];
    [
        (
            "PUT",
            format!("{ORG}/business/policies/p"),
            "deployment",
            json!({"label": "p", "service": service, "constraints": list}),
        ),
        ("PUT", format!("{ORG}/nodes/n/policy"), "node", json!({"management": {"constraints": list}})),
        ("PUT", format!("{ORG}/services/s_1.0.0_amd64/policy"), "service", json!({"constraints": list})),
        (
            "PUT",
            format!("{ORG}/managementpolicies/m"),
            "management",
            json!({"label": "m", "enabled": true, "constraints": list}),
        ),
    ]
}

async fn inert_kinds(hub: &Hub) -> Vec<String> {
    let (_, body) = hub.call("GET", &format!("{ORG}/agbot/reasons"), None).await;
    let inert = body["inertPolicies"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value| {
        assert!(one["errors"][0].as_str().is_some_and(|text| text.contains("character 10")), "{one}");
        one["kind"].as_str().unwrap_or_default().to_owned()
    };
    inert.iter().map(text).collect()
}

#[tokio::test]
async fn policy_that_selects_nothing_is_stored_with_a_warning_and_listed_or_refused_when_that_is_set() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    create_node_and_service(&hub).await;
    for (method, path, _, body) in policies("camera == true") {
        // The first write of the two that POST creates.
        let method = if path.contains("policies/") { "POST" } else { method };
        let (status, warning, response) = send(&hub, method, &path, body).await;
        assert!(status == 201 && warning.is_none(), "{path}: {response}");
    }
    for (method, path, _, body) in policies("camera = = true") {
        let (status, warning, response) = send(&hub, method, &path, body).await;
        assert_eq!((status, &response["code"]), (201, &json!("ok")), "{path}: {response}");
        let warning = warning.unwrap_or_default();
        assert!(
            warning.starts_with("299 evenkeel \"") && warning.contains("character 10"),
            "{path}: {warning}"
        );
    }
    let listed = || async {
        (inert_kinds(&hub).await == ["deployment", "node", "service", "management"]).then_some(())
    };
    eventually("the reasons list one of each kind", listed).await;
    assert!(hub.program.errors().contains("deployment policy `o/p` selects nothing"));
    let (_, metrics) = must(hub.get("/metrics").await.ok_or("nothing"), "the metrics");
    for kind in ["deployment", "node", "service", "management"] {
        assert!(metrics.contains(&format!("agbot_inert_policies{{kind=\"{kind}\"}} 1\n")), "{metrics}");
    }
    assert_eq!(hub.stop().await, 0);

    let hub = Hub::start(&scratch, &["--invalid-constraints", "refuse"]).await;
    for (method, path, kind, body) in policies("camera = = true") {
        let (status, _, response) = send(&hub, method, &path, body).await;
        let field = if kind == "node" { "management.constraints: " } else { "constraints: " };
        let message = response["msg"].as_str().unwrap_or_default().to_owned();
        assert_eq!(status, 400, "{path}: {response}");
        assert!(message.contains(field) && message.contains("character 10"), "{path}: {message}");
    }
    eventually("what was stored before is still listed", || async {
        (inert_kinds(&hub).await.len() == 4).then_some(())
    })
    .await;
    for (method, path, _, body) in policies("camera == true") {
        assert_eq!(send(&hub, method, &path, body).await.0, 201, "{path}");
    }
    eventually("nothing is listed any more", || async { inert_kinds(&hub).await.is_empty().then_some(()) })
        .await;
    assert_eq!(hub.stop().await, 0);
}

/// Writes with something that can never work, in this order: method, path, body, and what the warning names.
fn questionable_writes() -> Vec<(&'static str, String, Value, &'static str)> {
    let deployment = r#"{"services":{"s":{"image":"x","comand":["y"]}}}"#;
    let service = |version: &str| {
        json!({
            "label": "s", "url": "s", "version": version, "arch": "amd64", "sharable": "multiple",
            "deployment": deployment, "deploymentSignature": "x",
        })
    };
    let input =
        json!([{"serviceOrgid": "o", "serviceUrl": "s", "serviceVersionRange": "[1.0.0", "inputs": []}]);
    let versions = json!([{"version": "1.0.0"}, {"version": "2.0.0"}]);
    let used = json!({"name": "s", "org": "o", "arch": "amd64", "serviceVersions": versions});
    let offered = json!([
        {"serviceUrl": "s", "serviceOrgid": "o", "serviceArch": "amd64", "serviceVersions": versions}
    ]);
    let pattern = json!({"label": "t", "services": offered});
    let policy = json!({"label": "p", "service": used});
    let wrong = json!([{"name": "color", "value": {"a": 1}}]);
    let (member, range) = ("services.s.comand", "serviceVersionRange is not a range");
    let (priority, property) = ("serviceVersions[0].priority.priority_value", "[0] is not a property");
    let path = |rest: &str| format!("{ORG}/{rest}");
    vec![
        ("POST", path("services"), service("2.0.0"), member),
        ("PUT", path("services/s_2.0.0_amd64"), service("2.0.0"), member),
        ("PATCH", path("services/s_2.0.0_amd64"), json!({"deployment": deployment}), member),
        (
            "PATCH",
            path("services/s_2.0.0_amd64"),
            json!({"userInput": [{"name": "A", "type": "text"}]}),
            "userInput[0].type is text",
        ),
        ("PUT", path("services/s_2.0.0_amd64/policy"), json!({"properties": wrong}), property),
        ("POST", path("patterns/t"), pattern.clone(), priority),
        ("PUT", path("patterns/t"), pattern, priority),
        ("PATCH", path("patterns/t"), json!({"services": offered}), priority),
        ("PATCH", path("patterns/t"), json!({"userInput": input}), range),
        ("POST", path("business/policies/p"), policy.clone(), priority),
        ("PUT", path("business/policies/p"), policy, priority),
        ("PATCH", path("business/policies/p"), json!({"service": used}), priority),
        ("PATCH", path("business/policies/p"), json!({"properties": wrong}), property),
        ("PATCH", path("business/policies/p"), json!({"userInput": input}), range),
        ("PUT", path("nodes/n/policy"), json!({"deployment": {"properties": wrong}}), property),
        ("POST", path("managementpolicies/m"), json!({"label": "m", "properties": wrong}), property),
        ("PUT", path("managementpolicies/m"), json!({"label": "m", "properties": wrong}), property),
    ]
}

#[tokio::test]
async fn every_kind_of_write_warns_of_what_can_never_work() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    create_node_and_service(&hub).await;
    for (method, path, body, expected) in questionable_writes() {
        let (status, warning, response) = send(&hub, method, &path, body).await;
        assert_eq!(status, 201, "{method} {path}: {response}");
        let warning = warning.unwrap_or_default();
        assert!(warning.starts_with("299 evenkeel \""), "{method} {path}: {warning}");
        assert!(warning.contains(expected), "{method} {path}: {warning}");
    }
    let harmless = json!({"label": "nothing that could be wrong"});
    for path in ["services/s_2.0.0_amd64", "patterns/t", "business/policies/p"] {
        let (status, warning, _) = send(&hub, "PATCH", &format!("{ORG}/{path}"), harmless.clone()).await;
        assert_eq!((status, warning), (201, None), "{path}");
    }
    assert_eq!(hub.stop().await, 0);
}

/// The policies that the reasons list because of something in them, with the texts about each.
async fn questionable(hub: &Hub) -> Vec<(String, String)> {
    let (_, body) = hub.call("GET", &format!("{ORG}/agbot/reasons"), None).await;
    let found = body["questionablePolicies"].as_array().cloned().unwrap_or_default();
    found
        .iter()
        .map(|one| (one["id"].as_str().unwrap_or_default().to_owned(), one["errors"].to_string()))
        .collect()
}

#[tokio::test]
async fn partner_that_does_not_exist_is_named_by_the_response_and_the_reasons_until_it_does() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    create_node_and_service(&hub).await;
    let service =
        json!({"name": "s", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]});
    let policy =
        |orchestration: Value| json!({"label": "p", "service": service, "orchestration": orchestration});
    let apart = json!({"mode": "replicated", "placement": {"affinity": {"hardAnti": ["ghost"]}}});
    let path = format!("{ORG}/business/policies/p");
    let expected =
        "orchestration.placement.affinity.hardAnti names deployment policy o/ghost, which does not exist";
    for (method, body) in [
        ("POST", policy(apart.clone())),
        ("PUT", policy(apart.clone())),
        ("PATCH", json!({"orchestration": apart})),
    ] {
        let (status, warning, response) = send(&hub, method, &path, body).await;
        assert_eq!(status, 201, "{method}: {response}");
        let warning = warning.unwrap_or_default();
        assert!(warning.contains(expected), "{method}: {warning}");
    }
    let listed = eventually("the reasons name the policy", || async {
        questionable(&hub).await.into_iter().find(|(policy, _)| policy == "o/p")
    })
    .await;
    assert!(listed.1.contains(expected), "{listed:?}");
    let ghost = send(&hub, "POST", &format!("{ORG}/business/policies/ghost"), policy(Value::Null)).await;
    assert_eq!(ghost.0, 201, "{}", ghost.2);
    eventually("the reasons name it no longer", || async {
        questionable(&hub).await.is_empty().then_some(())
    })
    .await;
    let (status, warning, _) = send(&hub, "PUT", &path, policy(apart)).await;
    assert_eq!((status, warning), (201, None));
    assert_eq!(hub.stop().await, 0);
}
