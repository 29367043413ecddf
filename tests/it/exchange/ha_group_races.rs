//! Writers that fight over the same nodes on two exchanges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::api::{Api, ROOT};
use crate::support::TestDatabase;
use crate::support::wait::must;

const ADMIN: &str = "o/admin:pa";
const NODES: [&str; 8] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];
const GROUPS: u32 = 5;
const WRITERS: u32 = 200;
const WRITES_EACH: u32 = 4;

async fn two_exchanges() -> (TestDatabase, [Api; 2]) {
    let database = TestDatabase::new().await;
    let first = Api::start(&database).await;
    first.make_org("o").await;
    for node in NODES {
        first.make_node(ADMIN, "o", node).await;
    }
    let second = Api::start(&database).await;
    // Known from here on: what is fought for is not the checking of one password a hundred times at once.
    second.expect(200, ADMIN, "GET", "/orgs/o/nodes", Value::Null).await;
    (database, [first, second])
}

/// Group of each node by the response to a list of groups; panics when a node is in two.
fn groups_by_node(groups: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for group in groups["nodeGroups"].as_array().expect("a list") {
        let name = group["name"].as_str().expect("a name");
        for node in group["members"].as_array().expect("a list") {
            let node = node.as_str().expect("an id").to_owned();
            let other = found.insert(node.clone(), name.to_owned());
            assert_eq!(other, None, "{node} is in two groups: {groups}");
        }
    }
    found
}

/// Group of each node by the nodes themselves.
fn groups_of_nodes(nodes: &Value) -> BTreeMap<String, String> {
    let nodes = nodes["nodes"].as_object().expect("a map");
    nodes
        .iter()
        .filter_map(|(id, node)| {
            Some((id.strip_prefix("o/")?.to_owned(), node["ha_group"].as_str()?.to_owned()))
        })
        .collect()
}

/// One write of a writer, chosen by its number: every kind of write, on few groups and few nodes.
async fn write(api: &Api, number: u32) -> u16 {
    let group = format!("g{}", number / 7 % GROUPS);
    let members: Vec<&str> = (0..3).map(|index| NODES[((number * 5 + index * 3) % 8) as usize]).collect();
    let node = members[0];
    let (method, path, body) = match number % 7 {
        0 | 1 => ("POST", format!("/orgs/o/hagroups/{group}"), json!({"members": members})),
        2 => ("PUT", format!("/orgs/o/hagroups/{group}"), json!({"members": members})),
        3 => ("PUT", "/org/o/hagroups".to_owned(), json!({"name": group, "members": members})),
        4 => ("POST", format!("/orgs/o/hagroups/{group}/nodes/{node}"), Value::Null),
        5 => ("DELETE", format!("/orgs/o/hagroups/{group}/nodes/{node}"), Value::Null),
        _ => ("DELETE", format!("/orgs/o/hagroups/{group}"), Value::Null),
    };
    api.call(ADMIN, method, &path, body).await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_writers_leave_no_node_in_two_groups_and_get_no_server_error() {
    let (_database, apis) = two_exchanges().await;
    let start = Arc::new(Barrier::new(WRITERS as usize));
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (api, is_over) = (apis[1].clone(), is_over.clone());
        async move {
            while !is_over.load(Ordering::Relaxed) {
                groups_by_node(&api.call(ROOT, "GET", "/orgs/o/hagroups", Value::Null).await.1);
            }
        }
    });
    let counts: Arc<[AtomicU32; 2]> = Arc::default();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (api, start, counts) = (apis[(writer % 2) as usize].clone(), start.clone(), counts.clone());
            tokio::spawn(async move {
                start.wait().await;
                for round in 0..WRITES_EACH {
                    let status = write(&api, writer + round * WRITERS).await;
                    match status {
                        201 | 204 => counts[0].fetch_add(1, Ordering::Relaxed),
                        404 | 409 => counts[1].fetch_add(1, Ordering::Relaxed),
                        other => panic!("writer {writer} in round {round} got {other}"),
                    };
                }
            })
        })
        .collect();
    for writer in writers {
        must(writer.await, "a writer");
    }
    is_over.store(true, Ordering::Relaxed);
    must(reader.await, "the reader");

    let [won, lost] = [&counts[0], &counts[1]].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(won + lost, WRITERS * WRITES_EACH);
    assert!(won > 0 && lost > 0, "{won} won, {lost} lost: nobody fought");
    for api in &apis {
        let by_group = groups_by_node(&api.call(ROOT, "GET", "/orgs/o/hagroups", Value::Null).await.1);
        let by_node = groups_of_nodes(&api.expect(200, ROOT, "GET", "/orgs/o/nodes", Value::Null).await);
        assert_eq!(by_group, by_node, "groups and nodes disagree");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feed_contains_exactly_the_acknowledged_changes() {
    let (_database, apis) = two_exchanges().await;
    let last = apis[0].expect(200, ROOT, "GET", "/changes/maxchangeid", Value::Null).await;
    let from = last["maxChangeId"].as_i64().expect("a number") + 1;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let api = apis[(writer % 2) as usize].clone();
            tokio::spawn(async move { write(&api, writer).await })
        })
        .collect();
    let mut acknowledged = 0;
    for writer in writers {
        acknowledged += usize::from(must(writer.await, "a writer") < 300);
    }
    let body = json!({"changeId": from, "maxRecords": 10_000});
    for api in &apis {
        // Acknowledged on either exchange; the other one may be 50 ms behind, a waiting poll is not.
        let reported = crate::support::eventually("both exchanges show all changes", || async {
            let response = api.expect(201, ROOT, "POST", "/orgs/o/changes", body.clone()).await;
            let changes = response["changes"].as_array().expect("a list").clone();
            let reported: usize = changes
                .iter()
                .filter(|change| change["resource"] == "ha_group")
                .map(|change| change["resourceChanges"].as_array().map_or(0, Vec::len))
                .sum();
            (reported >= acknowledged).then_some(reported)
        })
        .await;
        assert_eq!(reported, acknowledged, "one row of the group for each acknowledged write");
    }
}

/// HA-6, E2-S1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_sees_both_members_in_the_group_or_neither() {
    let (_database, apis) = two_exchanges().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (api, is_over) = (apis[0].clone(), is_over.clone());
        async move {
            for _ in 0..60 {
                api.expect(201, ADMIN, "POST", "/orgs/o/hagroups/g", json!({"members": ["n0", "n1"]})).await;
                api.expect(204, ADMIN, "DELETE", "/orgs/o/hagroups/g", Value::Null).await;
            }
            is_over.store(true, Ordering::Relaxed);
        }
    });
    let (mut with, mut without) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let nodes = groups_of_nodes(&apis[1].expect(200, ROOT, "GET", "/orgs/o/nodes", Value::Null).await);
        match (nodes.get("n0"), nodes.get("n1")) {
            (Some(_), Some(_)) => with += 1,
            (None, None) => without += 1,
            half => panic!("half a group: {half:?}"),
        }
    }
    must(writer.await, "the writer");
    assert!(with > 0 && without > 0, "the reader saw {with} times the group and {without} times none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_nodes_users_and_groups_at_once_ends_well() {
    let (_database, apis) = two_exchanges().await;
    let writers: Vec<_> = (0..120_u32)
        .map(|writer| {
            let api = apis[(writer % 2) as usize].clone();
            tokio::spawn(async move {
                let node = NODES[(writer % 8) as usize];
                let path = format!("/orgs/o/nodes/{node}");
                let node_body = json!({"token": "t", "name": node, "pattern": "", "publicKey": ""});
                match writer % 3 {
                    0 => api.call(ADMIN, "DELETE", &path, Value::Null).await.0,
                    1 => loop {
                        // Tokens are hashed slowly: on a loaded machine some come too many at once.
                        match api.call(ADMIN, "PUT", &path, node_body.clone()).await.0 {
                            429 => tokio::time::sleep(Duration::from_secs(1)).await,
                            status => break status,
                        }
                    },
                    _ => write(&api, writer / 3).await,
                }
            })
        })
        .collect();
    for writer in writers {
        let status = must(writer.await, "a writer");
        // 403: a member was deleted in between, as the contract responds for nodes that do not exist.
        assert!(matches!(status, 201 | 204 | 403 | 404 | 409), "{status}");
    }
    let by_group = groups_by_node(&apis[0].call(ROOT, "GET", "/orgs/o/hagroups", Value::Null).await.1);
    let nodes = apis[0].call(ROOT, "GET", "/orgs/o/nodes", Value::Null).await.1;
    assert_eq!(by_group, groups_of_nodes(&nodes));
}
