//! Mailboxes and other lists that other clients can grow are bounded, and their readers read them page by
//! page.

use evenkeel_exchange::{ExchangeSettings, MailboxLimits, Volume};
use serde_json::{Value, json};

use super::api::{Api, ROOT, read_response};
use crate::support::wait::must;
use crate::support::{TestDatabase, eventually};

const KIB: i64 = 1024;

fn limits() -> MailboxLimits {
    MailboxLimits {
        node: Volume { messages: 6, bytes: 40 * KIB },
        node_sender: Volume { messages: 4, bytes: 20 * KIB },
        agbot: Volume { messages: 12, bytes: 400 * KIB },
        agbot_org: Volume { messages: 8, bytes: 400 * KIB },
        agbot_sender: Volume { messages: 5, bytes: 100 * KIB },
        ..MailboxLimits::default()
    }
}

/// An organization `o` with node `n` and agbots `a` and `b`, and an organization `p` with nodes `n1` and `n2`.
async fn start(database: &TestDatabase, mailboxes: MailboxLimits) -> Api {
    let api = Api::start_with(database, ExchangeSettings { mailboxes, ..Api::settings() }).await;
    for org in ["o", "p"] {
        api.make_org(org).await;
    }
    for (org, node) in [("o", "n"), ("p", "n1"), ("p", "n2"), ("o", "n3")] {
        let body = json!({"token": "t", "name": node, "pattern": "", "publicKey": "key"});
        api.expect(201, ROOT, "PUT", &format!("/orgs/{org}/nodes/{node}"), body).await;
    }
    for (org, agbot) in [("o", "a"), ("o", "b"), ("IBM", "hub")] {
        let body = json!({"token": "t", "name": agbot, "publicKey": "key"});
        api.expect(201, ROOT, "PUT", &format!("/orgs/{org}/agbots/{agbot}"), body).await;
    }
    api
}

fn message(bytes: usize, ttl: i64) -> Value {
    json!({"message": "x".repeat(bytes), "ttl": ttl})
}

async fn send(api: &Api, login: &str, mailbox: &str, bytes: usize) -> u16 {
    api.call(login, "POST", &format!("/orgs/{mailbox}/msgs"), message(bytes, 600)).await.0
}

#[tokio::test]
async fn message_has_a_limit_that_proposals_keep() {
    let database = TestDatabase::new().await;
    let api = start(&database, MailboxLimits::default()).await;
    for (login, mailbox) in [("o/a:t", "o/nodes/n"), ("o/n:t", "o/agbots/a")] {
        assert_eq!(send(&api, login, mailbox, 64 * 1024).await, 201);
        let path = format!("/orgs/{mailbox}/msgs");
        let (status, refused) = api.call(login, "POST", &path, message(64 * 1024 + 1, 600)).await;
        assert_eq!(status, 413);
        let text = refused["msg"].as_str().unwrap_or_default();
        assert!(text.contains("message") && text.contains("65536"), "{refused}");
    }
    let node = json!({"token": "t", "name": "l", "pattern": "", "publicKey": "k".repeat(20 * 1024)});
    // Each message carries the key of its sender.
    api.expect(400, ROOT, "PUT", "/orgs/o/nodes/l", node).await;
}

#[tokio::test]
async fn mailbox_of_a_node_is_bounded_by_number_and_bytes_for_each_agbot_and_for_all() {
    let database = TestDatabase::new().await;
    let api = start(&database, limits()).await;
    for _ in 0..4 {
        assert_eq!(send(&api, "o/a:t", "o/nodes/n", 10).await, 201);
    }
    assert_eq!(send(&api, "o/a:t", "o/nodes/n", 10).await, 429, "one agbot has its share");
    for _ in 0..2 {
        assert_eq!(send(&api, "o/b:t", "o/nodes/n", 10).await, 201);
    }
    assert_eq!(send(&api, "o/b:t", "o/nodes/n", 10).await, 429, "the mailbox is full");
    let path = "/orgs/o/nodes/n3/msgs";
    assert_eq!(send(&api, "o/a:t", "o/nodes/n3", 19 * 1024).await, 201);
    let response = api.send("o/a:t", "POST", path, &[], &message(2 * 1024, 600)).await;
    assert!(response.headers().contains_key("retry-after"));
    let (status, refused) = read_response(response).await;
    assert_eq!(status, 429, "{refused}");
    assert_eq!(
        send(&api, "o/b:t", "o/nodes/n3", 19 * 1024).await,
        201,
        "another agbot has a share of its own"
    );
    assert_eq!(send(&api, "o/b:t", "o/nodes/n3", 512).await, 201);
    assert_eq!(send(&api, "o/b:t", "o/nodes/n3", 2 * 1024).await, 429, "40 KiB together");
    // There is room again when the reader has read.
    let listed = api.expect(200, "o/n3:t", "GET", path, Value::Null).await;
    for message in listed["messages"].as_array().expect("messages") {
        api.expect(204, "o/n3:t", "DELETE", &format!("{path}/{}", message["msgId"]), Value::Null).await;
    }
    assert_eq!(send(&api, "o/a:t", "o/nodes/n3", 19 * 1024).await, 201);
}

#[tokio::test]
async fn mailbox_of_an_agbot_is_bounded_for_each_node_each_organization_and_all() {
    let database = TestDatabase::new().await;
    let api = start(&database, limits()).await;
    let mailbox = "IBM/agbots/hub";
    for _ in 0..5 {
        assert_eq!(send(&api, "p/n1:t", mailbox, 10).await, 201);
    }
    assert_eq!(send(&api, "p/n1:t", mailbox, 10).await, 429, "one node has its share");
    for _ in 0..3 {
        assert_eq!(send(&api, "p/n2:t", mailbox, 10).await, 201);
    }
    assert_eq!(send(&api, "p/n2:t", mailbox, 10).await, 429, "one organization has its share");
    for _ in 0..4 {
        assert_eq!(send(&api, "o/n:t", mailbox, 10).await, 201, "other organizations have theirs");
    }
    assert_eq!(send(&api, "o/n3:t", mailbox, 10).await, 429, "and then the mailbox is full");
    assert_eq!(send(&api, "o/n:t", "o/agbots/a", 60 * 1024).await, 201);
    assert_eq!(send(&api, "o/n:t", "o/agbots/a", 60 * 1024).await, 429, "100 KiB of one node");
}

#[tokio::test]
async fn message_is_kept_no_longer_than_the_limit() {
    let database = TestDatabase::new().await;
    let api = start(&database, MailboxLimits::default()).await;
    for ttl in [i64::from(i32::MAX), 10 * 365 * 86_400] {
        api.expect(201, "o/a:t", "POST", "/orgs/o/nodes/n/msgs", message(1, ttl)).await;
    }
    let listed = api.expect(200, "o/n:t", "GET", "/orgs/o/nodes/n/msgs", Value::Null).await;
    for message in listed["messages"].as_array().expect("messages") {
        let at = |name: &str| {
            let text = message[name].as_str().expect("a time").trim_end_matches("[UTC]");
            must(text.parse::<jiff::Timestamp>(), "an instant")
        };
        assert_eq!(at("timeExpires").duration_since(at("timeSent")).as_secs(), 86_400);
    }
}

#[tokio::test]
async fn readers_page_by_bytes_and_get_every_message() {
    let database = TestDatabase::new().await;
    let api = start(&database, MailboxLimits::default()).await;
    let sizes = [1_000, 30_000, 5, 60_000, 1_000, 1_000];
    for size in sizes {
        assert_eq!(send(&api, "o/a:t", "o/nodes/n", size).await, 201);
    }
    let (mut after, mut seen, mut pages) = (0, Vec::new(), 0);
    loop {
        let path = format!("/orgs/o/nodes/n/msgs?maxbytes=32000&after={after}");
        let (status, page) = api.call("o/n:t", "GET", &path, Value::Null).await;
        if status == 404 {
            break;
        }
        let messages = page["messages"].as_array().expect("messages").clone();
        let lengths: Vec<usize> =
            messages.iter().map(|one| one["message"].as_str().unwrap_or_default().len()).collect();
        assert!(lengths.len() == 1 || lengths.iter().sum::<usize>() <= 32_000, "{lengths:?}");
        after = messages.last().and_then(|one| one["msgId"].as_i64()).expect("a number");
        seen.extend(lengths);
        pages += 1;
    }
    assert_eq!((seen, pages), (sizes.to_vec(), 3));
    let wrong = api.call("o/n:t", "GET", "/orgs/o/nodes/n/msgs?after=x", Value::Null).await;
    assert_eq!(wrong.0, 400);
}

#[tokio::test]
async fn request_of_all_changes_reads_a_bounded_part_of_the_feed_and_the_next_one_goes_on() {
    let database = TestDatabase::new().await;
    let api = start(&database, MailboxLimits::default()).await;
    must(
        sqlx::raw_sql(
            "WITH last AS (SELECT last_id FROM change_sequence)
             INSERT INTO change (change_id, org, id, category, resource, operation, is_public, changed_at)
             SELECT last.last_id + number, 'p', 'x', 'node', 'node', 'modified', false, now()
             FROM last, generate_series(1, 120000) AS number;
             UPDATE change_sequence SET last_id = last_id + 120000",
        )
        .execute(api.database.pool())
        .await,
        "changes",
    );
    // The usage in memory is that of another exchange: this one begins with the stored one.
    let api = Api::start(&database).await;
    let last =
        api.expect(200, ROOT, "GET", "/changes/maxchangeid", Value::Null).await["maxChangeId"].as_i64();
    let last = last.expect("a number");
    let (mut from, mut polls) = (0, Vec::new());
    while from <= last {
        let body = json!({"changeId": from, "maxRecords": 1000});
        let found = api.expect(201, "o/n3:t", "POST", "/orgs/o/changes", body).await;
        let newest = found["mostRecentChangeId"].as_i64().expect("a number");
        polls.push(newest - from);
        assert!(newest >= from, "the reader gets on");
        from = newest + 1;
    }
    assert!(polls.len() >= 3 && polls.iter().all(|step| *step <= 60_000), "{polls:?}");
}

#[tokio::test]
async fn messages_that_have_expired_take_no_room_of_others() {
    let database = TestDatabase::new().await;
    let api = start(&database, limits()).await;
    let path = "/orgs/IBM/agbots/hub/msgs";
    for (login, count) in [("p/n1:t", 5), ("p/n2:t", 3), ("o/n:t", 4)] {
        for _ in 0..count {
            api.expect(201, login, "POST", path, message(10, 5)).await;
        }
    }
    assert_eq!(send(&api, "o/n3:t", "IBM/agbots/hub", 10).await, 429, "the mailbox is full");
    let taken = eventually("the messages have expired", || async {
        (send(&api, "o/n3:t", "IBM/agbots/hub", 10).await == 201).then_some(())
    });
    taken.await;
    assert_eq!(send(&api, "p/n2:t", "IBM/agbots/hub", 10).await, 201, "an organization has its share again");
}

#[tokio::test]
async fn agbot_serves_a_bounded_number_of_entries() {
    let database = TestDatabase::new().await;
    let api = start(&database, MailboxLimits::default()).await;
    let limit = json!({"varPath": "api.limits.maxServedEntries", "value": "2"});
    api.expect(201, ROOT, "PUT", "/admin/config", limit).await;
    let policy = |name: &str| json!({"businessPolOrgid": "o", "businessPol": name, "nodeOrgid": "o"});
    let pattern = json!({"patternOrgid": "o", "pattern": "*", "nodeOrgid": "o"});
    let entries = "/orgs/o/agbots/a/businesspols";
    api.expect(201, "o/a:t", "POST", entries, policy("p")).await;
    api.expect(201, "o/a:t", "POST", "/orgs/o/agbots/a/patterns", pattern).await;
    let refused = api.expect(403, "o/a:t", "POST", entries, policy("q")).await;
    assert!(refused["msg"].as_str().is_some_and(|text| text.contains("2 patterns")), "{refused}");
    // The agbots of the shared organization serve every organization.
    for name in ["p", "q", "r"] {
        api.expect(201, ROOT, "POST", "/orgs/IBM/agbots/hub/businesspols", policy(name)).await;
    }
}
