//! The chains of sealed audit records.

use jiff::Timestamp;
use sqlx::PgConnection;

use super::audit::{AuditRow, audit_row};
use evenkeel_store::{StoreError, to_sql};

/// Both ends of the chain of an organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The organization.
    pub org: String,
    /// Sequence number of the last record, 0 when there is none.
    pub last_number: i64,
    /// Its hash.
    pub last_hash: Vec<u8>,
    /// Sequence number of the last pruned record, 0 when none was.
    pub begin_number: i64,
    /// Its hash.
    pub begin_hash: Vec<u8>,
    /// Record of the creation of the current organization.
    pub opened_at: i64,
}

/// Becomes the sealer until the end of the transaction, waiting for the current one.
pub async fn lock_lease(tx: &mut PgConnection) -> Result<(), StoreError> {
    // The lock is the lease: it ends with the transaction, also if the sealer's connection is lost, and needs no
    // timeout.
    sqlx::query!(
        "-- audit_chain.lock_lease
        SELECT only_row FROM audit_lease FOR UPDATE"
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Locks the chains of organizations that have one; ascending by organization.
pub async fn lock_chains(tx: &mut PgConnection, orgs: &[String]) -> Result<Vec<Chain>, StoreError> {
    let rows = sqlx::query_as!(
        Chain,
        "-- audit_chain.lock_chains
        SELECT org, last_number, last_hash, begin_number, begin_hash, opened_at
        FROM audit_chain
        WHERE org = ANY ($1)
        ORDER BY org
        FOR UPDATE",
        orgs,
    )
    .fetch_all(tx)
    .await?;
    Ok(rows)
}

/// Finds the chain of an organization.
pub async fn find_chain(conn: &mut PgConnection, org: &str) -> Result<Option<Chain>, StoreError> {
    let row = sqlx::query_as!(
        Chain,
        "-- audit_chain.find_chain
        SELECT org, last_number, last_hash, begin_number, begin_hash, opened_at FROM audit_chain WHERE org = $1",
        org,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row)
}

/// Writes both ends of chains.
pub async fn upsert_chains(tx: &mut PgConnection, chains: &[Chain]) -> Result<(), StoreError> {
    let orgs: Vec<&str> = chains.iter().map(|chain| chain.org.as_str()).collect();
    let last_numbers: Vec<i64> = chains.iter().map(|chain| chain.last_number).collect();
    let last_hashes: Vec<&[u8]> = chains.iter().map(|chain| chain.last_hash.as_slice()).collect();
    let begin_numbers: Vec<i64> = chains.iter().map(|chain| chain.begin_number).collect();
    let begin_hashes: Vec<&[u8]> = chains.iter().map(|chain| chain.begin_hash.as_slice()).collect();
    let opened: Vec<i64> = chains.iter().map(|chain| chain.opened_at).collect();
    sqlx::query!(
        "-- audit_chain.upsert_chains
        INSERT INTO audit_chain (org, last_number, last_hash, begin_number, begin_hash, opened_at)
        SELECT row.org, row.last_number, row.last_hash, row.begin_number, row.begin_hash, row.opened_at
        FROM UNNEST($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[], $6::bigint[])
            AS row (org, last_number, last_hash, begin_number, begin_hash, opened_at)
        ON CONFLICT (org) DO UPDATE
        SET last_number = excluded.last_number, last_hash = excluded.last_hash, begin_number = excluded.begin_number,
            begin_hash = excluded.begin_hash, opened_at = excluded.opened_at",
        &orgs as &[&str],
        &last_numbers,
        &last_hashes as &[&[u8]],
        &begin_numbers,
        &begin_hashes as &[&[u8]],
        &opened,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Adds sealed records. The caller holds the lock of their chains.
pub async fn insert_sealed(tx: &mut PgConnection, rows: &[AuditRow]) -> Result<(), StoreError> {
    let text = |of: fn(&AuditRow) -> &str| rows.iter().map(of).collect::<Vec<&str>>();
    let numbers: Vec<i64> = rows.iter().map(|row| row.number).collect();
    let times: Vec<jiff_sqlx::Timestamp> = rows.iter().map(|row| to_sql(row.recorded_at)).collect();
    let statuses: Vec<i16> = rows.iter().map(|row| row.status).collect();
    let before: Vec<Option<&[u8]>> = rows.iter().map(|row| row.state_before.as_deref()).collect();
    let after: Vec<Option<&[u8]>> = rows.iter().map(|row| row.state_after.as_deref()).collect();
    let previous: Vec<&[u8]> = rows.iter().map(|row| row.previous_hash.as_slice()).collect();
    let hashes: Vec<&[u8]> = rows.iter().map(|row| row.hash.as_slice()).collect();
    sqlx::query!(
        "-- audit_chain.insert_sealed
        INSERT INTO audit_record (org, number, recorded_at, caller, caller_role, address, request, method, operation, resource, status,
                                  state_before, state_after, previous_hash, hash)
        SELECT row.org, row.number, row.recorded_at, row.caller, row.caller_role, row.address, row.request, row.method, row.operation,
               row.resource, row.status, row.state_before, row.state_after, row.previous_hash, row.hash
        FROM UNNEST($1::text[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                    $10::text[], $11::smallint[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[])
            AS row (org, number, recorded_at, caller, caller_role, address, request, method, operation, resource, status, state_before,
                    state_after, previous_hash, hash)",
        &text(|row| &row.org) as &[&str],
        &numbers,
        &times as &[jiff_sqlx::Timestamp],
        &text(|row| &row.caller) as &[&str],
        &text(|row| &row.caller_role) as &[&str],
        &text(|row| &row.address) as &[&str],
        &text(|row| &row.request) as &[&str],
        &text(|row| &row.method) as &[&str],
        &text(|row| &row.operation) as &[&str],
        &text(|row| &row.resource) as &[&str],
        &statuses,
        &before as &[Option<&[u8]>],
        &after as &[Option<&[u8]>],
        &previous as &[&[u8]],
        &hashes as &[&[u8]],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The filter of a list of records.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter<'a> {
    /// Only sequence numbers above this one.
    pub after: i64,
    /// Login of the caller, `org/id`.
    pub caller: Option<&'a str>,
    /// Beginning of the resource's path.
    pub resource: Option<&'a str>,
    /// From this instant on.
    pub since: Option<Timestamp>,
    /// Before this instant.
    pub until: Option<Timestamp>,
    /// Maximum number of records.
    pub limit: i64,
}

/// Lists sealed records of an organization, ascending by number.
pub async fn list_records(
    conn: &mut PgConnection,
    org: &str,
    filter: &AuditFilter<'_>,
) -> Result<Vec<AuditRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- audit_chain.list_records
        SELECT org, number, recorded_at AS "recorded_at: jiff_sqlx::Timestamp", caller, caller_role, address, request, method,
               operation, resource, status, state_before, state_after, previous_hash, hash
        FROM audit_record
        WHERE org = $1
          AND number > $2
          AND ($3::text IS NULL OR caller = $3)
          AND ($4::text IS NULL OR starts_with(resource, $4))
          AND ($5::timestamptz IS NULL OR recorded_at >= $5)
          AND ($6::timestamptz IS NULL OR recorded_at < $6)
        ORDER BY number
        LIMIT $7"#,
        org,
        filter.after,
        filter.caller,
        filter.resource,
        filter.since.map(to_sql) as _,
        filter.until.map(to_sql) as _,
        filter.limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| audit_row!(row, number: row.number, previous_hash: row.previous_hash, hash: row.hash))
        .collect())
}

/// Lists sealed records of an organization below a sequence number, descending, without those of some operations.
pub async fn list_newest_records(
    conn: &mut PgConnection,
    org: &str,
    filter: &AuditFilter<'_>,
    before: i64,
    without: &[&str],
) -> Result<Vec<AuditRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- audit_chain.list_newest_records
        SELECT org, number, recorded_at AS "recorded_at: jiff_sqlx::Timestamp", caller, caller_role, address, request, method,
               operation, resource, status, state_before, state_after, previous_hash, hash
        FROM audit_record
        WHERE org = $1
          AND number > $2
          AND number < $8
          AND ($3::text IS NULL OR caller = $3)
          AND ($4::text IS NULL OR starts_with(resource, $4))
          AND ($5::timestamptz IS NULL OR recorded_at >= $5)
          AND ($6::timestamptz IS NULL OR recorded_at < $6)
          AND operation <> ALL ($9::text[])
        ORDER BY number DESC
        LIMIT $7"#,
        org,
        filter.after,
        filter.caller,
        filter.resource,
        filter.since.map(to_sql) as _,
        filter.until.map(to_sql) as _,
        filter.limit,
        before,
        without as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| audit_row!(row, number: row.number, previous_hash: row.previous_hash, hash: row.hash))
        .collect())
}

/// Lists the last record of each chain, with its hash, that is older than an instant together with all records before it.
pub async fn list_prunable(
    conn: &mut PgConnection,
    before: Timestamp,
) -> Result<Vec<(String, i64)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- audit_chain.list_prunable
        SELECT org, max(number) AS "number!" FROM audit_record WHERE recorded_at < $1 GROUP BY org ORDER BY org"#,
        to_sql(before) as _,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.org, row.number)).collect())
}

/// Removes the records of an organization up to a sequence number, whose hash becomes the beginning of the chain; returns the number of
/// removed records. The caller holds the lock of the chain.
pub async fn prune(tx: &mut PgConnection, org: &str, number: i64) -> Result<u64, StoreError> {
    sqlx::query!(
        "-- audit_chain.move_begin
        UPDATE audit_chain
        SET begin_number = record.number, begin_hash = record.hash
        FROM audit_record AS record
        WHERE audit_chain.org = $1 AND record.org = $1 AND record.number = $2",
        org,
        number,
    )
    .execute(&mut *tx)
    .await?;
    let done = sqlx::query!(
        "-- audit_chain.prune
        DELETE FROM audit_record WHERE org = $1 AND number <= $2",
        org,
        number,
    )
    .execute(tx)
    .await?;
    Ok(done.rows_affected())
}
