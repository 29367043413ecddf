//! Runs of the agents of nodes: which of them reports for its node.

use evenkeel_store::{StoreError, from_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

/// Stored state that decides whether a run may report for its node.
#[derive(Debug, Clone)]
pub struct AgentRunRow {
    /// The stored runs; none before the first.
    pub runs: Option<Value>,
    /// Last stored heartbeat; none when never seen.
    pub seen_at: Option<Timestamp>,
    /// `running` or `stopped`, as the agent reported.
    pub agent_state: String,
    /// Monitor state of the agent.
    pub monitor_state: String,
    /// The settings of its organization; none when it has set none.
    pub org_settings: Option<Value>,
}

/// Finds the runs of a node and locks its row until the end of the transaction.
pub async fn lock_runs(
    tx: &mut PgConnection,
    org: &str,
    node: &str,
) -> Result<Option<AgentRunRow>, StoreError> {
    let row = sqlx::query!(
        r#"-- agent_run.lock_runs
        SELECT node.agent_runs, node.agent_state, node.monitor_state, organization.orchestration,
               heartbeat.seen_at AS "seen_at?: jiff_sqlx::Timestamp"
        FROM node
        JOIN organization ON organization.org = node.org
        LEFT JOIN node_heartbeat AS heartbeat ON heartbeat.org = node.org AND heartbeat.node = node.node
        WHERE node.org = $1 AND node.node = $2
        FOR NO KEY UPDATE OF node"#,
        org,
        node,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| AgentRunRow {
        runs: row.agent_runs,
        seen_at: row.seen_at.map(from_sql),
        agent_state: row.agent_state,
        monitor_state: row.monitor_state,
        org_settings: row.orchestration,
    }))
}

/// Stores the runs of a node whose row is locked.
pub async fn set_runs(tx: &mut PgConnection, org: &str, node: &str, runs: &Value) -> Result<(), StoreError> {
    sqlx::query!(
        "-- agent_run.set_runs
        UPDATE node SET agent_runs = $3 WHERE org = $1 AND node = $2",
        org,
        node,
        runs,
    )
    .execute(tx)
    .await?;
    Ok(())
}
