//! Rollouts of policies through groups.

use evenkeel_ids::{GroupId, PolicyId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, to_sql};

/// Stores the state of a rollout.
pub async fn upsert_rollout(
    tx: &mut PgConnection,
    ha_group: &GroupId,
    policy: &PolicyId,
    record: &Value,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- rollout.upsert_rollout
        INSERT INTO rollout (ha_group, policy, record) VALUES ($1, $2, $3)
        ON CONFLICT (ha_group, policy) DO UPDATE SET record = excluded.record",
        ha_group.as_str(),
        policy.as_str(),
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

/// Reads one rollout and locks its row until the transaction ends.
pub async fn lock_rollout(
    tx: &mut PgConnection,
    ha_group: &GroupId,
    policy: &PolicyId,
) -> Result<Option<Value>, StoreError> {
    let row = sqlx::query!(
        "-- rollout.lock_rollout
        SELECT record FROM rollout WHERE ha_group = $1 AND policy = $2 FOR UPDATE",
        ha_group.as_str(),
        policy.as_str(),
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| row.record))
}

/// Reads the rollouts of a policy, in one group or (none) in all, and locks their rows until the transaction ends.
pub async fn lock_of_policy(
    tx: &mut PgConnection,
    policy: &PolicyId,
    ha_group: Option<&GroupId>,
) -> Result<Vec<Value>, StoreError> {
    // Sorted, so that two actions on all groups of a policy do not deadlock.
    let rows = sqlx::query!(
        "-- rollout.lock_of_policy
        SELECT record FROM rollout WHERE policy = $1 AND ($2::text IS NULL OR ha_group = $2)
        ORDER BY ha_group FOR UPDATE",
        policy.as_str(),
        ha_group.map(GroupId::as_str),
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(|row| row.record).collect())
}

/// Removes rollouts that were completed or abandoned before an instant. A completed rollback is kept: it records the version that
/// failed.
pub async fn delete_finished_before(conn: &mut PgConnection, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- rollout.delete_finished_before
        DELETE FROM rollout
        WHERE (record ->> 'state' = 'abandoned' OR record ->> 'state' = 'completed' AND record -> 'rollback' IS NULL)
          AND (record ->> 'at')::timestamptz < $1",
        to_sql(before) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

#[cfg(test)]
mod tests {
    use evenkeel_test_database::TestDatabase;
    use serde_json::json;

    use super::*;
    use crate::tests::{ROLES, at};

    #[tokio::test]
    async fn finished_rollouts_are_removed_by_age_but_for_completed_rollbacks() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        let group = GroupId::new("o", "g");
        for (number, (state, second, is_rollback)) in [
            ("completed", 1, false),
            ("abandoned", 1, true),
            ("completed", 1, true),
            ("running", 1, false),
            ("completed", 2, false),
        ]
        .into_iter()
        .enumerate()
        {
            let mut record = json!({"number": number, "state": state, "at": at(second).to_string()});
            if is_rollback {
                record["rollback"] = json!({"why": "failed"});
            }
            let policy = PolicyId::new("o", &number.to_string());
            upsert_rollout(&mut connection, &group, &policy, &record).await.unwrap();
        }
        assert_eq!(delete_finished_before(&mut connection, at(2)).await.unwrap(), 2);
        let left = list_rollouts(&mut connection).await.unwrap();
        let left: Vec<i64> = left.iter().map(|record| record["number"].as_i64().unwrap()).collect();
        assert_eq!(left, [2, 3, 4]);
    }
}
