//! Viewers and deployers at the console: controls that they may not use are disabled, with the reason.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::browser::{Browser, Page};
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const NODE: &str = "/console/orgs/o/nodes/edge-1";
const POLICY: &str = "/console/orgs/o/policies/everywhere";

/// Returns the actions that links of a page lead to.
fn actions(page: &Page) -> Vec<String> {
    page.addresses().into_iter().filter(|address| address.contains("/do/")).collect()
}

async fn make_user(hub: &Hub, name: &str, body: Value) -> Browser {
    assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    Browser::of(hub, "o", name, "secret").await
}

#[tokio::test]
async fn controls_follow_the_role_of_the_reader() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": {"mode": "global"}})).await;
    let viewer = json!({"password": "secret", "email": "e", "role": "viewer"});
    let deployer = |policies: Value| json!({"password": "secret", "email": "e", "role": "deployer", "policies": policies});
    let mut vera = make_user(&hub, "vera", viewer).await;
    let mut dora = make_user(&hub, "dora", deployer(json!(["every*"]))).await;
    let mut other = make_user(&hub, "other", deployer(json!(["other"]))).await;
    eventually("the page of the policy has controls", async || {
        let page = Browser::of(&hub, "o", "dora", "secret").await.get(POLICY).await;
        (page.status == 200 && page.text.contains("Freeze")).then_some(())
    })
    .await;

    for path in [NODE, POLICY, "/console/orgs/o/rollouts", "/console/orgs/o/now", "/console/orgs/o/groups/g"]
    {
        let page = vera.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert_eq!(actions(&page), Vec::<String>::new(), "{path}");
    }
    let page = vera.get(POLICY).await;
    assert!(page.text.contains("disabled title=\"your role viewer changes nothing\""), "{}", page.text);
    let page = vera.get("/console/account").await;
    assert!(page.text.contains("Role <strong>viewer</strong>"), "{}", page.text);
    assert!(dora.get("/console/account").await.text.contains("<code>every*</code>"));

    assert!(actions(&other.get(POLICY).await).is_empty());
    assert!(actions(&dora.get(NODE).await).is_empty(), "nodes are not of a deployer");
    let freeze = "/console/orgs/o/do/policy-freeze";
    let with_policy = format!("{freeze}?policy=everywhere");
    assert!(actions(&dora.get(POLICY).await).contains(&with_policy));

    // What is hidden is refused as well: the API decides.
    let token = dora.get(&with_policy).await.field("token");
    let form = BTreeMap::from([("policy", "everywhere"), ("token", token.as_str())]);
    for reader in [&mut vera, &mut other] {
        let token = reader.get(&with_policy).await.field("token");
        let form = BTreeMap::from([("policy", "everywhere"), ("token", token.as_str())]);
        assert_eq!(reader.send(freeze, &form).await.status, 403);
    }
    let page = dora.send(freeze, &form).await;
    assert_eq!(page.status, 303, "{}", page.text);

    // A role that is taken away is gone from the sessions that have begun.
    let role = json!({"role": "viewer"});
    assert_eq!(hub.call("PATCH", "/orgs/o/users/dora", Some(role)).await.0, 201);
    assert!(actions(&dora.get(POLICY).await).is_empty());
    let page = dora.send("/console/logout", &BTreeMap::new()).await;
    assert_eq!(page.status, 303, "a viewer ends its session: {}", page.text);
}
