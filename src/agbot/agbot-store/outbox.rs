//! The outbox: effects on the exchange that follow a commit and are not delivered yet.
//!
//! Rows are inserted in the transaction that decided them. Those of one node are delivered in the order of their sequence numbers.

use evenkeel_ids::NodeId;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use evenkeel_store::{StoreError, from_sql, to_sql};

/// An effect that is not delivered yet.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// Position in the queue.
    pub sequence: i64,
    /// The node.
    pub node: NodeId,
    /// The agreement or task that it belongs to.
    pub subject: String,
    /// The effect.
    pub effect: Value,
}

/// The owner of the inserted effects.
#[derive(Debug, Clone, Copy)]
pub struct OutboxKey<'a> {
    /// Partition of the node.
    pub partition: i32,
    /// The node.
    pub node: &'a NodeId,
    /// The agreement or task.
    pub subject: &'a str,
}

/// The backlog of the outbox of all agbots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxBacklog {
    /// Number of rows.
    pub count: i64,
    /// When the oldest was inserted.
    pub oldest_at: Option<Timestamp>,
}

/// Appends effects in the given order; with `skips_queued` without those that the subject already has in the queue.
pub async fn insert_effects(
    tx: &mut PgConnection,
    key: OutboxKey<'_>,
    effects: &[Value],
    at: Timestamp,
    skips_queued: bool,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- outbox.insert_effects
        INSERT INTO agbot_outbox (partition_number, node, subject, effect, created_at)
        SELECT $1, $2, $3, wanted.effect, $5
        FROM unnest($4::jsonb[]) WITH ORDINALITY AS wanted (effect, place)
        WHERE NOT ($6 AND EXISTS (
            SELECT FROM agbot_outbox AS queued WHERE queued.subject = $3 AND queued.effect = wanted.effect
        ))
        ORDER BY wanted.place",
        key.partition,
        key.node.as_str(),
        key.subject,
        effects,
        to_sql(at) as _,
        skips_queued,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Appends effects of several nodes: node, subject and effect.
pub async fn insert_of_nodes(
    tx: &mut PgConnection,
    partition: i32,
    effects: &[(NodeId, String, Value)],
    at: Timestamp,
) -> Result<(), StoreError> {
    let nodes: Vec<&str> = effects.iter().map(|(node, ..)| node.as_str()).collect();
    let subjects: Vec<&str> = effects.iter().map(|(_, subject, _)| subject.as_str()).collect();
    let values: Vec<&Value> = effects.iter().map(|(.., effect)| effect).collect();
    sqlx::query!(
        "-- outbox.insert_of_nodes
        INSERT INTO agbot_outbox (partition_number, node, subject, effect, created_at)
        SELECT $1, wanted.node, wanted.subject, wanted.effect, $5
        FROM unnest($2::text[], $3::text[], $4::jsonb[]) WITH ORDINALITY AS wanted (node, subject, effect, place)
        ORDER BY wanted.place",
        partition,
        &nodes as &[&str],
        &subjects as &[&str],
        &values as &[&Value],
        to_sql(at) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Drops the undelivered effects of one kind that a subject has.
pub async fn delete_of_kind(tx: &mut PgConnection, subject: &str, kind: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "-- outbox.delete_of_kind
        DELETE FROM agbot_outbox WHERE subject = $1 AND effect ->> 'kind' = $2",
        subject,
        kind,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Lists effects of the partitions that `owner` leases, oldest first, without those of the nodes in `except`.
///
/// A node may have earlier rows that another agbot delivers: those of a workload unit of that agbot, or of the partition in which the node
/// was before. Its later rows wait for them.
pub async fn list_deliverable(
    conn: &mut PgConnection,
    owner: Uuid,
    except: &[NodeId],
    limit: i64,
) -> Result<Vec<OutboxRow>, StoreError> {
    Ok(sqlx::query_as!(
        OutboxRow,
        r#"-- outbox.list_deliverable
        WITH held AS (
            SELECT partition_number FROM work_partition WHERE owner = $1 AND expires_at > now()
        )
        SELECT queued.sequence, queued.node AS "node: NodeId", queued.subject, queued.effect
        FROM agbot_outbox AS queued
        WHERE queued.partition_number IN (SELECT partition_number FROM held)
          AND queued.node <> ALL ($2)
          AND NOT EXISTS (
              SELECT FROM agbot_outbox AS earlier
              WHERE earlier.node = queued.node
                AND earlier.sequence < queued.sequence
                AND earlier.partition_number NOT IN (SELECT partition_number FROM held)
          )
        ORDER BY queued.sequence
        LIMIT $3"#,
        owner,
        except as _,
        limit,
    )
    .fetch_all(conn)
    .await?)
}

/// Returns whether an effect of the partitions that `owner` leases waits for an earlier one of its node that another agbot delivers.
pub async fn is_any_behind(conn: &mut PgConnection, owner: Uuid) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"-- outbox.is_any_behind
        WITH held AS (
            SELECT partition_number FROM work_partition WHERE owner = $1 AND expires_at > now()
        )
        SELECT EXISTS (
            SELECT FROM agbot_outbox AS earlier
            JOIN agbot_outbox AS queued ON queued.node = earlier.node AND queued.sequence > earlier.sequence
            WHERE earlier.partition_number NOT IN (SELECT partition_number FROM held)
              AND queued.partition_number IN (SELECT partition_number FROM held)
        ) AS "is_any_behind!""#,
        owner,
    )
    .fetch_one(conn)
    .await?)
}

/// Deletes delivered effects. The commit is not flushed: a crash only means that they are delivered once more.
pub async fn delete_delivered(conn: &mut PgConnection, sequences: &[i64]) -> Result<(), StoreError> {
    sqlx::query!(
        "-- outbox.delete_delivered
        DELETE FROM agbot_outbox
        USING (SELECT set_config('synchronous_commit', 'off', true)) AS relaxed
        WHERE sequence = ANY ($1)",
        sequences,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Counts the undelivered effects of all agbots of the database.
pub async fn get_backlog(conn: &mut PgConnection) -> Result<OutboxBacklog, StoreError> {
    let row = sqlx::query!(
        r#"-- outbox.get_backlog
        SELECT count(*) AS "count!", min(created_at) AS "oldest_at: jiff_sqlx::Timestamp" FROM agbot_outbox"#
    )
    .fetch_one(conn)
    .await?;
    Ok(OutboxBacklog { count: row.count, oldest_at: row.oldest_at.map(from_sql) })
}

#[cfg(test)]
mod tests {
    use evenkeel_test_database::TestDatabase;
    use serde_json::json;

    use super::*;
    use crate::tests::{OTHER, OWN, ROLES, at, lease};

    /// Appends an effect, under a number that is also its subject.
    async fn insert(connection: &mut PgConnection, partition: i32, node: &NodeId, number: i64) {
        let subject = number.to_string();
        let key = OutboxKey { partition, node, subject: &subject };
        let effect = json!({"kind": "k", "number": number});
        insert_effects(connection, key, &[effect], at(number), false).await.unwrap();
    }

    /// Lists the effects that an agbot may deliver.
    async fn deliverable(connection: &mut PgConnection, owner: Uuid, except: &[NodeId]) -> Vec<i64> {
        let rows = list_deliverable(connection, owner, except, 10).await.unwrap();
        rows.into_iter().map(|row| row.effect["number"].as_i64().unwrap()).collect()
    }

    #[tokio::test]
    async fn effect_waits_for_an_earlier_one_of_its_node_that_another_agbot_delivers() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        lease(&mut connection, &[OWN, OTHER]).await;
        let [n, m] = ["n", "m"].map(|name| NodeId::new("o", name));
        for (number, (partition, node)) in (1..).zip([(0, &n), (1, &n), (0, &n), (0, &m), (2, &m), (0, &m)]) {
            insert(&mut connection, partition, node, number).await;
        }
        assert_eq!(deliverable(&mut connection, OWN, &[]).await, [1, 4], "5 is of no agbot");
        assert_eq!(deliverable(&mut connection, OWN, std::slice::from_ref(&n)).await, [4]);
        assert_eq!(deliverable(&mut connection, OTHER, &[]).await, [0; 0]);
        assert!(is_any_behind(&mut connection, OTHER).await.unwrap());
        delete_of_kind(&mut connection, "1", "other").await.unwrap();
        assert_eq!(deliverable(&mut connection, OTHER, &[]).await, [0; 0], "1 is of another kind");
        delete_of_kind(&mut connection, "1", "k").await.unwrap();
        assert_eq!(deliverable(&mut connection, OTHER, &[]).await, [2]);
        assert!(!is_any_behind(&mut connection, OTHER).await.unwrap());
        let backlog = OutboxBacklog { count: 5, oldest_at: Some(at(2)) };
        assert_eq!(get_backlog(&mut connection).await.unwrap(), backlog);
    }

    #[tokio::test]
    async fn effect_that_its_subject_has_in_the_queue_is_skipped_when_asked() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        lease(&mut connection, &[OWN]).await;
        let node = NodeId::new("o", "n");
        for (subject, effects, skips) in
            [("a", [2, 1], true), ("a", [1, 3], true), ("b", [1, 3], true), ("b", [1, 3], false)]
        {
            let key = OutboxKey { partition: 0, node: &node, subject };
            insert_effects(
                &mut connection,
                key,
                &effects.map(|effect| json!({"number": effect})),
                at(0),
                skips,
            )
            .await
            .unwrap();
        }
        assert_eq!(deliverable(&mut connection, OWN, &[]).await, [2, 1, 3, 1, 3, 1, 3]);
    }
}
