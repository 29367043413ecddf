//! Workloads: the rows of deployment policies with tasks, what their versions run, and what is exceptional about them on a node.

use evenkeel_ids::{NodeId, PolicyId};
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;

use evenkeel_store::StoreError;

/// A workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadRow {
    /// The policy.
    pub policy: PolicyId,
    /// The row.
    pub record: Value,
    /// Specifications by spec version.
    pub specs: Vec<(i64, Value)>,
}

/// Exceptional state of a workload on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceRow {
    /// The policy.
    pub policy: PolicyId,
    /// The node.
    pub node: NodeId,
    /// The row.
    pub record: Value,
}

/// Reads the row of a workload, without what its versions run, and locks it against other writers.
pub async fn lock_workload(tx: &mut PgConnection, policy: &PolicyId) -> Result<Option<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- workload.lock_workload
        SELECT record FROM workload WHERE policy = $1 FOR UPDATE",
        policy.as_str(),
    )
    .fetch_optional(tx)
    .await?)
}

/// Reads the row of a workload, without what its versions run, and keeps it as it is until the transaction ends.
pub async fn share_workload(tx: &mut PgConnection, policy: &PolicyId) -> Result<Option<Value>, StoreError> {
    // FOR SHARE, so that plans of several workload units of one policy do not wait for each other.
    Ok(sqlx::query_scalar!(
        "-- workload.share_workload
        SELECT record FROM workload WHERE policy = $1 FOR SHARE",
        policy.as_str(),
    )
    .fetch_optional(tx)
    .await?)
}

/// Stores the row of a workload.
pub async fn upsert_workload(
    tx: &mut PgConnection,
    policy: &PolicyId,
    record: &Value,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- workload.upsert_workload
        INSERT INTO workload (policy, record) VALUES ($1, $2)
        ON CONFLICT (policy) DO UPDATE SET record = excluded.record",
        policy.as_str(),
        record,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Stores what versions of a workload run, each with the document that was written last with it.
pub async fn insert_task_specs(
    tx: &mut PgConnection,
    policy: &PolicyId,
    specs: &[(i64, Value)],
) -> Result<(), StoreError> {
    let numbers: Vec<i64> = specs.iter().map(|(number, _)| *number).collect();
    let documents: Vec<&Value> = specs.iter().map(|(_, document)| document).collect();
    sqlx::query!(
        "-- workload.insert_task_specs
        INSERT INTO task_spec (policy, spec_number, document)
        SELECT $1, spec_number, document FROM UNNEST($2::bigint[], $3::jsonb[]) AS row (spec_number, document)
        ON CONFLICT (policy, spec_number) DO UPDATE SET document = excluded.document",
        policy.as_str(),
        &numbers,
        &documents as &[&Value],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes what versions of a workload ran, apart from the given ones and those of existing tasks.
pub async fn delete_task_specs(
    tx: &mut PgConnection,
    policy: &PolicyId,
    kept: &[i64],
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- workload.delete_task_specs
        DELETE FROM task_spec
        WHERE policy = $1 AND spec_number <> ALL ($2)
          AND spec_number NOT IN (SELECT spec_number FROM task WHERE policy = $1)",
        policy.as_str(),
        kept,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes all rows of a workload.
pub async fn delete_workload(tx: &mut PgConnection, policy: &PolicyId) -> Result<(), StoreError> {
    sqlx::query!(
        "-- workload.delete_workload
        WITH no_task AS (DELETE FROM task WHERE policy = $1),
             no_instance AS (DELETE FROM instance WHERE policy = $1),
             no_spec AS (DELETE FROM task_spec WHERE policy = $1)
        DELETE FROM workload WHERE policy = $1",
        policy.as_str(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

struct StoredWorkload {
    policy: PolicyId,
    record: Value,
    specs: Option<Json<Vec<(i64, Value)>>>,
}

impl From<StoredWorkload> for WorkloadRow {
    fn from(row: StoredWorkload) -> Self {
        let specs = row.specs.map(|Json(specs)| specs).unwrap_or_default();
        Self { policy: row.policy, record: row.record, specs }
    }
}

/// Lists all workloads.
pub async fn list_workloads(conn: &mut PgConnection) -> Result<Vec<WorkloadRow>, StoreError> {
    let rows = sqlx::query_as!(
        StoredWorkload,
        r#"-- workload.list_workloads
        SELECT workload.policy AS "policy: PolicyId", workload.record,
               (SELECT jsonb_agg(jsonb_build_array(task_spec.spec_number, task_spec.document)) FROM task_spec
                WHERE task_spec.policy = workload.policy) AS "specs: Json<Vec<(i64, Value)>>"
        FROM workload
        ORDER BY workload.policy"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(WorkloadRow::from).collect())
}

/// Reads some workloads.
pub async fn read_workloads(
    conn: &mut PgConnection,
    policies: &[&str],
) -> Result<Vec<WorkloadRow>, StoreError> {
    let rows = sqlx::query_as!(
        StoredWorkload,
        r#"-- workload.read_workloads
        SELECT workload.policy AS "policy: PolicyId", workload.record,
               (SELECT jsonb_agg(jsonb_build_array(task_spec.spec_number, task_spec.document)) FROM task_spec
                WHERE task_spec.policy = workload.policy) AS "specs: Json<Vec<(i64, Value)>>"
        FROM workload
        WHERE workload.policy = ANY ($1)"#,
        policies as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(WorkloadRow::from).collect())
}

/// Stores the exceptional state of a workload on nodes that a plan found: failures, starts and destinations.
/// Settings of users for a node stay.
pub async fn upsert_instances(
    tx: &mut PgConnection,
    policy: &PolicyId,
    rows: &[(NodeId, Value)],
) -> Result<(), StoreError> {
    let (nodes, records) = columns(rows);
    // Only the members that a plan decides on are overwritten. The rest of the record belongs to users, whose writes may
    // have been committed since the plan read it.
    sqlx::query!(
        "-- workload.upsert_instances
        INSERT INTO instance (policy, node, record)
        SELECT $1, node, record FROM UNNEST($2::text[], $3::jsonb[]) AS row (node, record)
        ORDER BY node
        ON CONFLICT (policy, node) DO UPDATE SET record = instance.record || jsonb_build_object(
            'failed', excluded.record -> 'failed', 'pinned', excluded.record -> 'pinned',
            'last_start_at', excluded.record -> 'last_start_at')",
        policy.as_str(),
        &nodes as &[&str],
        &records as &[&Value],
    )
    .execute(tx)
    .await?;
    Ok(())
}

fn columns(rows: &[(NodeId, Value)]) -> (Vec<&str>, Vec<&Value>) {
    rows.iter().map(|(node, record)| (node.as_str(), record)).unzip()
}

/// Stores the settings of a user for a workload on nodes.
pub async fn replace_instances(
    tx: &mut PgConnection,
    policy: &PolicyId,
    rows: &[(NodeId, Value)],
) -> Result<(), StoreError> {
    let (nodes, records) = columns(rows);
    sqlx::query!(
        "-- workload.replace_instances
        INSERT INTO instance (policy, node, record)
        SELECT $1, node, record FROM UNNEST($2::text[], $3::jsonb[]) AS row (node, record)
        ORDER BY node
        ON CONFLICT (policy, node) DO UPDATE SET record = excluded.record",
        policy.as_str(),
        &nodes as &[&str],
        &records as &[&Value],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Reads all rows of a workload on nodes; the lock of the workload's row keeps them as they are.
pub async fn list_instances_of(
    conn: &mut PgConnection,
    policy: &PolicyId,
) -> Result<Vec<InstanceRow>, StoreError> {
    Ok(sqlx::query_as!(
        InstanceRow,
        r#"-- workload.list_instances_of
        SELECT policy AS "policy: PolicyId", node AS "node: NodeId", record
        FROM instance
        WHERE policy = $1"#,
        policy.as_str(),
    )
    .fetch_all(conn)
    .await?)
}

/// Lists all rows of workloads on nodes.
pub async fn list_instances(conn: &mut PgConnection) -> Result<Vec<InstanceRow>, StoreError> {
    Ok(sqlx::query_as!(
        InstanceRow,
        r#"-- workload.list_instances
        SELECT policy AS "policy: PolicyId", node AS "node: NodeId", record
        FROM instance
        ORDER BY instance.policy, instance.node"#
    )
    .fetch_all(conn)
    .await?)
}

/// Reads some rows of workloads on nodes.
pub async fn read_instances(
    conn: &mut PgConnection,
    policies: &[&str],
    nodes: &[&str],
) -> Result<Vec<InstanceRow>, StoreError> {
    Ok(sqlx::query_as!(
        InstanceRow,
        r#"-- workload.read_instances
        SELECT policy AS "policy: PolicyId", node AS "node: NodeId", record
        FROM instance
        JOIN UNNEST($1::text[], $2::text[]) AS key (policy, node) USING (policy, node)"#,
        policies as &[&str],
        nodes as &[&str],
    )
    .fetch_all(conn)
    .await?)
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::TaskId;
    use evenkeel_test_database::backend;
    use jiff::Timestamp;
    use serde_json::json;
    use sqlx::Connection;

    use super::*;
    use crate::task::{TaskRow, list_of_policy, upsert_tasks};
    use crate::tests::shared;

    fn task(policy: &PolicyId, spec_number: i64) -> TaskRow {
        TaskRow {
            task: TaskId::from_text(&format!("{policy}-{spec_number}")),
            policy: policy.clone(),
            part: "all".to_owned(),
            slot: "1".to_owned(),
            spec_number,
            changed_at: Timestamp::UNIX_EPOCH,
            record: json!({"state": "new", "desired": "ready", "number": spec_number}),
        }
    }

    #[tokio::test]
    async fn versions_that_tasks_run_are_kept() {
        let mut connection = shared().await.connection().await;
        let [policy, other] = ["p", "q"].map(|name| PolicyId::new("workload-specs", name));
        for policy in [&policy, &other] {
            upsert_workload(&mut connection, policy, &json!({})).await.unwrap();
            let specs: Vec<(i64, Value)> = (1..=3).map(|number| (number, json!(number))).collect();
            insert_task_specs(&mut connection, policy, &specs).await.unwrap();
        }
        // The task of another workload keeps nothing here.
        upsert_tasks(&mut connection, &[task(&policy, 1), task(&other, 2)]).await.unwrap();
        delete_task_specs(&mut connection, &policy, &[3]).await.unwrap();
        let found = read_workloads(&mut connection, &[policy.as_str(), other.as_str()]).await.unwrap();
        let mut numbers: Vec<(&str, Vec<i64>)> = Vec::new();
        for row in &found {
            let mut of_row: Vec<i64> = row.specs.iter().map(|(number, _)| *number).collect();
            of_row.sort_unstable();
            numbers.push((row.policy.name(), of_row));
        }
        numbers.sort_unstable();
        assert_eq!(numbers, [("p", vec![1, 3]), ("q", vec![1, 2, 3])]);
    }

    #[tokio::test]
    async fn plan_leaves_what_a_user_set_for_a_workload_on_a_node() {
        let mut connection = shared().await.connection().await;
        let (policy, node) = (PolicyId::new("workload-user", "p"), NodeId::new("workload-user", "n"));
        let set = json!({"mode": "off", "failed": null, "pinned": null, "last_start_at": 1});
        replace_instances(&mut connection, &policy, &[(node.clone(), set)]).await.unwrap();
        let planned = json!({"mode": "auto", "failed": {"count": 1}, "pinned": "x", "last_start_at": 2});
        upsert_instances(&mut connection, &policy, &[(node, planned)]).await.unwrap();
        let found = list_instances_of(&mut connection, &policy).await.unwrap().remove(0).record;
        assert_eq!(found, json!({"mode": "off", "failed": {"count": 1}, "pinned": "x", "last_start_at": 2}));
    }

    #[tokio::test]
    async fn writers_of_a_workload_wait_for_each_other() {
        let (mut first, mut second) = (shared().await.connection().await, shared().await.connection().await);
        let policy = PolicyId::new("workload-lock", "p");
        upsert_workload(&mut first, &policy, &json!(1)).await.unwrap();
        let mut tx = first.begin().await.unwrap();
        assert_eq!(lock_workload(&mut tx, &policy).await.unwrap(), Some(json!(1)));
        upsert_workload(&mut tx, &policy, &json!(2)).await.unwrap();
        let process = backend(&mut second).await;
        let waiter = share_workload(&mut second, &policy);
        let found = shared().await.release_when_awaited(process, waiter, tx.commit()).await.unwrap();
        assert_eq!(found, Some(json!(2)));
    }

    #[tokio::test]
    async fn workload_is_deleted_with_its_rows_alone() {
        let mut connection = shared().await.connection().await;
        let [gone, kept] = ["gone", "kept"].map(|name| PolicyId::new("workload-gone", name));
        let node = NodeId::new("workload-gone", "n");
        for policy in [&gone, &kept] {
            upsert_workload(&mut connection, policy, &json!({})).await.unwrap();
            insert_task_specs(&mut connection, policy, &[(1, json!({}))]).await.unwrap();
            upsert_tasks(&mut connection, &[task(policy, 1)]).await.unwrap();
            replace_instances(&mut connection, policy, &[(node.clone(), json!({}))]).await.unwrap();
        }
        delete_workload(&mut connection, &gone).await.unwrap();
        for (policy, count) in [(&gone, 0), (&kept, 1)] {
            assert_eq!(read_workloads(&mut connection, &[policy.as_str()]).await.unwrap().len(), count);
            assert_eq!(list_of_policy(&mut connection, policy).await.unwrap().len(), count);
            assert_eq!(list_instances_of(&mut connection, policy).await.unwrap().len(), count);
        }
    }
}
