//! Seeds the database with the rows that always exist.

use evenkeel_access::right;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::permitted::Permitted;

/// Inserts an organization unless it exists.
pub async fn insert_organization(
    tx: &mut PgConnection,
    org: &str,
    org_type: &str,
    label: &str,
    description: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- seed.insert_organization
        INSERT INTO organization (org, org_type, label, description, updated_at)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (org) DO NOTHING",
        org,
        org_type,
        label,
        description,
        to_sql(now) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Finds the stored hash of the root password.
pub async fn find_root_password(conn: &mut PgConnection) -> Result<Option<String>, StoreError> {
    let row = sqlx::query!(
        "-- seed.find_root_password
        SELECT password_hash FROM account WHERE org = 'root' AND name = 'root'"
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.and_then(|row| row.password_hash))
}

/// Inserts the root user, or updates its password.
pub async fn upsert_root(
    tx: &mut PgConnection,
    id: Uuid,
    password_hash: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- seed.upsert_root
        INSERT INTO account (org, name, id, password_hash, is_admin, is_hub_admin, updated_at)
        VALUES ('root', 'root', $1, $2, true, true, $3)
        ON CONFLICT (org, name) DO UPDATE SET password_hash = excluded.password_hash
        WHERE account.password_hash IS DISTINCT FROM excluded.password_hash",
        id,
        password_hash,
        to_sql(now) as _,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Removes every organization with everything in it and returns their ids, including the seeded ones, which the caller inserts again.
pub async fn delete_everything(tx: &mut Permitted<right::AdminAction>) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query!(
        "-- seed.list_organizations
        SELECT org FROM organization ORDER BY org"
    )
    .fetch_all(&mut **tx)
    .await?;
    sqlx::query!(
        "-- seed.delete_everything
        TRUNCATE organization CASCADE"
    )
    .execute(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| row.org).collect())
}
