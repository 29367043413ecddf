//! Events about approvals: each step of a request once, whichever agbot of the database reads it first, and whatever was missed.

use serde_json::{Value, json};
use sqlx::Executor;

use super::approval::{action, apply, call, decide, of_policy, request, requested};
use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

/// Kinds of the events about a request, oldest first.
async fn kinds(hub: &Hub, id: &str) -> Vec<String> {
    let found = events(hub).await;
    let kind = |event: &Value| event["kind"].as_str().map(|kind| kind.replace("approval.", ""));
    found.iter().filter(|event| event["data"]["approvalId"] == id).filter_map(kind).collect()
}

async fn events(hub: &Hub) -> Vec<Value> {
    let path = "/orgs/o/orchestration/events?kind=approval.*&limit=1000";
    let (status, body) = call(hub, "o/ann", "GET", path, None).await;
    assert_eq!(status, 200, "{body}");
    body["events"].as_array().cloned().unwrap_or_default()
}

async fn recorded(hub: &Hub, id: &str, expected: &[&str]) {
    eventually(&format!("{id}: {expected:?}"), async || (kinds(hub, id).await == expected).then_some(()))
        .await;
}

fn settings(secs: u32) -> Value {
    json!({"kind": "settings", "settings": {"readyPeriodSeconds": secs}})
}

/// Requests a write as ann, as soon as the agbot plans.
async fn asked(hub: &Hub, write: &Value) -> String {
    eventually("the agbot plans", async || (request(hub, "o/ann", write).await.0 == 200).then_some(())).await;
    requested(hub, "o/ann", write).await.0
}

/// Requests a change of settings, which is approved through another hub, and applies it; a hub that is still reading makes another plan soon.
async fn applied(hub: &Hub, second: &Hub) -> String {
    eventually("a plan that still holds", async || {
        let id = asked(hub, &settings(7)).await;
        recorded(second, &id, &["requested"]).await;
        assert_eq!(decide(second, "o/bob", &id, "approve").await.0, 200);
        recorded(hub, &id, &["requested", "approved"]).await;
        let (status, found) = apply(hub, "o/ann", &id).await;
        if status == 200 {
            return Some(id);
        }
        let text = found["msg"].as_str().unwrap_or_default();
        assert!(status == 409 && text.contains("has changed since"), "{status} {found}");
        assert_eq!(decide(hub, "o/ann", &id, "cancel").await.0, 200);
        recorded(hub, &id, &["requested", "approved", "stale", "canceled"]).await;
        None
    })
    .await
}

#[tokio::test]
async fn each_step_of_a_request_is_one_event_of_two_agbots_also_when_they_were_away() {
    let (scratch, second_scratch) = (Scratch::new(), Scratch::new());
    let database = TestDatabase::new().await;
    let mut options = vec!["--database-url", database.url()];
    let hub = Hub::start(&scratch, &options).await;
    let password = scratch.join("hub/root-password").to_string_lossy().into_owned();
    options.extend(["--root-password-file", &password]);
    let second = Hub::start(&second_scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 1).await;
    fleet.publish(&hub, "1.0.0").await;
    for name in ["ann", "bob", "uma"] {
        let body = json!({"password": "secret", "email": "e", "admin": name != "uma"});
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    }
    let required = json!({"approval": "changes"});
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(required)).await.0, 201);

    let applied = applied(&hub, &second).await;
    recorded(&hub, &applied, &["requested", "approved", "applied"]).await;

    let rejected = asked(&hub, &of_policy("line", "1.0.0")).await;
    assert_eq!(decide(&hub, "o/bob", &rejected, "reject").await.0, 200);
    recorded(&hub, &rejected, &["requested", "rejected"]).await;
    let canceled = asked(&second, &of_policy("line", "1.0.0")).await;
    assert_eq!(decide(&hub, "o/ann", &canceled, "cancel").await.0, 200);
    recorded(&hub, &canceled, &["requested", "canceled"]).await;

    let found = events(&hub).await;
    let of = |id: &str, kind: &str| {
        let is_it = |event: &&Value| event["data"]["approvalId"] == id && event["kind"] == kind;
        found.iter().find(is_it).cloned().expect("an event")
    };
    let event = of(&applied, "approval.applied");
    assert_eq!((&event["actor"], &event["policy"]), (&json!("o/ann"), &json!(null)), "{event}");
    assert_eq!(event["data"]["approver"], "o/bob", "{event}");
    let event = of(&rejected, "approval.rejected");
    assert_eq!((&event["actor"], &event["policy"]), (&json!("o/bob"), &json!("o/line")), "{event}");
    assert_eq!(event["data"]["decision"], "seen", "{event}");
    let (_, listed) = hub.call("GET", "/orgs/o/agbot/events?policy=o/line", None).await;
    assert!(listed.to_string().contains("approval.rejected"), "{listed}");
    // Ordinary users read their own requests only, and so not the reasons of others.
    let (status, hidden) = call(&hub, "o/uma", "GET", "/orgs/o/orchestration/events", None).await;
    assert!(status == 200 && !hidden.to_string().contains("ticket 4711"), "{hidden}");

    let (late, expired) = (asked(&hub, &settings(8)).await, asked(&hub, &settings(9)).await);
    for id in [&late, &expired] {
        recorded(&hub, id, &["requested"]).await;
    }
    drop(fleet);
    assert_eq!((hub.stop().await, second.stop().await), (0, 0));
    // What happens while no agbot reads the feed.
    let change = format!(
        "UPDATE plan_approval SET state = 'approved', decided_by = 'bob', decided_at = now() WHERE id = '{late}';
         UPDATE plan_approval SET expires_at = now() WHERE id = '{expired}';
         UPDATE recorded_approval SET expires_at = now() WHERE approval = '{expired}'"
    );
    must(database.connection().await.execute(sqlx::AssertSqlSafe(change)).await, "changing the requests");
    let hub = Hub::start(&scratch, &options).await;
    let second = Hub::start(&second_scratch, &options).await;
    for (id, expected) in [
        (&late, &["requested", "approved"][..]),
        (&expired, &["requested", "expired"]),
        (&applied, &["requested", "approved", "applied"]),
        (&rejected, &["requested", "rejected"]),
        (&canceled, &["requested", "canceled"]),
    ] {
        recorded(&hub, id, expected).await;
        assert_eq!(kinds(&second, id).await, expected);
    }
    // A further step after the restart, and the events that were there stay as they are.
    assert_eq!(decide(&second, "o/bob", &late, "reject").await.0, 200);
    recorded(&hub, &late, &["requested", "approved", "rejected"]).await;
    assert_eq!(request(&hub, "o/ann", &action("restart")).await.0, 404, "there is no such policy");
    assert_eq!(kinds(&hub, &applied).await, ["requested", "approved", "applied"]);
    assert_eq!((hub.stop().await, second.stop().await), (0, 0));
}
