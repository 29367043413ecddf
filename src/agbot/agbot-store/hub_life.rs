//! When the hub last heard its nodes.

use jiff::Timestamp;
use sqlx::PgConnection;

use evenkeel_store::{StoreError, from_sql, to_sql};

/// Returns when an agbot last read the heartbeats of all nodes; none before the first time.
pub async fn find_heartbeats_read_at(conn: &mut PgConnection) -> Result<Option<Timestamp>, StoreError> {
    let found = sqlx::query_scalar!(
        r#"-- hub_life.find_heartbeats_read_at
        SELECT heartbeats_read_at AS "at: jiff_sqlx::Timestamp" FROM hub_life"#
    )
    .fetch_optional(conn)
    .await?;
    Ok(found.map(from_sql))
}

/// Records that an agbot read the heartbeats of all nodes.
pub async fn note_heartbeats_read(conn: &mut PgConnection, at: Timestamp) -> Result<(), StoreError> {
    sqlx::query!(
        "-- hub_life.note_heartbeats_read
        INSERT INTO hub_life (heartbeats_read_at) VALUES ($1)
        ON CONFLICT (is_the_row) DO UPDATE SET heartbeats_read_at = excluded.heartbeats_read_at",
        to_sql(at) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}
