//! Conditions of nodes that are unusual, with their beginning and the events of their changes.

use evenkeel_ids::NodeId;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, to_sql};

/// A change of the condition of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionChange {
    /// The node.
    pub node: NodeId,
    /// The condition, such as `down`.
    pub condition: &'static str,
    /// True if it no longer holds.
    pub is_end: bool,
    /// Kind of the event, begins with `node.`; none for a change that another one states.
    pub kind: Option<&'static str>,
    /// Reason and counts.
    pub detail: Value,
}

/// Records changes of the conditions of nodes with their events, except those that are recorded already, by this agbot or another one.
pub async fn upsert_changes(
    conn: &mut PgConnection,
    changes: &[ConditionChange],
    at: Timestamp,
) -> Result<(), StoreError> {
    let nodes: Vec<&str> = changes.iter().map(|change| change.node.as_str()).collect();
    let conditions: Vec<&str> = changes.iter().map(|change| change.condition).collect();
    let are_ends: Vec<bool> = changes.iter().map(|change| change.is_end).collect();
    let kinds: Vec<Option<&str>> = changes.iter().map(|change| change.kind).collect();
    let details: Vec<&Value> = changes.iter().map(|change| &change.detail).collect();
    sqlx::query!(
        "-- node_condition.upsert_changes
        WITH change AS (
            SELECT node, condition, is_end, kind, detail, position
            FROM UNNEST($2::text[], $3::text[], $4::boolean[], $5::text[], $6::jsonb[])
                 WITH ORDINALITY AS change (node, condition, is_end, kind, detail, position)
        ), begun AS (
            INSERT INTO node_condition (node, condition, began_at)
            SELECT node, condition, $1 FROM change WHERE NOT is_end ORDER BY node, condition
            ON CONFLICT (node, condition) DO NOTHING
            RETURNING node, condition
        ), ended AS (
            DELETE FROM node_condition
            USING change
            WHERE change.is_end AND node_condition.node = change.node AND node_condition.condition = change.condition
            RETURNING node_condition.node, node_condition.condition
        )
        INSERT INTO agbot_event (happened_at, kind, node, detail)
        SELECT $1, change.kind, change.node, change.detail
        FROM change
        JOIN (SELECT node, condition FROM begun UNION ALL SELECT node, condition FROM ended) AS changed
            USING (node, condition)
        WHERE change.kind IS NOT NULL
        ORDER BY change.position",
        to_sql(at) as _,
        &nodes as &[&str],
        &conditions as &[&str],
        &are_ends,
        &kinds as &[Option<&str>],
        &details as &[&Value],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists the conditions of all nodes.
pub async fn list_conditions(conn: &mut PgConnection) -> Result<Vec<(NodeId, String)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_condition.list_conditions
        SELECT node AS "node: NodeId", condition FROM node_condition ORDER BY node, condition"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.node, row.condition)).collect())
}
