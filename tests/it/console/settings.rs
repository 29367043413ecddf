//! Settings of the organization at the console.

use std::collections::BTreeMap;

use serde_json::json;

use super::browser::Browser;
use super::change::{carry_out, changes, confirm, fill, mistake, require_done, target};
use crate::support::{Hub, Scratch};

const SETTINGS: &str = "/console/orgs/o/settings";
const READY: &str = "/console/orgs/o/change/setting?key=readyPeriodSeconds";

/// Returns value, source and default of a setting on the page.
fn row(text: &str, key: &str) -> String {
    let (_, rest) =
        text.split_once(&format!("<code>{key}</code>")).unwrap_or_else(|| panic!("{key}: {text}"));
    let row =
        rest.split_once("<td class=\"short\"><a").or_else(|| rest.split_once("<td class=\"short\"><button"));
    let cells = row.expect("a row").0.split('<').filter_map(|part| Some(part.split_once('>')?.1.trim()));
    cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" | ")
}

#[tokio::test]
async fn settings_show_where_their_values_come_from_and_are_changed_by_a_plan() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &["--node-down-after-secs", "42"]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for (name, body) in [
        ("ada", json!({"password": "secret", "email": "e", "admin": true})),
        ("bob", json!({"password": "secret", "email": "e"})),
        ("vera", json!({"password": "secret", "email": "e", "role": "viewer"})),
    ] {
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    }
    let mut browser = Browser::of(&hub, "o", "ada", "secret").await;
    let page = browser.get(SETTINGS).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert_eq!(row(&page.text, "readyPeriodSeconds"), "16 | default | 16");
    assert_eq!(row(&page.text, "nodeDownAfterSeconds"), "42 | hub | 180");

    for (value, text) in [
        ("99999", "must be an integer from 0 to 3600"),
        ("soon", "must be an integer"),
        ("", "must not be empty"),
    ] {
        let page = fill(&mut browser, READY, &[("value", value)]).await;
        assert!(mistake(&page, "value").contains(text), "{value}: {}", page.text);
    }
    let plan = carry_out(&mut browser, READY, &[("value", "7")], &[]).await;
    let command = "hzn exchange orchestration settings set readyPeriodSeconds=7";
    assert!(plan.text.contains(command) && plan.text.contains("16 (from: default)"), "{}", plan.text);
    let page = browser.get(SETTINGS).await;
    assert_eq!(row(&page.text, "readyPeriodSeconds"), "7 | organization | 16");
    assert!(page.text.contains("<dd>o/ada</dd>"), "who changed them: {}", page.text);
    let reset = changes(&page).into_iter().find(|address| address.contains("value=null")).expect("a reset");
    let plan = browser.get(&reset).await;
    require_done(&mut browser, &plan, &[]).await;
    assert_eq!(row(&browser.get(SETTINGS).await.text, "readyPeriodSeconds"), "16 | default | 16");

    let down = "/console/orgs/o/change/setting?key=nodeDownAfterSeconds";
    let plan = fill(&mut browser, down, &[("value", "5")]).await;
    assert!(plan.text.contains("less than two heartbeats"), "{}", plan.text);
    let buffer = "/console/orgs/o/change/setting?key=nodeBufferPercentage";
    carry_out(&mut browser, buffer, &[("value", "{\"cpu\": 0.25}")], &[]).await;
    let priority = "/console/orgs/o/change/setting?key=constraintPriorities.Affinity";
    let plan = carry_out(&mut browser, priority, &[("value", "1")], &[]).await;
    assert!(plan.text.contains("relaxed without asking"), "{}", plan.text);
    let stored = hub.call("GET", "/orgs/o/orchestration?given=true", None).await.1;
    assert_eq!(stored["nodeBufferPercentage"], json!({"cpu": 0.25}), "{stored}");
    assert_eq!(stored["constraintPriorities"], json!({"Affinity": 1}), "{stored}");
    let unknown = browser.get("/console/orgs/o/change/setting?key=lastUpdatedBy&value=x&step=plan").await;
    assert_eq!(unknown.status, 404, "{}", unknown.text);

    let plan = fill(&mut browser, READY, &[("value", "8")]).await;
    for name in ["bob", "vera"] {
        let mut reader = Browser::of(&hub, "o", name, "secret").await;
        let page = reader.get(SETTINGS).await;
        assert!(page.status == 200 && changes(&page).is_empty(), "{name}: {}", page.text);
        let page = reader.get(&target(&plan)).await;
        let page = confirm(&mut reader, &page, &[]).await;
        assert_eq!(page.status, 403, "{name}: {}", page.text);
    }
    assert_eq!(row(&browser.get(SETTINGS).await.text, "readyPeriodSeconds"), "16 | default | 16");
}

/// Requests a setting, which the second person approves and applies; returns the status of that.
async fn requested_and_applied(ada: &mut Browser, bob: &mut Browser) -> u16 {
    let plan = fill(ada, READY, &[("value", "7")]).await;
    let asked = confirm(ada, &plan, &[("reason", "ticket 4711")]).await;
    let one = asked.location.expect("the page of the request");
    assert!(asked.status == 303 && one.starts_with("/console/orgs/o/approvals/"), "{one}");
    assert_eq!(row(&ada.get(SETTINGS).await.text, "readyPeriodSeconds"), "16 | default | 16");
    let token = bob.get(&one).await.field("token");
    let form = |step| BTreeMap::from([("do", step), ("token", token.as_str()), ("reason", "")]);
    assert_eq!(bob.send(&one, &form("approve")).await.status, 303);
    bob.send(&one, &form("apply")).await.status
}

#[tokio::test]
async fn setting_that_needs_an_approval_is_requested_and_applied_by_the_second_person() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for name in ["ada", "bob"] {
        let body = json!({"password": "secret", "email": "e", "admin": true});
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    }
    assert_eq!(hub.call("PATCH", "/orgs/o/orchestration", Some(json!({"approval": "changes"}))).await.0, 201);
    let mut ada = Browser::of(&hub, "o", "ada", "secret").await;
    let mut bob = Browser::of(&hub, "o", "bob", "secret").await;
    let plan = fill(&mut ada, READY, &[("value", "7")]).await;
    for text in ["Ask for approval", "hzn approval request settings readyPeriodSeconds=7 --reason TEXT"] {
        assert!(plan.text.contains(text), "{text}: {}", plan.text);
    }
    let page = confirm(&mut ada, &plan, &[("reason", "")]).await;
    assert!(mistake(&page, "reason").contains("must not be empty"), "{}", page.text);
    // A hub that is still reading makes another plan soon.
    let mut applied = 0;
    for _ in 0..20 {
        applied = requested_and_applied(&mut ada, &mut bob).await;
        if applied == 303 {
            break;
        }
        assert_eq!(applied, 409);
    }
    assert_eq!(applied, 303);
    assert_eq!(row(&ada.get(SETTINGS).await.text, "readyPeriodSeconds"), "7 | organization | 16");
    // Root writes without an approval.
    let mut root = Browser::of(&hub, "root", "root", &hub.root_password()).await;
    carry_out(&mut root, READY, &[("value", "8")], &[]).await;
    assert_eq!(row(&ada.get(SETTINGS).await.text, "readyPeriodSeconds"), "8 | organization | 16");
    assert_eq!(hub.stop().await, 0);
}
