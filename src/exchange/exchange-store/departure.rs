//! Nodes that were deleted while their agents were alive.
//!
//! Their agents may still run what they ran. They log in with their tokens once more to confirm that they
//! have stopped it. Source: orchestration A2 (deletion of a live node).

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// A departure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Id of the node.
    pub node: String,
    /// When it was deleted.
    pub deleted_at: Timestamp,
    /// Its last heartbeat.
    pub seen_at: Timestamp,
}

/// Knowledge of what may run on a node that is about to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remainder {
    /// Its agent says that something could not be stopped.
    Unstopped,
    /// Its agreements and tasks decide, if its agent was seen since this instant.
    AsRecorded(Timestamp),
}

/// Departures of one account that are kept: the newest.
const MOST_OF_ACCOUNT: i64 = 10_000;
/// Departures of an organization in a list.
const MOST_LISTED: i64 = 50_000;

/// Records the departure of a node that is about to be deleted, if something may run there.
pub async fn insert(
    tx: &mut Permitted<right::NodeWrite>,
    (org, node): (&str, &str),
    remainder: Remainder,
    now: Timestamp,
) -> Result<(), StoreError> {
    let seen_since = match remainder {
        Remainder::Unstopped => None,
        Remainder::AsRecorded(seen_since) => Some(to_sql(seen_since)),
    };
    let done = sqlx::query!(
        "-- departure.insert
        INSERT INTO node_departure (org, node, token_hash, deleted_at, seen_at, owner)
        SELECT node.org, node.node, node.token_hash, $4, LEAST(heartbeat.seen_at, $4), node.owner_org || '/' || node.owner
        FROM node
        LEFT JOIN node_heartbeat AS heartbeat ON heartbeat.org = node.org AND heartbeat.node = node.node
        WHERE node.org = $1 AND node.node = $2
          AND ($3::timestamptz IS NULL OR heartbeat.seen_at > $3 AND (
              EXISTS (SELECT 1 FROM node_agreement AS held WHERE held.org = node.org AND held.node = node.node)
              OR EXISTS (
                  SELECT 1
                  FROM node_task AS task
                  WHERE task.org = node.org AND task.node = node.node AND task.reported_at IS NOT NULL
                    AND task.state NOT IN ('complete', 'shutdown', 'failed', 'rejected')
              )
          ))
        ON CONFLICT (org, node) DO UPDATE
        SET token_hash = excluded.token_hash, deleted_at = excluded.deleted_at, seen_at = excluded.seen_at,
            owner = excluded.owner",
        org,
        node,
        seen_since as _,
        to_sql(now) as _,
    )
    .execute(&mut **tx)
    .await?;
    if done.rows_affected() > 0 { delete_oldest(tx, org, node).await } else { Ok(()) }
}

/// Forgets the oldest departures of the account that owned a node.
async fn delete_oldest(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- departure.delete_oldest
        DELETE FROM node_departure
        WHERE (org, node) IN (
            SELECT old.org, old.node
            FROM node_departure AS old
            WHERE old.owner = (SELECT added.owner FROM node_departure AS added WHERE added.org = $1 AND added.node = $2)
            ORDER BY old.deleted_at DESC
            OFFSET $3
        )",
        org,
        node,
        MOST_OF_ACCOUNT,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Ends the departure of a node; `false` when there is none.
pub async fn delete(tx: &mut Permitted<right::NodeWrite>, org: &str, node: &str) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- departure.delete
        DELETE FROM node_departure WHERE org = $1 AND node = $2",
        org,
        node,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Finds the hash of the token of a node that departs.
pub async fn find_token_hash(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
) -> Result<Option<String>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- departure.find_token_hash
        SELECT token_hash FROM node_departure WHERE org = $1 AND node = $2",
        org,
        node,
    )
    .fetch_optional(conn)
    .await?)
}

/// Lists the departures of an organization by node, bounded.
pub async fn list(conn: &mut PgConnection, org: &str) -> Result<Vec<Departure>, StoreError> {
    let rows = sqlx::query!(
        r#"-- departure.list
        SELECT node, deleted_at AS "deleted_at: jiff_sqlx::Timestamp", seen_at AS "seen_at: jiff_sqlx::Timestamp"
        FROM node_departure
        WHERE org = $1
        ORDER BY node
        LIMIT $2"#,
        org,
        MOST_LISTED,
    )
    .fetch_all(conn)
    .await?;
    let departure = |node, deleted_at, seen_at| Departure {
        node,
        deleted_at: from_sql(deleted_at),
        seen_at: from_sql(seen_at),
    };
    Ok(rows.into_iter().map(|row| departure(row.node, row.deleted_at, row.seen_at)).collect())
}

/// Forgets departures from before an instant.
pub async fn delete_before(conn: &mut PgConnection, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- departure.delete_before
        DELETE FROM node_departure WHERE deleted_at < $1",
        to_sql(before) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
