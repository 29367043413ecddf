//! Nodes that were deleted before anything confirmed that what ran there has stopped.
//!
//! Their agents may still run what they ran, silent ones too. They log in with their tokens once more to confirm that they
//! have stopped it. Source: orchestration A2 (deletion of a live node).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::{PgConnection, types::Json};

use super::permitted::{Permitted, RemovesNodes};
use super::resource_key::ResourceKey;

/// A departure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Id of the node.
    pub node: String,
    /// When it was deleted.
    pub deleted_at: Timestamp,
    /// Its last heartbeat.
    pub seen_at: Timestamp,
    /// Seconds without contact after which its guardian has killed a task, by task.
    /// # Shape
    /// Empty without a running guardian; only tasks whose leases the guardian confirmed.
    pub leases: BTreeMap<String, u32>,
}

/// Knowledge of what may run on a node that is about to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remainder {
    /// Its agent says that something could not be stopped.
    Unstopped,
    /// Its agreements and tasks decide.
    AsRecorded,
}

/// Departures of one account that are kept: the newest.
const MOST_OF_ACCOUNT: i64 = 10_000;
/// Departures of an organization in a list.
const MOST_LISTED: i64 = 50_000;

/// Records the departures of nodes that are about to be deleted, if something may run there. A silent node may still run what it ran.
pub async fn insert<R: RemovesNodes>(
    tx: &mut Permitted<R>,
    nodes: &[ResourceKey],
    remainder: Remainder,
    now: Timestamp,
) -> Result<(), StoreError> {
    let orgs: Vec<&str> = nodes.iter().map(|node| node.org.as_str()).collect();
    let ids: Vec<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
    let added = sqlx::query!(
        "-- departure.insert
        INSERT INTO node_departure (org, node, token_hash, deleted_at, seen_at, leases, owner)
        SELECT
            node.org, node.node, node.token_hash, $4, LEAST(heartbeat.seen_at, $4),
            COALESCE(
                (
                    SELECT jsonb_object_agg(task.task, task.health -> 'leaseSeconds')
                    FROM node_task AS task
                    WHERE task.org = node.org AND task.node = node.node
                      AND jsonb_typeof(task.health -> 'leaseSeconds') = 'number'
                      AND node.agent_runs ->> 'guardian' = 'running'
                ),
                '{}'
            ),
            node.owner_org || '/' || node.owner
        FROM unnest($1::text[], $2::text[]) AS leaving (org, node)
        JOIN node ON node.org = leaving.org AND node.node = leaving.node
        LEFT JOIN node_heartbeat AS heartbeat ON heartbeat.org = node.org AND heartbeat.node = node.node
        WHERE $3
           OR EXISTS (SELECT 1 FROM node_agreement AS held WHERE held.org = node.org AND held.node = node.node)
           OR EXISTS (
               SELECT 1
               FROM node_task AS task
               WHERE task.org = node.org AND task.node = node.node AND task.reported_at IS NOT NULL
                 AND task.state NOT IN ('complete', 'shutdown', 'failed', 'rejected')
           )
        ON CONFLICT (org, node) DO UPDATE
        SET token_hash = excluded.token_hash, deleted_at = excluded.deleted_at, seen_at = excluded.seen_at,
            leases = excluded.leases, owner = excluded.owner
        RETURNING owner",
        &orgs as &[&str],
        &ids as &[&str],
        remainder == Remainder::Unstopped,
        to_sql(now) as _,
    )
    .fetch_all(&mut **tx)
    .await?;
    let owners: BTreeSet<String> = added.into_iter().filter_map(|row| row.owner).collect();
    delete_oldest(tx, &owners.into_iter().collect::<Vec<_>>()).await
}

/// Forgets the oldest departures of accounts that owned nodes.
async fn delete_oldest<R: RemovesNodes>(tx: &mut Permitted<R>, owners: &[String]) -> Result<(), StoreError> {
    sqlx::query!(
        "-- departure.delete_oldest
        DELETE FROM node_departure
        WHERE (org, node) IN (
            SELECT ranked.org, ranked.node
            FROM (
                SELECT org, node, row_number() OVER (PARTITION BY owner ORDER BY deleted_at DESC) AS place
                FROM node_departure
                WHERE owner = ANY ($1)
            ) AS ranked
            WHERE ranked.place > $2
        )",
        owners,
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
        SELECT
            node,
            deleted_at AS "deleted_at: jiff_sqlx::Timestamp",
            seen_at AS "seen_at: jiff_sqlx::Timestamp",
            leases AS "leases: Json<BTreeMap<String, u32>>"
        FROM node_departure
        WHERE org = $1
        ORDER BY node
        LIMIT $2"#,
        org,
        MOST_LISTED,
    )
    .fetch_all(conn)
    .await?;
    let departures = rows.into_iter().map(|row| Departure {
        node: row.node,
        deleted_at: from_sql(row.deleted_at),
        seen_at: from_sql(row.seen_at),
        leases: row.leases.0,
    });
    Ok(departures.collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::{Heartbeat, upsert_nodes};
    use crate::tests::{Org, at};

    /// Adds nodes that were seen at a second and have an agreement.
    async fn add_running(org: &Org, nodes: &[&str], second: i64) {
        org.add_nodes(nodes).await;
        let seen =
            |node: &&str| Heartbeat { org: org.to_string(), id: (*node).to_owned(), seen_at: at(second) };
        let batch: Vec<Heartbeat> = nodes.iter().map(seen).collect();
        upsert_nodes(&mut *org.connection().await, &batch, at(second)).await.unwrap();
        for node in nodes {
            org.add_node_agreement(node, &format!("departure-{node}"), "", "made").await;
        }
    }

    async fn leave(org: &Org, nodes: &[&str], remainder: Remainder, second: i64) {
        let key = |id: &&str| ResourceKey { org: org.to_string(), id: (*id).to_owned() };
        let nodes: Vec<ResourceKey> = nodes.iter().map(key).collect();
        let record =
            async |tx: &mut Permitted<right::NodeWrite>| insert(tx, &nodes, remainder, at(second)).await;
        org.write(record).await;
    }

    async fn departed(org: &Org) -> Vec<(String, Timestamp, Timestamp)> {
        let found = list(&mut *org.connection().await, org).await.unwrap();
        found.into_iter().map(|row| (row.node, row.deleted_at, row.seen_at)).collect()
    }

    #[tokio::test]
    async fn node_departs_when_something_may_run_there() {
        let org = Org::new("departure").await;
        add_running(&org, &["running", "stays"], 5).await;
        add_running(&org, &["ahead"], 90).await;
        org.add_nodes(&["idle", "unstopped"]).await;
        leave(&org, &["running", "ahead", "idle", "absent"], Remainder::AsRecorded, 10).await;
        leave(&org, &["unstopped"], Remainder::Unstopped, 20).await;
        let found = departed(&org).await;
        let expected = [("ahead", at(10), at(10)), ("running", at(10), at(5)), ("unstopped", at(20), at(20))];
        assert_eq!(found, expected.map(|(node, deleted_at, seen_at)| (node.to_owned(), deleted_at, seen_at)));
        leave(&org, &["running"], Remainder::AsRecorded, 30).await;
        assert_eq!(departed(&org).await[1].1, at(30), "a node of the same name");
    }

    #[tokio::test]
    async fn newest_departures_of_an_account_are_kept() {
        let org = Org::new("departure-many").await;
        add_running(&org, &["last"], 0).await;
        let rows = "INSERT INTO node_departure (org, node, token_hash, deleted_at, seen_at, owner)
                    SELECT $1, owner || number, '', timestamptz '2020-01-01' + make_interval(secs => number), now(), owner
                    FROM UNNEST(ARRAY[$1 || '/u', $1 || '/v']) AS owner, generate_series(1, $2) AS number";
        let mut connection = org.connection().await;
        sqlx::query(rows).bind(&*org).bind(MOST_OF_ACCOUNT).execute(&mut *connection).await.unwrap();
        leave(&org, &["last"], Remainder::AsRecorded, 0).await;
        for (node, is_kept) in [("u1", false), ("u2", true), ("v1", true)] {
            let found =
                find_token_hash(&mut connection, &org, &format!("departure-many/{node}")).await.unwrap();
            assert_eq!(found.is_some(), is_kept, "{node}");
        }
        assert!(find_token_hash(&mut connection, &org, "last").await.unwrap().is_some());
    }
}
