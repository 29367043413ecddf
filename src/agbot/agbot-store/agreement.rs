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

/// Lists live agreements of an organization's nodes: by node and policy, those after the given pair, at most `limit` and the
/// others of the last pair; only of the given nodes if any are given.
///
/// # Shape
/// Node, policy and record.
pub async fn list_live_of_org(
    conn: &mut PgConnection,
    org: &str,
    nodes: Option<&[NodeId]>,
    after: Option<&(NodeId, PolicyId)>,
    limit: i64,
) -> Result<Vec<(NodeId, PolicyId, Value)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- agreement.list_live_of_org
        SELECT node AS "node: NodeId", policy AS "policy: PolicyId", record
        FROM agreement
        WHERE ended_at IS NULL AND org = $1
          AND ($2::text[] IS NULL OR node = ANY ($2))
          AND (node, policy) > ($3, $4)
        ORDER BY node, policy
        FETCH FIRST ($5) ROWS WITH TIES"#,
        org,
        nodes as _,
        after.map_or("", |(node, _)| node.as_str()),
        after.map_or("", |(_, policy)| policy.as_str()),
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.node, row.policy, row.record)).collect())
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
