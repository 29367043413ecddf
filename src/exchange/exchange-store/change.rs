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
    // A function of the database, so that the lock of the sequencer row is held for one round trip only.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evenkeel_test_database::{TestDatabase, backend};
    use sqlx::Connection;

    use super::*;
    use crate::instance::{list_behind, renew_instance, upsert_instance};
    use crate::tests::{Org, ROLES, at};

    fn change(org: &str, id: &str) -> Change {
        Change {
            org: org.to_owned(),
            id: id.to_owned(),
            category: "node",
            resource: "node",
            operation: "created",
            is_public: false,
        }
    }

    /// Writes changes of these resources of `o` at an instant.
    async fn write(connection: &mut PgConnection, ids: &[&str], second: i64) {
        let changes: Vec<Change> = ids.iter().map(|id| change("o", id)).collect();
        insert_outbox(connection, &changes, at(second)).await.unwrap();
    }

    fn numbers(rows: &[SequencedChange]) -> Vec<(i64, &str)> {
        rows.iter().map(|row| (row.change_id, row.id.as_str())).collect()
    }

    async fn sequence(connection: &mut PgConnection, limit: i64) -> Vec<SequencedChange> {
        sequence_outbox(connection, limit, Uuid::nil()).await.unwrap().rows
    }

    #[tokio::test]
    async fn changes_get_consecutive_numbers_in_their_order() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        write(&mut connection, &["c", "a"], 0).await;
        write(&mut connection, &["b"], 0).await;
        assert_eq!(numbers(&sequence(&mut connection, 2).await), [(1, "c"), (2, "a")]);
        assert!(has_outbox_rows(&mut connection).await.unwrap());
        assert_eq!(numbers(&sequence(&mut connection, 2).await), [(3, "b")]);
        assert!(!has_outbox_rows(&mut connection).await.unwrap());
        assert_eq!(get_last(&mut connection).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn change_committed_late_gets_a_number_that_no_reader_has_passed() {
        let database = TestDatabase::new(ROLES).await;
        let (mut slow, mut connection) = (database.connection().await, database.connection().await);
        let mut tx = slow.begin().await.unwrap();
        write(&mut tx, &["slow"], 0).await;
        write(&mut connection, &["fast"], 0).await;
        assert_eq!(numbers(&sequence(&mut connection, 10).await), [(1, "fast")]);
        tx.commit().await.unwrap();
        assert_eq!(numbers(&sequence(&mut connection, 10).await), [(2, "slow")]);
        let found = list_after(&mut connection, 1, 10).await.unwrap();
        assert_eq!(numbers(&found), [(2, "slow")]);
    }

    #[tokio::test]
    async fn sequencing_waits_for_another_one_and_takes_what_was_written_meanwhile() {
        let database = TestDatabase::new(ROLES).await;
        let (mut first, mut second) = (database.connection().await, database.connection().await);
        let mut tx = first.begin().await.unwrap();
        assert_eq!(lock_sequence(&mut tx).await.unwrap(), 0);
        write(&mut tx, &["a", "b"], 0).await;
        assert_eq!(sequence(&mut tx, 1).await.len(), 1);
        let process = backend(&mut second).await;
        let found = database.release_when_awaited(process, sequence(&mut second, 10), tx.commit()).await;
        assert_eq!(numbers(&found), [(2, "b")]);
    }

    #[tokio::test]
    async fn reader_behind_the_pruned_changes_finds_where_they_begin() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        for (second, id) in ["a", "b", "c", "d"].into_iter().enumerate() {
            write(&mut connection, &[id], i64::try_from(second).unwrap()).await;
        }
        sequence(&mut connection, 10).await;
        assert_eq!(delete_before(&mut connection, at(2)).await.unwrap(), 2);
        assert_eq!(numbers(&list_after(&mut connection, 0, 1).await.unwrap()), [(3, "c")]);
        assert_eq!(find_first_since(&mut connection, at(0)).await.unwrap(), Some(3));
        assert_eq!(find_first_since(&mut connection, at(3)).await.unwrap(), Some(4));
        assert_eq!(find_first_since(&mut connection, at(4)).await.unwrap(), None);
        assert_eq!(get_last(&mut connection).await.unwrap(), 4, "numbers are never given again");
    }

    #[tokio::test]
    async fn changes_are_removed_of_one_organization_by_number_or_all() {
        let database = TestDatabase::new(ROLES).await;
        let org = Org::in_database(&database, "o").await;
        let mut connection = org.connection().await;
        let changes = ["o", "p", "o", "o"].map(|org| change(org, "n"));
        insert_outbox(&mut connection, &changes, at(0)).await.unwrap();
        sequence(&mut connection, 10).await;
        let delete = async |ids: &[i64]| org.write(async |tx| delete_of_org(tx, "o", ids).await).await;
        assert_eq!(delete(&[1, 2]).await, 1, "2 is of another organization");
        assert_eq!(delete(&[]).await, 2);
        assert_eq!(numbers(&list_after(&mut connection, 0, 10).await.unwrap()), [(2, "n")]);
    }

    #[tokio::test]
    async fn write_waits_for_the_other_exchanges_that_live() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        let [own, live, dead] = [1, 2, 3].map(Uuid::from_u128);
        let long = Duration::from_secs(600);
        for (instance, lease) in [(own, long), (live, long), (dead, Duration::ZERO)] {
            upsert_instance(&mut connection, instance, 0, lease).await.unwrap();
        }
        write(&mut connection, &["a"], 0).await;
        assert_eq!(sequence_outbox(&mut connection, 10, own).await.unwrap().peers, [live]);
        assert_eq!(list_behind(&mut connection, &[live, dead], 1).await.unwrap(), [live]);
        assert!(renew_instance(&mut connection, live, 1, long).await.unwrap());
        assert!(list_behind(&mut connection, &[live, dead], 1).await.unwrap().is_empty());
        assert!(!renew_instance(&mut connection, dead, 1, long).await.unwrap(), "its lease is over");
    }

    #[tokio::test]
    async fn sequencing_notifies_only_when_another_exchange_lives() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        let mut listener = sqlx::postgres::PgListener::connect(database.url()).await.unwrap();
        listener.listen(CHANNEL).await.unwrap();
        write(&mut connection, &["a"], 0).await;
        sequence(&mut connection, 10).await;
        upsert_instance(&mut connection, Uuid::max(), 1, Duration::from_secs(600)).await.unwrap();
        write(&mut connection, &["b", "c"], 0).await;
        sequence(&mut connection, 10).await;
        assert_eq!(listener.recv().await.unwrap().payload(), "3");
    }
}
