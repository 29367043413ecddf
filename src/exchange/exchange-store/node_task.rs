//! Tasks of nodes: what an agbot wants of them, and what the nodes report.
//!
//! Source: orchestration 1.8, B3.

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// A task of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTaskRow {
    /// Id.
    pub task: String,
    /// Desired state of the task.
    pub wanted: WantedTask,
    /// Its last report.
    pub reported: ReportedTask,
    /// Health that the node reported for the task.
    pub health: Option<Value>,
    /// The agbot that published it, as `org/id`; `None` when that was not recorded.
    pub agbot: Option<String>,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Desired state of a task, as an agbot writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedTask {
    /// Deployment policy, `org/policy`.
    pub policy: String,
    /// Name of the workload unit.
    pub workload_unit: String,
    /// Number of the slot; `None` when the slot is the node.
    pub slot: Option<i64>,
    /// Version of the spec.
    pub spec_version: i64,
    /// Word of the wanted state.
    pub desired: String,
    /// Agreement.
    pub agreement: Option<String>,
    /// Fencing number of the writer's lease.
    pub fencing: i64,
    /// Supervision by the agent; `None` for none.
    pub supervision: Option<Value>,
}

/// The last report of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedTask {
    /// Word of the state.
    pub state: String,
    /// Sequence number; 0 before the first report.
    pub seq: i64,
    /// When it happened, by the node's clock.
    pub reported_at: Option<Timestamp>,
    /// Human-readable message.
    pub message: Option<String>,
    /// Error.
    pub error: Option<String>,
    /// Exit code.
    pub exit_code: Option<i32>,
}

struct Row {
    task: String,
    policy: String,
    workload_unit: String,
    slot: Option<i64>,
    spec_version: i64,
    desired: String,
    agreement: Option<String>,
    fencing: i64,
    state: String,
    seq: i64,
    reported_at: Option<jiff_sqlx::Timestamp>,
    message: Option<String>,
    error: Option<String>,
    exit_code: Option<i32>,
    supervision: Option<Value>,
    health: Option<Value>,
    agbot: Option<String>,
    updated_at: jiff_sqlx::Timestamp,
}

impl From<Row> for NodeTaskRow {
    fn from(row: Row) -> NodeTaskRow {
        NodeTaskRow {
            task: row.task,
            wanted: WantedTask {
                policy: row.policy,
                workload_unit: row.workload_unit,
                slot: row.slot,
                spec_version: row.spec_version,
                desired: row.desired,
                agreement: row.agreement,
                fencing: row.fencing,
                supervision: row.supervision,
            },
            reported: ReportedTask {
                state: row.state,
                seq: row.seq,
                reported_at: row.reported_at.map(from_sql),
                message: row.message,
                error: row.error,
                exit_code: row.exit_code,
            },
            health: row.health,
            agbot: row.agbot,
            updated_at: from_sql(row.updated_at),
        }
    }
}

/// Lists the tasks of a node by id, at most `limit`.
pub async fn list_of_node(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
    limit: i64,
) -> Result<Vec<NodeTaskRow>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- node_task.list_of_node
        SELECT task, policy, workload_unit, slot, spec_version, desired, agreement, fencing, state, seq,
               reported_at AS "reported_at: jiff_sqlx::Timestamp", message, error, exit_code, supervision, health, agbot,
               updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_task
        WHERE org = $1 AND node = $2
        ORDER BY task
        LIMIT $3"#,
        org,
        node,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(NodeTaskRow::from).collect())
}

/// Finds a task and locks its row.
pub async fn lock(
    tx: &mut PgConnection,
    org: &str,
    node: &str,
    task: &str,
) -> Result<Option<NodeTaskRow>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        r#"-- node_task.lock
        SELECT task, policy, workload_unit, slot, spec_version, desired, agreement, fencing, state, seq,
               reported_at AS "reported_at: jiff_sqlx::Timestamp", message, error, exit_code, supervision, health, agbot,
               updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_task
        WHERE org = $1 AND node = $2 AND task = $3
        FOR UPDATE"#,
        org,
        node,
        task,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(NodeTaskRow::from))
}

/// Counts the tasks of a node.
pub async fn count_of_node(conn: &mut PgConnection, org: &str, node: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- node_task.count_of_node
        SELECT count(*) AS "count!" FROM node_task WHERE org = $1 AND node = $2"#,
        org,
        node,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Writes what is wanted of a task. Its report stays as it is.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the node does not exist.
pub async fn upsert(
    tx: &mut Permitted<right::NodeTaskPublish>,
    (org, node): (&str, &str),
    task: &str,
    row: &WantedTask,
    agbot: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node_task.upsert
        INSERT INTO node_task (org, node, task, policy, workload_unit, slot, spec_version, desired, agreement, fencing,
                               updated_at, supervision, agbot)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        ON CONFLICT (org, node, task) DO UPDATE
        SET desired = excluded.desired, agreement = excluded.agreement, fencing = excluded.fencing,
            updated_at = excluded.updated_at, supervision = excluded.supervision,
            agbot = COALESCE(excluded.agbot, node_task.agbot)",
        org,
        node,
        task,
        row.policy,
        row.workload_unit,
        row.slot,
        row.spec_version,
        row.desired,
        row.agreement,
        row.fencing,
        to_sql(now) as _,
        row.supervision,
        agbot,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Writes a report; false when there is no such task.
pub async fn update_report(
    tx: &mut Permitted<right::NodeTaskReport>,
    org: &str,
    node: &str,
    task: &str,
    report: &ReportedTask,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node_task.update_report
        UPDATE node_task
        SET state = $4, seq = $5, reported_at = $6, message = $7, error = $8, exit_code = $9, updated_at = $10
        WHERE org = $1 AND node = $2 AND task = $3",
        org,
        node,
        task,
        report.state,
        report.seq,
        report.reported_at.map(to_sql) as _,
        report.message,
        report.error,
        report.exit_code,
        to_sql(now) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Adds what a node reports about the health of a task: members replace those of the same name.
pub async fn merge_health(
    tx: &mut Permitted<right::NodeTaskReport>,
    org: &str,
    node: &str,
    task: &str,
    health: &Value,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node_task.merge_health
        UPDATE node_task SET health = COALESCE(health, '{}') || $4, updated_at = $5
        WHERE org = $1 AND node = $2 AND task = $3",
        org,
        node,
        task,
        health,
        to_sql(now) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Finds the task of a node that an agreement or a command belongs to.
pub async fn find_by(
    conn: &mut PgConnection,
    (org, node): (&str, &str),
    agreement: Option<&str>,
    command: Option<&str>,
) -> Result<Option<String>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- node_task.find_by
        SELECT task FROM node_task
        WHERE org = $1 AND node = $2 AND (agreement = $3 OR supervision #>> '{command,id}' = $4)
        ORDER BY updated_at DESC
        LIMIT 1",
        org,
        node,
        agreement,
        command,
    )
    .fetch_optional(conn)
    .await?)
}

/// Removes a task; false when there is none.
pub async fn delete(
    tx: &mut Permitted<right::NodeTaskPublish>,
    org: &str,
    node: &str,
    task: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node_task.delete
        DELETE FROM node_task WHERE org = $1 AND node = $2 AND task = $3",
        org,
        node,
        task,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Returns whether an agbot (organization and id) serves a policy (organization and name) to the nodes of an organization.
pub async fn is_served(
    conn: &mut PgConnection,
    agbot: (&str, &str),
    policy: (&str, &str),
    node_org: &str,
) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- node_task.is_served
        SELECT EXISTS (
            SELECT 1
            FROM agbot_policy
            WHERE org = $1 AND agbot = $2 AND policy_org = $3 AND policy IN ($4, '*') AND node_org IN ($5, '*')
        ) AS "is_served!""#,
        agbot.0,
        agbot.1,
        policy.0,
        policy.1,
        node_org,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.is_served)
}

/// Counts the nodes that have tasks of a policy that are to run and have not ended: those whose agents read tasks in this version, and all.
pub async fn count_agents_of_policy(
    conn: &mut PgConnection,
    policy: &str,
    tasks_version: &str,
) -> Result<(i64, i64), StoreError> {
    let found = sqlx::query!(
        r#"-- node_task.count_agents_of_policy
        SELECT count(*) FILTER (WHERE software_versions ->> 'orchestration' = $2) AS "capable!",
               count(*) AS "all!"
        FROM node
        WHERE (org, node) IN (
            SELECT org, node FROM node_task
            WHERE policy = $1 AND desired IN ('ready', 'running')
              AND state NOT IN ('complete', 'shutdown', 'failed', 'rejected'))"#,
        policy,
        tasks_version,
    )
    .fetch_one(conn)
    .await?;
    Ok((found.capable, found.all))
}

/// Returns whether a policy has tasks that are to run and have not ended.
pub async fn has_live_of_policy(conn: &mut PgConnection, policy: &str) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        r#"-- node_task.has_live_of_policy
        SELECT EXISTS (
            SELECT FROM node_task
            WHERE policy = $1 AND desired IN ('ready', 'running')
              AND state NOT IN ('complete', 'shutdown', 'failed', 'rejected')
        ) AS "exists!""#,
        policy,
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::{Org, at};

    fn wanted(policy: &str, desired: &str) -> WantedTask {
        WantedTask {
            policy: policy.to_owned(),
            workload_unit: "all".to_owned(),
            slot: Some(1),
            spec_version: 1,
            desired: desired.to_owned(),
            agreement: Some("agreed".to_owned()),
            fencing: 1,
            supervision: Some(json!({"command": {"id": "c"}})),
        }
    }

    fn report(state: &str) -> ReportedTask {
        let (message, error, exit_code) = (None, None, None);
        ReportedTask { state: state.to_owned(), seq: 7, reported_at: Some(at(1)), message, error, exit_code }
    }

    async fn publish(
        org: &Org,
        (node, task): (&str, &str),
        row: &WantedTask,
        agbot: Option<&str>,
        second: i64,
    ) {
        org.write(async |tx| upsert(tx, (org, node), task, row, agbot, at(second)).await).await;
    }

    #[tokio::test]
    async fn published_task_keeps_its_report_and_its_agbot() {
        let org = Org::new("task-report").await;
        org.add_nodes(&["n"]).await;
        publish(&org, ("n", "t"), &wanted("o/p", "running"), Some("o/a"), 0).await;
        org.write(async |tx| update_report(tx, &org, "n", "t", &report("running"), at(1)).await).await;
        for health in [json!({"a": 1, "b": {"x": 1}}), json!({"b": {"y": 2}})] {
            org.write(async |tx| merge_health(tx, &org, "n", "t", &health, at(2)).await).await;
        }
        publish(&org, ("n", "t"), &WantedTask { fencing: 2, ..wanted("o/p", "shutdown") }, None, 3).await;
        let mut connection = org.connection().await;
        let row = lock(&mut connection, &org, "n", "t").await.unwrap().expect("the task");
        assert_eq!((row.wanted.desired.as_str(), row.wanted.fencing), ("shutdown", 2));
        assert_eq!(row.reported, report("running"));
        assert_eq!(row.health, Some(json!({"a": 1, "b": {"y": 2}})));
        assert_eq!(row.agbot.as_deref(), Some("o/a"));
    }

    #[tokio::test]
    async fn task_is_found_by_agreement_or_command_on_its_node_the_newest() {
        let org = Org::new("task-find").await;
        org.add_nodes(&["n", "m"]).await;
        for (node, task, second) in [("n", "new", 2), ("n", "old", 1), ("m", "other", 3)] {
            publish(&org, (node, task), &wanted("o/p", "running"), None, second).await;
        }
        let mut connection = org.connection().await;
        for (agreement, command, expected) in [
            (Some("agreed"), None, Some("new")),
            (None, Some("c"), Some("new")),
            (None, Some("d"), None),
            (None, None, None),
        ] {
            let found = find_by(&mut connection, (&org, "n"), agreement, command).await.unwrap();
            assert_eq!(found.as_deref(), expected, "{agreement:?} {command:?}");
        }
    }

    #[tokio::test]
    async fn policy_lives_while_a_task_that_is_to_run_has_not_ended() {
        let org = Org::new("task-live").await;
        org.add_nodes(&["n", "m"]).await;
        let policy = "task-live/p";
        publish(&org, ("n", "1"), &wanted(policy, "running"), None, 0).await;
        publish(&org, ("m", "2"), &wanted(policy, "ready"), None, 0).await;
        publish(&org, ("m", "3"), &wanted(policy, "shutdown"), None, 0).await;
        let mut connection = org.connection().await;
        assert_eq!(count_agents_of_policy(&mut connection, policy, "1").await.unwrap(), (0, 2));
        org.write(async |tx| update_report(tx, &org, "n", "1", &report("failed"), at(1)).await).await;
        assert_eq!(count_agents_of_policy(&mut connection, policy, "1").await.unwrap(), (0, 1));
        assert!(has_live_of_policy(&mut connection, policy).await.unwrap());
        assert!(org.write(async |tx| delete(tx, &org, "m", "2").await).await);
        assert!(!has_live_of_policy(&mut connection, policy).await.unwrap());
        assert_eq!(count_of_node(&mut connection, &org, "m").await.unwrap(), 1);
    }
}
