//! Services.

use evenkeel_access::{RowFilter, right};
use evenkeel_ids::UserId;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::identity::lock_name;
use super::permitted::Permitted;
use super::resource_key::ResourceKey;

/// A service as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub service: String,
    /// Organization of the owner.
    pub owner_org: String,
    /// Name of the owner.
    pub owner: String,
    /// Display name.
    pub label: String,
    /// Description.
    pub description: String,
    /// Readable from every organization.
    pub is_public: bool,
    /// Url of its documentation.
    pub documentation: String,
    /// Url that identifies it.
    pub url: String,
    /// Version.
    pub version: String,
    /// Architecture.
    pub arch: String,
    /// Sharing mode: how agreements share an instance.
    pub sharable: String,
    /// Object, as given; `null` when it was not given.
    pub match_hardware: Value,
    /// List of required services, as given; `null` when it was not given.
    pub required_services: Value,
    /// List of variables; `null` when it was not given.
    pub user_input: Value,
    /// Deployment for devices.
    pub deployment: String,
    /// Its signature.
    pub deployment_signature: String,
    /// Deployment for clusters.
    pub cluster_deployment: String,
    /// Its signature.
    pub cluster_deployment_signature: String,
    /// Object, as given; `null` when it was not given.
    pub image_store: Value,
    /// Last change.
    pub updated_at: Timestamp,
}

/// The filter of a list of services; texts are patterns of LIKE unless noted.
#[derive(Debug, Clone, Default)]
pub struct ServiceFilter {
    /// Exactly this organization.
    pub org: Option<String>,
    /// Organization.
    pub organization: Option<String>,
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Url.
    pub url: Option<String>,
    /// Architecture.
    pub arch: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Public or not.
    pub is_public: Option<bool>,
    /// Has a deployment for devices.
    pub for_devices: bool,
    /// Has a deployment for clusters.
    pub for_clusters: bool,
    /// Url of a required service.
    pub required_url: Option<String>,
}

macro_rules! select_services {
    ($rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            ServiceRow,
            r#"-- service.select
            SELECT org, service, owner_org, owner, label, description, is_public, documentation, url, version, arch, sharable,
                   match_hardware, required_services, user_input, deployment, deployment_signature, cluster_deployment,
                   cluster_deployment_signature, image_store, updated_at AS "updated_at: jiff_sqlx::Timestamp"
            FROM service
            "# + $rest $(+ $more)*,
            $($argument,)*
        )
    };
}

/// Counts what [`select_services`] selects.
macro_rules! count_selected_services {
    ($rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_scalar!(
            r#"-- service.count
            SELECT count(*) AS "count!"
            FROM (
                SELECT 1
                FROM service
                "# + $rest $(+ $more)* + "
            ) AS selected",
            $($argument,)*
        )
    };
}

/// Selects what fits a filter, in the order of the ids, what follows a key, at most `limit`; `$scope` is the condition on the organization of the
/// filter. It is no alternative of one statement: an index finds the organization only by a condition of its own.
macro_rules! select_filtered {
    ($select:ident, $scope:literal, ($filter:ident, $rows:ident, $after:ident, $limit:ident, $owner:ident)) => {
        $select!(
            "WHERE " + $scope + r#"
                AND ($2::text IS NULL OR org LIKE $2)
                AND ($3::text IS NULL OR owner_org || '/' || owner LIKE $3)
                AND ($4::text IS NULL OR url LIKE $4)
                AND ($5::text IS NULL OR arch LIKE $5)
                AND ($6::text IS NULL OR version LIKE $6)
                AND ($7::boolean IS NULL OR is_public = $7)
                AND (NOT $8::boolean OR deployment <> '')
                AND (NOT $9::boolean OR cluster_deployment <> '')
                AND ($10::text IS NULL OR EXISTS (
                    SELECT 1 FROM json_array_elements(CASE json_typeof(required_services) WHEN 'array' THEN required_services ELSE '[]' END)
                        AS required
                    WHERE required ->> 'url' LIKE $10))
                AND ($11::boolean OR is_public OR (org = $12 AND ($14::text IS NULL OR (owner_org = $13 AND owner = $14))))
                AND (org, service) > (COALESCE($15::text, ''), COALESCE($16::text, ''))
            ORDER BY org, service
            LIMIT $17"#,
            $filter.org,
            $filter.organization,
            $filter.owner,
            $filter.url,
            $filter.arch,
            $filter.version,
            $filter.is_public,
            $filter.for_devices,
            $filter.for_clusters,
            $filter.required_url,
            $rows.sees_all(),
            $rows.org(),
            $owner.map(UserId::org),
            $owner.map(UserId::name),
            $after.map(|key| key.org.as_str()),
            $after.map(|key| key.id.as_str()),
            $limit,
        )
    };
}

/// Finds one service.
pub async fn find(
    conn: &mut PgConnection,
    org: &str,
    service: &str,
) -> Result<Option<ServiceRow>, StoreError> {
    Ok(select_services!("WHERE org = $1 AND service = $2", org, service).fetch_optional(conn).await?)
}

/// Finds one service and locks it until the end of the transaction.
pub async fn lock(tx: &mut PgConnection, org: &str, service: &str) -> Result<Option<ServiceRow>, StoreError> {
    Ok(select_services!("WHERE org = $1 AND service = $2 FOR UPDATE", org, service)
        .fetch_optional(tx)
        .await?)
}

/// Returns whether a service is public and locks it until the end of the transaction; `None` when there is none.
pub async fn lock_visibility(
    tx: &mut PgConnection,
    org: &str,
    service: &str,
) -> Result<Option<bool>, StoreError> {
    // FOR KEY SHARE prevents a deletion, while writers of the parts of one service do not wait for each other.
    let row = sqlx::query!(
        "-- service.lock_visibility
        SELECT is_public FROM service WHERE org = $1 AND service = $2 FOR KEY SHARE",
        org,
        service,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| row.is_public))
}

/// Lists at most `limit` visible services that match the filter, by organization and id, after the given one.
pub async fn list(
    conn: &mut PgConnection,
    filter: &ServiceFilter,
    rows: &RowFilter,
    after: Option<&ResourceKey>,
    limit: i64,
) -> Result<Vec<ServiceRow>, StoreError> {
    let owner = rows.owner();
    Ok(match filter.org {
        Some(_) => {
            select_filtered!(select_services, "org = $1", (filter, rows, after, limit, owner))
                .fetch_all(conn)
                .await?
        }
        None => {
            select_filtered!(select_services, "$1::text IS NULL", (filter, rows, after, limit, owner))
                .fetch_all(conn)
                .await?
        }
    })
}

/// Counts what [`list`] lists, up to a number.
pub async fn count(
    conn: &mut PgConnection,
    filter: &ServiceFilter,
    rows: &RowFilter,
    most: i64,
) -> Result<i64, StoreError> {
    let owner = rows.owner();
    let after: Option<&ResourceKey> = None;
    Ok(match filter.org {
        Some(_) => {
            select_filtered!(count_selected_services, "org = $1", (filter, rows, after, most, owner))
                .fetch_one(conn)
                .await?
        }
        None => {
            select_filtered!(count_selected_services, "$1::text IS NULL", (filter, rows, after, most, owner))
                .fetch_one(conn)
                .await?
        }
    })
}

/// Adds a service.
///
/// # Errors
/// [`StoreError::Conflict`] with `service_org_service_key` when the id is taken.
pub async fn insert(tx: &mut Permitted<right::ServiceCreate>, row: &ServiceRow) -> Result<(), StoreError> {
    lock_name(tx, &row.org, &row.service).await?;
    sqlx::query!(
        "-- service.insert
        INSERT INTO service (org, service, owner_org, owner, label, description, is_public, documentation, url, version, arch,
            sharable, match_hardware, required_services, user_input, deployment, deployment_signature, cluster_deployment,
            cluster_deployment_signature, image_store, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::text::json, $14::text::json, $15::text::json, $16, $17, $18, $19, $20::text::json, $21)",
        row.org,
        row.service,
        row.owner_org,
        row.owner,
        row.label,
        row.description,
        row.is_public,
        row.documentation,
        row.url,
        row.version,
        row.arch,
        row.sharable,
        row.match_hardware.to_string(),
        row.required_services.to_string(),
        row.user_input.to_string(),
        row.deployment,
        row.deployment_signature,
        row.cluster_deployment,
        row.cluster_deployment_signature,
        row.image_store.to_string(),
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Replaces everything of a service except its id and the fields it is derived from; `false` when there is none.
pub async fn update(tx: &mut Permitted<right::ServiceWrite>, row: &ServiceRow) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- service.update
        UPDATE service
        SET owner_org = $3, owner = $4, label = $5, description = $6, is_public = $7, documentation = $8, url = $9,
            sharable = $10, match_hardware = $11::text::json, required_services = $12::text::json, user_input = $13::text::json, deployment = $14,
            deployment_signature = $15, cluster_deployment = $16, cluster_deployment_signature = $17, image_store = $18::text::json,
            updated_at = $19
        WHERE org = $1 AND service = $2",
        row.org,
        row.service,
        row.owner_org,
        row.owner,
        row.label,
        row.description,
        row.is_public,
        row.documentation,
        row.url,
        row.sharable,
        row.match_hardware.to_string(),
        row.required_services.to_string(),
        row.user_input.to_string(),
        row.deployment,
        row.deployment_signature,
        row.cluster_deployment,
        row.cluster_deployment_signature,
        row.image_store.to_string(),
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Removes a service with all its parts; returns whether it was public, `None` when there was none.
pub async fn delete(
    tx: &mut Permitted<right::ServiceWrite>,
    org: &str,
    service: &str,
) -> Result<Option<bool>, StoreError> {
    let row = sqlx::query!(
        "-- service.delete
        DELETE FROM service WHERE org = $1 AND service = $2 RETURNING is_public",
        org,
        service,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.map(|row| row.is_public))
}

/// Counts the services of an account.
pub async fn count_owned(conn: &mut PgConnection, owner_org: &str, owner: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- service.count_owned
        SELECT count(*) AS "count!" FROM service WHERE owner_org = $1 AND owner = $2"#,
        owner_org,
        owner,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}
