//! States as the triggers record them, and as they were at an instant.

use std::time::Duration;

use evenkeel_ids::{AgreementId, NodeId, PolicyId, TaskId};
use evenkeel_test_database::TestDatabase;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::agreement;
use crate::history::{StateFilter, StateRow, delete_old, get_complete_since, list_states};
use crate::node_condition::{ConditionChange, upsert_changes};
use crate::task::{TaskRow, delete_tasks, upsert_tasks};
use crate::tests::{ROLES, at, shared};

/// An instant before the tests: what ends, ends now.
fn past(second: i64) -> Timestamp {
    at(second - 100_000_000)
}

/// Writes a task with a state since an instant.
async fn write_task(
    connection: &mut PgConnection,
    policy: &PolicyId,
    slot: &str,
    state: Value,
    since: Timestamp,
) {
    let mut record = json!({
        "created_at": past(0), "state_at": since, "desired_at": null, "desired": "running", "node": "n/1",
        "spec": {"number": 3, "digest": 1}, "cause": {"cause": "scale"},
    });
    if let (Some(record), Value::Object(state)) = (record.as_object_mut(), state) {
        record.extend(state);
    }
    let task = TaskRow {
        task: TaskId::from_text(&format!("{policy}-{slot}")),
        policy: policy.clone(),
        part: "all".to_owned(),
        slot: slot.to_owned(),
        spec_number: 3,
        changed_at: since,
        record,
    };
    upsert_tasks(connection, &[task]).await.expect("the task is written");
}

async fn states(
    connection: &mut PgConnection,
    filter: &StateFilter<'_>,
    instants: (i64, i64),
) -> Vec<StateRow> {
    list_states(connection, filter, (at(instants.0), at(instants.1)), 100).await.expect("states are listed")
}

fn of<'a>(org: &'a str, kind: &'a str) -> StateFilter<'a> {
    StateFilter { org, kind, ..StateFilter::default() }
}

fn words(rows: &[StateRow]) -> Vec<String> {
    rows.iter().map(|row| format!("{} {}", row.key.third, row.state)).collect()
}

#[tokio::test]
async fn task_is_at_each_instant_in_the_state_that_it_had_then() {
    let mut connection = shared().await.connection().await;
    let policy = PolicyId::new("history-task", "p");
    for (slot, steps) in [
        ("1", [("pending", 0), ("starting", 10), ("running", 20)]),
        ("2", [("pending", 5), ("starting", 15), ("running", 25)]),
    ] {
        for (state, since) in steps {
            write_task(&mut connection, &policy, slot, json!({"state": state}), at(since)).await;
        }
    }
    write_task(&mut connection, &policy, "1", json!({"state": "running", "impaired": "unhealthy"}), at(30))
        .await;
    let failed = json!({"state": "ended", "end": "failed", "error": "exit 3", "exit_code": 3});
    write_task(&mut connection, &policy, "1", failed, at(40)).await;
    // A write that changes nothing else records no state.
    write_task(&mut connection, &policy, "2", json!({"state": "running", "seq": 9}), at(25)).await;
    let filter = of("history-task", "task");
    for (instant, expected) in [
        (0, vec!["1 pending"]),
        (9, vec!["1 pending", "2 pending"]),
        (10, vec!["1 starting", "2 pending"]),
        (29, vec!["1 running", "2 running"]),
        (35, vec!["1 unhealthy", "2 running"]),
        (40, vec!["2 running"]),
    ] {
        assert_eq!(words(&states(&mut connection, &filter, (instant, instant)).await), expected, "{instant}");
    }
    let unhealthy = states(&mut connection, &filter, (35, 35)).await.remove(0);
    assert_eq!((unhealthy.began_at, unhealthy.ended_at), (at(30), Some(at(40))));
    assert_eq!((&unhealthy.detail["next"], &unhealthy.detail["error"]), (&json!("failed"), &json!("exit 3")));
    assert_eq!((&unhealthy.detail["cause"], &unhealthy.detail["specVersion"]), (&json!("scale"), &json!(3)));
    let running = states(&mut connection, &filter, (35, 35)).await.remove(1);
    assert_eq!((running.ended_at, running.node), (None, Some(NodeId::from_text("n/1"))));
}

#[tokio::test]
async fn difference_of_two_instants_leaves_out_what_held_through_both() {
    let mut connection = shared().await.connection().await;
    let policy = PolicyId::new("history-diff", "p");
    for (slot, since) in [("1", 0), ("2", 0), ("3", 50)] {
        write_task(&mut connection, &policy, slot, json!({"state": "starting"}), at(since)).await;
    }
    write_task(&mut connection, &policy, "2", json!({"state": "running"}), at(20)).await;
    let (first, second, third) = ("1 starting", "2 starting", "3 starting");
    let filter = of("history-diff", "task");
    assert_eq!(words(&states(&mut connection, &filter, (10, 10)).await), [first, second, third][..2]);
    let changed = states(&mut connection, &filter, (10, 60)).await;
    let mut found: Vec<_> =
        changed.iter().map(|row| (row.key.third.as_str(), row.state.as_str(), row.was, row.is)).collect();
    found.sort_unstable();
    let expected =
        [("2", "running", false, true), ("2", "starting", true, false), ("3", "starting", false, true)];
    assert_eq!(found, expected);
    // Both states of a subject are on one page.
    let page = list_states(&mut connection, &filter, (at(10), at(60)), 1).await.expect("a page");
    assert_eq!(page.len(), 2);
    let after = StateFilter { after: page[1].key.clone(), ..filter.clone() };
    assert_eq!(words(&states(&mut connection, &after, (10, 60)).await), [third]);
}

#[tokio::test]
async fn removed_task_has_ended_and_an_ended_one_leaves_nothing() {
    let mut connection = shared().await.connection().await;
    let policy = PolicyId::new("history-removed", "p");
    write_task(&mut connection, &policy, "1", json!({"state": "running"}), past(1)).await;
    let ended = json!({"state": "ended", "end": "complete"});
    write_task(&mut connection, &policy, "2", ended, past(1)).await;
    let before = Timestamp::now();
    delete_tasks(&mut connection, &["history-removed/p-1", "history-removed/p-2"])
        .await
        .expect("they are removed");
    let rows = list_states(&mut connection, &of("history-removed", "task"), (before, before), 9).await;
    let rows = rows.expect("states are listed");
    assert_eq!(words(&rows), ["1 running"]);
    assert!(rows[0].ended_at.is_some_and(|ended| ended >= before - SignedDuration::from_secs(1)));
}

#[tokio::test]
async fn agreements_and_conditions_of_nodes_are_recorded_until_they_end() {
    let mut connection = shared().await.connection().await;
    let connection = &mut connection;
    let org = "history-kinds";
    let (node, policy) = (NodeId::new(org, "n"), PolicyId::new(org, "p"));
    let id = AgreementId::from_text("history-agreement");
    let record =
        json!({"state": "proposed", "created_at": at(0), "version": "1.0.0", "node": node, "policy": policy});
    agreement::insert_agreement(connection, &id, &node, &policy, &record, at(0))
        .await
        .expect("it is inserted");
    let record = json!({"state": "finalized", "created_at": at(0), "at": at(5), "version": "1.0.0"});
    agreement::update_agreement(connection, &id, &record, None).await.expect("it is final");
    let record =
        json!({"state": "ended", "created_at": at(0), "at": at(9), "reason": 204, "version": "1.0.0"});
    agreement::update_agreement(connection, &id, &record, Some(at(9))).await.expect("it is ended");
    let filter = of(org, "agreement");
    let found = states(connection, &filter, (6, 6)).await;
    assert_eq!(found.iter().map(|row| row.state.as_str()).collect::<Vec<_>>(), ["finalized"]);
    assert_eq!((&found[0].detail["reason"], &found[0].detail["next"]), (&json!(204), &json!("ended")));
    assert!(states(connection, &filter, (9, 9)).await.is_empty());

    let change = |is_end| ConditionChange {
        node: node.clone(),
        condition: "down",
        is_end,
        kind: None,
        detail: json!({}),
    };
    upsert_changes(connection, &[change(false)], past(3)).await.expect("it is down");
    let filter = of(org, "node");
    assert_eq!(states(connection, &filter, (-99_999_997, -99_999_997)).await.len(), 1);
    assert!(states(connection, &filter, (-99_999_998, -99_999_998)).await.is_empty());
    let other = [NodeId::new(org, "other")];
    let of_other = StateFilter { nodes: Some(&other), ..filter.clone() };
    assert!(states(connection, &of_other, (-99_999_997, -99_999_997)).await.is_empty());
    upsert_changes(connection, &[change(true)], past(4)).await.expect("it is up");
    let ended = states(connection, &filter, (-99_999_997, -99_999_997)).await;
    assert!(ended[0].ended_at.is_some() && ended[0].key.subject == "down");
}

#[tokio::test]
async fn history_is_removed_by_segments_and_says_since_when_it_is_complete() {
    let database = TestDatabase::new(ROLES).await;
    let mut connection = database.connection().await;
    let connection = &mut connection;
    let policy = PolicyId::new("o", "p");
    let (month, large) = (Duration::from_secs(30 * 86_400), 1 << 40);
    let began = get_complete_since(connection).await.expect("an instant");
    assert!(began <= Timestamp::now());
    let mut fill = async |from: i64| {
        for second in from..from + 20 {
            let state = if second % 2 == 0 { "running" } else { "starting" };
            write_task(connection, &policy, "1", json!({"state": state}), at(second)).await;
        }
        (delete_old(connection, month, large).await.expect("nothing is old"), segments(connection).await)
    };
    assert_eq!(fill(0).await, (0, 1));
    // Any content is more than a thirtieth of this: a segment is begun, and the completed ones are over the limit.
    let removed = delete_old(connection, month, 1).await.expect("segments are removed");
    assert_eq!((removed, segments(connection).await), (1, 1));
    let since = get_complete_since(connection).await.expect("an instant");
    assert!(since > began);
    assert!(list_states(connection, &of("o", "task"), (at(5), at(5)), 9).await.expect("states").is_empty());
}

async fn segments(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM history_segment").fetch_one(connection).await.expect("a number")
}
