//! Deployment policies.

use evenkeel_access::right;
use evenkeel_store::{StoreError, to_sql};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use super::identity::lock_name;
use super::permitted::Permitted;

/// A deployment policy as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentPolicyRow {
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
    /// The deployed service.
    pub service: Value,
    /// List of user input.
    pub user_input: Value,
    /// List of secret bindings.
    pub secret_binding: Value,
    /// List of properties.
    pub properties: Value,
    /// List of constraint expressions.
    pub constraints: Value,
    /// Placement and update settings; none when the policy has none.
    pub orchestration: Option<Value>,
    /// When it was published.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

/// The filter of a list, as patterns of LIKE.
#[derive(Debug, Clone, Default)]
pub struct DeploymentPolicyFilter {
    /// Id as `org/id`.
    pub id: Option<String>,
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Display name.
    pub label: Option<String>,
    /// Description.
    pub description: Option<String>,
}

macro_rules! select_policies {
    ($rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            DeploymentPolicyRow,
            r#"-- deployment_policy.select
            SELECT org, policy, owner_org, owner, label, description, service, user_input, secret_binding, properties, constraints,
                   orchestration, created_at AS "created_at: jiff_sqlx::Timestamp", updated_at AS "updated_at: jiff_sqlx::Timestamp"
            FROM deployment_policy
            "# + $rest,
            $($argument,)*
        )
    };
}

/// Counts what [`select_policies`] selects.
macro_rules! count_selected_policies {
    ($rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_scalar!(
            r#"-- deployment_policy.count
            SELECT count(*) AS "count!"
            FROM (
                SELECT 1
                FROM deployment_policy
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
                AND policy > COALESCE($6::text, '')
            ORDER BY policy
            LIMIT $7",
            $org,
            $filter.id,
            $filter.owner,
            $filter.label,
            $filter.description,
            $after,
            $limit,
        )
    };
}

/// Finds one deployment policy.
pub async fn find(
    conn: &mut PgConnection,
    org: &str,
    policy: &str,
) -> Result<Option<DeploymentPolicyRow>, StoreError> {
    Ok(select_policies!("WHERE org = $1 AND policy = $2", org, policy).fetch_optional(conn).await?)
}

/// Finds one deployment policy and locks it until the end of the transaction.
pub async fn lock(
    tx: &mut PgConnection,
    org: &str,
    policy: &str,
) -> Result<Option<DeploymentPolicyRow>, StoreError> {
    Ok(select_policies!("WHERE org = $1 AND policy = $2 FOR UPDATE", org, policy).fetch_optional(tx).await?)
}

/// Lists at most `limit` deployment policies of an organization that fit the filter, by id, after the given one.
pub async fn list(
    conn: &mut PgConnection,
    org: &str,
    filter: &DeploymentPolicyFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<DeploymentPolicyRow>, StoreError> {
    Ok(select_filtered!(select_policies, (org, filter, after, limit)).fetch_all(conn).await?)
}

/// Counts what [`list`] lists, up to a number.
pub async fn count(
    conn: &mut PgConnection,
    org: &str,
    filter: &DeploymentPolicyFilter,
    most: i64,
) -> Result<i64, StoreError> {
    let after: Option<&str> = None;
    Ok(select_filtered!(count_selected_policies, (org, filter, after, most)).fetch_one(conn).await?)
}

/// Adds a deployment policy.
///
/// # Errors
/// [`StoreError::Conflict`] with `deployment_policy_org_policy_key` when the id is taken.
pub async fn insert(
    tx: &mut Permitted<right::DeploymentPolicyCreate>,
    row: &DeploymentPolicyRow,
) -> Result<(), StoreError> {
    lock_name(tx, &row.org, &row.policy).await?;
    sqlx::query!(
        "-- deployment_policy.insert
        INSERT INTO deployment_policy (org, policy, owner_org, owner, label, description, service, user_input, secret_binding,
            properties, constraints, created_at, updated_at, orchestration)
        VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8::text::json, $9::text::json, $10::text::json, $11::text::json, $12, $13, $14)",
        row.org,
        row.policy,
        row.owner_org,
        row.owner,
        row.label,
        row.description,
        row.service.to_string(),
        row.user_input.to_string(),
        row.secret_binding.to_string(),
        row.properties.to_string(),
        row.constraints.to_string(),
        to_sql(row.created_at) as _,
        to_sql(row.updated_at) as _,
        row.orchestration,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Replaces everything of a deployment policy except its id, owner and time of publication; `false` when there is none.
pub async fn update(
    tx: &mut Permitted<right::DeploymentPolicyWrite>,
    row: &DeploymentPolicyRow,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- deployment_policy.update
        UPDATE deployment_policy
        SET label = $3, description = $4, service = $5::text::json, user_input = $6::text::json, secret_binding = $7::text::json, properties = $8::text::json,
            constraints = $9::text::json, updated_at = $10, orchestration = $11
        WHERE org = $1 AND policy = $2",
        row.org,
        row.policy,
        row.label,
        row.description,
        row.service.to_string(),
        row.user_input.to_string(),
        row.secret_binding.to_string(),
        row.properties.to_string(),
        row.constraints.to_string(),
        to_sql(row.updated_at) as _,
        row.orchestration,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Removes a deployment policy with its search sessions; `false` when there was none.
pub async fn delete(
    tx: &mut Permitted<right::DeploymentPolicyWrite>,
    org: &str,
    policy: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- deployment_policy.delete
        DELETE FROM deployment_policy WHERE org = $1 AND policy = $2",
        org,
        policy,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Counts the deployment policies of an account.
pub async fn count_owned(conn: &mut PgConnection, owner_org: &str, owner: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- deployment_policy.count_owned
        SELECT count(*) AS "count!" FROM deployment_policy WHERE owner_org = $1 AND owner = $2"#,
        owner_org,
        owner,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Serializes writes of policies of an organization that name others.
pub async fn lock_relations(tx: &mut PgConnection, org: &str) -> Result<(), StoreError> {
    // An advisory lock, because a cycle runs through several rows: two writes could close one together without locking a
    // common row. If the hashes of two organizations collide, their writes only wait for each other.
    sqlx::query!(
        r#"-- deployment_policy.lock_relations
        SELECT pg_advisory_xact_lock(hashtextextended($1 || ' relations', 0))::text AS "nothing?""#,
        org,
    )
    .fetch_one(tx)
    .await?;
    Ok(())
}

/// Lists those of some names that no policy of an organization has.
pub async fn list_missing(
    conn: &mut PgConnection,
    org: &str,
    names: &[String],
) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query_scalar!(
        r#"-- deployment_policy.list_missing
        SELECT DISTINCT named.policy AS "policy!"
        FROM UNNEST($2::text[]) AS named (policy)
        WHERE NOT EXISTS (SELECT 1 FROM deployment_policy AS known WHERE known.org = $1 AND known.policy = named.policy)
        ORDER BY 1"#,
        org,
        names,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Lists the policies of an organization that name parents or children, each with these two members of its `orchestration`.
pub async fn list_relations(conn: &mut PgConnection, org: &str) -> Result<Vec<(String, Value)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- deployment_policy.list_relations
        SELECT policy, json_build_object('parents', orchestration -> 'parents', 'children', orchestration -> 'children') AS "relations!"
        FROM deployment_policy
        WHERE org = $1 AND (orchestration -> 'parents' IS NOT NULL OR orchestration -> 'children' IS NOT NULL)"#,
        org,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.policy, row.relations)).collect())
}
