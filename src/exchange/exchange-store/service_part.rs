//! Parts of a service: its policy and the registry credentials of its images.

use evenkeel_access::right;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// The policy of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServicePolicyRow {
    /// Display name.
    pub label: String,
    /// Description.
    pub description: String,
    /// List of properties.
    pub properties: Value,
    /// List of constraint expressions.
    pub constraints: Value,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Credentials for a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockAuthRow {
    /// Number.
    pub id: i32,
    /// Host of the registry.
    pub registry: String,
    /// Name to log in with.
    pub username: String,
    /// Secret to log in with.
    pub token: String,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Finds the policy of a service.
pub async fn find_policy(
    conn: &mut PgConnection,
    org: &str,
    service: &str,
) -> Result<Option<ServicePolicyRow>, StoreError> {
    Ok(sqlx::query_as!(
        ServicePolicyRow,
        r#"-- service_part.find_policy
        SELECT label, description, properties, constraints, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM service_policy WHERE org = $1 AND service = $2"#,
        org,
        service,
    )
    .fetch_optional(conn)
    .await?)
}

/// Adds or replaces the policy of a service.
///
/// # Errors
/// [`StoreError::ParentMissing`] with `service_policy_service_fk` when there is no such service.
pub async fn upsert_policy(
    tx: &mut Permitted<right::ServiceWrite>,
    org: &str,
    service: &str,
    row: &ServicePolicyRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- service_part.upsert_policy
        INSERT INTO service_policy (org, service, label, description, properties, constraints, updated_at)
        VALUES ($1, $2, $3, $4, $5::text::json, $6::text::json, $7)
        ON CONFLICT (org, service) DO UPDATE
        SET label = excluded.label, description = excluded.description, properties = excluded.properties,
            constraints = excluded.constraints, updated_at = excluded.updated_at",
        org,
        service,
        row.label,
        row.description,
        row.properties.to_string(),
        row.constraints.to_string(),
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes the policy of a service; `false` when there was none.
pub async fn delete_policy(
    tx: &mut Permitted<right::ServiceWrite>,
    org: &str,
    service: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- service_part.delete_policy
        DELETE FROM service_policy WHERE org = $1 AND service = $2",
        org,
        service,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Lists registry credentials of a service by number: at most `limit` with greater numbers than `after`.
pub async fn list_dockauths(
    conn: &mut PgConnection,
    org: &str,
    service: &str,
    after: Option<i32>,
    limit: i64,
) -> Result<Vec<DockAuthRow>, StoreError> {
    Ok(sqlx::query_as!(
        DockAuthRow,
        r#"-- service_part.list_dockauths
        SELECT dockauth_id AS id, registry, username, token, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM service_dockauth
        WHERE org = $1 AND service = $2 AND dockauth_id > COALESCE($3::integer, 0)
        ORDER BY dockauth_id
        LIMIT $4"#,
        org,
        service,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?)
}

/// Finds the registry credentials of a service with this number.
pub async fn find_dockauth(
    conn: &mut PgConnection,
    org: &str,
    service: &str,
    id: i32,
) -> Result<Option<DockAuthRow>, StoreError> {
    Ok(sqlx::query_as!(
        DockAuthRow,
        r#"-- service_part.find_dockauth
        SELECT dockauth_id AS id, registry, username, token, updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM service_dockauth
        WHERE org = $1 AND service = $2 AND dockauth_id = $3"#,
        org,
        service,
        id,
    )
    .fetch_optional(conn)
    .await?)
}

/// Counts the registry credentials of a service.
pub async fn count_dockauths(conn: &mut PgConnection, org: &str, service: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- service_part.count_dockauths
        SELECT count(*) AS "count!" FROM service_dockauth WHERE org = $1 AND service = $2"#,
        org,
        service,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Updates the time of existing equal credentials; returns their number, `None` when there are none.
pub async fn touch_dockauth(
    tx: &mut Permitted<right::ServiceWrite>,
    org: &str,
    service: &str,
    row: &DockAuthRow,
) -> Result<Option<i32>, StoreError> {
    let row = sqlx::query!(
        "-- service_part.touch_dockauth
        UPDATE service_dockauth SET updated_at = $6
        WHERE org = $1 AND service = $2 AND registry = $3 AND username = $4 AND token = $5
        RETURNING dockauth_id",
        org,
        service,
        row.registry,
        row.username,
        row.token,
        to_sql(row.updated_at) as _,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.map(|row| row.dockauth_id))
}

/// Inserts credentials (the number in the row is ignored) and returns their number.
///
/// # Errors
/// [`StoreError::ParentMissing`] with `service_dockauth_service_fk` when there is no such service.
pub async fn insert_dockauth(
    tx: &mut Permitted<right::ServiceWrite>,
    org: &str,
    service: &str,
    row: &DockAuthRow,
) -> Result<i32, StoreError> {
    let row = sqlx::query!(
        "-- service_part.insert_dockauth
        INSERT INTO service_dockauth (org, service, registry, username, token, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        RETURNING dockauth_id",
        org,
        service,
        row.registry,
        row.username,
        row.token,
        to_sql(row.updated_at) as _,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(row.dockauth_id)
}

/// Replaces credentials by number; `false` when the service has none with it.
pub async fn update_dockauth(
    tx: &mut Permitted<right::ServiceWrite>,
    org: &str,
    service: &str,
    row: &DockAuthRow,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- service_part.update_dockauth
        UPDATE service_dockauth SET registry = $4, username = $5, token = $6, updated_at = $7
        WHERE org = $1 AND service = $2 AND dockauth_id = $3",
        org,
        service,
        row.id,
        row.registry,
        row.username,
        row.token,
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Removes credentials of a service: all, or the ones with a number; returns how many.
pub async fn delete_dockauths(
    tx: &mut Permitted<right::ServiceWrite>,
    org: &str,
    service: &str,
    id: Option<i32>,
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- service_part.delete_dockauths
        DELETE FROM service_dockauth WHERE org = $1 AND service = $2 AND ($3::integer IS NULL OR dockauth_id = $3)",
        org,
        service,
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}
