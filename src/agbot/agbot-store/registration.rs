//! The health registry: what is checked by a health policy, and by which agbot.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, from_sql};

use crate::health::EntityKey;

/// A registration to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRegistration {
    /// The target.
    pub target: EntityKey,
    /// The modes of detection.
    pub modes: Vec<String>,
    /// Time between two checks.
    pub interval_secs: i64,
    /// True if the health policy is enabled.
    pub is_enabled: bool,
    /// The operation of a user that suspends the checks.
    pub suspended_by: Option<String>,
    /// The agbot that adopted the target.
    pub engine: String,
    /// The partition of the target.
    pub partition: i32,
    /// Fencing number of the lease under which it was adopted.
    pub fencing: i64,
    /// The row.
    pub record: Value,
}

/// A registration with the lease of the agbot that checks the target.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistrationRow {
    /// The row.
    pub record: Value,
    /// The agbot that adopted the target.
    pub engine: String,
    /// When the lease ends under which it did; none when the lease is another's by now.
    pub leased_until: Option<Timestamp>,
}

/// Reads a registration and locks it.
pub async fn lock_registration(
    tx: &mut PgConnection,
    target: &EntityKey,
) -> Result<Option<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- registration.lock_registration
        SELECT record FROM health_registry WHERE org = $1 AND target_kind = $2 AND target = $3 FOR UPDATE",
        target.org(),
        target.kind,
        target.name,
    )
    .fetch_optional(tx)
    .await?)
}

/// Stores a registration.
pub async fn upsert_registration(tx: &mut PgConnection, row: &NewRegistration) -> Result<(), StoreError> {
    sqlx::query!(
        "-- registration.upsert_registration
        INSERT INTO health_registry (target_kind, target, detection_modes, interval_seconds, is_enabled,
                                     suspended_by, engine, partition_number, fencing, record)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
        ON CONFLICT (org, target_kind, target) DO UPDATE
        SET detection_modes = excluded.detection_modes, interval_seconds = excluded.interval_seconds,
            is_enabled = excluded.is_enabled, suspended_by = excluded.suspended_by, engine = excluded.engine,
            partition_number = excluded.partition_number, fencing = excluded.fencing, record = excluded.record",
        row.target.kind,
        row.target.name,
        &row.modes,
        row.interval_secs,
        row.is_enabled,
        row.suspended_by,
        row.engine,
        row.partition,
        row.fencing,
        row.record,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Changes the record of a registration, and leaves the lease of the agbot that checks the target unchanged.
pub async fn update_record(
    tx: &mut PgConnection,
    target: &EntityKey,
    record: &Value,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- registration.update_record
        UPDATE health_registry SET record = $4 WHERE org = $1 AND target_kind = $2 AND target = $3",
        target.org(),
        target.kind,
        target.name,
        record,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Deletes a registration; returns whether there was one.
pub async fn delete_registration(tx: &mut PgConnection, target: &EntityKey) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- registration.delete_registration
        DELETE FROM health_registry WHERE org = $1 AND target_kind = $2 AND target = $3",
        target.org(),
        target.kind,
        target.name,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Lists all registrations.
pub async fn list_registrations(conn: &mut PgConnection) -> Result<Vec<Value>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- registration.list_registrations
        SELECT record FROM health_registry ORDER BY org, target_kind, target"
    )
    .fetch_all(conn)
    .await?)
}

/// Reads some registrations.
pub async fn read_registrations(
    conn: &mut PgConnection,
    targets: &[EntityKey],
) -> Result<Vec<Value>, StoreError> {
    let kinds: Vec<&str> = targets.iter().map(|target| target.kind.as_str()).collect();
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    Ok(sqlx::query_scalar!(
        "-- registration.read_registrations
        SELECT health_registry.record
        FROM UNNEST($1::text[], $2::text[]) AS key (kind, name)
        JOIN health_registry
            ON health_registry.org = split_part(key.name, '/', 1)
           AND health_registry.target_kind = key.kind AND health_registry.target = key.name",
        &kinds as &[&str],
        &names as &[&str],
    )
    .fetch_all(conn)
    .await?)
}

/// Lists the registrations of an organization, by kind and name, with those that check them.
pub async fn list_of_org(conn: &mut PgConnection, org: &str) -> Result<Vec<RegistrationRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- registration.list_of_org
        SELECT health_registry.record, health_registry.engine,
               work_partition.expires_at AS "leased_until?: jiff_sqlx::Timestamp"
        FROM health_registry
        LEFT JOIN work_partition
            ON work_partition.partition_number = health_registry.partition_number
           AND work_partition.fencing = health_registry.fencing
        WHERE health_registry.org = $1
        ORDER BY health_registry.target_kind, health_registry.target"#,
        org,
    )
    .fetch_all(conn)
    .await?;
    let rows = rows.into_iter().map(|row| RegistrationRow {
        record: row.record,
        engine: row.engine,
        leased_until: row.leased_until.map(from_sql),
    });
    Ok(rows.collect())
}
