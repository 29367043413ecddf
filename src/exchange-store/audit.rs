//! Audit records of writes: written in the transaction of the write, sealed into chains afterwards.
//!
//! Source: `docs/adr/0012-audit-records-are-sealed-afterwards.md`.

use jiff::Timestamp;
use sqlx::PgConnection;

use super::change::{Change, Columns};
use evenkeel_store::{StoreError, to_sql};

/// The resource of a write, for the hashes of its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The kind, as in the database's function `audit_state`.
    pub kind: &'static str,
    /// Organization of the resource.
    pub org: String,
    /// Its bare id.
    pub id: String,
    /// The part; empty for all parts of the kind.
    pub part: String,
}

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
    pub caller_role: &'static str,
    /// Address of the client, empty inside the process.
    pub address: String,
    /// Id of the request.
    pub request: String,
    /// HTTP method.
    pub method: String,
    /// Name of the operation.
    pub operation: &'static str,
    /// Path of the resource.
    pub resource: String,
    /// HTTP status of the response.
    pub status: i16,
    /// Hash of the state before the write.
    pub state_before: Option<Vec<u8>>,
}

/// Returns the hash of a resource's state and locks it until the end of the transaction; `None` when it does not exist.
pub async fn lock_state(tx: &mut PgConnection, subject: &Subject) -> Result<Option<Vec<u8>>, StoreError> {
    let row = sqlx::query!(
        "-- audit.lock_state
        SELECT audit_state($1, $2, $3, $4, true) AS state",
        subject.kind,
        subject.org,
        subject.id,
        subject.part,
    )
    .fetch_one(tx)
    .await?;
    Ok(row.state)
}

/// Inserts the record of a write, with the hash of the resulting state, and its changes into the outbox, like
/// [`super::change::insert_outbox_flushed_by_sequencing`]. Must be the last statement of the transaction. Without changes the
/// commit itself waits for the disk.
pub async fn insert_with_changes(
    tx: &mut PgConnection,
    record: &NewAuditRecord,
    subject: Option<&Subject>,
    changes: &[Change],
) -> Result<(), StoreError> {
    let columns = Columns::of(changes);
    sqlx::query!(
        "-- audit.insert_with_changes
        WITH recorded AS (
            INSERT INTO audit_outbox (org, recorded_at, caller, caller_role, address, request, method, operation, resource, status,
                                      state_before, state_after)
            SELECT $9, $7, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                   CASE WHEN $19::text IS NOT NULL THEN audit_state($19, $20, $21, $22, false) END
        )
        INSERT INTO change_outbox (org, id, category, resource, operation, is_public, changed_at)
        SELECT row.org, row.id, row.category, row.resource, row.operation, row.is_public, $7
        FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[])
            WITH ORDINALITY AS row (org, id, category, resource, operation, is_public, position)
        -- Here and not in a statement of its own: it costs no round trip.
        CROSS JOIN (SELECT CASE WHEN $8 THEN set_config('synchronous_commit', 'off', true) END) AS relaxed
        ORDER BY row.position",
        &columns.orgs as &[&str],
        &columns.ids as &[&str],
        &columns.categories as &[&str],
        &columns.resources as &[&str],
        &columns.operations as &[&str],
        &columns.publics,
        to_sql(record.recorded_at) as _,
        !changes.is_empty(),
        record.org,
        record.caller,
        record.caller_role,
        record.address,
        record.request,
        record.method,
        record.operation,
        record.resource,
        record.status,
        record.state_before.as_deref(),
        subject.map(|subject| subject.kind),
        subject.map(|subject| subject.org.as_str()),
        subject.map(|subject| subject.id.as_str()),
        subject.map(|subject| subject.part.as_str()),
    )
    .execute(tx)
    .await?;
    Ok(())
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
        &text(|record| record.caller_role) as &[&str],
        &text(|record| &record.address) as &[&str],
        &text(|record| &record.request) as &[&str],
        &text(|record| &record.method) as &[&str],
        &text(|record| record.operation) as &[&str],
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
