//! Organizations that the agbot serves by default.

use std::collections::BTreeSet;

use sqlx::PgConnection;

use evenkeel_store::StoreError;

/// Lists the organizations.
pub async fn list_offered(conn: &mut PgConnection) -> Result<BTreeSet<String>, StoreError> {
    let rows = sqlx::query!(
        "-- offered.list_offered
        SELECT org FROM offered_organization"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.org).collect())
}

/// Records that an organization was served; already recorded is fine.
pub async fn insert_offered(conn: &mut PgConnection, org: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "-- offered.insert_offered
        INSERT INTO offered_organization (org) VALUES ($1) ON CONFLICT DO NOTHING",
        org,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes a deleted organization: another one of its name is a new one.
pub async fn delete_offered(conn: &mut PgConnection, org: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "-- offered.delete_offered
        DELETE FROM offered_organization WHERE org = $1",
        org,
    )
    .execute(conn)
    .await?;
    Ok(())
}
