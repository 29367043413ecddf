//! Claims that compete, and their ends.

use evenkeel_test_database::{TestDatabase, backend};
use serde_json::json;
use sqlx::Connection;

use super::*;
use crate::event::{EventFilter, list_newest};
use crate::history::{StateFilter, list_states};
use crate::tests::{OTHER, OWN, ROLES, at, lease, shared};

/// The id of a group of an organization; each test has its own.
fn group(org: &str, name: &str) -> GroupId {
    GroupId::new(org, name)
}

/// A claim of the node `n` of the group's organization, decided when the group had a revision.
fn claim(group: &GroupId, scope: &str, revision: i64) -> NewClaim {
    let row = ClaimRow {
        ha_group: group.clone(),
        scope: scope.to_owned(),
        node: NodeId::new(group.org(), "n"),
        purpose: json!({}),
        version: "1".to_owned(),
        fencing: 0,
        phase: "stopping".to_owned(),
        since: at(0),
        phase_at: at(0),
        deadline: at(100),
    };
    NewClaim { row, revision, seen_running: json!([]), waits_end_before: None }
}

/// Inserts a claim that nothing competes with; returns its fencing number.
async fn grant(connection: &mut PgConnection, group: &GroupId, scope: &str) -> i64 {
    insert_groups(connection, &[group]).await.unwrap();
    let revision = read_groups(connection, &[group]).await.unwrap()[0].revision;
    insert_claims(connection, &[claim(group, scope, revision)]).await.unwrap()[0].expect("it is granted")
}

fn ended(group: &GroupId, scope: &str, fencing: i64, lease: Option<LeaseRow>) -> EndedClaim {
    EndedClaim { ha_group: group.clone(), scope: scope.to_owned(), fencing, why: "done".to_owned(), lease }
}

async fn kinds(connection: &mut PgConnection, org: &str) -> Vec<String> {
    let events = list_newest(connection, org, None, &EventFilter::default(), 10).await.unwrap();
    events.into_iter().rev().map(|event| event.kind).collect()
}

#[tokio::test]
async fn claim_decided_before_another_one_was_taken_is_refused() {
    let (mut first, mut second) = (shared().await.connection().await, shared().await.connection().await);
    let groups = [group("claim-race", "g"), group("claim-race", "h")];
    insert_groups(&mut first, &[&groups[0], &groups[1]]).await.unwrap();
    let mut tx = first.begin().await.unwrap();
    let won = insert_claims(&mut tx, &[claim(&groups[0], "agent", 0)]).await.unwrap();
    let process = backend(&mut second).await;
    let late = [claim(&groups[0], "o/p", 0), claim(&groups[1], "o/p", 0)];
    let waiter = insert_claims(&mut second, &late);
    let numbers = shared().await.release_when_awaited(process, waiter, tx.commit()).await.unwrap();
    assert_eq!(numbers[0], None, "its group has changed");
    assert!(numbers[1] > won[0], "{numbers:?} {won:?}");
    let found = read_groups(&mut first, &[&groups[0]]).await.unwrap();
    assert_eq!(found[0].claims.iter().map(|claim| claim.scope.as_str()).collect::<Vec<_>>(), ["agent"]);
    let events = kinds(&mut first, "claim-race").await;
    assert_eq!(events, ["hagroup.lock-granted", "node.upgrade", "hagroup.lock-granted"]);
}

#[tokio::test]
async fn claims_of_one_batch_are_granted_together() {
    let mut connection = shared().await.connection().await;
    let group = group("claim-batch", "g");
    insert_groups(&mut connection, &[&group]).await.unwrap();
    let claims = [claim(&group, "o/b", 0), claim(&group, "o/a", 0)];
    let numbers = insert_claims(&mut connection, &claims).await.unwrap();
    let found = read_groups(&mut connection, &[&group]).await.unwrap();
    let stored: Vec<_> =
        found[0].claims.iter().map(|claim| (claim.scope.as_str(), Some(claim.fencing))).collect();
    assert_eq!(stored, [("o/a", numbers[1]), ("o/b", numbers[0])]);
    assert_eq!(found[0].revision, 1);
}

#[tokio::test]
async fn claim_ends_under_its_number_and_a_lease_that_is_held() {
    let database = TestDatabase::new(ROLES).await;
    let mut connection = database.connection().await;
    let leases = lease(&mut connection, &[OWN, OTHER]).await;
    let (g, h) = (group("o", "g"), group("o", "h"));
    let (agent, policy) =
        (grant(&mut connection, &g, "agent").await, grant(&mut connection, &h, "o/p").await);
    let stale = LeaseRow { fencing: leases[0].fencing + 1, ..leases[0] };
    let ends = [
        ended(&g, "agent", agent + 100, Some(leases[0])),
        ended(&g, "agent", agent, Some(leases[1])),
        ended(&h, "o/p", policy, Some(stale)),
        ended(&h, "o/p", policy, Some(leases[0])),
    ];
    let found = delete_claims(&mut connection, OWN, &ends, at(9)).await.unwrap();
    let expected =
        [ClaimEnding::Absent, ClaimEnding::LeaseLost, ClaimEnding::LeaseLost, ClaimEnding::Removed];
    assert_eq!(found, expected);
    let groups = read_groups(&mut connection, &[&g, &h]).await.unwrap();
    let state: Vec<_> = groups.iter().map(|row| (row.claims.len(), row.revision, row.released_at)).collect();
    assert_eq!(state, [(1, 1, None), (0, 2, None)], "the time is kept of agents' claims only");
    let end = [ended(&g, "agent", agent, None)];
    for expected in [ClaimEnding::Removed, ClaimEnding::Absent] {
        assert_eq!(delete_claims(&mut connection, OWN, &end, at(9)).await.unwrap(), [expected]);
    }
    let groups = read_groups(&mut connection, &[&g]).await.unwrap();
    assert_eq!((groups[0].revision, groups[0].released_at), (2, Some(at(9))));
}

#[tokio::test]
async fn only_the_holder_of_the_number_moves_a_claim_on() {
    let mut connection = shared().await.connection().await;
    let group = group("claim-advance", "g");
    let number = grant(&mut connection, &group, "o/p").await;
    let mut advance = async |number: i64| {
        advance_claim(&mut connection, &group, "o/p", number, "starting", at(5), at(200)).await.unwrap()
    };
    assert!(!advance(number + 1).await);
    assert!(advance(number).await);
    assert!(lock_claim(&mut connection, &group, "o/p", number).await.unwrap());
    assert!(!lock_claim(&mut connection, &group, "o/p", number + 1).await.unwrap());
}

#[tokio::test]
async fn second_claim_under_the_limit_of_a_policy_counts_the_first() {
    let (mut first, mut second) = (shared().await.connection().await, shared().await.connection().await);
    let (group, policy) = (group("claim-policy", "g"), PolicyId::new("claim-policy", "p"));
    let mut tx = first.begin().await.unwrap();
    assert!(lock_policy(&mut tx, &policy).await.unwrap().is_empty());
    grant(&mut tx, &group, policy.as_str()).await;
    let process = backend(&mut second).await;
    let waiter = lock_policy(&mut second, &policy);
    let held = shared().await.release_when_awaited(process, waiter, tx.commit()).await.unwrap();
    assert_eq!(held, [group]);
}

#[tokio::test]
async fn lock_rows_stay_for_policies_that_hold_claims_or_are_locked() {
    let database = TestDatabase::new(ROLES).await;
    let (mut first, mut second) = (database.connection().await, database.connection().await);
    let [held, locked, unused] = ["held", "locked", "unused"].map(|name| PolicyId::new("o", name));
    grant(&mut first, &group("o", "g"), held.as_str()).await;
    for policy in [&held, &locked, &unused] {
        lock_policy(&mut first, policy).await.unwrap();
    }
    let mut tx = first.begin().await.unwrap();
    lock_policy(&mut tx, &locked).await.unwrap();
    delete_unused_policies(&mut second).await.unwrap();
    tx.commit().await.unwrap();
    let left = sqlx::query_scalar::<_, String>("SELECT policy FROM claim_policy ORDER BY policy");
    assert_eq!(left.fetch_all(&mut second).await.unwrap(), ["o/held", "o/locked"]);
}

#[tokio::test]
async fn wait_keeps_its_beginning_and_ends_with_the_claim_or_when_it_is_not_renewed() {
    let mut connection = shared().await.connection().await;
    let group = group("claim-wait", "g");
    insert_groups(&mut connection, &[&group]).await.unwrap();
    let nodes = ["n", "stale", "renewed"].map(|node| NodeId::new("claim-wait", node));
    for (second, members) in [(1, &nodes[..]), (30, &nodes[2..])] {
        let refused = members.iter().map(|node| (&group, node)).collect();
        upsert_waits(&mut connection, &refused, at(second)).await.unwrap();
    }
    assert_eq!(kinds(&mut connection, "claim-wait").await, ["hagroup.lock-denied"; 3]);
    let granted = NewClaim { waits_end_before: Some(at(20)), ..claim(&group, "agent", 0) };
    insert_claims(&mut connection, &[granted]).await.unwrap();
    let left = read_groups(&mut connection, &[&group]).await.unwrap().remove(0).waits;
    let renewed = WaitRow { node: nodes[2].clone(), since: at(1), refreshed_at: at(30) };
    assert_eq!(left, [renewed]);
}

#[tokio::test]
async fn phases_of_a_claim_are_states_with_the_time_that_they_held() {
    let mut connection = shared().await.connection().await;
    let connection = &mut connection;
    let group = group("claim-history", "g");
    let fencing = grant(connection, &group, "claim-history/p").await;
    sqlx::query("UPDATE claim SET phase = 'starting', phase_at = $1 WHERE fencing = $2")
        .bind(to_sql(at(5)))
        .bind(fencing)
        .execute(&mut *connection)
        .await
        .unwrap();
    let filter = StateFilter { org: "claim-history", kind: "claim", ..StateFilter::default() };
    let mut phase_at = async |second| {
        let rows = list_states(connection, &filter, (at(second), at(second)), 9).await.unwrap();
        rows.into_iter().map(|row| (row.state, row.ended_at)).collect::<Vec<_>>()
    };
    assert_eq!(phase_at(4).await, [("stopping".to_owned(), Some(at(5)))]);
    assert_eq!(phase_at(5).await, [("starting".to_owned(), None)]);
}
