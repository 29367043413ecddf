//! Batched heartbeats of nodes and agbots.

use jiff::{SignedDuration, Timestamp};
use sqlx::PgConnection;

use evenkeel_store::{StoreError, to_sql};

/// A heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Organization of the caller.
    pub org: String,
    /// Id of the caller.
    pub id: String,
    /// When it was last seen.
    pub seen_at: Timestamp,
}

/// Greatest difference between the clocks of exchanges. A row with a later time was written by a clock that
/// was ahead, and has been set since.
const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// Returns the latest time that a stored row may have been written at; `now`: the clock of the writer.
pub(crate) fn latest_plausible(now: Timestamp) -> Timestamp {
    now.checked_add(SKEW).unwrap_or(Timestamp::MAX)
}

fn columns(batch: &[Heartbeat]) -> (Vec<&str>, Vec<&str>, Vec<jiff_sqlx::Timestamp>) {
    (
        batch.iter().map(|heartbeat| heartbeat.org.as_str()).collect(),
        batch.iter().map(|heartbeat| heartbeat.id.as_str()).collect(),
        batch.iter().map(|heartbeat| to_sql(heartbeat.seen_at)).collect(),
    )
}

/// Stores heartbeats of nodes; deleted nodes are skipped, older instants never overwrite newer ones, unless those lie in the future.
pub async fn upsert_nodes(
    conn: &mut PgConnection,
    batch: &[Heartbeat],
    now: Timestamp,
) -> Result<(), StoreError> {
    let (orgs, ids, times) = columns(batch);
    // The rows are sorted, because several exchanges write batches with the same nodes: they lock the rows in the same
    // order and do not deadlock.
    sqlx::query!(
        "-- heartbeat.upsert_nodes
        INSERT INTO node_heartbeat (org, node, seen_at)
        SELECT node.org, node.node, heartbeat.seen_at
        FROM UNNEST($1::text[], $2::text[], $3::timestamptz[]) AS heartbeat (org, id, seen_at)
        JOIN node ON node.org = heartbeat.org AND node.node = heartbeat.id
        ORDER BY 1, 2
        ON CONFLICT (org, node) DO UPDATE
        SET seen_at = CASE WHEN node_heartbeat.seen_at > $4 THEN excluded.seen_at
                           ELSE GREATEST(node_heartbeat.seen_at, excluded.seen_at) END",
        &orgs as &[&str],
        &ids as &[&str],
        &times as &[jiff_sqlx::Timestamp],
        to_sql(latest_plausible(now)) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores heartbeats of agbots, as [`upsert_nodes`] those of nodes.
pub async fn update_agbots(
    conn: &mut PgConnection,
    batch: &[Heartbeat],
    now: Timestamp,
) -> Result<(), StoreError> {
    let (orgs, ids, times) = columns(batch);
    sqlx::query!(
        "-- heartbeat.update_agbots
        UPDATE agbot
        SET seen_at = CASE WHEN agbot.seen_at > $4 THEN heartbeat.seen_at
                           ELSE GREATEST(agbot.seen_at, heartbeat.seen_at) END
        FROM UNNEST($1::text[], $2::text[], $3::timestamptz[]) AS heartbeat (org, id, seen_at)
        WHERE agbot.org = heartbeat.org AND agbot.agbot = heartbeat.id",
        &orgs as &[&str],
        &ids as &[&str],
        &times as &[jiff_sqlx::Timestamp],
        to_sql(latest_plausible(now)) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes the commit of this transaction return before the disk write: losing a second of heartbeats is harmless.
pub async fn relax_durability(tx: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!("SET LOCAL synchronous_commit = off").execute(tx).await?;
    Ok(())
}

/// Returns whether a heartbeat of the node was ever stored.
pub async fn is_node_known_alive(conn: &mut PgConnection, org: &str, node: &str) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- heartbeat.is_node_known_alive
        SELECT EXISTS (SELECT 1 FROM node_heartbeat WHERE org = $1 AND node = $2) AS "is_known!""#,
        org,
        node,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agbot::find_agbot;
    use crate::node::find_node;
    use crate::tests::{Org, at};

    #[tokio::test]
    async fn older_heartbeat_replaces_only_one_from_the_future() {
        let org = Org::new("heartbeat-order").await;
        org.add_nodes(&["n"]).await;
        org.add_agbot("a", "u").await;
        let mut connection = org.connection().await;
        for (seen_at, now, expected) in [
            (at(10), at(10), at(10)),
            (at(5), at(10), at(10)),
            (at(30), at(30), at(30)),
            // The clock was set back by less than those of exchanges differ, then by more.
            (at(25), at(25), at(30)),
            (at(24), at(24), at(24)),
        ] {
            let heartbeat = |id: &str| Heartbeat { org: org.to_string(), id: id.to_owned(), seen_at };
            upsert_nodes(&mut connection, &[heartbeat("n")], now).await.unwrap();
            update_agbots(&mut connection, &[heartbeat("a")], now).await.unwrap();
            let node = find_node(&mut connection, &org, "n").await.unwrap().unwrap();
            let agbot = find_agbot(&mut connection, &org, "a").await.unwrap().unwrap();
            assert_eq!((node.seen_at, agbot.seen_at), (Some(expected), expected), "{seen_at}");
        }
    }

    #[tokio::test]
    async fn heartbeats_of_deleted_nodes_do_not_hinder_those_of_others() {
        let org = Org::new("heartbeat-gone").await;
        org.add_nodes(&["n"]).await;
        let mut connection = org.connection().await;
        let batch =
            ["gone", "n"].map(|id| Heartbeat { org: org.to_string(), id: id.to_owned(), seen_at: at(1) });
        upsert_nodes(&mut connection, &batch, at(1)).await.unwrap();
        assert!(is_node_known_alive(&mut connection, &org, "n").await.unwrap());
        assert!(!is_node_known_alive(&mut connection, &org, "gone").await.unwrap());
    }
}
