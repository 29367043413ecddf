//! Tasks: attempts to run an instance in a slot of a workload unit.

use evenkeel_ids::{AgreementId, NodeId, PolicyId, TaskId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, to_sql};

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRow {
    /// Its id.
    pub task: TaskId,
    /// Its policy.
    pub policy: PolicyId,
    /// Its part of the workload: `org/group`, or `all`.
    pub part: String,
    /// Its slot.
    pub slot: String,
    /// The version that it runs.
    pub spec_number: i64,
    /// When its state, desired state or node changed last.
    pub changed_at: Timestamp,
    /// The row.
    pub record: Value,
}

/// Stores tasks, new or changed.
pub async fn upsert_tasks(tx: &mut PgConnection, tasks: &[TaskRow]) -> Result<(), StoreError> {
    let text = |of: fn(&TaskRow) -> &str| tasks.iter().map(of).collect::<Vec<&str>>();
    let numbers: Vec<i64> = tasks.iter().map(|task| task.spec_number).collect();
    let times: Vec<jiff_sqlx::Timestamp> = tasks.iter().map(|task| to_sql(task.changed_at)).collect();
    let records: Vec<&Value> = tasks.iter().map(|task| &task.record).collect();
    sqlx::query!(
        "-- task.upsert_tasks
        INSERT INTO task (task, policy, part, slot, spec_number, changed_at, record)
        SELECT * FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[], $7::jsonb[])
            AS row (task, policy, part, slot, spec_number, changed_at, record)
        ORDER BY task
        ON CONFLICT (task) DO UPDATE SET record = excluded.record, changed_at = excluded.changed_at",
        &text(|task| task.task.as_str()) as &[&str],
        &text(|task| task.policy.as_str()) as &[&str],
        &text(|task| &task.part) as &[&str],
        &text(|task| &task.slot) as &[&str],
        &numbers,
        &times as _,
        &records as &[&Value],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes tasks and returns them.
pub async fn delete_tasks(tx: &mut PgConnection, tasks: &[&str]) -> Result<Vec<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- task.delete_tasks
        DELETE FROM task WHERE task = ANY ($1) RETURNING record",
        tasks as &[&str],
    )
    .fetch_all(tx)
    .await?)
}

/// Lists the tasks of a workload.
pub async fn list_of_policy(tx: &mut PgConnection, policy: &PolicyId) -> Result<Vec<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- task.list_of_policy
        SELECT record FROM task WHERE policy = $1 ORDER BY task",
        policy.as_str(),
    )
    .fetch_all(tx)
    .await?)
}

/// Published state of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedTask {
    /// The row; `None` when it is deleted.
    pub record: Option<Value>,
    /// Its live agreement.
    pub agreement: Option<AgreementId>,
    /// Fencing number of the partition.
    pub fencing: i64,
}

/// Reads what is to be published of a task of a node, under the lease of a partition.
pub async fn read_published(
    conn: &mut PgConnection,
    task: &TaskId,
    node: &NodeId,
    partition: i32,
) -> Result<Option<PublishedTask>, StoreError> {
    Ok(sqlx::query_as!(
        PublishedTask,
        r#"-- task.read_published
        SELECT task.record AS "record?", agreement.agreement AS "agreement?: AgreementId", work_partition.fencing
        FROM work_partition
        LEFT JOIN task ON task.task = $1
        LEFT JOIN agreement
            ON agreement.org = $2 AND agreement.node = $3 AND agreement.policy = task.policy
           AND agreement.ended_at IS NULL AND agreement.record ->> 'task' = task.task
        WHERE work_partition.partition_number = $4"#,
        task.as_str(),
        node.org(),
        node.as_str(),
        partition,
    )
    .fetch_optional(conn)
    .await?)
}

/// Reads all tasks of some slots and locks them.
pub async fn lock_slots(
    tx: &mut PgConnection,
    policy: &PolicyId,
    part: &str,
    slots: &[String],
) -> Result<Vec<Value>, StoreError> {
    // Sorted, so that two plans with common slots do not deadlock.
    Ok(sqlx::query_scalar!(
        "-- task.lock_slots
        SELECT record FROM task WHERE policy = $1 AND part = $2 AND slot = ANY ($3) ORDER BY task FOR UPDATE",
        policy.as_str(),
        part,
        slots,
    )
    .fetch_all(tx)
    .await?)
}

/// Reads the tasks of some policies on some nodes.
pub async fn list_on_nodes(
    tx: &mut PgConnection,
    policies: &[&str],
    nodes: &[&NodeId],
) -> Result<Vec<Value>, StoreError> {
    let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
    Ok(sqlx::query_scalar!(
        "-- task.list_on_nodes
        SELECT record FROM task WHERE policy = ANY ($1) AND record ->> 'node' = ANY ($2) ORDER BY task",
        policies as &[&str],
        &names as &[&str],
    )
    .fetch_all(tx)
    .await?)
}

/// Reads all tasks on some nodes.
pub async fn list_all_on_nodes(tx: &mut PgConnection, nodes: &[&NodeId]) -> Result<Vec<Value>, StoreError> {
    let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
    Ok(sqlx::query_scalar!(
        "-- task.list_all_on_nodes
        SELECT record FROM task WHERE record ->> 'node' = ANY ($1) ORDER BY task",
        &names as &[&str],
    )
    .fetch_all(tx)
    .await?)
}

/// Reads a task and keeps it as it is until the transaction ends.
pub async fn share_task(tx: &mut PgConnection, task: &TaskId) -> Result<Option<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- task.share_task
        SELECT record FROM task WHERE task = $1 FOR SHARE",
        task.as_str(),
    )
    .fetch_optional(tx)
    .await?)
}

/// Returns those of the tasks for which their nodes have a live agreement of the policy.
pub async fn list_with_agreement(
    tx: &mut PgConnection,
    policy: &PolicyId,
    tasks: &[(&TaskId, &NodeId)],
) -> Result<Vec<TaskId>, StoreError> {
    let ids: Vec<&str> = tasks.iter().map(|(task, _)| task.as_str()).collect();
    let orgs: Vec<&str> = tasks.iter().map(|(_, node)| node.org()).collect();
    let nodes: Vec<&str> = tasks.iter().map(|(_, node)| node.as_str()).collect();
    let found = sqlx::query_scalar!(
        r#"-- task.list_with_agreement
        SELECT key.task AS "task!: TaskId"
        FROM UNNEST($2::text[], $3::text[], $4::text[]) AS key (task, org, node)
        JOIN agreement
            ON agreement.org = key.org AND agreement.node = key.node AND agreement.policy = $1
           AND agreement.ended_at IS NULL AND agreement.record ->> 'task' = key.task"#,
        policy.as_str(),
        &ids as &[&str],
        &orgs as &[&str],
        &nodes as &[&str],
    )
    .fetch_all(tx)
    .await?;
    Ok(found)
}

/// Lists all tasks.
pub async fn list_tasks(conn: &mut PgConnection) -> Result<Vec<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- task.list_tasks
        SELECT record FROM task ORDER BY task"
    )
    .fetch_all(conn)
    .await?)
}

/// Reads some tasks.
pub async fn read_tasks(conn: &mut PgConnection, tasks: &[&str]) -> Result<Vec<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- task.read_tasks
        SELECT record FROM task WHERE task = ANY ($1)",
        tasks as &[&str],
    )
    .fetch_all(conn)
    .await?)
}
