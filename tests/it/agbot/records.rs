//! The records of all agbots on one database reach the model of each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evenkeel_agbot::Agbot;
use evenkeel_agbot_store::change::{self, RecordKey};
use evenkeel_agbot_store::rollout;
use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId};
use evenkeel_planner_record::report::Placement;
use serde_json::json;
use sqlx::Connection;

use super::in_process::Agbots;
use crate::support::wait::{LIMIT, must};
use crate::support::{TestDatabase, eventually};

const CORRUPT: &str = "INSERT INTO rollout (ha_group, policy, record) VALUES ('o/x', 'o/x', '{}')";
const WITHOUT_CORRUPT: &str = "DELETE FROM rollout WHERE ha_group = 'o/x'";
/// The longest time until other agbots know a record. `docs/explanation/architecture.md` promises it: this test measures the clock on
/// purpose.
const LAG_LIMIT: Duration = Duration::from_secs(1);
/// Less than the time after which the outbox is read although nothing has changed.
const OUTBOX_PERIOD: Duration = Duration::from_secs(8);
/// The first one is of a partition without a lease.
const EFFECTS: &str = r#"
    INSERT INTO agbot_outbox (partition_number, node, subject, effect, created_at)
    SELECT number, 'o/x', subject, '{"kind": "publish-task", "task": "t", "partition": 0}', now()
    FROM (VALUES (999, 'first'), (0, 'second')) AS wanted (number, subject)"#;
/// As if another agbot had held all partitions and ended.
const HANDED_OVER: &str = "UPDATE work_partition SET owner = NULL, expires_at = NULL";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agreement_of_one_agbot_is_in_the_model_of_the_other_within_a_second() {
    let agbots = Agbots::start(2).await;
    let nodes = agbots.make_nodes(12).await;
    let policy = agbots.want().await;
    let mut committed: BTreeMap<String, Instant> = BTreeMap::new();
    let mut lags: BTreeMap<String, Duration> = BTreeMap::new();
    let deadline = Instant::now() + LIMIT;
    while lags.len() < nodes.len() {
        assert!(Instant::now() < deadline, "not both models hold all agreements: {lags:?} of {committed:?}");
        for id in agbots.agreements().await {
            let since = *committed.entry(id.clone()).or_insert_with(Instant::now);
            let key = AgreementId::from_text(&id);
            if agbots.all.iter().all(|agbot| agbot.context().model().agreement(&key).is_some()) {
                lags.entry(id).or_insert_with(|| since.elapsed());
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // On busy processors the last ones wait for their turn, and not for a period.
    let mut lags: Vec<Duration> = lags.into_values().collect();
    lags.sort_unstable();
    assert!(lags[lags.len() / 2] < LAG_LIMIT && lags[lags.len() - 1] < OUTBOX_PERIOD, "{lags:?}");

    // Each explains what the other decides about.
    eventually("both agbots explain every pair", || async {
        let explains = |agbot: &Agbot| {
            let placements = agbot.context().placements("o", (None, 100), |_| true);
            placements.len() == nodes.len()
                && placements.iter().all(|(_, placement)| !matches!(placement, Placement::NotPlaced { .. }))
        };
        agbots.all.iter().all(explains).then_some(())
    })
    .await;

    // The node joins a group; whichever agbot decides about it from now on knows its agreement.
    let node = NodeId::new("o", "n3");
    agbots.group("g", std::slice::from_ref(&node)).await;
    eventually("both agbots know the group", || async {
        let knows = |agbot: &Agbot| {
            let model = agbot.context().model();
            let is_member = model.group(&GroupId::new("o", "g")).is_some();
            assert!(
                model.live_agreement(&node, &policy).is_some(),
                "the agreement is known before the group"
            );
            is_member
        };
        agbots.all.iter().all(knows).then_some(())
    })
    .await;
    assert_eq!(agbots.agreements().await.len(), 12, "no agreement was made twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_decided_about_partitions_whose_records_cannot_be_read() {
    let agbots = Agbots::start(1).await;
    let context = agbots.all[0].context();
    let nodes = agbots.make_nodes(2).await;
    agbots.execute(CORRUPT).await;
    agbots.execute(HANDED_OVER).await;
    eventually("the agbot has leased the partitions again, and holds none", || async {
        let free: (i64,) = must(
            sqlx::query_as("SELECT count(*) FROM work_partition WHERE owner IS NULL")
                .fetch_one(&mut agbots.database.connection().await)
                .await,
            "the leases",
        );
        (free.0 == 0 && context.model().lease_count() == 0).then_some(())
    })
    .await;
    let policy = agbots.want().await;
    eventually("the agbot has read the policy", || async { context.model().policy(&policy).map(|_| ()) })
        .await;
    assert_eq!(context.model().lease_count(), 0);
    assert_eq!(agbots.agreements().await, Vec::<String>::new(), "nothing is decided meanwhile");

    agbots.execute(WITHOUT_CORRUPT).await;
    eventually("every node gets its agreement", || async {
        (agbots.agreements().await.len() == nodes.len()).then_some(())
    })
    .await;
}

/// A node may have tasks of workload units of another agbot, whose effects come first. There is no
/// notification when that one has delivered them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effect_behind_one_of_another_agbot_is_delivered_soon_after_it() {
    let agbots = Agbots::start(1).await;
    let nodes = agbots.make_nodes(1).await;
    agbots.execute(EFFECTS).await;
    let is_queued = async || {
        let left: (i64,) = must(
            sqlx::query_as("SELECT count(*) FROM agbot_outbox WHERE subject = 'second'")
                .fetch_one(&mut agbots.database.connection().await)
                .await,
            "the outbox",
        );
        left.0 > 0
    };
    // The effects of an agreement wake the deliverer.
    agbots.want().await;
    eventually("the node has its agreement", || async {
        (agbots.agreements().await.len() == nodes.len()).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(is_queued().await, "it waits for the one before it");
    agbots.execute("DELETE FROM agbot_outbox WHERE subject = 'first'").await;
    let since = Instant::now();
    eventually("the second one is delivered", || async { (!is_queued().await).then_some(()) }).await;
    assert!(since.elapsed() < OUTBOX_PERIOD, "{:?}", since.elapsed());
}

fn group() -> GroupId {
    GroupId::new("o", "g")
}

fn policy(name: &str) -> PolicyId {
    PolicyId::new("o", name)
}

#[tokio::test]
async fn change_that_commits_late_is_read_although_later_changes_were_read_before() {
    let database = TestDatabase::new().await;
    let (mut early, mut late, mut reader) =
        (database.connection().await, database.connection().await, database.connection().await);
    let start = must(change::find_end(&mut reader).await, "the end");
    let mut first = must(early.begin().await, "a transaction");
    must(rollout::upsert_rollout(&mut first, &group(), &policy("first"), &json!({})).await, "a rollout");
    must(rollout::upsert_rollout(&mut late, &group(), &policy("second"), &json!({})).await, "a rollout");
    let (keys, after) = must(change::list_after(&mut reader, &start).await, "changes").expect("a position");
    assert_eq!(keys, [RecordKey::Rollout(group(), policy("second"))].into());
    must(first.commit().await, "a commit");
    let (keys, after) = must(change::list_after(&mut reader, &after).await, "changes").expect("a position");
    assert_eq!(keys, [RecordKey::Rollout(group(), policy("first"))].into());
    let (keys, _) = must(change::list_after(&mut reader, &after).await, "changes").expect("a position");
    assert!(keys.is_empty(), "nothing is read twice: {keys:?}");
}

#[tokio::test]
async fn position_that_old_rows_were_removed_after_is_refused() {
    let database = TestDatabase::new().await;
    let mut connection = database.connection().await;
    let old = must(change::find_end(&mut connection).await, "the end");
    must(rollout::upsert_rollout(&mut connection, &group(), &policy("p"), &json!({})).await, "a rollout");
    assert_eq!(
        must(change::delete_old(&mut connection, 0.0).await, "a round"),
        0,
        "not shown to the round before"
    );
    let (keys, newer) =
        must(change::list_after(&mut connection, &old).await, "changes").expect("still there");
    assert_eq!(keys.len(), 1);
    assert_eq!(must(change::delete_old(&mut connection, 3_600.0).await, "no round"), 0, "too early");
    assert_eq!(must(change::delete_old(&mut connection, 0.0).await, "a round"), 1);
    assert!(must(change::list_after(&mut connection, &old).await, "changes").is_none());
    let (keys, _) = must(change::list_after(&mut connection, &newer).await, "changes").expect("still there");
    assert!(keys.is_empty());
}

#[tokio::test]
async fn finished_rollouts_are_removed_after_their_time_except_those_that_led_back() {
    let database = TestDatabase::new().await;
    let mut connection = database.connection().await;
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z");
    let rows = [
        ("old", json!({"state": "completed", "at": old})),
        ("old-abandoned", json!({"state": "abandoned", "at": old})),
        ("new", json!({"state": "completed", "at": new})),
        ("led-back", json!({"state": "completed", "at": old, "rollback": {"version": "1.0.0"}})),
        ("held", json!({"state": "held", "since": old})),
    ];
    for (name, record) in &rows {
        must(rollout::upsert_rollout(&mut connection, &group(), &policy(name), record).await, "a rollout");
    }
    let before = must("2026-02-01T00:00:00Z".parse(), "an instant");
    assert_eq!(must(rollout::delete_finished_before(&mut connection, before).await, "the removal"), 2);
    let kept = must(rollout::list_rollouts(&mut connection).await, "the rollouts");
    assert_eq!(kept.len(), 3, "{kept:?}");
}
