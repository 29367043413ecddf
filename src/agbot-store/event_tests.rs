//! Which events are kept.

use evenkeel_ids::PolicyId;
use evenkeel_test_database::TestDatabase;
use jiff::Timestamp;
use serde_json::json;
use sqlx::migrate::Migrator;

use crate::event::{EventRow, PolicyEventFilter, delete_surplus, insert_events, list_of_policy};

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
