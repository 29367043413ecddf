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
