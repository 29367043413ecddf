//! Audit records of writes: written in the transaction of the write, sealed into chains afterwards.
//!
//! Source: docs/adr/0012-audit-records-are-sealed-afterwards.md.

use std::borrow::Cow;

use evenkeel_access::right;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::permitted::Permitted;

/// A record without its sequence number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAuditRecord {
    /// Organization of its chain.
    pub org: String,
    /// When the write happened.
    pub recorded_at: Timestamp,
    /// Login of the caller, `org/id`.
    pub caller: String,
    /// Kind of caller.
    pub caller_role: Cow<'static, str>,
    /// Address of the client, empty inside the process.
    pub address: String,
    /// Id of the request.
    pub request: String,
    /// HTTP method.
    pub method: String,
    /// Name of the operation.
    pub operation: Cow<'static, str>,
    /// Path of the resource.
    pub resource: String,
    /// HTTP status of the response.
    pub status: i16,
    /// Hash of the state before the write.
    pub state_before: Option<Vec<u8>>,
}

/// Records that an action has a record; false when it was recorded before.
pub async fn insert_action(
    tx: &mut Permitted<right::ActionRecord>,
    action: Uuid,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- audit.insert_action
        INSERT INTO audit_action (action, recorded_at)
        VALUES ($1, $2)
        ON CONFLICT (action) DO NOTHING",
        action,
        to_sql(at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Deletes pending actions from before an instant, which are no longer repeated.
pub async fn delete_actions(conn: &mut PgConnection, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- audit.delete_actions
        DELETE FROM audit_action WHERE recorded_at < $1",
        to_sql(before) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Inserts records without a transaction: refused requests, and changes of this process only.
pub async fn insert_records(tx: &mut PgConnection, records: &[NewAuditRecord]) -> Result<(), StoreError> {
    let text = |of: fn(&NewAuditRecord) -> &str| records.iter().map(of).collect::<Vec<&str>>();
    let times: Vec<jiff_sqlx::Timestamp> = records.iter().map(|record| to_sql(record.recorded_at)).collect();
    let statuses: Vec<i16> = records.iter().map(|record| record.status).collect();
    sqlx::query!(
        "-- audit.insert_records
        INSERT INTO audit_outbox (org, recorded_at, caller, caller_role, address, request, method, operation, resource, status)
        SELECT row.org, row.recorded_at, row.caller, row.caller_role, row.address, row.request, row.method, row.operation, row.resource,
               row.status
        FROM UNNEST($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                    $10::smallint[])
            WITH ORDINALITY AS row (org, recorded_at, caller, caller_role, address, request, method, operation, resource, status, position)
        ORDER BY row.position",
        &text(|record| &record.org) as &[&str],
        &times as &[jiff_sqlx::Timestamp],
        &text(|record| &record.caller) as &[&str],
        &text(|record| &record.caller_role) as &[&str],
        &text(|record| &record.address) as &[&str],
        &text(|record| &record.request) as &[&str],
        &text(|record| &record.method) as &[&str],
        &text(|record| &record.operation) as &[&str],
        &text(|record| &record.resource) as &[&str],
        &statuses,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A record, before or after it was added to a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Organization of its chain.
    pub org: String,
    /// Sequence number in the chain, 0 before it has one.
    pub number: i64,
    /// When the write happened.
    pub recorded_at: Timestamp,
    /// Login of the caller, `org/id`.
    pub caller: String,
    /// Kind of caller.
    pub caller_role: String,
    /// Address of the client, empty inside the process.
    pub address: String,
    /// Id of the request.
    pub request: String,
    /// HTTP method.
    pub method: String,
    /// Name of the operation.
    pub operation: String,
    /// Path of the resource.
    pub resource: String,
    /// HTTP status of the response.
    pub status: i16,
    /// Hash of the state before the write.
    pub state_before: Option<Vec<u8>>,
    /// Hash of the state after the write.
    pub state_after: Option<Vec<u8>>,
    /// Hash of the previous record.
    pub previous_hash: Vec<u8>,
    /// Hash of the record.
    pub hash: Vec<u8>,
}

/// Builds a record from a row of a query; its last columns differ between sealed and unsealed records.
macro_rules! audit_row {
    ($row:ident, $($place:ident: $value:expr),+) => {
        $crate::audit::AuditRow {
            org: $row.org,
            recorded_at: evenkeel_store::from_sql($row.recorded_at),
            caller: $row.caller,
            caller_role: $row.caller_role,
            address: $row.address,
            request: $row.request,
            method: $row.method,
            operation: $row.operation,
            resource: $row.resource,
            status: $row.status,
            state_before: $row.state_before,
            state_after: $row.state_after,
            $($place: $value),+
        }
    };
}
pub(super) use audit_row;

/// Takes the oldest unsealed records of committed writes, at most `limit`. The caller holds the sealer's lease.
pub async fn take_unsealed(tx: &mut PgConnection, limit: i64) -> Result<Vec<AuditRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- audit.take_unsealed
        WITH taken AS (
            DELETE FROM audit_outbox
            WHERE outbox_id IN (SELECT outbox_id FROM audit_outbox ORDER BY outbox_id LIMIT $1)
            RETURNING outbox_id, org, recorded_at, caller, caller_role, address, request, method, operation, resource, status,
                      state_before, state_after
        )
        SELECT org, recorded_at AS "recorded_at: jiff_sqlx::Timestamp", caller, caller_role, address, request, method, operation,
               resource, status, state_before, state_after
        FROM taken
        ORDER BY outbox_id"#,
        limit,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| audit_row!(row, number: 0, previous_hash: Vec::new(), hash: Vec::new()))
        .collect())
}

/// Returns whether records of committed writes wait to be sealed.
pub async fn has_unsealed(conn: &mut PgConnection) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- audit.has_unsealed
        SELECT EXISTS (SELECT 1 FROM audit_outbox) AS "has_rows!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(row.has_rows)
}
