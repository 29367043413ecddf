//! Partition leases: the share of the work of each agbot.
//!
//! Times are the database's, so that clocks of agbots need not agree. A time further ahead than any agbot writes is from before that
//! clock was set back: it holds no partition and counts for no agbot. Source: design 4.4.

use sqlx::PgConnection;
use uuid::Uuid;

use evenkeel_store::StoreError;

/// A lease this agbot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRow {
    /// Number of the partition.
    pub partition: i32,
    /// Fencing number.
    pub fencing: i64,
}

/// Inserts the rows of all partitions.
pub async fn insert_partitions(conn: &mut PgConnection, count: i32) -> Result<(), StoreError> {
    sqlx::query!(
        "-- partition.insert_partitions
        INSERT INTO work_partition (partition_number) SELECT generate_series(0, $1 - 1) ON CONFLICT DO NOTHING",
        count,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records that this agbot is alive; returns the number of live agbots.
pub async fn refresh_instance(
    conn: &mut PgConnection,
    instance: Uuid,
    seconds: f64,
) -> Result<i64, StoreError> {
    sqlx::query!(
        "-- partition.refresh_instance
        INSERT INTO agbot_instance (instance, expires_at) VALUES ($1, now() + make_interval(secs => $2))
        ON CONFLICT (instance) DO UPDATE SET expires_at = excluded.expires_at",
        instance,
        seconds,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "-- partition.delete_dead_instances
        DELETE FROM agbot_instance
        WHERE expires_at < now() - interval '1 hour' OR expires_at > now() + make_interval(secs => 3 * $1::float8)",
        seconds,
    )
    .execute(&mut *conn)
    .await?;
    let row = sqlx::query!(
        r#"-- partition.count_instances
        SELECT count(*) AS "count!" FROM agbot_instance WHERE expires_at > now()"#
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Extends the leases this agbot still holds and returns them.
pub async fn extend_leases(
    conn: &mut PgConnection,
    owner: Uuid,
    seconds: f64,
) -> Result<Vec<LeaseRow>, StoreError> {
    let rows = sqlx::query!(
        "-- partition.extend_leases
        UPDATE work_partition SET expires_at = now() + make_interval(secs => $2)
        WHERE owner = $1 AND expires_at > now()
        RETURNING partition_number, fencing",
        owner,
        seconds,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| LeaseRow { partition: row.partition_number, fencing: row.fencing })
        .collect())
}

/// Lists the partitions that have an owner, each with the seconds until its lease ends.
pub async fn list_leased(conn: &mut PgConnection) -> Result<Vec<(i32, f64)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- partition.list_leased
        SELECT partition_number, EXTRACT(EPOCH FROM expires_at - now())::float8 AS "seconds!"
        FROM work_partition
        WHERE expires_at IS NOT NULL
        ORDER BY partition_number"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.partition_number, row.seconds)).collect())
}

/// Returns the largest fencing number of the partitions without an owner or whose lease is over; `None` when there are none.
pub async fn last_fencing_of_free(conn: &mut PgConnection, seconds: f64) -> Result<Option<i64>, StoreError> {
    Ok(sqlx::query_scalar!(
        "-- partition.last_fencing_of_free
        SELECT max(fencing) FROM work_partition
        WHERE owner IS NULL OR expires_at IS NULL OR expires_at <= now()
           OR expires_at > now() + make_interval(secs => 3 * $1::float8)",
        seconds,
    )
    .fetch_one(conn)
    .await?)
}

/// Takes at most `most` partitions without an owner or whose lease is over, under a fencing number that the exchange gave, or the next
/// ones when it gives none.
pub async fn take_free(
    conn: &mut PgConnection,
    owner: Uuid,
    seconds: f64,
    most: i64,
    fencing: Option<i64>,
) -> Result<Vec<LeaseRow>, StoreError> {
    // SKIP LOCKED: agbots that take partitions at the same time get different ones instead of waiting. A lease that
    // ends implausibly late was written while the clock of the server was ahead, and counts as free.
    let rows = sqlx::query!(
        "-- partition.take_free
        UPDATE work_partition
        SET owner = $1, fencing = COALESCE($4::bigint, fencing + 1), expires_at = now() + make_interval(secs => $2)
        WHERE partition_number IN (
            SELECT partition_number FROM work_partition
            WHERE (owner IS NULL OR expires_at IS NULL OR expires_at <= now()
                   OR expires_at > now() + make_interval(secs => 3 * $2::float8))
              AND ($4::bigint IS NULL OR fencing < $4)
            ORDER BY partition_number
            LIMIT $3
            FOR UPDATE SKIP LOCKED
        )
        RETURNING partition_number, fencing",
        owner,
        seconds,
        most,
        fencing,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| LeaseRow { partition: row.partition_number, fencing: row.fencing })
        .collect())
}

/// Releases partitions: the given ones, or all of this agbot when none is given.
pub async fn release(conn: &mut PgConnection, owner: Uuid, partitions: &[i32]) -> Result<(), StoreError> {
    sqlx::query!(
        "-- partition.release
        UPDATE work_partition SET owner = NULL, expires_at = NULL
        WHERE owner = $1 AND (cardinality($2::integer[]) = 0 OR partition_number = ANY ($2))",
        owner,
        partitions,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes the liveness record of this agbot.
pub async fn delete_instance(conn: &mut PgConnection, instance: Uuid) -> Result<(), StoreError> {
    sqlx::query!(
        "-- partition.delete_instance
        DELETE FROM agbot_instance WHERE instance = $1",
        instance,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns whether the lease is still this agbot's with this fencing number; locks the row until the transaction ends, so that a release waits.
pub async fn lock_lease(tx: &mut PgConnection, owner: Uuid, lease: LeaseRow) -> Result<bool, StoreError> {
    // FOR SHARE: commands under one lease do not wait for each other, while its release, extension and takeover wait for
    // them. The time is that of the database server, so that the clocks of the agbots do not matter.
    let row = sqlx::query!(
        "-- partition.lock_lease
        SELECT partition_number FROM work_partition
        WHERE partition_number = $1 AND owner = $2 AND fencing = $3 AND expires_at > now()
        FOR SHARE",
        lease.partition,
        owner,
        lease.fencing,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.is_some())
}

#[cfg(test)]
mod tests {
    use evenkeel_test_database::{TestDatabase, backend};
    use sqlx::Connection;

    use super::*;
    use crate::tests::{LEASE_SECS, OTHER, OWN, ROLES, lease};

    fn partitions(leases: &[LeaseRow]) -> Vec<i32> {
        let mut partitions: Vec<i32> = leases.iter().map(|lease| lease.partition).collect();
        partitions.sort_unstable();
        partitions
    }

    #[tokio::test]
    async fn lease_passes_to_another_agbot_only_after_its_end_and_under_a_greater_number() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        let held = lease(&mut connection, &[OWN]).await[0];
        assert!(take_free(&mut connection, OTHER, LEASE_SECS, 9, None).await.unwrap().is_empty());
        assert_eq!(last_fencing_of_free(&mut connection, LEASE_SECS).await.unwrap(), None);
        assert_eq!(extend_leases(&mut connection, OTHER, 0.0).await.unwrap(), [], "not its own");
        assert_eq!(extend_leases(&mut connection, OWN, 0.0).await.unwrap(), [held]);
        assert!(extend_leases(&mut connection, OWN, LEASE_SECS).await.unwrap().is_empty(), "it is over");
        assert!(!lock_lease(&mut connection, OWN, held).await.unwrap());
        let last = last_fencing_of_free(&mut connection, LEASE_SECS).await.unwrap();
        assert_eq!(last, Some(held.fencing));
        assert!(take_free(&mut connection, OTHER, LEASE_SECS, 9, last).await.unwrap().is_empty(), "used");
        let taken = take_free(&mut connection, OTHER, LEASE_SECS, 9, Some(held.fencing + 7)).await.unwrap();
        assert_eq!(taken, [LeaseRow { fencing: held.fencing + 7, ..held }]);
        assert!(lock_lease(&mut connection, OTHER, taken[0]).await.unwrap());
        for (owner, lease) in [(OWN, held), (OWN, taken[0]), (OTHER, held)] {
            assert!(!lock_lease(&mut connection, owner, lease).await.unwrap(), "{owner} {lease:?}");
        }
    }

    #[tokio::test]
    async fn agbots_that_take_partitions_at_once_get_different_ones() {
        let database = TestDatabase::new(ROLES).await;
        let (mut first, mut second) = (database.connection().await, database.connection().await);
        insert_partitions(&mut first, 5).await.unwrap();
        let mut tx = first.begin().await.unwrap();
        assert_eq!(partitions(&take_free(&mut tx, OWN, LEASE_SECS, 2, None).await.unwrap()), [0, 1]);
        assert_eq!(partitions(&take_free(&mut second, OTHER, LEASE_SECS, 2, None).await.unwrap()), [2, 3]);
        tx.commit().await.unwrap();
        assert_eq!(partitions(&take_free(&mut second, OTHER, LEASE_SECS, 2, None).await.unwrap()), [4]);
    }

    #[tokio::test]
    async fn release_waits_for_a_write_under_the_lease() {
        let database = TestDatabase::new(ROLES).await;
        let (mut writer, mut releaser) = (database.connection().await, database.connection().await);
        let held = lease(&mut writer, &[OWN, OWN, OTHER]).await;
        let mut tx = writer.begin().await.unwrap();
        assert!(lock_lease(&mut tx, OWN, held[0]).await.unwrap());
        release(&mut releaser, OWN, &[1, 2]).await.unwrap();
        let process = backend(&mut releaser).await;
        let released = release(&mut releaser, OWN, &[]);
        database.release_when_awaited(process, released, tx.commit()).await.unwrap();
        let leased = list_leased(&mut writer).await.unwrap();
        assert_eq!(leased.iter().map(|(partition, _)| *partition).collect::<Vec<_>>(), [2], "not its own");
    }

    #[tokio::test]
    async fn lease_and_agbot_from_before_the_clock_was_set_back_count_for_nothing() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        lease(&mut connection, &[OTHER]).await;
        refresh_instance(&mut connection, OTHER, LEASE_SECS).await.unwrap();
        assert_eq!(refresh_instance(&mut connection, OWN, LEASE_SECS / 2.0).await.unwrap(), 2);
        let short = LEASE_SECS / 4.0;
        assert_eq!(refresh_instance(&mut connection, OWN, short).await.unwrap(), 1);
        assert_eq!(partitions(&take_free(&mut connection, OWN, short, 9, None).await.unwrap()), [0]);
    }

    #[tokio::test]
    async fn agbot_counts_until_its_time_is_over() {
        let database = TestDatabase::new(ROLES).await;
        let mut connection = database.connection().await;
        assert_eq!(refresh_instance(&mut connection, OTHER, 0.0).await.unwrap(), 0);
        assert_eq!(refresh_instance(&mut connection, OWN, LEASE_SECS).await.unwrap(), 1);
        delete_instance(&mut connection, OWN).await.unwrap();
        assert_eq!(refresh_instance(&mut connection, OTHER, LEASE_SECS).await.unwrap(), 1);
    }
}
