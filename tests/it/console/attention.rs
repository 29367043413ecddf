//! What needs a person: acknowledged with a reason, and back when its cause changes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::browser::Browser;
use crate::support::{Hub, Scratch, eventually};

const NOW: &str = "/console/orgs/o/now";

async fn make_user(hub: &Hub, name: &str, body: Value) -> Browser {
    assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    Browser::of(hub, "o", name, "secret").await
}

/// Returns the only problem of the organization once its cause contains a text.
async fn problem(hub: &Hub, text: &str) -> Value {
    eventually("a problem", async || {
        let found = hub.call("GET", "/orgs/o/agbot/overview", None).await.1;
        let first = found["attention"][0].clone();
        first["text"].as_str().is_some_and(|cause| cause.contains(text)).then_some(first)
    })
    .await
}

/// Wants instances for which there is no node.
async fn want(hub: &Hub, replicas: u32) {
    let service =
        json!({"name": "printer", "org": "o", "arch": "*", "serviceVersions": [{"version": "1.0.0"}]});
    let orchestration = json!({"mode": "replicated", "replicas": replicas});
    let policy = json!({
        "label": "l", "service": service, "properties": [], "constraints": ["printer == true"], "orchestration": orchestration,
    });
    let path = "/orgs/o/business/policies/print";
    let (status, body) = hub.call("PUT", path, Some(policy.clone())).await;
    if status == 404 {
        assert_eq!(hub.call("POST", path, Some(policy)).await.0, 201);
    } else {
        assert_eq!(status, 201, "{body}");
    }
}

#[tokio::test]
async fn problem_is_acknowledged_until_its_cause_changes() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    let service = json!({"label": "s", "url": "printer", "version": "1.0.0", "arch": "amd64", "sharable": "multiple", "deployment": "", "deploymentSignature": ""});
    assert_eq!(hub.call("POST", "/orgs/o/services", Some(service)).await.0, 201);
    want(&hub, 1).await;
    let first = problem(&hub, "0 of 1 wanted").await;
    let id = first["id"].as_str().expect("an id").to_owned();
    let admin = json!({"password": "secret", "email": "e", "admin": true});
    let viewer = json!({"password": "secret", "email": "e", "role": "viewer"});
    let user = json!({"password": "secret", "email": "e", "admin": false});
    let mut anna = make_user(&hub, "anna", admin).await;
    let mut vera = make_user(&hub, "vera", viewer).await;
    let mut erin = make_user(&hub, "erin", user).await;

    let path = format!("/console/orgs/o/attention/{id}");
    let page = anna.get(NOW).await;
    assert!(page.addresses().contains(&path), "{}", page.text);
    assert!(page.text.contains("For the owner, or an administrator"), "{}", page.text);
    let page = vera.get(NOW).await;
    assert!(page.text.contains("disabled title=\"your role viewer changes nothing\""), "{}", page.text);
    let form = BTreeMap::from([("reason", "the <b>printer</b> arrives on Monday")]);
    for reader in [&mut vera, &mut erin] {
        assert_eq!(reader.send(&path, &form).await.status, 403);
    }
    let page = anna.get(&path).await;
    let command = format!("hzn agbot attention acknowledge {id} --because REASON");
    assert!(page.status == 200 && page.text.contains(&command), "{}", page.text);
    let page = anna.send(&path, &BTreeMap::from([("reason", " ")])).await;
    assert!(page.status == 400 && page.text.contains("reason must not be empty"), "{}", page.text);
    let page = anna.send(&path, &BTreeMap::new()).await;
    assert_eq!(page.status, 400, "{}", page.text);
    assert_eq!(anna.send(&path, &form).await.status, 303);

    let page = vera.get(NOW).await;
    for part in ["1 acknowledged", "by o/anna", "the &#60;b&#62;printer"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let found = problem(&hub, "0 of 1 wanted").await;
    assert_eq!((&found["acknowledged"]["by"], &found["id"]), (&json!("o/anna"), &json!(id)));
    assert!(found["acknowledged"]["until"].as_str() > found["acknowledged"]["at"].as_str());
    let records = hub.call("GET", "/orgs/o/audit?limit=100", None).await.1.to_string();
    assert!(records.contains("acknowledge_matter"), "{records}");

    // It comes back when its cause changes.
    want(&hub, 2).await;
    let second = problem(&hub, "0 of 2 wanted").await;
    assert_ne!(second["id"], json!(id));
    assert!(second.get("acknowledged").is_none(), "{second}");
    assert_eq!(anna.get(&path).await.status, 404, "that cause is gone");
    assert_eq!(anna.send(&path, &form).await.status, 404);

    let path = format!("/console/orgs/o/attention/{}", second["id"].as_str().expect("an id"));
    assert_eq!(anna.send(&path, &form).await.status, 303);
    let page = anna.get(&path).await;
    assert!(page.text.contains("hzn agbot attention withdraw"), "{}", page.text);
    assert_eq!(anna.send(&path, &BTreeMap::from([("withdraw", "yes")])).await.status, 303);
    assert!(problem(&hub, "0 of 2 wanted").await.get("acknowledged").is_none());
}
