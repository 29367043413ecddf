//! Approvals: an action is asked for, another user approves its plan, and those who may not see why.

use std::collections::BTreeMap;

use serde_json::json;

use super::browser::Browser;
use crate::support::fleet::Fleet;
use crate::support::{Hub, Scratch, eventually};

const HOSTILE: &str = "<img src=x onerror=alert(1)> \"ticket\"";
const PLAN: &str = "/console/orgs/o/do/policy-restart?policy=everywhere";

#[tokio::test]
async fn action_is_asked_for_approved_by_another_user_and_carried_out_once() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    fleet.want_with(&hub, "1.0.0", json!({"orchestration": {"mode": "global"}})).await;
    for (name, more) in [
        ("ann", json!({"admin": true})),
        ("bob", json!({"admin": true})),
        ("vera", json!({"role": "viewer"})),
    ] {
        let mut body = json!({"password": "secret", "email": "e", "admin": false});
        for (member, value) in more.as_object().into_iter().flatten() {
            body[member] = value.clone();
        }
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    }
    let mut ann = Browser::of(&hub, "o", "ann", "secret").await;
    let mut bob = Browser::of(&hub, "o", "bob", "secret").await;
    let mut vera = Browser::of(&hub, "o", "vera", "secret").await;
    eventually("the instance runs", async || (fleet.versions().len() == 1).then_some(())).await;
    let page = ann.get(PLAN).await;
    assert!(page.status == 200 && !page.text.contains("Ask for approval"), "{}", page.text);
    let setting = json!({"approval": "changes"});
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(setting)).await.0, 201);

    let mut state = String::new();
    for _ in 0..20 {
        let page = ann.get(PLAN).await;
        for text in ["Ask for approval", "hzn approval request action everywhere restart", "name=\"reason\""]
        {
            assert!(page.text.contains(text), "{text}: {}", page.text);
        }
        let token = page.field("token");
        let without = BTreeMap::from([("policy", "everywhere"), ("token", token.as_str())]);
        let refused = ann.send("/console/orgs/o/do/policy-restart", &without).await;
        assert!(matches!(refused.status, 200 | 400), "a reason is needed: {}", refused.text);
        let form = BTreeMap::from([("policy", "everywhere"), ("token", token.as_str()), ("reason", HOSTILE)]);
        let asked = ann.send("/console/orgs/o/do/policy-restart", &form).await;
        let Some(one) = asked.location else { continue };
        assert!(asked.status == 303 && one.starts_with("/console/orgs/o/approvals/"), "{one}");

        let page = ann.get(&one).await;
        assert!(
            page.text.contains("another user has to decide") && !page.text.contains("<img src=x"),
            "{}",
            page.text
        );
        let list = vera.get("/console/orgs/o/approvals?state=pending").await;
        assert!(list.status == 200 && list.addresses().contains(&one), "{}", list.text);
        assert!(!list.text.contains("<img src=x"), "{}", list.text);
        let seen = vera.get(&one).await;
        assert!(seen.status == 200 && seen.text.contains(" disabled title="), "{}", seen.text);
        let page = bob.get(&one).await;
        assert!(page.text.contains("hzn approval approve ") && page.text.contains("slot"), "{}", page.text);
        let token = page.field("token");
        let form = BTreeMap::from([("do", "approve"), ("token", token.as_str()), ("reason", "seen")]);
        assert_eq!(vera.send(&one, &form).await.status, 403);
        assert_eq!(ann.send(&one, &form).await.status, 403);
        assert_eq!(bob.send(&one, &form).await.status, 303);
        assert_eq!(bob.send(&one, &form).await.status, 409, "it is decided");
        let stale = BTreeMap::from([("do", "approve"), ("token", "0"), ("reason", "")]);
        assert_eq!(bob.send(&one, &stale).await.status, 409);
        assert_eq!(bob.send(&one, &BTreeMap::from([("do", "explode")])).await.status, 400);
        let apply = BTreeMap::from([("do", "apply"), ("token", ""), ("reason", "")]);
        assert_eq!(vera.send(&one, &apply).await.status, 403);
        let applied = ann.send(&one, &apply).await;
        assert!(matches!(applied.status, 303 | 409), "{}", applied.text);
        let page = ann.get(&one).await;
        state = if page.text.contains("badge used") { "used".to_owned() } else { "approved".to_owned() };
        if state == "used" {
            assert!(page.text.contains("Carried out"), "{}", page.text);
            assert_eq!(ann.send(&one, &apply).await.status, 409, "it is used once");
            break;
        }
    }
    assert_eq!(state, "used");
    let page = ann.get("/console/orgs/o/do/policy-freeze?policy=everywhere").await;
    assert!(!page.text.contains("Ask for approval"), "what holds instances needs none: {}", page.text);
    drop(fleet);
    assert_eq!(hub.stop().await, 0);
}
