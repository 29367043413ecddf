//! What the agbot did and why.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use crate::{StoreError, from_sql, to_sql};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// When.
    pub happened_at: Timestamp,
    /// What, for instance `hagroup.lock-granted`.
    pub kind: String,
    /// `org/group` it is about.
    pub ha_group: Option<String>,
    /// `org/node` it is about.
    pub node: Option<String>,
    /// `org/policy` it is about.
    pub policy: Option<String>,
    /// Reason and numbers.
    pub detail: Value,
}

/// Appends an event.
pub async fn insert_event(tx: &mut PgConnection, event: &EventRow) -> Result<(), StoreError> {
    sqlx::query!(
        "-- event.insert_event
        INSERT INTO agbot_event (happened_at, kind, ha_group, node, policy, detail) VALUES ($1, $2, $3, $4, $5, $6)",
        to_sql(event.happened_at) as _,
        event.kind,
        event.ha_group,
        event.node,
        event.policy,
        event.detail,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The newest events of an organization, newest first: those about its nodes, groups or policies, or only those about the given nodes
/// (`org/node`) when there are any given.
pub async fn list_newest(
    conn: &mut PgConnection,
    org: &str,
    nodes: Option<&[String]>,
    limit: i64,
) -> Result<Vec<EventRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- event.list_newest
        SELECT happened_at AS "happened_at: jiff_sqlx::Timestamp", kind, ha_group, node, policy, detail
        FROM agbot_event
        WHERE CASE WHEN $2::text[] IS NULL
                   THEN $1 IN (split_part(node, '/', 1), split_part(ha_group, '/', 1), split_part(policy, '/', 1))
                   ELSE node = ANY ($2) AND split_part(node, '/', 1) = $1 END
        ORDER BY event_id DESC
        LIMIT $3"#,
        org,
        nodes,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| EventRow {
            happened_at: from_sql(row.happened_at),
            kind: row.kind,
            ha_group: row.ha_group,
            node: row.node,
            policy: row.policy,
            detail: row.detail,
        })
        .collect())
}

/// Removes events older than an instant.
pub async fn delete_before(conn: &mut PgConnection, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- event.delete_before
        DELETE FROM agbot_event WHERE happened_at < $1",
        to_sql(before) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
