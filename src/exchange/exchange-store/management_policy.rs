//! Management policies.

use evenkeel_access::right;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::permitted::Permitted;

/// A management policy as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagementPolicyRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub policy: String,
    /// Organization of the owner.
    pub owner_org: String,
    /// Name of the owner.
    pub owner: String,
    /// Display name.
    pub label: String,
    /// Description.
    pub description: String,
    /// List of properties.
    pub properties: Value,
    /// List of constraint expressions.
    pub constraints: Value,
    /// List of patterns.
    pub patterns: Value,
    /// True if nodes execute it.
    pub is_enabled: bool,
    /// When it starts: an instant or `now`.
    pub start: String,
    /// Seconds over which nodes spread the start.
    pub start_window: i64,
    /// The target of the agent upgrade.
    pub agent_upgrade_policy: Value,
    /// When it was published.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

/// The filter of a list, as patterns of LIKE.
#[derive(Debug, Clone, Default)]
pub struct ManagementPolicyFilter {
    /// Id as `org/id`.
    pub id: Option<String>,
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Display name.
    pub label: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Name of the manifest.
    pub manifest: Option<String>,
}

macro_rules! select_policies {
    ($rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            ManagementPolicyRow,
            r#"-- management_policy.select
            SELECT org, policy, owner_org, owner, label, description, properties, constraints, patterns, is_enabled, start,
                   start_window, agent_upgrade_policy,
                   created_at AS "created_at: jiff_sqlx::Timestamp", updated_at AS "updated_at: jiff_sqlx::Timestamp"
            FROM management_policy
            "# + $rest,
            $($argument,)*
        )
    };
}

/// Counts what [`select_policies`] selects.
macro_rules! count_selected_policies {
    ($rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_scalar!(
            r#"-- management_policy.count
            SELECT count(*) AS "count!"
            FROM (
                SELECT 1
                FROM management_policy
                "# + $rest + "
            ) AS selected",
            $($argument,)*
        )
    };
}

/// Selects what fits a filter, in the order of the ids, what follows a key, at most `limit`.
macro_rules! select_filtered {
    ($select:ident, ($org:ident, $filter:ident, $after:ident, $limit:ident)) => {
        $select!(
            "WHERE org = $1
                AND ($2::text IS NULL OR org || '/' || policy LIKE $2)
                AND ($3::text IS NULL OR owner_org || '/' || owner LIKE $3)
                AND ($4::text IS NULL OR label LIKE $4)
                AND ($5::text IS NULL OR description LIKE $5)
                AND ($6::text IS NULL OR agent_upgrade_policy ->> 'manifest' LIKE $6)
                AND policy > COALESCE($7::text, '')
            ORDER BY policy
            LIMIT $8",
            $org,
            $filter.id,
            $filter.owner,
            $filter.label,
            $filter.description,
            $filter.manifest,
            $after,
            $limit,
        )
    };
}

/// Finds one management policy.
pub async fn find(
    conn: &mut PgConnection,
    org: &str,
    policy: &str,
) -> Result<Option<ManagementPolicyRow>, StoreError> {
    Ok(select_policies!("WHERE org = $1 AND policy = $2", org, policy).fetch_optional(conn).await?)
}

/// Lists at most `limit` management policies of an organization that fit the filter, by id, after the given one.
pub async fn list(
    conn: &mut PgConnection,
    org: &str,
    filter: &ManagementPolicyFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<ManagementPolicyRow>, StoreError> {
    Ok(select_filtered!(select_policies, (org, filter, after, limit)).fetch_all(conn).await?)
}

/// Counts what [`list`] lists, up to a number.
pub async fn count(
    conn: &mut PgConnection,
    org: &str,
    filter: &ManagementPolicyFilter,
    most: i64,
) -> Result<i64, StoreError> {
    let after: Option<&str> = None;
    Ok(select_filtered!(count_selected_policies, (org, filter, after, most)).fetch_one(conn).await?)
}

/// Adds a management policy.
///
/// # Errors
/// [`StoreError::Conflict`] with `management_policy_org_policy_key` when the id is taken.
pub async fn insert(
    tx: &mut Permitted<right::ManagementPolicyWrite>,
    row: &ManagementPolicyRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- management_policy.insert
        INSERT INTO management_policy (org, policy, owner_org, owner, label, description, properties, constraints, patterns,
            is_enabled, start, start_window, agent_upgrade_policy, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8::text::json, $9::text::json, $10, $11, $12, $13::text::json, $14, $15)",
        row.org,
        row.policy,
        row.owner_org,
        row.owner,
        row.label,
        row.description,
        row.properties.to_string(),
        row.constraints.to_string(),
        row.patterns.to_string(),
        row.is_enabled,
        row.start,
        row.start_window,
        row.agent_upgrade_policy.to_string(),
        to_sql(row.created_at) as _,
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Replaces everything of a management policy except its id, owner and time of publication; `false` when there is none.
pub async fn update(
    tx: &mut Permitted<right::ManagementPolicyWrite>,
    row: &ManagementPolicyRow,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- management_policy.update
        UPDATE management_policy
        SET label = $3, description = $4, properties = $5::text::json, constraints = $6::text::json, patterns = $7::text::json, is_enabled = $8, start = $9,
            start_window = $10, agent_upgrade_policy = $11::text::json, updated_at = $12
        WHERE org = $1 AND policy = $2",
        row.org,
        row.policy,
        row.label,
        row.description,
        row.properties.to_string(),
        row.constraints.to_string(),
        row.patterns.to_string(),
        row.is_enabled,
        row.start,
        row.start_window,
        row.agent_upgrade_policy.to_string(),
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Removes a management policy with the statuses that nodes report for it; `false` when there was none.
pub async fn delete(
    tx: &mut Permitted<right::ManagementPolicyWrite>,
    org: &str,
    policy: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- management_policy.delete
        DELETE FROM management_policy WHERE org = $1 AND policy = $2",
        org,
        policy,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Counts the management policies of an account.
pub async fn count_owned(conn: &mut PgConnection, owner_org: &str, owner: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- management_policy.count_owned
        SELECT count(*) AS "count!" FROM management_policy WHERE owner_org = $1 AND owner = $2"#,
        owner_org,
        owner,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}
