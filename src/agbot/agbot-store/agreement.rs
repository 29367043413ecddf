//! The agbot's agreements, and the usage and back-off of attempts.

use evenkeel_ids::{AgreementId, NodeId, PolicyId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, to_sql};

/// Usage and back-off of one node and policy.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// The node.
    pub node: NodeId,
    /// The policy.
    pub policy: PolicyId,
    /// Rollback state.
    pub usage: Option<Value>,
    /// Back-off after failures.
    pub backoff: Option<Value>,
}

/// Inserts an agreement; false when it already exists.
///
/// # Errors
/// [`StoreError::Conflict`] on `agreement_node_policy_live_key` when another one is live for the node and policy.
pub async fn insert_agreement(
    tx: &mut PgConnection,
    id: &AgreementId,
    node: &NodeId,
    policy: &PolicyId,
    record: &Value,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- agreement.insert_agreement
        INSERT INTO agreement (agreement, node, policy, record, created_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (agreement) DO NOTHING",
        id.as_str(),
        node.as_str(),
        policy.as_str(),
        record,
        to_sql(at) as _,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Reads an agreement and locks its row.
pub async fn lock_agreement(tx: &mut PgConnection, id: &AgreementId) -> Result<Option<Value>, StoreError> {
    let row = sqlx::query!(
        "-- agreement.lock_agreement
        SELECT record FROM agreement WHERE agreement = $1 FOR UPDATE",
        id.as_str(),
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| row.record))
}

/// Replaces the record of an agreement; `ended_at` marks it as ended.
pub async fn update_agreement(
    tx: &mut PgConnection,
    id: &AgreementId,
    record: &Value,
    ended_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- agreement.update_agreement
        UPDATE agreement SET record = $2, ended_at = $3 WHERE agreement = $1",
        id.as_str(),
        record,
        ended_at.map(to_sql) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Replaces the record of an agreement without changing whether it has ended.
pub async fn replace_record(
    tx: &mut PgConnection,
    id: &AgreementId,
    record: &Value,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- agreement.replace_record
        UPDATE agreement SET record = $2 WHERE agreement = $1",
        id.as_str(),
        record,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Lists the live agreements of some nodes.
pub async fn list_live_on_nodes(
    conn: &mut PgConnection,
    nodes: &[&NodeId],
) -> Result<Vec<Value>, StoreError> {
    let orgs: Vec<&str> = nodes.iter().map(|node| node.org()).collect();
    let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
    Ok(sqlx::query_scalar!(
        "-- agreement.list_live_on_nodes
        SELECT agreement.record
        FROM UNNEST($1::text[], $2::text[]) AS key (org, node)
        JOIN agreement ON agreement.org = key.org AND agreement.node = key.node AND agreement.ended_at IS NULL
        ORDER BY agreement.agreement",
        &orgs as &[&str],
        &names as &[&str],
    )
    .fetch_all(conn)
    .await?)
}

/// Lists the agreements that are live, or ended at `ended_since` or later, or whose instances are not known to have stopped.
pub async fn list_recent(conn: &mut PgConnection, ended_since: Timestamp) -> Result<Vec<Value>, StoreError> {
    let rows = sqlx::query!(
        "-- agreement.list_recent
        SELECT record FROM agreement
        WHERE ended_at IS NULL OR ended_at >= $1 OR record ->> 'awaits_stop' = 'true'
        ORDER BY agreement",
        to_sql(ended_since) as _,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.record).collect())
}

/// Position in a list of live agreements: node, policy, and the id of an agreement that may be one of several of them; empty for others.
pub type LiveKey = (NodeId, PolicyId, String);

/// Lists live agreements of an organization's nodes, ordered by key, after one; only of the given nodes if any are given.
pub async fn list_live_of_org(
    conn: &mut PgConnection,
    org: &str,
    nodes: Option<&[NodeId]>,
    after: Option<&LiveKey>,
    limit: i64,
) -> Result<Vec<(LiveKey, Value)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- agreement.list_live_of_org
        SELECT node AS "node: NodeId", policy AS "policy: PolicyId",
               CASE record ->> 'is_side_by_side' WHEN 'true' THEN agreement ELSE '' END AS "beside!", record
        FROM agreement
        WHERE ended_at IS NULL AND org = $1
          AND ($2::text[] IS NULL OR node = ANY ($2))
          AND (node, policy, (CASE record ->> 'is_side_by_side' WHEN 'true' THEN agreement ELSE '' END)) > ($3, $4, $5)
        ORDER BY node, policy, CASE record ->> 'is_side_by_side' WHEN 'true' THEN agreement ELSE '' END
        LIMIT $6"#,
        org,
        nodes as _,
        after.map_or("", |(node, ..)| node.as_str()),
        after.map_or("", |(_, policy, _)| policy.as_str()),
        after.map_or("", |(.., beside)| beside.as_str()),
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| ((row.node, row.policy, row.beside), row.record)).collect())
}

/// Counts the live agreements of an organization's nodes, at most up to a number; only of the given nodes if any are given.
pub async fn count_live_of_org(
    conn: &mut PgConnection,
    org: &str,
    nodes: Option<&[NodeId]>,
    most: i64,
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"-- agreement.count_live_of_org
        SELECT count(*) AS "count!"
        FROM (
            SELECT FROM agreement
            WHERE ended_at IS NULL AND org = $1 AND ($2::text[] IS NULL OR node = ANY ($2))
            LIMIT $3
        ) AS live"#,
        org,
        nodes as _,
        most,
    )
    .fetch_one(conn)
    .await?;
    Ok(count)
}

/// Lists the newest ended agreements of an organization's nodes; only of the given nodes if any are given.
pub async fn list_ended(
    conn: &mut PgConnection,
    org: &str,
    nodes: Option<&[NodeId]>,
    limit: i64,
) -> Result<Vec<Value>, StoreError> {
    let rows = sqlx::query!(
        "-- agreement.list_ended
        SELECT record
        FROM agreement
        WHERE ended_at IS NOT NULL AND org = $1
          AND ($2::text[] IS NULL OR node = ANY ($2))
        ORDER BY ended_at DESC
        LIMIT $3",
        org,
        nodes as _,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.record).collect())
}

/// Removes history older than an instant, without agreements whose instances are not known to have stopped.
pub async fn delete_ended_before(conn: &mut PgConnection, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- agreement.delete_ended_before
        DELETE FROM agreement WHERE ended_at < $1 AND record ->> 'awaits_stop' IS DISTINCT FROM 'true'",
        to_sql(before) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Stores usage and back-off; a row with neither is removed.
pub async fn upsert_usage(tx: &mut PgConnection, row: &UsageRow) -> Result<(), StoreError> {
    if row.usage.is_none() && row.backoff.is_none() {
        sqlx::query!(
            "-- agreement.delete_usage
            DELETE FROM workload_usage WHERE node = $1 AND policy = $2",
            row.node.as_str(),
            row.policy.as_str(),
        )
        .execute(tx)
        .await?;
        return Ok(());
    }
    sqlx::query!(
        "-- agreement.upsert_usage
        INSERT INTO workload_usage (node, policy, usage, backoff) VALUES ($1, $2, $3, $4)
        ON CONFLICT (node, policy) DO UPDATE SET usage = excluded.usage, backoff = excluded.backoff",
        row.node.as_str(),
        row.policy.as_str(),
        row.usage,
        row.backoff,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Stores only the usage and keeps the back-off.
pub async fn set_usage(
    tx: &mut PgConnection,
    node: &NodeId,
    policy: &PolicyId,
    usage: Option<&Value>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- agreement.set_usage
        INSERT INTO workload_usage (node, policy, usage) VALUES ($1, $2, $3)
        ON CONFLICT (node, policy) DO UPDATE SET usage = excluded.usage",
        node.as_str(),
        policy.as_str(),
        usage,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Lists usage and back-off of all nodes and policies.
pub async fn list_usage(conn: &mut PgConnection) -> Result<Vec<UsageRow>, StoreError> {
    Ok(sqlx::query_as!(
        UsageRow,
        r#"-- agreement.list_usage
        SELECT node AS "node: NodeId", policy AS "policy: PolicyId", usage, backoff
        FROM workload_usage
        ORDER BY workload_usage.node, workload_usage.policy"#
    )
    .fetch_all(conn)
    .await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::{at, shared};

    /// Agreements about the policy `p`, each with its id in its record.
    async fn insert(
        connection: &mut PgConnection,
        node: &NodeId,
        id: &str,
        is_side_by_side: bool,
    ) -> Result<bool, StoreError> {
        let policy = PolicyId::new(node.org(), "p");
        let record = json!({"id": id, "is_side_by_side": is_side_by_side});
        insert_agreement(connection, &AgreementId::from_text(id), node, &policy, &record, at(0)).await
    }

    async fn end(connection: &mut PgConnection, id: &str, second: i64, awaits_stop: bool) {
        let record = json!({"id": id, "awaits_stop": awaits_stop});
        let id = AgreementId::from_text(id);
        update_agreement(connection, &id, &record, Some(at(second))).await.unwrap();
    }

    fn ids(records: &[Value]) -> Vec<&str> {
        records.iter().map(|record| record["id"].as_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn node_has_one_live_agreement_of_a_policy_and_others_side_by_side() {
        let mut connection = shared().await.connection().await;
        let node = NodeId::new("agreed-once", "n");
        assert!(insert(&mut connection, &node, "once-1", false).await.unwrap());
        assert!(!insert(&mut connection, &node, "once-1", false).await.unwrap(), "it is there");
        let refused = insert(&mut connection, &node, "once-2", false).await;
        assert!(
            matches!(&refused, Err(StoreError::Conflict { constraint }) if constraint == "agreement_node_policy_live_key"),
            "{refused:?}"
        );
        assert!(insert(&mut connection, &node, "once-3", true).await.unwrap());
        assert!(insert(&mut connection, &node, "once-4", true).await.unwrap());
        end(&mut connection, "once-1", 1, false).await;
        assert!(insert(&mut connection, &node, "once-2", false).await.unwrap());
        let live = list_live_on_nodes(&mut connection, &[&node]).await.unwrap();
        assert_eq!(ids(&live), ["once-2", "once-3", "once-4"]);
    }

    #[tokio::test]
    async fn page_of_agreements_begins_after_the_last_one_of_the_page_before() {
        let mut connection = shared().await.connection().await;
        let [n, m] = ["n", "m"].map(|name| NodeId::new("agreed-pages", name));
        for (node, id) in [(&n, "pages-1"), (&m, "pages-2"), (&m, "pages-3")] {
            insert(&mut connection, node, id, true).await.unwrap();
        }
        let policy = PolicyId::new("agreed-pages", "p");
        let key = |node: &NodeId, id| (node.clone(), policy.clone(), String::from(id));
        let mut page = async |nodes: Option<&[NodeId]>, after: Option<&LiveKey>| {
            let rows = list_live_of_org(&mut connection, "agreed-pages", nodes, after, 2).await.unwrap();
            rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert_eq!(page(None, None).await, [key(&m, "pages-2"), key(&m, "pages-3")]);
        assert_eq!(page(None, Some(&key(&m, "pages-2"))).await, [key(&m, "pages-3"), key(&n, "pages-1")]);
        assert_eq!(page(Some(std::slice::from_ref(&n)), None).await, [key(&n, "pages-1")]);
        assert!(page(None, Some(&key(&n, "pages-1"))).await.is_empty());
        let mut count = async |nodes, most| {
            count_live_of_org(&mut connection, "agreed-pages", nodes, most).await.unwrap()
        };
        assert_eq!((count(None, 10).await, count(None, 2).await), (3, 2));
        assert_eq!(count(Some(std::slice::from_ref(&n)), 10).await, 1);
    }

    #[tokio::test]
    async fn history_is_removed_by_age_but_for_agreements_that_wait_for_a_stop() {
        // Other tests end their agreements later.
        let mut connection = shared().await.connection().await;
        let node = NodeId::new("agreed-before", "n");
        for (id, second, awaits_stop) in
            [("old-1", -100, false), ("old-2", -100, true), ("old-3", -50, false), ("old-4", -60, false)]
        {
            insert(&mut connection, &node, id, true).await.unwrap();
            end(&mut connection, id, second, awaits_stop).await;
        }
        assert_eq!(delete_ended_before(&mut connection, at(-60)).await.unwrap(), 1);
        let ended = list_ended(&mut connection, "agreed-before", None, 2).await.unwrap();
        assert_eq!(ids(&ended), ["old-3", "old-4"], "the newest");
        let recent = list_recent(&mut connection, at(-50)).await.unwrap();
        let recent: Vec<&str> = ids(&recent).into_iter().filter(|id| id.starts_with("old")).collect();
        assert_eq!(recent, ["old-2", "old-3"]);
    }

    #[tokio::test]
    async fn row_without_usage_and_backoff_disappears() {
        let mut connection = shared().await.connection().await;
        let (node, policy) = (NodeId::new("agreed-usage", "n"), PolicyId::new("agreed-usage", "p"));
        let row = UsageRow { node, policy, usage: Some(json!(1)), backoff: Some(json!(2)) };
        upsert_usage(&mut connection, &row).await.unwrap();
        set_usage(&mut connection, &row.node, &row.policy, None).await.unwrap();
        let without = UsageRow { usage: None, ..row.clone() };
        assert!(list_usage(&mut connection).await.unwrap().contains(&without), "the back-off stays");
        upsert_usage(&mut connection, &UsageRow { backoff: None, ..without }).await.unwrap();
        let left = list_usage(&mut connection).await.unwrap();
        assert!(left.iter().all(|other| other.node != row.node));
    }
}
