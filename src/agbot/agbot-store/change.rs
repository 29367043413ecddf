//! The log of changed records that every agbot tails.
//!
//! Triggers append to the log in the transaction of each change. Transactions commit in another order than they take sequence numbers,
//! so a position in the log is a snapshot and not a number: the next read returns the rows that the snapshot did not show. Source:
//! docs/adr/0015-agbots-tail-a-log-of-records.md.

use std::collections::BTreeSet;

use evenkeel_ids::{AgreementId, GroupId, NodeId, PolicyId, ServiceKey, TaskId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::agreement::{self, UsageRow};
use super::blocklist::{self, BlocklistRow};
use super::claim::{self, ClaimRow};
use super::health::{self, EntityKey, HealthRow};
use super::registration;
use super::rollout;
use super::task;
use super::workload::{self, InstanceRow, WorkloadRow};
use evenkeel_store::{StoreError, from_sql};

/// Key of a record that agbots share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// An agreement, by id.
    Agreement(AgreementId),
    /// Usage and back-off, by node and policy.
    Usage(NodeId, PolicyId),
    /// A claim, by group and scope.
    Claim(GroupId, String),
    /// A rollout, by group and policy.
    Rollout(GroupId, PolicyId),
    /// A workload, by policy.
    Workload(PolicyId),
    /// A task, by id.
    Task(TaskId),
    /// The row of a workload on a node, by policy and node.
    Instance(PolicyId, NodeId),
    /// The health events of an entity.
    Health(EntityKey),
    /// A row of the node blocklist, by node, service and version.
    Blocklist(NodeId, ServiceKey, String),
    /// The registration of a target of health checks.
    Registration(EntityKey),
}

impl RecordKey {
    fn of(kind: &str, first: &str, second: &str) -> Result<RecordKey, StoreError> {
        match kind {
            "agreement" => Ok(RecordKey::Agreement(AgreementId::from_text(first))),
            "usage" => Ok(RecordKey::Usage(NodeId::from_text(first), PolicyId::from_text(second))),
            "claim" => Ok(RecordKey::Claim(GroupId::from_text(first), second.to_owned())),
            "rollout" => Ok(RecordKey::Rollout(GroupId::from_text(first), PolicyId::from_text(second))),
            "workload" => Ok(RecordKey::Workload(PolicyId::from_text(first))),
            "task" => Ok(RecordKey::Task(TaskId::from_text(first))),
            "instance" => Ok(RecordKey::Instance(PolicyId::from_text(first), NodeId::from_text(second))),
            "health" => Ok(RecordKey::Health(entity(first, second)?)),
            "registration" => Ok(RecordKey::Registration(entity(first, second)?)),
            "blocklist" => {
                let corrupt = StoreError::Corrupt { table: "agbot_change", column: "second_key" };
                let (version, service) = second.split_once(' ').ok_or(corrupt)?;
                let service = ServiceKey::from_text(service);
                Ok(RecordKey::Blocklist(NodeId::from_text(first), service, version.to_owned()))
            }
            _ => Err(StoreError::Corrupt { table: "agbot_change", column: "kind" }),
        }
    }
}

fn entity(kind_and_name: &str, part: &str) -> Result<EntityKey, StoreError> {
    let corrupt = StoreError::Corrupt { table: "agbot_change", column: "first_key" };
    let (kind, name) = kind_and_name.split_once(' ').ok_or(corrupt)?;
    Ok(EntityKey { kind: kind.to_owned(), name: name.to_owned(), part: part.to_owned() })
}

/// A position in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Contains every row before the position.
    snapshot: String,
    /// Last removal of old rows that the snapshot contains.
    round: i64,
}

/// The records found for a set of keys.
#[derive(Debug, Default, PartialEq)]
pub struct Records {
    /// Agreements.
    pub agreements: Vec<Value>,
    /// Usage and back-off.
    pub usage: Vec<UsageRow>,
    /// Claims.
    pub claims: Vec<ClaimRow>,
    /// Rollouts.
    pub rollouts: Vec<Value>,
    /// Workloads.
    pub workloads: Vec<WorkloadRow>,
    /// Tasks.
    pub tasks: Vec<Value>,
    /// Rows of workloads on nodes.
    pub instances: Vec<InstanceRow>,
    /// Health events.
    pub health: Vec<HealthRow>,
    /// Rows of the node blocklist.
    pub blocklist: Vec<BlocklistRow>,
    /// Registrations of targets of health checks.
    pub registrations: Vec<Value>,
}

/// Returns the end of the log: every change that is not visible to statements before this one comes after it.
pub async fn find_end(conn: &mut PgConnection) -> Result<Position, StoreError> {
    let row = sqlx::query!(
        r#"-- agbot_change.find_end
        SELECT pg_current_snapshot()::text AS "snapshot!", round FROM agbot_change_retention"#
    )
    .fetch_one(conn)
    .await?;
    Ok(Position { snapshot: row.snapshot, round: row.round })
}

/// Lists the records that changed after a position, and returns the end of the log. `None` when rows after the position may have been
/// removed, or the database was restored from an older state: then all records are to be read.
pub async fn list_after(
    conn: &mut PgConnection,
    position: &Position,
) -> Result<Option<(BTreeSet<RecordKey>, Position)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- agbot_change.list_after
        SELECT DISTINCT pg_current_snapshot()::text AS "snapshot!", agbot_change_retention.round,
               pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax($1::text::pg_snapshot) AS "is_older!",
               agbot_change.kind AS "kind?", agbot_change.first_key AS "first_key?",
               agbot_change.second_key AS "second_key?"
        FROM agbot_change_retention
        LEFT JOIN agbot_change
            ON agbot_change.transaction >= pg_snapshot_xmin($1::text::pg_snapshot)
           AND NOT pg_visible_in_snapshot(agbot_change.transaction, $1::text::pg_snapshot)"#,
        position.snapshot,
    )
    .fetch_all(conn)
    .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    if first.is_older || first.round > position.round + 1 || first.round < position.round {
        return Ok(None);
    }
    let end = Position { snapshot: first.snapshot.clone(), round: first.round };
    let keys = rows.into_iter().filter_map(|row| Some((row.kind?, row.first_key?, row.second_key?)));
    let keys = keys.map(|(kind, first, second)| RecordKey::of(&kind, &first, &second));
    Ok(Some((keys.collect::<Result<_, _>>()?, end)))
}

/// Reads the current records with these keys; missing ones are left out.
pub async fn read_records(
    conn: &mut PgConnection,
    keys: &BTreeSet<RecordKey>,
) -> Result<Records, StoreError> {
    let mut agreements: Vec<&str> = Vec::new();
    let (mut usage, mut claims, mut rollouts) = (Pairs::default(), Pairs::default(), Pairs::default());
    let (mut workloads, mut tasks, mut instances) = (Vec::new(), Vec::new(), Pairs::default());
    let mut entities: Vec<EntityKey> = Vec::new();
    let mut blocked = Vec::new();
    let mut targets: Vec<EntityKey> = Vec::new();
    for key in keys {
        match key {
            RecordKey::Agreement(id) => agreements.push(id.as_str()),
            RecordKey::Usage(node, policy) => usage.push(node.as_str(), policy.as_str()),
            RecordKey::Claim(group, scope) => claims.push(group.as_str(), scope),
            RecordKey::Rollout(group, policy) => rollouts.push(group.as_str(), policy.as_str()),
            RecordKey::Workload(policy) => workloads.push(policy.as_str()),
            RecordKey::Task(task) => tasks.push(task.as_str()),
            RecordKey::Instance(policy, node) => instances.push(policy.as_str(), node.as_str()),
            RecordKey::Health(entity) => entities.push(entity.clone()),
            RecordKey::Blocklist(node, service, version) => blocked.push((node, service, version.as_str())),
            RecordKey::Registration(target) => targets.push(target.clone()),
        }
    }
    let mut records = Records::default();
    if !agreements.is_empty() {
        records.agreements = read_agreements(conn, &agreements).await?;
    }
    if !usage.is_empty() {
        records.usage = read_usage(conn, &usage).await?;
    }
    if !claims.is_empty() {
        records.claims = read_claims(conn, &claims).await?;
    }
    if !rollouts.is_empty() {
        records.rollouts = read_rollouts(conn, &rollouts).await?;
    }
    if !workloads.is_empty() {
        records.workloads = workload::read_workloads(conn, &workloads).await?;
    }
    if !tasks.is_empty() {
        records.tasks = task::read_tasks(conn, &tasks).await?;
    }
    if !instances.is_empty() {
        records.instances = workload::read_instances(conn, &instances.first, &instances.second).await?;
    }
    if !entities.is_empty() {
        records.health = health::read_of_entities(conn, &entities).await?;
    }
    if !blocked.is_empty() {
        records.blocklist = blocklist::read_blocklist(conn, &blocked).await?;
    }
    if !targets.is_empty() {
        records.registrations = registration::read_registrations(conn, &targets).await?;
    }
    Ok(records)
}

/// Keys with two parts, as columns for a statement that unnests them.
#[derive(Default)]
struct Pairs<'k> {
    first: Vec<&'k str>,
    second: Vec<&'k str>,
}

impl<'k> Pairs<'k> {
    fn push(&mut self, first: &'k str, second: &'k str) {
        self.first.push(first);
        self.second.push(second);
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}

async fn read_agreements(conn: &mut PgConnection, ids: &[&str]) -> Result<Vec<Value>, StoreError> {
    let rows = sqlx::query!(
        "-- agbot_change.read_agreements
        SELECT record FROM agreement WHERE agreement = ANY ($1)",
        ids as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.record).collect())
}

async fn read_usage(conn: &mut PgConnection, keys: &Pairs<'_>) -> Result<Vec<UsageRow>, StoreError> {
    Ok(sqlx::query_as!(
        UsageRow,
        r#"-- agbot_change.read_usage
        SELECT node AS "node: NodeId", policy AS "policy: PolicyId", usage, backoff
        FROM workload_usage
        JOIN UNNEST($1::text[], $2::text[]) AS key (node, policy) USING (node, policy)"#,
        &keys.first as &[&str],
        &keys.second as &[&str],
    )
    .fetch_all(conn)
    .await?)
}

async fn read_claims(conn: &mut PgConnection, keys: &Pairs<'_>) -> Result<Vec<ClaimRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- agbot_change.read_claims
        SELECT ha_group AS "ha_group: GroupId", scope, node AS "node: NodeId", purpose, version, fencing, phase,
               since AS "since: jiff_sqlx::Timestamp",
               phase_at AS "phase_at: jiff_sqlx::Timestamp", deadline AS "deadline: jiff_sqlx::Timestamp"
        FROM claim
        JOIN UNNEST($1::text[], $2::text[]) AS key (ha_group, scope) USING (ha_group, scope)"#,
        &keys.first as &[&str],
        &keys.second as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ClaimRow {
            ha_group: row.ha_group,
            scope: row.scope,
            node: row.node,
            purpose: row.purpose,
            version: row.version,
            fencing: row.fencing,
            phase: row.phase,
            since: from_sql(row.since),
            phase_at: from_sql(row.phase_at),
            deadline: from_sql(row.deadline),
        })
        .collect())
}

async fn read_rollouts(conn: &mut PgConnection, keys: &Pairs<'_>) -> Result<Vec<Value>, StoreError> {
    let rows = sqlx::query!(
        "-- agbot_change.read_rollouts
        SELECT record
        FROM rollout
        JOIN UNNEST($1::text[], $2::text[]) AS key (ha_group, policy) USING (ha_group, policy)",
        &keys.first as &[&str],
        &keys.second as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.record).collect())
}

/// Reads all records; of agreements those that are live or ended at `ended_since` or later.
pub async fn read_all(conn: &mut PgConnection, ended_since: Timestamp) -> Result<Records, StoreError> {
    Ok(Records {
        agreements: agreement::list_recent(conn, ended_since).await?,
        usage: agreement::list_usage(conn).await?,
        claims: claim::list_all(conn).await?,
        rollouts: rollout::list_rollouts(conn).await?,
        workloads: workload::list_workloads(conn).await?,
        tasks: task::list_tasks(conn).await?,
        instances: workload::list_instances(conn).await?,
        health: health::list_events(conn).await?,
        blocklist: blocklist::list_blocklist(conn).await?,
        registrations: registration::list_registrations(conn).await?,
    })
}

/// Removes rows that are older than `retention_secs`, unless that was done within this time; a row is kept at most twice as long.
///
/// Rows of transactions that have not begun on this server come from another server's dump and are removed too.
pub async fn delete_old(tx: &mut PgConnection, retention_secs: f64) -> Result<u64, StoreError> {
    // SKIP LOCKED: another agbot is removing the rows, so there is nothing left to do.
    let due = sqlx::query!(
        r#"-- agbot_change.lock_retention
        SELECT snapshot::text AS "snapshot!" FROM agbot_change_retention
        WHERE taken_at <= now() - make_interval(secs => $1)
        FOR UPDATE SKIP LOCKED"#,
        retention_secs,
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(due) = due else { return Ok(0) };
    let done = sqlx::query!(
        "-- agbot_change.delete_old
        DELETE FROM agbot_change
        WHERE (pg_visible_in_snapshot(transaction, $1::text::pg_snapshot)
               AND changed_at <= now() - make_interval(secs => $2))
           OR transaction >= pg_snapshot_xmax(pg_current_snapshot())",
        due.snapshot,
        retention_secs,
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "-- agbot_change.begin_round
        UPDATE agbot_change_retention SET round = round + 1, snapshot = pg_current_snapshot(), taken_at = now()"
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}

#[cfg(test)]
mod tests {
    use evenkeel_test_database::TestDatabase;
    use serde_json::json;
    use sqlx::Connection;

    use super::*;
    use crate::tests::ROLES;

    /// Retention in which nothing is old.
    const LONG_SECS: f64 = 3600.0;

    async fn write(connection: &mut PgConnection, name: &str) {
        workload::upsert_workload(connection, &PolicyId::new("o", name), &json!({})).await.unwrap();
    }

    /// Lists the names of the workloads that changed after a position, and moves it to the end.
    async fn names_after(connection: &mut PgConnection, position: &mut Position) -> Option<Vec<String>> {
        let (keys, end) = list_after(connection, position).await.unwrap()?;
        *position = end;
        let name = |key: RecordKey| match key {
            RecordKey::Workload(policy) => policy.name().to_owned(),
            other => panic!("{other:?}"),
        };
        Some(keys.into_iter().map(name).collect())
    }

    #[tokio::test]
    async fn change_that_commits_after_later_ones_is_not_missed() {
        let database = TestDatabase::new(ROLES).await;
        let (mut slow, mut connection) = (database.connection().await, database.connection().await);
        let mut position = find_end(&mut connection).await.unwrap();
        let mut tx = slow.begin().await.unwrap();
        write(&mut tx, "slow").await;
        write(&mut connection, "fast").await;
        write(&mut connection, "fast").await;
        assert_eq!(names_after(&mut connection, &mut position).await.unwrap(), ["fast"]);
        tx.commit().await.unwrap();
        assert_eq!(names_after(&mut connection, &mut position).await.unwrap(), ["slow"]);
        assert!(names_after(&mut connection, &mut position).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn reader_reads_all_records_again_when_it_may_have_missed_removed_changes() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        let mut early = find_end(&mut connection).await.unwrap();
        write(&mut connection, "a").await;
        let mut late = find_end(&mut connection).await.unwrap();
        assert_eq!(delete_old(&mut connection, LONG_SECS).await.unwrap(), 0, "it is not yet time");
        assert_eq!(delete_old(&mut connection, 0.0).await.unwrap(), 0, "newer than the round before");
        let mut behind = early.clone();
        assert_eq!(names_after(&mut connection, &mut behind).await.unwrap(), ["a"]);
        assert_eq!(delete_old(&mut connection, 0.0).await.unwrap(), 1);
        assert_eq!(names_after(&mut connection, &mut early).await, None);
        assert_eq!(names_after(&mut connection, &mut late).await, None, "two rounds are over");
        assert_eq!(names_after(&mut connection, &mut behind).await.unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn keys_of_changes_find_their_records() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        let position = find_end(&mut connection).await.unwrap();
        let (node, policy) = (NodeId::new("o", "n"), PolicyId::new("o", "p"));
        let (service, group) = (ServiceKey::from_text("o/s x"), GroupId::new("o", "g"));
        agreement::set_usage(&mut connection, &node, &policy, Some(&json!(1))).await.unwrap();
        workload::replace_instances(&mut connection, &policy, &[(node.clone(), json!(2))]).await.unwrap();
        rollout::upsert_rollout(&mut connection, &group, &policy, &json!(3)).await.unwrap();
        let entity = EntityKey { kind: "unit".to_owned(), name: "o/p".to_owned(), part: "all".to_owned() };
        let event = health::NewHealthRow {
            source: "s".to_owned(),
            property: "p".to_owned(),
            sequence: 1,
            record: json!(4),
            expires_at: None,
        };
        health::upsert_events(&mut connection, &entity, &[event]).await.unwrap();
        let blocked = BlocklistRow { node, service, version: "1.0".to_owned(), record: json!(5) };
        blocklist::upsert_entry(&mut connection, &blocked).await.unwrap();
        let (keys, _) = list_after(&mut connection, &position).await.unwrap().expect("nothing is removed");
        assert_eq!(keys.len(), 5, "{keys:?}");
        let found = read_records(&mut connection, &keys).await.unwrap();
        assert_eq!(found.usage[0].usage, Some(json!(1)));
        assert_eq!(found.instances[0].record, json!(2));
        assert_eq!(found.rollouts, [json!(3)]);
        assert_eq!(found.health, [HealthRow { entity, record: json!(4) }]);
        assert_eq!(found.blocklist, [blocked]);
    }
}
