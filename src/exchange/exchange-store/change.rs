//! The change feed's tables: outbox rows of writes, sequenced rows for readers.
//!
//! Source: design 3.3; exchange-api 5.

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::permitted::Permitted;

/// A change that a write inserts into the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Organization of the changed resource.
    pub org: String,
    /// Bare id of the changed resource.
    pub id: String,
    /// Visibility class.
    pub category: &'static str,
    /// Kind of the changed resource.
    pub resource: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// Visible from every organization.
    pub is_public: bool,
}

/// Changes for a statement that unnests them.
pub(super) struct Columns<'c> {
    pub(super) orgs: Vec<&'c str>,
    pub(super) ids: Vec<&'c str>,
    pub(super) categories: Vec<&'c str>,
    pub(super) resources: Vec<&'c str>,
    pub(super) operations: Vec<&'c str>,
    pub(super) publics: Vec<bool>,
}

impl<'c> Columns<'c> {
    pub(super) fn of(changes: &'c [Change]) -> Columns<'c> {
        Columns {
            orgs: changes.iter().map(|change| change.org.as_str()).collect(),
            ids: changes.iter().map(|change| change.id.as_str()).collect(),
            categories: changes.iter().map(|change| change.category).collect(),
            resources: changes.iter().map(|change| change.resource).collect(),
            operations: changes.iter().map(|change| change.operation).collect(),
            publics: changes.iter().map(|change| change.is_public).collect(),
        }
    }
}

/// A sequenced change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequencedChange {
    /// Sequence number, consecutive in commit order.
    pub change_id: i64,
    /// Organization of the changed resource.
    pub org: String,
    /// Bare id of the changed resource.
    pub id: String,
    /// Visibility class.
    pub category: String,
    /// Kind of the changed resource.
    pub resource: String,
    /// The operation.
    pub operation: String,
    /// Visible from every organization.
    pub is_public: bool,
    /// When the write happened.
    pub changed_at: Timestamp,
}

/// Inserts changes into the outbox, in the given order. Must be the last statement of a transaction, so that the order of the
/// outbox follows the row locks of competing writes.
pub async fn insert_outbox(
    tx: &mut PgConnection,
    changes: &[Change],
    at: Timestamp,
) -> Result<(), StoreError> {
    insert(tx, changes, at, false).await
}

/// Like [`insert_outbox`], but the transaction's commit does not wait for the disk: the later commit that sequences the rows does.
/// The caller must acknowledge nothing before the rows are sequenced, or before [`flush_commits`].
pub async fn insert_outbox_flushed_by_sequencing(
    tx: &mut PgConnection,
    changes: &[Change],
    at: Timestamp,
) -> Result<(), StoreError> {
    insert(tx, changes, at, true).await
}

async fn insert(
    tx: &mut PgConnection,
    changes: &[Change],
    at: Timestamp,
    is_flushed_later: bool,
) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(changes);
    sqlx::query!(
        "-- change.insert_outbox
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
        to_sql(at) as _,
        is_flushed_later,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Waits until every committed transaction is on disk.
///
/// A commit that writes flushes the log up to itself; the row that it writes stays unchanged.
pub async fn flush_commits(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!(
        "-- change.flush_commits
        UPDATE exchange_secret SET value = value WHERE name = 'credential'"
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Locks the sequencer row: one sequencer at a time.
pub async fn lock_sequence(tx: &mut PgConnection) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        "-- change.lock_sequence
        SELECT last_id FROM change_sequence FOR UPDATE"
    )
    .fetch_one(tx)
    .await?;
    Ok(row.last_id)
}

/// The result of one sequencing step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SequencedBatch {
    /// The rows that were sequenced, ascending.
    pub rows: Vec<SequencedChange>,
    /// The other exchanges that respond from memory and must see these rows.
    pub peers: Vec<Uuid>,
}

/// Sequences the committed outbox rows (at most `limit`) for the exchange `instance`, and notifies other exchanges. A call of its own
/// outside a transaction: it locks the sequencer row until its commit is on disk.
pub async fn sequence_outbox(
    conn: &mut PgConnection,
    limit: i64,
    instance: Uuid,
) -> Result<SequencedBatch, StoreError> {
    let rows = sqlx::query!(
        r#"-- change.sequence_outbox
        SELECT change_id, org, id, category, resource, operation, is_public, changed_at AS "changed_at: jiff_sqlx::Timestamp", peers
        FROM number_changes($1, $2)"#,
        limit,
        instance,
    )
    .fetch_all(conn)
    .await?;
    let mut sequenced = SequencedBatch::default();
    for row in rows {
        sequenced.peers.extend(row.peers.into_iter().flatten());
        // The row of the peers has no sequence number.
        let (Some(change_id), Some(org), Some(id)) = (row.change_id, row.org, row.id) else { continue };
        let (Some(category), Some(resource), Some(operation)) = (row.category, row.resource, row.operation)
        else {
            continue;
        };
        let (Some(is_public), Some(changed_at)) = (row.is_public, row.changed_at) else { continue };
        let changed_at = from_sql(changed_at);
        sequenced.rows.push(SequencedChange {
            change_id,
            org,
            id,
            category,
            resource,
            operation,
            is_public,
            changed_at,
        });
    }
    Ok(sequenced)
}

/// Frees the space of sequenced changes and sealed audit records: both pass through tables that every step scans completely, and
/// autovacuum runs at most once a minute.
pub async fn vacuum_outboxes(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!(
        "-- change.vacuum_outboxes
        VACUUM (SKIP_LOCKED, TRUNCATE false) change_outbox, audit_outbox"
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists sequenced changes above `after`, ascending, at most `limit`.
pub async fn list_after(
    conn: &mut PgConnection,
    after: i64,
    limit: i64,
) -> Result<Vec<SequencedChange>, StoreError> {
    let rows = sqlx::query!(
        r#"-- change.list_after
        SELECT change_id, org, id, category, resource, operation, is_public, changed_at AS "changed_at: jiff_sqlx::Timestamp"
        FROM change
        WHERE change_id > $1
        ORDER BY change_id
        LIMIT $2"#,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| SequencedChange {
            change_id: row.change_id,
            org: row.org,
            id: row.id,
            category: row.category,
            resource: row.resource,
            operation: row.operation,
            is_public: row.is_public,
            changed_at: from_sql(row.changed_at),
        })
        .collect())
}

/// Finds the smallest sequence number of a change at or after an instant, `None` when there is none.
pub async fn find_first_since(conn: &mut PgConnection, since: Timestamp) -> Result<Option<i64>, StoreError> {
    let row = sqlx::query!(
        "-- change.find_first_since
        SELECT min(change_id) AS first FROM change WHERE changed_at >= $1",
        to_sql(since) as _,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.first)
}

/// Returns the last sequence number.
pub async fn get_last(conn: &mut PgConnection) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        "-- change.get_last
        SELECT last_id FROM change_sequence"
    )
    .fetch_one(conn)
    .await?;
    Ok(row.last_id)
}

/// Removes sequenced changes older than an instant.
pub async fn delete_before(conn: &mut PgConnection, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- change.delete_before
        DELETE FROM change WHERE changed_at < $1",
        to_sql(before) as _,
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Removes sequenced changes of one organization: the given ones, or all when none is given.
pub async fn delete_of_org(
    conn: &mut Permitted<right::AdminAction>,
    org: &str,
    ids: &[i64],
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- change.delete_of_org
        DELETE FROM change WHERE org = $1 AND (cardinality($2::bigint[]) = 0 OR change_id = ANY ($2))",
        org,
        ids,
    )
    .execute(&mut **conn)
    .await?;
    Ok(done.rows_affected())
}

/// Channel of the notification about new sequence numbers; it carries the last one.
pub const CHANNEL: &str = "evenkeel_change";

/// Returns whether committed changes wait to be sequenced.
pub async fn has_outbox_rows(conn: &mut PgConnection) -> Result<bool, StoreError> {
    let row = sqlx::query!(
        r#"-- change.has_outbox_rows
        SELECT EXISTS (SELECT 1 FROM change_outbox) AS "has_rows!""#
    )
    .fetch_one(conn)
    .await?;
    Ok(row.has_rows)
}
