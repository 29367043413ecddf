//! Keys shared by all exchanges of one database.

use sqlx::PgConnection;

use evenkeel_store::StoreError;

/// Returns the named key, storing `proposed` when there is none yet.
pub async fn get_or_insert(
    conn: &mut PgConnection,
    name: &str,
    proposed: &[u8],
) -> Result<Vec<u8>, StoreError> {
    sqlx::query!(
        "-- secret.insert
        INSERT INTO exchange_secret (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        name,
        proposed,
    )
    .execute(&mut *conn)
    .await?;
    let row = sqlx::query!(
        "-- secret.get
        SELECT value FROM exchange_secret WHERE name = $1",
        name,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.value)
}
