//! Patterns.

use evenkeel_access::{RowFilter, right};
use evenkeel_ids::UserId;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::identity::lock_name;
use super::permitted::Permitted;
use super::resource_key::ResourceKey;

/// A pattern as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub pattern: String,
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
    /// List of services.
    pub services: Value,
    /// List of user input.
    pub user_input: Value,
    /// List of secret bindings.
    pub secret_binding: Value,
    /// List of agreement protocols.
    pub agreement_protocols: Value,
    /// Namespace on cluster nodes.
    pub cluster_namespace: String,
    /// Last change.
    pub updated_at: Timestamp,
}

/// The filter of a list of patterns; texts are patterns of LIKE unless noted.
#[derive(Debug, Clone, Default)]
pub struct PatternFilter {
    /// Exactly this organization.
    pub org: Option<String>,
    /// Organization.
    pub organization: Option<String>,
    /// Id as `org/id`.
    pub id: Option<String>,
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Public or not.
    pub is_public: Option<bool>,
    /// Display name.
    pub label: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Namespace on cluster nodes.
    pub cluster_namespace: Option<String>,
}

macro_rules! select_patterns {
    ($rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            PatternRow,
            r#"-- pattern.select
            SELECT org, pattern, owner_org, owner, label, description, is_public, services, user_input, secret_binding,
                   agreement_protocols, cluster_namespace, updated_at AS "updated_at: jiff_sqlx::Timestamp"
            FROM pattern
            "# + $rest $(+ $more)*,
            $($argument,)*
        )
    };
}

/// Counts what [`select_patterns`] selects.
macro_rules! count_selected_patterns {
    ($rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_scalar!(
            r#"-- pattern.count
            SELECT count(*) AS "count!"
            FROM (
                SELECT 1
                FROM pattern
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
            "WHERE " + $scope + "
                AND ($2::text IS NULL OR org || '/' || pattern LIKE $2)
                AND ($3::text IS NULL OR owner_org || '/' || owner LIKE $3)
                AND ($4::boolean IS NULL OR is_public = $4)
                AND ($5::text IS NULL OR label LIKE $5)
                AND ($6::text IS NULL OR description LIKE $6)
                AND ($7::text IS NULL OR cluster_namespace LIKE $7)
                AND ($8::boolean OR is_public OR (org = $9 AND ($11::text IS NULL OR (owner_org = $10 AND owner = $11))))
                AND (org, pattern) > (COALESCE($12::text, ''), COALESCE($13::text, ''))
                AND ($15::text IS NULL OR org LIKE $15)
            ORDER BY org, pattern
            LIMIT $14",
            $filter.org,
            $filter.id,
            $filter.owner,
            $filter.is_public,
            $filter.label,
            $filter.description,
            $filter.cluster_namespace,
            $rows.sees_all(),
            $rows.org(),
            $owner.map(UserId::org),
            $owner.map(UserId::name),
            $after.map(|key| key.org.as_str()),
            $after.map(|key| key.id.as_str()),
            $limit,
            $filter.organization,
        )
    };
}

/// Finds one pattern.
pub async fn find(
    conn: &mut PgConnection,
    org: &str,
    pattern: &str,
) -> Result<Option<PatternRow>, StoreError> {
    Ok(select_patterns!("WHERE org = $1 AND pattern = $2", org, pattern).fetch_optional(conn).await?)
}

/// Finds one pattern and locks it until the end of the transaction.
pub async fn lock(tx: &mut PgConnection, org: &str, pattern: &str) -> Result<Option<PatternRow>, StoreError> {
    Ok(select_patterns!("WHERE org = $1 AND pattern = $2 FOR UPDATE", org, pattern)
        .fetch_optional(tx)
        .await?)
}

/// Returns whether a pattern is public and locks it until the end of the transaction; `None` when there is none.
pub async fn lock_visibility(
    tx: &mut PgConnection,
    org: &str,
    pattern: &str,
) -> Result<Option<bool>, StoreError> {
    // FOR KEY SHARE prevents a deletion, while writers of the parts of one pattern do not wait for each other.
    let row = sqlx::query!(
        "-- pattern.lock_visibility
        SELECT is_public FROM pattern WHERE org = $1 AND pattern = $2 FOR KEY SHARE",
        org,
        pattern,
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| row.is_public))
}

/// Lists at most `limit` visible patterns that match the filter, by organization and id, after the given one.
pub async fn list(
    conn: &mut PgConnection,
    filter: &PatternFilter,
    rows: &RowFilter,
    after: Option<&ResourceKey>,
    limit: i64,
) -> Result<Vec<PatternRow>, StoreError> {
    let owner = rows.owner();
    Ok(match filter.org {
        Some(_) => {
            select_filtered!(select_patterns, "org = $1", (filter, rows, after, limit, owner))
                .fetch_all(conn)
                .await?
        }
        None => {
            select_filtered!(select_patterns, "$1::text IS NULL", (filter, rows, after, limit, owner))
                .fetch_all(conn)
                .await?
        }
    })
}

/// Counts what [`list`] lists, up to a number.
pub async fn count(
    conn: &mut PgConnection,
    filter: &PatternFilter,
    rows: &RowFilter,
    most: i64,
) -> Result<i64, StoreError> {
    let owner = rows.owner();
    let after: Option<&ResourceKey> = None;
    Ok(match filter.org {
        Some(_) => {
            select_filtered!(count_selected_patterns, "org = $1", (filter, rows, after, most, owner))
                .fetch_one(conn)
                .await?
        }
        None => {
            select_filtered!(count_selected_patterns, "$1::text IS NULL", (filter, rows, after, most, owner))
                .fetch_one(conn)
                .await?
        }
    })
}

/// Adds a pattern.
///
/// # Errors
/// [`StoreError::Conflict`] with `pattern_org_pattern_key` when the id is taken.
pub async fn insert(tx: &mut Permitted<right::PatternCreate>, row: &PatternRow) -> Result<(), StoreError> {
    lock_name(tx, &row.org, &row.pattern).await?;
    sqlx::query!(
        "-- pattern.insert
        INSERT INTO pattern (org, pattern, owner_org, owner, label, description, is_public, services, user_input,
            secret_binding, agreement_protocols, cluster_namespace, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9::text::json, $10::text::json, $11::text::json, $12, $13)",
        row.org,
        row.pattern,
        row.owner_org,
        row.owner,
        row.label,
        row.description,
        row.is_public,
        row.services.to_string(),
        row.user_input.to_string(),
        row.secret_binding.to_string(),
        row.agreement_protocols.to_string(),
        row.cluster_namespace,
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Replaces everything of a pattern except its id; `false` when there is none.
pub async fn update(tx: &mut Permitted<right::PatternWrite>, row: &PatternRow) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- pattern.update
        UPDATE pattern
        SET owner_org = $3, owner = $4, label = $5, description = $6, is_public = $7, services = $8::text::json, user_input = $9::text::json,
            secret_binding = $10::text::json, agreement_protocols = $11::text::json, cluster_namespace = $12, updated_at = $13
        WHERE org = $1 AND pattern = $2",
        row.org,
        row.pattern,
        row.owner_org,
        row.owner,
        row.label,
        row.description,
        row.is_public,
        row.services.to_string(),
        row.user_input.to_string(),
        row.secret_binding.to_string(),
        row.agreement_protocols.to_string(),
        row.cluster_namespace,
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Removes a pattern and its keys; returns whether it was public, `None` when there was none.
pub async fn delete(
    tx: &mut Permitted<right::PatternWrite>,
    org: &str,
    pattern: &str,
) -> Result<Option<bool>, StoreError> {
    let row = sqlx::query!(
        "-- pattern.delete
        DELETE FROM pattern WHERE org = $1 AND pattern = $2 RETURNING is_public",
        org,
        pattern,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.map(|row| row.is_public))
}

/// Counts the patterns of an account.
pub async fn count_owned(conn: &mut PgConnection, owner_org: &str, owner: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- pattern.count_owned
        SELECT count(*) AS "count!" FROM pattern WHERE owner_org = $1 AND owner = $2"#,
        owner_org,
        owner,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Finds the type of the publishing organization; `None` when it does not exist.
pub async fn find_org_type(conn: &mut PgConnection, org: &str) -> Result<Option<String>, StoreError> {
    let row = sqlx::query!(
        "-- pattern.find_org_type
        SELECT org_type FROM organization WHERE org = $1",
        org,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| row.org_type))
}
