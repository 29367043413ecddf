//! Rollouts of policies through groups.

use serde_json::Value;
use sqlx::PgConnection;

use crate::StoreError;

/// Stores the state of a rollout.
pub async fn upsert_rollout(
    tx: &mut PgConnection,
    ha_group: &str,
    policy: &str,
    record: &Value,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- rollout.upsert_rollout
        INSERT INTO rollout (ha_group, policy, record) VALUES ($1, $2, $3)
        ON CONFLICT (ha_group, policy) DO UPDATE SET record = excluded.record",
        ha_group,
        policy,
        record,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Lists all rollouts.
pub async fn list_rollouts(conn: &mut PgConnection) -> Result<Vec<Value>, StoreError> {
    let rows = sqlx::query!(
        "-- rollout.list_rollouts
        SELECT record FROM rollout ORDER BY ha_group, policy"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.record).collect())
}
