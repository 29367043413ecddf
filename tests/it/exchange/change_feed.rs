//! The change feed of two exchanges over one database: every reader sees every change once, in commit order; polls wait, streams flow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use evenkeel_exchange_store::change::{Change, insert_outbox};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::api::{Api, ROOT, read_response, two_exchanges};
use crate::support::wait::must;

async fn last_number(api: &Api) -> i64 {
    let last = api.expect(200, ROOT, "GET", "/changes/maxchangeid", Value::Null).await;
    last["maxChangeId"].as_i64().expect("a number")
}

fn about(id: &str) -> Change {
    Change {
        org: "o".to_owned(),
        id: id.to_owned(),
        category: "org",
        resource: "org",
        operation: "modified",
        is_public: false,
    }
}

/// A write that is in the outbox before others and commits after them.
async fn write_slowly(api: &Api, id: &str, meanwhile: impl Future<Output = ()>) {
    let mut tx = must(api.database.begin().await, "a transaction");
    must(insert_outbox(&mut tx, &[about(id)], jiff::Timestamp::now()).await, "a row");
    meanwhile.await;
    must(tx.commit().await, "a commit");
}

/// A write that is acknowledged when it has its number.
async fn write_quickly(api: &Api, id: &str) {
    let path = format!("/orgs/{id}");
    api.expect(201, ROOT, "POST", &path, json!({"label": "", "description": ""})).await;
}

/// Number and id of each change of a response, ascending.
fn rows(response: &Value) -> Vec<(i64, String)> {
    let mut rows = Vec::new();
    for change in response["changes"].as_array().expect("a list") {
        let id = change["id"].as_str().expect("an id");
        for row in change["resourceChanges"].as_array().expect("a list") {
            rows.push((row["changeId"].as_i64().expect("a number"), id.to_owned()));
        }
    }
    rows.sort();
    rows
}

/// Polls like a client, small pages, until it is stopped and has nothing left to read.
async fn read_all(api: Api, from: i64, is_over: Arc<AtomicBool>) -> Vec<(i64, String)> {
    let mut next = from;
    let mut seen = Vec::new();
    loop {
        let was_over = is_over.load(Ordering::SeqCst);
        let body = json!({"changeId": next, "maxRecords": 7});
        let (status, page) = read_response(api.send(ROOT, "POST", "/orgs/o/changes", &[], &body).await).await;
        assert_eq!(status, 201, "{page}");
        let found = rows(&page);
        next = page["mostRecentChangeId"].as_i64().expect("a number") + 1;
        if found.is_empty() && was_over {
            return seen;
        }
        seen.extend(found);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

const SLOW: usize = 20;
const FAST: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_miss_nothing_while_slow_and_fast_writers_overlap() {
    let (_database, apis) = two_exchanges().await;
    let from = last_number(&apis[0]).await + 1;
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = apis.clone().map(|api| tokio::spawn(read_all(api, from, is_over.clone())));
    let mut writers = Vec::new();
    for writer in 0..4 {
        let api = apis[writer % 2].clone();
        writers.push(tokio::spawn(async move {
            for round in 0..SLOW / 4 {
                let meanwhile = tokio::time::sleep(Duration::from_millis(20));
                write_slowly(&api, &format!("slow-{writer}-{round}"), meanwhile).await;
            }
        }));
    }
    for writer in 0..4 {
        let api = apis[writer % 2].clone();
        writers.push(tokio::spawn(async move {
            for round in 0..FAST / 4 {
                write_quickly(&api, &format!("fast-{writer}-{round}")).await;
            }
        }));
    }
    for writer in writers {
        must(writer.await, "a writer");
    }
    // The slow writes end without an exchange: one more change makes sure that all of them have their numbers.
    write_quickly(&apis[0], "end").await;
    let end = last_number(&apis[0]).await;
    crate::support::eventually("the other exchange follows", || async {
        (last_number(&apis[1]).await >= end).then_some(())
    })
    .await;
    is_over.store(true, Ordering::SeqCst);
    let [first, second] = readers;
    let (first, second) = (must(first.await, "a reader"), must(second.await, "a reader"));
    assert_eq!(first, second, "both exchanges show the same");
    let mut ids: Vec<&str> = first.iter().map(|(_, id)| id.as_str()).collect();
    assert!(
        first.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "numbers ascend and none comes twice: {first:?}"
    );
    for prefix in ["slow", "fast"] {
        for writer in 0..4 {
            let own: Vec<&&str> =
                ids.iter().filter(|id| id.starts_with(&format!("{prefix}-{writer}-"))).collect();
            let each = if prefix == "slow" { SLOW / 4 } else { FAST / 4 };
            let expected: Vec<String> = (0..each).map(|round| format!("{prefix}-{writer}-{round}")).collect();
            assert_eq!(
                own,
                expected.iter().collect::<Vec<_>>(),
                "every write once, in the order of its writer"
            );
        }
    }
    ids.retain(|id| !id.starts_with("slow-") && !id.starts_with("fast-"));
    assert_eq!(ids, ["end"]);
}

#[tokio::test]
async fn write_that_commits_last_is_listed_last_although_it_began_first() {
    let (_database, apis) = two_exchanges().await;
    let from = last_number(&apis[0]).await + 1;
    let [first, second] = &apis;
    write_slowly(first, "began-first", async {
        write_quickly(second, "committed-first").await;
        write_quickly(first, "committed-second").await;
        // A reader is past these numbers before the slow write commits.
        let page = first
            .expect(201, ROOT, "POST", "/orgs/o/changes", json!({"changeId": from, "maxRecords": 100}))
            .await;
        assert_eq!(rows(&page).len(), 2, "{page}");
    })
    .await;
    write_quickly(second, "committed-last").await;
    let page = second
        .expect(201, ROOT, "POST", "/orgs/o/changes", json!({"changeId": from, "maxRecords": 100}))
        .await;
    let ids: Vec<String> = rows(&page).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, ["committed-first", "committed-second", "began-first", "committed-last"]);
}

#[tokio::test]
async fn own_write_is_in_the_feed_when_it_is_acknowledged() {
    let (_database, [api, _]) = two_exchanges().await;
    for round in 0..20 {
        let from = last_number(&api).await + 1;
        let id = format!("made-{round}");
        write_quickly(&api, &id).await;
        let page = api
            .expect(201, ROOT, "POST", "/orgs/o/changes", json!({"changeId": from, "maxRecords": 9}))
            .await;
        assert_eq!(rows(&page), [(from, id)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_poll_returns_on_a_write_on_the_other_exchange() {
    let (_database, [first, second]) = two_exchanges().await;
    let body = json!({"changeId": last_number(&first).await + 1, "maxRecords": 9});
    let poll = tokio::spawn({
        let body = body.clone();
        async move {
            let started = Instant::now();
            let wait = [("prefer", "wait=50")];
            let response =
                read_response(first.send("o/admin:pa", "POST", "/orgs/o/changes", &wait, &body).await).await;
            (response, started.elapsed())
        }
    });
    // There is no signal that a poll is parked; a late one returns at once, and the test covers less.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!poll.is_finished(), "nothing has happened yet");
    second.expect(201, ROOT, "PATCH", "/orgs/o", json!({"label": "x"})).await;
    let ((status, page), waited) = must(poll.await, "the poll");
    assert_eq!((status, rows(&page).len()), (201, 1), "{page}");
    assert!(waited < Duration::from_secs(10), "woken by the write, not by its timeout: {waited:?}");
}

#[tokio::test]
async fn parked_poll_ends_empty_when_its_time_is_over() {
    let (_database, [api, _]) = two_exchanges().await;
    let body = json!({"changeId": last_number(&api).await + 1, "maxRecords": 9});
    let started = Instant::now();
    let (status, page) =
        read_response(api.send(ROOT, "POST", "/orgs/o/changes", &[("prefer", "wait=1")], &body).await).await;
    assert_eq!((status, rows(&page).len()), (201, 0));
    assert!(started.elapsed() >= Duration::from_millis(900), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poll_of_a_node_waits_for_its_own_changes() {
    let (_database, [first, second]) = two_exchanges().await;
    first.make_node("o/u:pu", "o", "n1").await;
    first.make_node("o/u:pu", "o", "n2").await;
    let body = json!({"changeId": last_number(&first).await + 1, "maxRecords": 9});
    let poll = tokio::spawn({
        let wait = [("prefer", "wait=50")];
        let api = first.clone();
        async move {
            read_response(api.send("o/n1:token-n1", "POST", "/orgs/o/changes", &wait, &body).await).await.1
        }
    });
    second.expect(201, "o/u:pu", "PATCH", "/orgs/o/nodes/n2", json!({"arch": "x"})).await;
    second.expect(201, "o/u:pu", "POST", "/orgs/o/hagroups/other", json!({"members": ["n2"]})).await;
    let reported = last_number(&second).await;
    crate::support::eventually("the poll's exchange knows of them", || async {
        (last_number(&first).await >= reported).then_some(())
    })
    .await;
    assert!(!poll.is_finished(), "changes of another node do not concern it");
    second.expect(201, "o/u:pu", "POST", "/orgs/o/hagroups/g", json!({"members": ["n1"]})).await;
    let page = must(poll.await, "the poll");
    let reported: Vec<String> = rows(&page).into_iter().map(|(_, id)| id).collect();
    assert_eq!(reported, ["n1"], "a member learns of its group by its own row: {page}");
}

/// Reads server-sent events from a body: number and data of each.
struct Events {
    body: Body,
    buffer: String,
}

impl Events {
    async fn next(&mut self) -> (i64, Value) {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let event: String = self.buffer.drain(..end + 2).collect();
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
                if let (Some(id), Some(data)) = (field("id:"), field("data:")) {
                    return (must(id.parse(), "a number"), must(serde_json::from_str(data), "JSON"));
                }
                continue;
            }
            let frame = tokio::time::timeout(Duration::from_secs(20), self.body.frame()).await;
            let frame = must(must(frame, "an event in time").expect("the stream goes on"), "a frame");
            self.buffer.push_str(&String::from_utf8_lossy(frame.data_ref().map_or(&[][..], |data| data)));
        }
    }
}

async fn stream(api: &Api, headers: &[(&str, &str)]) -> Events {
    let response = api.send("o/admin:pa", "GET", "/orgs/o/changes/stream", headers, &Value::Null).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    Events { body: response.into_body(), buffer: String::new() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_sends_changes_as_they_happen_and_goes_on_where_it_stopped() {
    let (_database, [first, second]) = two_exchanges().await;
    let before = last_number(&first).await;
    let mut events = stream(&first, &[]).await;
    let mut numbers = Vec::new();
    for label in ["a", "b", "c"] {
        second.expect(201, ROOT, "PATCH", "/orgs/o", json!({"label": label})).await;
        let (number, change) = events.next().await;
        assert_eq!((&change["resource"], &change["operation"]), (&json!("org"), &json!("modified")));
        numbers.push(number);
    }
    assert_eq!(numbers, [before + 1, before + 2, before + 3]);
    drop(events);
    let seen = numbers[0].to_string();
    let mut resumed = stream(&second, &[("last-event-id", &seen)]).await;
    assert_eq!(resumed.next().await.0, numbers[1]);
    assert_eq!(resumed.next().await.0, numbers[2]);
}
