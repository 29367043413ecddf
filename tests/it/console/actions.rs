//! Actions: a plan first, then the action, if the plan still holds.

use std::collections::BTreeMap;

use serde_json::json;

use super::browser::Browser;
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

#[tokio::test]
async fn node_is_drained_by_a_plan_that_is_shown_first_and_must_still_hold() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 2).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want(&hub, "1.0.0").await;
    let body = json!({"password": "secret", "email": "e", "admin": true});
    assert_eq!(hub.call("POST", "/orgs/o/users/admin", Some(body)).await.0, 201);
    let mut browser = Browser::of(&hub, "o", "admin", "secret").await;
    eventually("a page that shows the running instance", async || {
        let page = Browser::of(&hub, "o", "admin", "secret").await.get("/console/orgs/o/nodes/edge-1").await;
        (page.status == 200 && page.text.contains(">runs</span>")).then_some(())
    })
    .await;

    let path = "/console/orgs/o/do/node-drain?node=edge-1";
    let page = browser.get("/console/orgs/o/nodes/edge-1").await;
    assert!(page.addresses().contains(&path.to_owned()));
    assert!(page.text.contains("<dd><time datetime=\""), "the heartbeat is an element: {}", page.text);
    let plan = browser.get(path).await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    for text in ["everywhere", "hzn exchange node orchestration set edge-1 --availability drain"] {
        assert!(plan.text.contains(text), "{text}: {}", plan.text);
    }
    let availability = async || {
        hub.call("GET", "/orgs/o/nodes/edge-1/orchestration", None).await.1["spec"]["availability"].clone()
    };
    assert_ne!(availability().await, "drain", "a plan changes nothing");

    let stale = BTreeMap::from([("node", "edge-1"), ("token", "0")]);
    let page = browser.send("/console/orgs/o/do/node-drain", &stale).await;
    assert!(page.text.contains("Nothing was done") && page.text.contains("role=\"alert\""), "{}", page.text);
    assert_ne!(availability().await, "drain");

    let token = plan.field("token");
    let form = BTreeMap::from([("node", "edge-1"), ("token", token.as_str())]);
    let page = browser.send("/console/orgs/o/do/node-drain", &form).await;
    assert_eq!(page.status, 303, "a page that is loaded again sends nothing again: {}", page.text);
    let page = browser.get(&page.location.expect("where it went")).await;
    assert!(page.status == 200 && page.text.contains("Accepted"), "{}", page.text);
    assert_eq!(availability().await, "drain");
    let page = browser.send("/console/orgs/o/do/node-freeze", &form).await;
    assert!(page.text.contains("Nothing was done"), "it is the token of another action: {}", page.text);
    let page = browser.send("/console/orgs/o/do/node-drain", &form).await;
    assert!(page.text.contains("Nothing was done"), "the plan is another one now: {}", page.text);

    // An ordinary user reads that, and may not do it.
    let body = json!({"password": "secret", "email": "e", "admin": false});
    assert_eq!(hub.call("POST", "/orgs/o/users/user", Some(body)).await.0, 201);
    let mut user = Browser::of(&hub, "o", "user", "secret").await;
    let page = user.get("/console/orgs/o/nodes/edge-1").await;
    assert_eq!(page.status, 403, "the node is not that of the user: {}", page.text);
    let page = user.send("/console/orgs/o/do/node-activate", &form).await;
    assert_eq!(page.status, 403, "{}", page.text);
    let page = user.get("/console/orgs/o/policies/everywhere").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(!page.addresses().iter().any(|address| address.contains("/do/")), "{}", page.text);
}

#[tokio::test]
async fn page_hears_of_events_by_its_stream() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    let body = json!({"password": "secret", "email": "e", "admin": true});
    assert_eq!(hub.call("POST", "/orgs/o/users/admin", Some(body)).await.0, 201);
    let mut browser = Browser::of(&hub, "o", "admin", "secret").await;
    let page = browser.get("/console/orgs/o/now").await;
    let stream = page.addresses().into_iter().find(|one| one.ends_with("/live")).expect("a stream");
    let cookie = browser.cookie.clone().expect("a cookie");
    let request = hub.client.get(format!("{}{stream}", hub.url)).header("cookie", cookie);
    let mut response = request.send().await.expect("a stream");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let settings = json!({"readyPeriodSeconds": 7});
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(settings)).await.0, 201);
    let heard = async {
        let mut text = String::new();
        while !text.contains("event: change") {
            text.push_str(&String::from_utf8_lossy(&response.chunk().await.expect("a part").expect("more")));
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), heard).await.expect("an event within a minute");
}
