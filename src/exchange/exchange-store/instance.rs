//! The exchanges that respond from memory, with the position of each in the change feed.
//!
//! Source: design 3.3, 3.5; docs/adr/0011-writes-wait-for-every-exchange.md.

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use evenkeel_store::StoreError;

/// Channel of the notification about an exchange's position in the feed: its id, a blank, the sequence number.
pub const CHANNEL: &str = "evenkeel_seen";

/// Registers an exchange that has read the feed up to `seen_id`, and removes those whose lease has expired.
///
/// The caller has locked the sequencer row: later sequencing steps find this exchange, and earlier rows can be read.
pub async fn upsert_instance(
    tx: &mut PgConnection,
    instance: Uuid,
    seen_id: i64,
    lease: Duration,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- instance.upsert_instance
        WITH ended AS (
            DELETE FROM exchange_instance WHERE expires_at < clock_timestamp() AND instance <> $1
        )
        INSERT INTO exchange_instance (instance, seen_id, expires_at)
        VALUES ($1, $2, clock_timestamp() + $3)
        ON CONFLICT (instance) DO UPDATE SET seen_id = excluded.seen_id, expires_at = excluded.expires_at",
        instance,
        seen_id,
        interval(lease),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Extends the lease of an exchange; false when it had expired.
pub async fn renew_instance(
    conn: &mut PgConnection,
    instance: Uuid,
    seen_id: i64,
    lease: Duration,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- instance.renew_instance
        UPDATE exchange_instance SET seen_id = $2, expires_at = clock_timestamp() + $3
        WHERE instance = $1 AND expires_at > clock_timestamp()",
        instance,
        seen_id,
        interval(lease),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Notifies the other exchanges of this one's position in the feed. Losing it in a crash is harmless.
pub async fn notify_seen(conn: &mut PgConnection, instance: Uuid, seen_id: i64) -> Result<(), StoreError> {
    sqlx::query!(
        "-- instance.notify_seen
        WITH relaxed AS (
            SELECT set_config('synchronous_commit', 'off', true) AS setting
        )
        UPDATE exchange_instance SET seen_id = $2
        FROM relaxed
        CROSS JOIN pg_notify('evenkeel_seen', $1::uuid || ' ' || $2::bigint)
        WHERE instance = $1",
        instance,
        seen_id,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists which of these exchanges still respond from memory and have not read the feed up to `wanted_id`.
pub async fn list_behind(
    conn: &mut PgConnection,
    instances: &[Uuid],
    wanted_id: i64,
) -> Result<Vec<Uuid>, StoreError> {
    let rows = sqlx::query!(
        "-- instance.list_behind
        SELECT instance FROM exchange_instance
        WHERE instance = ANY ($1) AND seen_id < $2 AND expires_at > clock_timestamp()",
        instances,
        wanted_id,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.instance).collect())
}

/// Removes an exchange that no longer responds.
pub async fn delete_instance(conn: &mut PgConnection, instance: Uuid) -> Result<(), StoreError> {
    sqlx::query!(
        "-- instance.delete_instance
        DELETE FROM exchange_instance WHERE instance = $1",
        instance,
    )
    .execute(conn)
    .await?;
    Ok(())
}

fn interval(span: Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(span.as_micros()).unwrap_or(i64::MAX) }
}
