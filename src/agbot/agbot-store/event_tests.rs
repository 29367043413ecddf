//! Retention of events, and the events of an organization.

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_test_database::TestDatabase;
use jiff::Timestamp;
use serde_json::json;
use sqlx::migrate::Migrator;

use crate::event::{
    EventRow, NodeEvent, PolicyEventFilter, delete_surplus, insert_events, insert_node_events, list_of_org,
    list_of_policy,
};

const ROLES: &[&Migrator] = &[&crate::MIGRATIONS];

#[tokio::test]
async fn newest_events_of_each_organization_are_kept() {
    let database = TestDatabase::new(ROLES).await;
    let mut connection = database.connection().await;
    let policies = [PolicyId::new("o", "a"), PolicyId::new("o", "b"), PolicyId::new("p", "a")];
    let about = |policy: &PolicyId, number: usize| EventRow {
        happened_at: Timestamp::UNIX_EPOCH,
        kind: format!("task.{number}"),
        ha_group: None,
        node: None,
        policy: Some(policy.clone()),
        detail: json!({}),
    };
    for number in 0..3 {
        let events: Vec<EventRow> = policies.iter().map(|policy| about(policy, number)).collect();
        insert_events(&mut connection, Timestamp::UNIX_EPOCH, &events).await.expect("events are inserted");
    }
    let org = "o".parse().expect("an organization");
    for expected in [3, 0] {
        let removed = delete_surplus(&mut connection, &org, 3).await.expect("events are removed");
        assert_eq!(removed, expected, "six are about the organization");
    }
    let mut left = Vec::new();
    for policy in &policies {
        let filter = PolicyEventFilter { limit: 10, ..PolicyEventFilter::default() };
        let events = list_of_policy(&mut connection, policy, &filter).await.expect("events are listed");
        left.push(events.into_iter().map(|one| one.event.kind).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(left, ["task.2", "task.1 task.2", "task.0 task.1 task.2"]);
}

#[tokio::test]
async fn events_of_an_organization_are_those_of_its_policies_and_nodes() {
    let database = TestDatabase::new(ROLES).await;
    let mut connection = database.connection().await;
    let at = Timestamp::UNIX_EPOCH;
    let nodes = ["o/n1", "o/n2", "p/n1"].map(NodeId::from_text);
    let frozen = nodes.clone().map(|node| NodeEvent {
        node,
        kind: "node.frozen",
        opposite: "node.thawed",
        is_end: false,
        detail: json!({}),
    });
    insert_node_events(&mut connection, &frozen, at).await.expect("events are inserted");
    // A policy of the organization on a node of another one, and a claim of a group, which names no policy.
    let about = |kind: &str, policy: Option<&str>| EventRow {
        happened_at: at,
        kind: kind.to_owned(),
        ha_group: None,
        node: Some(nodes[2].clone()),
        policy: policy.map(PolicyId::from_text),
        detail: json!({}),
    };
    let others = [about("task.running", Some("o/a")), about("hagroup.lock-granted", None)];
    insert_events(&mut connection, at, &others).await.expect("events are inserted");
    let mut listed = async |org: &str, nodes: Option<&[NodeId]>, kind: Option<&str>| {
        let filter = PolicyEventFilter { kind: kind.map(str::to_owned), limit: 10, since: None };
        let found =
            list_of_org(&mut connection, org, (nodes, None), &filter).await.expect("events are listed");
        let text = |event: EventRow| format!("{} {}", event.kind, event.node.expect("each names a node"));
        found.into_iter().map(|one| text(one.event)).collect::<Vec<_>>()
    };
    let all = listed("o", None, None).await;
    assert_eq!(all, ["node.frozen o/n1", "node.frozen o/n2", "task.running p/n1"]);
    assert_eq!(listed("o", None, Some("node.%")).await, ["node.frozen o/n1", "node.frozen o/n2"]);
    assert_eq!(listed("o", Some(&nodes[..1]), None).await, ["node.frozen o/n1"]);
    assert_eq!(listed("p", None, None).await, ["node.frozen p/n1", "hagroup.lock-granted p/n1"]);
}
