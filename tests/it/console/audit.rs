//! The audit log at the console: list, check and export.

use reqwest::header;
use serde_json::{Value, json};

use super::browser::Browser;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, eventually};

const AUDIT: &str = "/console/orgs/o/audit";

async fn hub_with_records(scratch: &Scratch) -> Hub {
    let hub = Hub::start(scratch, &[]).await;
    assert_eq!(hub.call("POST", "/orgs/o", Some(json!({"label": "", "description": ""}))).await.0, 201);
    for (name, body) in [
        ("ada", json!({"password": "secret", "email": "e", "admin": true})),
        ("bob", json!({"password": "secret", "email": "e"})),
        ("vera", json!({"password": "secret", "email": "e", "role": "viewer"})),
    ] {
        assert_eq!(hub.call("POST", &format!("/orgs/o/users/{name}"), Some(body)).await.0, 201);
    }
    for number in 0..60 {
        let group = json!({"description": "", "members": []});
        assert_eq!(hub.call("POST", &format!("/orgs/o/hagroups/g{number}"), Some(group)).await.0, 201);
    }
    let refused = hub.call_as(("o/bob", "secret"), "DELETE", "/orgs/o/hagroups/g1", None).await;
    assert_eq!(refused.0, 403);
    // Refusals are recorded a moment later.
    eventually("the refusal is recorded", async || {
        let (_, found) = hub.call("GET", "/orgs/o/audit?limit=1000", None).await;
        found["records"].as_array()?.iter().any(|record| record["status"] == 403).then_some(())
    })
    .await;
    hub
}

#[tokio::test]
async fn records_are_filtered_and_paged_and_their_chain_is_checked() {
    let scratch = Scratch::new();
    let hub = hub_with_records(&scratch).await;
    let mut browser = Browser::of(&hub, "o", "ada", "secret").await;
    let page = browser.get(AUDIT).await;
    assert!(page.status == 200 && page.text.contains("create_ha_group"), "{}", page.text);
    let next = page.addresses().into_iter().find(|address| address.contains("before=")).expect("a next page");
    let older = browser.get(&format!("{AUDIT}{next}")).await;
    assert!(
        older.text.contains("/orgs/o/hagroups/g0") && !page.text.contains("/orgs/o/hagroups/g0<"),
        "{}",
        older.text
    );

    let page = browser.get(&format!("{AUDIT}?caller=bob")).await;
    assert!(page.text.contains("refused, 403") && page.text.contains("--caller o/bob"), "{}", page.text);
    assert_eq!(page.text.matches("<td class=\"right short\">").count(), 1, "its refusal: {}", page.text);
    let page = browser.get(&format!("{AUDIT}?resource=%2Forgs%2Fo%2Fhagroups%2Fg59")).await;
    assert_eq!(page.text.matches("create_ha_group").count(), 1, "{}", page.text);
    let page = browser.get(&format!("{AUDIT}?since=2999-01-01T00:00")).await;
    assert!(page.text.contains("No records match"), "{}", page.text);
    let page = browser.get(&format!("{AUDIT}?until=%3Cb%3E")).await;
    assert!(page.text.contains("RFC 3339") && !page.text.contains("<b>"), "{}", page.text);

    let page = browser.get(&format!("{AUDIT}/verify")).await;
    assert!(
        page.text.contains("Intact: ") && page.text.contains("hzn exchange audit verify"),
        "{}",
        page.text
    );
    let (_, end) = page.text.split_once("<dd><code>").expect("the end of the chain");
    let end = end.split_once('<').expect("its end").0.replace(':', "%3A");
    let page = browser.get(&format!("{AUDIT}/verify?known={end}")).await;
    assert!(page.text.contains("Intact: "), "{}", page.text);
    let page = browser.get(&format!("{AUDIT}/verify?known=3:{}", "0".repeat(64))).await;
    assert!(page.text.contains("altered at record 3"), "{}", page.text);
    for (known, text) in [("x", "NUMBER:HASH"), ("999999:ab", "there is no audit record 999999")] {
        let page = browser.get(&format!("{AUDIT}/verify?known={known}")).await;
        assert!(page.status == 200 && page.text.contains(text), "{}", page.text);
    }
}

#[tokio::test]
async fn export_has_a_record_on_each_line_and_needs_the_right_to_read_them() {
    let scratch = Scratch::new();
    let hub = hub_with_records(&scratch).await;
    let mut browser = Browser::of(&hub, "o", "ada", "secret").await;
    let page = browser.get(&format!("{AUDIT}?resource=%2Forgs%2Fo%2Fhagroups")).await;
    let link = page.addresses().into_iter().find(|address| address.contains("export")).expect("an export");
    let cookie = browser.cookie.clone().expect("a cookie");
    let request = hub.client.get(format!("{}/console/orgs/o/{link}", hub.url)).header(header::COOKIE, cookie);
    let response = must(request.send().await, "a file");
    assert_eq!(response.headers()[header::CONTENT_DISPOSITION], "attachment; filename=\"audit-o.jsonl\"");
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/x-ndjson");
    assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    let text = must(response.text().await, "its text");
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert_eq!(records.len(), 61, "60 groups and a refusal");
    let numbers: Vec<i64> =
        records.iter().map(|record| record["number"].as_i64().expect("a number")).collect();
    assert!(numbers.is_sorted(), "the oldest first");
    let whole = browser.get(&format!("{AUDIT}/export?after=3")).await;
    let first: Value = serde_json::from_str(whole.text.lines().next().expect("a line")).expect("a record");
    assert_eq!(first["number"], 4);

    let page = browser.get(&format!("{AUDIT}/export?since=soon")).await;
    assert!(page.status == 400 && page.text.contains("RFC 3339"), "{}", page.text);
    let mut viewer = Browser::of(&hub, "o", "vera", "secret").await;
    assert_eq!(viewer.get(&format!("{AUDIT}/export")).await.status, 200);
    let mut user = Browser::of(&hub, "o", "bob", "secret").await;
    for path in [AUDIT.to_owned(), format!("{AUDIT}/verify")] {
        let page = user.get(&path).await;
        assert!(
            page.status == 200 && page.text.contains("only administrators, viewers and deployers"),
            "{}",
            page.text
        );
        assert!(!page.text.contains("hagroups"), "{}", page.text);
    }
    assert_eq!(user.get(&format!("{AUDIT}/export")).await.status, 403);
    assert_eq!(user.get("/console/orgs/p/audit").await.status, 403);
}
