//! The page of a rollout, and what nodes have in common, as operators see them.

use serde_json::json;

use super::browser::Browser;
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const PAGE: &str = "/console/orgs/o/rollouts/everywhere";

async fn log_in(hub: &Hub, name: &str, admin: bool) -> Browser {
    let body = json!({"password": "secret", "email": "e", "admin": admin});
    assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    Browser::of(hub, "o", name, "secret").await
}

#[tokio::test]
async fn rollout_page_shows_waves_time_left_and_steps_and_leads_to_actions() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--upgrade-monitor-secs", "3", "--upgrade-grace-secs", "1"]).await;
    let fleet = Fleet::start(&scratch, &hub, 3).await;
    for version in ["1.0.0", "2.0.0"] {
        fleet.publish(&hub, version).await;
    }
    fleet.want(&hub, "1.0.0").await;
    eventually("version 1 runs", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    let mut browser = log_in(&hub, "admin", true).await;
    assert_eq!(browser.get("/console/orgs/o/rollouts/none").await.status, 404);
    fleet.want(&hub, "2.0.0").await;
    eventually("a step is done", || async {
        let found = hub.call("GET", "/orgs/o/agbot/rollouts/everywhere", None).await.1;
        (found["waves"][0]["done"] == 1).then_some(())
    })
    .await;
    let page = browser.get(PAGE).await;
    assert_eq!(page.status, 200, "{}", page.text);
    for text in [
        "Time left",
        "80 % probability",
        "HA group g",
        "1 of 3",
        "<svg class=\"bar\"",
        "edge-",
        "the node reports",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    let addresses = page.addresses();
    for action in ["pause", "abort", "rollback"] {
        assert!(
            addresses.contains(&format!("/console/orgs/o/do/rollout-{action}?policy=everywhere")),
            "{action}"
        );
    }
    assert!(page.text.contains("disabled title=\"the rollout is not paused\""), "{}", page.text);
    assert!(addresses.iter().any(|address| address.ends_with("/live")), "it renews itself");
    assert!(page.text.len() < 100 * 1024, "{} bytes", page.text.len());
    let list = browser.get("/console/orgs/o/rollouts").await;
    assert!(list.addresses().contains(&PAGE.to_owned()), "{}", list.text);

    let mut user = log_in(&hub, "user", false).await;
    let page = user.get(PAGE).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(
        !page.text.contains("edge-") && !page.text.contains("Time left") && !page.text.contains("of 3"),
        "{}",
        page.text
    );
    assert!(!page.addresses().iter().any(|address| address.contains("/do/")), "{}", page.text);

    eventually("version 2 runs", || async { fleet.all_run("2.0.0").then_some(()) }).await;
    eventually("the rollout is over", || async {
        let found = hub.call("GET", "/orgs/o/agbot/rollouts/everywhere", None).await.1;
        (found["state"] == "completed").then_some(())
    })
    .await;
    let page = browser.get(PAGE).await;
    assert!(page.text.contains(">completed</span>") && page.text.contains("3 of 3"), "{}", page.text);
    assert!(!page.text.contains("Time left"), "{}", page.text);
}

#[tokio::test]
async fn nodes_page_shows_what_a_selection_has_in_common() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for number in 0..12 {
        let path = format!("/orgs/o/nodes/n{number}");
        let node = json!({"token": "secret-n", "name": "n", "pattern": "", "publicKey": "", "arch": "amd64"});
        assert_eq!(hub.call("PUT", &path, Some(node)).await.0, 201);
        let kernel = if number < 4 { "5.10" } else { "6.1" };
        let policy = json!({"properties": [{"name": "kernel", "value": kernel}], "constraints": []});
        assert_eq!(hub.call("PUT", &format!("{path}/policy"), Some(policy)).await.0, 201);
        if number < 4 {
            let drained = json!({"availability": "drain"});
            assert_eq!(hub.call("PUT", &format!("{path}/orchestration/spec"), Some(drained)).await.0, 201);
        }
    }
    let mut browser = log_in(&hub, "admin", true).await;
    let page = eventually("the nodes are known", async || {
        let page = log_in_again(&hub).await.get("/console/orgs/o/nodes?availability=drain").await;
        page.text.contains("4 nodes match").then_some(page)
    })
    .await;
    assert!(page.text.contains("What these nodes have in common"), "{}", page.text);
    let comparing = "?availability=drain&common=yes";
    assert!(page.addresses().contains(&comparing.to_owned()), "{}", page.text);
    let page = browser.get(&format!("/console/orgs/o/nodes{comparing}")).await;
    let link = "/console/orgs/o/nodes?filter=kernel%20%3D%3D%20%225.10%22";
    assert!(page.addresses().contains(&link.to_owned()), "{}", page.text);
    let page = browser.get(link).await;
    assert!(page.text.contains("4 nodes match"), "{}", page.text);
    let page = browser.get("/console/orgs/o/nodes").await;
    assert!(!page.text.contains("What these nodes have in common"), "all nodes are no selection");
}

async fn log_in_again(hub: &Hub) -> Browser {
    Browser::of(hub, "o", "admin", "secret").await
}
