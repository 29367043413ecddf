//! Update parallelism: a policy is updated in as many groups at once as it says, whichever agbots ask.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_agbot_store::claim::{self, ClaimRow, NewClaim};
use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_store::Database;
use jiff::Timestamp;
use serde_json::json;

use crate::support::fleet::Fleet;
use crate::support::wait::must;
use crate::support::{Hub, Scratch, TestDatabase, eventually};

const POLICY: &str = "o/everywhere";

/// Takes the claim of a group in a transaction of its own if no other group holds one, and says whether it did.
async fn take_alone(database: &Database, group: &str) -> bool {
    let mut tx = must(database.begin().await, "a transaction");
    if !must(claim::lock_policy(&mut tx, &PolicyId::from_text(POLICY)).await, "the groups in work").is_empty()
    {
        return false;
    }
    insert(&mut tx, group).await;
    must(tx.commit().await, "a commit");
    true
}

async fn insert(connection: &mut sqlx::PgConnection, group: &str) {
    let group = GroupId::from_text(group);
    must(claim::insert_groups(connection, &[&group]).await, "a group");
    let now = Timestamp::UNIX_EPOCH;
    let row = ClaimRow {
        ha_group: group,
        scope: POLICY.to_owned(),
        node: NodeId::new("o", "n"),
        purpose: json!({"purpose": "service-upgrade"}),
        version: "2.0.0".to_owned(),
        fencing: 0,
        phase: "stopping".to_owned(),
        since: now,
        phase_at: now,
        deadline: now,
    };
    let wanted = NewClaim { row, revision: 0, seen_running: json!([]), waits_end_before: None };
    let numbers = must(claim::insert_claims(connection, &[wanted]).await, "a claim");
    assert!(numbers[0].is_some());
}

/// Two agbots that ask at the same moment: the second one waits for the first one's transaction and sees its claim.
#[tokio::test]
async fn second_agbot_waits_for_the_transaction_of_the_first_and_sees_its_claim() {
    let test = TestDatabase::new().await;
    let (first, second) = (test.connect().await, test.connect().await);
    let mut tx = must(first.begin().await, "a transaction");
    assert!(
        must(claim::lock_policy(&mut tx, &PolicyId::from_text(POLICY)).await, "the groups in work")
            .is_empty()
    );
    let other = tokio::spawn(async move { take_alone(&second, "o/h").await });
    let mut watcher = test.connection().await;
    eventually("the second agbot waits", || async {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: (i64,) = sqlx::query_as(waiting).fetch_one(&mut test.connection().await).await.ok()?;
        (waiting.0 == 1).then_some(())
    })
    .await;
    insert(&mut tx, "o/g").await;
    must(tx.commit().await, "a commit");
    assert!(!must(other.await, "the second agbot"), "one group at a time");
    let rows = must(claim::list_all(&mut watcher).await, "the claims");
    assert_eq!(rows.iter().map(|row| row.ha_group.as_str()).collect::<Vec<_>>(), ["o/g"]);

    must(claim::delete_unused_policies(&mut watcher).await, "the lock rows");
    let policies = "SELECT policy FROM claim_policy";
    let kept: Vec<(String,)> = must(sqlx::query_as(policies).fetch_all(&mut watcher).await, "the lock rows");
    assert_eq!(kept, [(POLICY.to_owned(),)], "it holds a claim");
    must(sqlx::query("DELETE FROM claim").execute(&mut watcher).await, "the release of all claims");
    // The transaction that gave up may still hold the row for a moment.
    eventually("the lock row is gone", || async {
        let mut connection = test.connection().await;
        must(claim::delete_unused_policies(&mut connection).await, "the lock rows");
        let kept: Vec<(String,)> =
            must(sqlx::query_as(policies).fetch_all(&mut connection).await, "the lock rows");
        kept.is_empty().then_some(())
    })
    .await;
}

/// B11: two hubs on one database roll three groups of two, one group at a time.
#[tokio::test]
async fn two_agbots_update_one_group_at_a_time() {
    let (scratch, second_scratch) = (Scratch::new(), Scratch::new());
    let database = TestDatabase::new().await;
    let mut options = vec![
        "--database-url",
        database.url(),
        "--upgrade-monitor-secs",
        "1",
        "--upgrade-grace-secs",
        "1",
        "--upgrade-parallelism",
        "1",
    ];
    let hub = Hub::start(&scratch, &options).await;
    let password = scratch.join("hub/root-password");
    let password = password.to_string_lossy().into_owned();
    options.extend(["--root-password-file", &password]);
    let second = Hub::start(&second_scratch, &options).await;
    let fleet = Fleet::start(&scratch, &hub, 6).await;
    for (method, group, members) in [
        ("PUT", "g", ["edge-1", "edge-2"]),
        ("POST", "h", ["edge-3", "edge-4"]),
        ("POST", "i", ["edge-5", "edge-6"]),
    ] {
        let body = json!({"members": members});
        let (status, body) = hub.call(method, &format!("/orgs/o/hagroups/{group}"), Some(body)).await;
        assert!((200..300).contains(&status), "{method} {group}: {status} {body}");
    }
    let own = json!({"constraints": ["openhorizon.hagroup in \"g,h,i\""]});
    for version in ["1.0.0", "2.0.0"] {
        fleet.publish(&hub, version).await;
    }
    fleet.want_with(&hub, "1.0.0", own.clone()).await;
    eventually("every member runs the version", || async { fleet.all_run("1.0.0").then_some(()) }).await;
    let (is_done, most_claims, fewest) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let mut connection = database.connection().await;
    let watching = async {
        while !is_done.load(Ordering::Relaxed) {
            let claims = must(claim::list_all(&mut connection).await, "the claims");
            most_claims.fetch_max(claims.len(), Ordering::Relaxed);
            fewest.fetch_min(fleet.versions().len(), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let rolling = async {
        fleet.want_with(&hub, "2.0.0", own).await;
        eventually("every member runs the version", || async { fleet.all_run("2.0.0").then_some(()) }).await;
        is_done.store(true, Ordering::Relaxed);
    };
    tokio::join!(watching, rolling);
    assert_eq!(most_claims.into_inner(), 1, "one group in work at a time");
    assert_eq!(fewest.into_inner(), 5, "one of six instances was down at a time");
    drop(fleet);
    assert_eq!(second.stop().await, 0);
    assert_eq!(hub.stop().await, 0);
}
