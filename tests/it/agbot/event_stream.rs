//! The event stream of an organization: what happens arrives, a client continues where it was, and streams are bounded.

use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};

use crate::support::wait::must;
use crate::support::{Hub, Scratch};

/// Kind of the events of the tests.
const KIND: &str = "settings.changed";

const STREAM: &str = "/v1/orgs/o/orchestration/events/stream";

/// Settings of the organization change, which is an event.
async fn change_settings(hub: &Hub, secs: u32) {
    let body = json!({"readyPeriodSeconds": secs});
    let (status, text) = hub.call("PATCH", "/orgs/o/orchestration", Some(body)).await;
    assert_eq!(status, 201, "{text}");
}

async fn hub_with_tenants(scratch: &Scratch) -> Hub {
    let hub = Hub::start(scratch, &[]).await;
    for org in ["o", "p"] {
        let body = json!({"label": "", "description": ""});
        assert_eq!(hub.call("POST", &format!("/orgs/{org}"), Some(body)).await.0, 201);
        let admin = json!({"password": "secret", "email": "e", "admin": true});
        assert_eq!(hub.call("POST", &format!("/orgs/{org}/users/admin"), Some(admin)).await.0, 201);
    }
    hub
}

async fn open(hub: &Hub, login: &str, query: &str, last: Option<&str>) -> Response {
    let (name, secret) = login.split_once(':').expect("a login");
    let mut request = hub.client.get(format!("{}{STREAM}{query}", hub.url)).basic_auth(name, Some(secret));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    must(request.send().await, "a response")
}

/// Reads a stream up to an event of a kind; returns its number and its data.
async fn event(stream: &mut Response, kind: &str) -> (i64, Value) {
    let read = async {
        let mut text = String::new();
        loop {
            let part = must(stream.chunk().await, "a part").expect("the stream goes on");
            text.push_str(&String::from_utf8_lossy(&part));
            let whole = text.split("\n\n").filter(|block| block.contains(&format!("event: {kind}\n")));
            for block in whole {
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                if let Some(data) = field("data: ").and_then(|data| serde_json::from_str(data).ok()) {
                    return (field("id: ").and_then(|id| id.parse().ok()).unwrap_or_default(), data);
                }
            }
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), read).await;
    must(found, "an event within a minute")
}

#[tokio::test]
async fn events_arrive_as_they_happen_and_again_from_a_number() {
    let scratch = Scratch::new();
    let hub = hub_with_tenants(&scratch).await;
    let mut stream = open(&hub, "o/admin:secret", "?kind=settings.*", None).await;
    assert_eq!(
        (stream.status().as_u16(), &stream.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    change_settings(&hub, 7).await;
    let (changed, data) = event(&mut stream, KIND).await;
    assert_eq!(data["seq"].as_i64(), Some(changed), "{data}");

    let before = (changed - 1).to_string();
    let mut again = open(&hub, "o/admin:secret", "?since=999999999", Some(&before)).await;
    assert_eq!(event(&mut again, KIND).await.0, changed, "the header precedes the query");
    let mut other = open(&hub, "p/admin:secret", "", None).await;
    assert_eq!(other.status(), 403, "{:?}", other.chunk().await);
}

#[tokio::test]
async fn client_learns_that_events_before_its_own_are_gone() {
    let scratch = Scratch::new();
    let hub = hub_with_tenants(&scratch).await;
    change_settings(&hub, 7).await;
    let mut first = open(&hub, "o/admin:secret", "?since=0", None).await;
    let (oldest, _) = event(&mut first, KIND).await;
    let mut stream = open(&hub, "o/admin:secret", "", Some("0")).await;
    if oldest > 1 {
        let (_, gap) = event(&mut stream, "gap").await;
        assert!(gap["oldest"].as_i64().is_some_and(|number| number > 1 && number <= oldest), "{gap}");
    }
    assert_eq!(event(&mut stream, KIND).await.0, oldest, "the events that are left follow");
}

#[tokio::test]
async fn streams_of_one_caller_are_bounded_and_bad_positions_are_refused() {
    let scratch = Scratch::new();
    let hub = hub_with_tenants(&scratch).await;
    let mut streams = Vec::new();
    for _ in 0..50 {
        let stream = open(&hub, "o/admin:secret", "", None).await;
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    let refused = open(&hub, "o/admin:secret", "", None).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"30".parse().unwrap()));
    assert_eq!(open(&hub, "root/root:", "", None).await.status(), 401);
    for (query, last, text) in [
        ("?since=-1", None, "since must be an integer"),
        ("?since=x", None, "since must be an integer"),
        ("?limit=5", None, "limit"),
        ("", Some("x"), "Last-Event-ID must be the id of an event"),
    ] {
        let response = open(&hub, "o/admin:secret", query, last).await;
        let (status, body) = (response.status().as_u16(), must(response.text().await, "a body"));
        assert!(status == 400 && body.contains(text), "{query}: {status} {body}");
    }
}
