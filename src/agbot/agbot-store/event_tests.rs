//! Retention of events, and the events of an organization.

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_test_database::TestDatabase;
use jiff::Timestamp;
use serde_json::json;
use sqlx::PgConnection;

use crate::event::{
    AVAILABILITY, EventFilter, EventRow, PolicyEventFilter, StateEvent, delete_before, delete_surplus,
    insert_event, insert_events, insert_states, list_newest, list_of_org, list_of_policy, list_orgs,
};
use crate::node_condition::{ConditionChange, list_conditions, upsert_changes};
use crate::tests::{ROLES, at, shared};

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
    let orgs = list_orgs(&mut connection).await.expect("organizations are listed");
    assert_eq!(orgs.iter().map(evenkeel_ids::OrgId::as_str).collect::<Vec<_>>(), ["o", "p"]);
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
    let frozen = nodes.clone().map(|node| ConditionChange {
        node,
        condition: "frozen",
        is_end: false,
        kind: Some("node.frozen"),
        detail: json!({}),
    });
    upsert_changes(&mut connection, &frozen, at).await.expect("changes are recorded");
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

/// Lists the events of an organization, the newest last.
async fn all_of_org(connection: &mut PgConnection, org: &str) -> Vec<EventRow> {
    let newest =
        list_newest(connection, org, None, &EventFilter::default(), 20).await.expect("events are listed");
    newest.into_iter().rev().collect()
}

#[tokio::test]
async fn condition_of_a_node_is_recorded_when_it_changes_and_its_end_only_after_its_beginning() {
    let mut connection = shared().await.connection().await;
    let node = NodeId::new("event-condition", "n");
    let change = |condition, kind, is_end| ConditionChange {
        node: node.clone(),
        condition,
        is_end,
        kind: Some(kind),
        detail: json!({}),
    };
    let (frozen, thawed) = (change("frozen", "node.frozen", false), change("frozen", "node.thawed", true));
    let down = change("down", "node.down", false);
    let silent = ConditionChange { kind: None, ..change("down", "", true) };
    for change in [&thawed, &frozen, &down, &frozen, &thawed, &thawed, &frozen, &silent] {
        upsert_changes(&mut connection, std::slice::from_ref(change), at(0)).await.expect("it is recorded");
    }
    let conditions = list_conditions(&mut connection).await.expect("conditions are listed");
    let own: Vec<_> = conditions.into_iter().filter(|(one, _)| *one == node).map(|(_, name)| name).collect();
    assert_eq!(own, ["frozen"]);
    let events = all_of_org(&mut connection, "event-condition").await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["node.frozen", "node.down", "node.thawed", "node.frozen"]);
}

#[tokio::test]
async fn state_is_recorded_when_it_differs_in_more_than_its_author_and_the_usual_one_not_first() {
    let mut connection = shared().await.connection().await;
    let node = NodeId::new("event-state", "n");
    for (state, actor, is_usual) in
        [("active", "a", true), ("pause", "a", false), ("pause", "b", false), ("active", "b", true)]
    {
        let detail = json!({"state": state, "actor": actor, "text": actor});
        let event = StateEvent { kind: AVAILABILITY, node: Some(node.clone()), org: None, is_usual, detail };
        insert_states(&mut connection, &[event], at(0)).await.expect("it is inserted");
    }
    let events = all_of_org(&mut connection, "event-state").await;
    let states: Vec<_> =
        events.iter().map(|event| (&event.detail["state"], &event.detail["actor"])).collect();
    assert_eq!(states, [(&json!("pause"), &json!("a")), (&json!("active"), &json!("b"))]);
}

#[tokio::test]
async fn events_of_a_policy_are_the_newest_or_the_next_after_a_number() {
    let mut connection = shared().await.connection().await;
    let policy = PolicyId::new("event-policy", "p");
    for kind in ["task.a", "other", "task.b", "task.c"] {
        let event = EventRow {
            happened_at: at(0),
            kind: kind.to_owned(),
            ha_group: None,
            node: None,
            policy: Some(policy.clone()),
            detail: json!({}),
        };
        insert_event(&mut connection, &event).await.expect("it is inserted");
    }
    let mut listed = async |since: Option<i64>| {
        let filter = PolicyEventFilter { since, kind: Some("task.%".to_owned()), limit: 2 };
        let found = list_of_policy(&mut connection, &policy, &filter).await.expect("events are listed");
        found.into_iter().map(|one| (one.event.kind, one.seq)).collect::<Vec<_>>()
    };
    let kinds = |found: &[(String, i64)]| found.iter().map(|(kind, _)| kind.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&listed(None).await), ["task.b", "task.c"]);
    let oldest = listed(Some(0)).await;
    assert_eq!(kinds(&oldest), ["task.a", "task.b"]);
    assert_eq!(kinds(&listed(Some(oldest[1].1)).await), ["task.c"]);
}

#[tokio::test]
async fn events_from_before_an_instant_are_removed() {
    let database = TestDatabase::new(ROLES).await;
    let mut connection = database.connection().await;
    for second in 0..3 {
        let node = Some(NodeId::new("o", "n"));
        let (ha_group, policy) = (None, None);
        let kind = second.to_string();
        let event = EventRow { happened_at: at(second), kind, ha_group, node, policy, detail: json!({}) };
        insert_event(&mut connection, &event).await.expect("it is inserted");
    }
    assert_eq!(delete_before(&mut connection, at(2)).await.expect("events are removed"), 2);
    assert_eq!(all_of_org(&mut connection, "o").await.len(), 1);
}
