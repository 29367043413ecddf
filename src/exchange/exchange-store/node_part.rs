//! Parts of a node: policy, status, errors, statuses of management policies.

use evenkeel_access::right;
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::document_bytes::text_bytes;
use super::node::JsonText;
use super::permitted::Permitted;

/// The policy of a node.
#[derive(Debug, Clone)]
pub struct NodePolicyRow {
    /// Display name.
    pub label: String,
    /// Description.
    pub description: String,
    /// List of properties.
    pub properties: JsonText,
    /// List of constraints.
    pub constraints: JsonText,
    /// Object with properties and constraints for deployments.
    pub deployment: JsonText,
    /// Object with properties and constraints for management.
    pub management: JsonText,
    /// Version of the policy's format.
    pub version: String,
    /// Last change.
    pub updated_at: Timestamp,
}

impl NodePolicyRow {
    /// Bytes of the policy as JSON, as the column `bytes` counts them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts = [&self.label, &self.description, &self.version].map(|text| text_bytes(text));
        let documents = [&self.properties, &self.constraints, &self.deployment, &self.management];
        texts.into_iter().chain(documents.map(|document| document.get().len())).sum()
    }
}

/// The properties of a node's policy.
#[derive(Debug, Clone)]
pub struct PropertiesRow {
    /// List of properties.
    pub properties: JsonText,
    /// Object with properties and constraints for deployments.
    pub deployment: JsonText,
    /// Version of the policy's format.
    pub version: String,
}

/// The status of a node.
#[derive(Debug, Clone)]
pub struct NodeStatusRow {
    /// Object of reachable hosts.
    pub connectivity: JsonText,
    /// List of running services.
    pub services: JsonText,
    /// The running services as text to search in.
    pub running_services: String,
    /// List of failures of services.
    pub failures: JsonText,
    /// Last change.
    pub updated_at: Timestamp,
}

impl NodeStatusRow {
    /// Bytes of the status as JSON, as the column `bytes` counts them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let documents = [&self.connectivity, &self.services, &self.failures];
        text_bytes(&self.running_services)
            + documents.map(|document| document.get().len()).iter().sum::<usize>()
    }
}

/// Errors of a node, or the status of a management policy on it.
#[derive(Debug, Clone)]
pub struct JsonRow {
    /// The value.
    pub value: JsonText,
    /// Last change.
    pub updated_at: Timestamp,
}

/// A row of the table as [`NodePolicyRow`].
macro_rules! policy_row {
    ($row:ident) => {
        NodePolicyRow {
            label: $row.label,
            description: $row.description,
            properties: $row.properties.0,
            constraints: $row.constraints.0,
            deployment: $row.deployment.0,
            management: $row.management.0,
            version: $row.version,
            updated_at: from_sql($row.updated_at),
        }
    };
}

/// Finds the policy of a node.
pub async fn find_policy(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
) -> Result<Option<NodePolicyRow>, StoreError> {
    let row = sqlx::query!(
        r#"-- node_part.find_policy
        SELECT label, description, properties AS "properties: Json<JsonText>", constraints AS "constraints: Json<JsonText>",
               deployment AS "deployment: Json<JsonText>", management AS "management: Json<JsonText>", version,
               updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_policy
        WHERE org = $1 AND node = $2"#,
        org,
        node,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| policy_row!(row)))
}

/// Lists the policies of some nodes of an organization, each with its node.
pub async fn list_policies(
    conn: &mut PgConnection,
    org: &str,
    nodes: &[String],
) -> Result<Vec<(String, NodePolicyRow)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_part.list_policies
        SELECT node, label, description, properties AS "properties: Json<JsonText>", constraints AS "constraints: Json<JsonText>",
               deployment AS "deployment: Json<JsonText>", management AS "management: Json<JsonText>", version,
               updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_policy
        WHERE org = $1 AND node = ANY ($2)"#,
        org,
        nodes,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.node, policy_row!(row))).collect())
}

/// Lists the policies of some nodes of an organization, as far as they decide about deployments: the node with the properties, the part for
/// deployments and the version of the format.
pub async fn list_properties(
    conn: &mut PgConnection,
    org: &str,
    nodes: &[String],
) -> Result<Vec<(String, PropertiesRow)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_part.list_properties
        SELECT node, properties AS "properties: Json<JsonText>", deployment AS "deployment: Json<JsonText>", version
        FROM node_policy
        WHERE org = $1 AND node = ANY ($2)"#,
        org,
        nodes,
    )
    .fetch_all(conn)
    .await?;
    let row = |properties: Json<JsonText>, deployment: Json<JsonText>, version| PropertiesRow {
        properties: properties.0,
        deployment: deployment.0,
        version,
    };
    Ok(rows
        .into_iter()
        .map(|found| (found.node, row(found.properties, found.deployment, found.version)))
        .collect())
}

/// Writes the policy of a node.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the node does not exist.
pub async fn upsert_policy(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
    row: &NodePolicyRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node_part.upsert_policy
        INSERT INTO node_policy (org, node, label, description, properties, constraints, deployment, management, version,
                                 updated_at)
        VALUES ($1, $2, $3, $4, $5::text::json, $6::text::json, $7::text::json, $8::text::json, $9, $10)
        ON CONFLICT (org, node) DO UPDATE
        SET label = excluded.label, description = excluded.description, properties = excluded.properties,
            constraints = excluded.constraints, deployment = excluded.deployment, management = excluded.management,
            version = excluded.version, updated_at = excluded.updated_at",
        org,
        node,
        row.label,
        row.description,
        row.properties.get(),
        row.constraints.get(),
        row.deployment.get(),
        row.management.get(),
        row.version,
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes the policy of a node; false when there is none.
pub async fn delete_policy(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node_part.delete_policy
        DELETE FROM node_policy WHERE org = $1 AND node = $2",
        org,
        node,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// A row of the table as [`NodeStatusRow`].
macro_rules! status_row {
    ($row:ident) => {
        NodeStatusRow {
            connectivity: $row.connectivity.0,
            services: $row.services.0,
            running_services: $row.running_services,
            failures: $row.failures.0,
            updated_at: from_sql($row.updated_at),
        }
    };
}

/// Finds the status of a node.
pub async fn find_status(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
) -> Result<Option<NodeStatusRow>, StoreError> {
    let row = sqlx::query!(
        r#"-- node_part.find_status
        SELECT connectivity AS "connectivity: Json<JsonText>", services AS "services: Json<JsonText>", running_services,
               failures AS "failures: Json<JsonText>", updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_status
        WHERE org = $1 AND node = $2"#,
        org,
        node,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| status_row!(row)))
}

/// Lists the statuses of some nodes of an organization, each with its node.
pub async fn list_statuses(
    conn: &mut PgConnection,
    org: &str,
    nodes: &[String],
) -> Result<Vec<(String, NodeStatusRow)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_part.list_statuses
        SELECT node, connectivity AS "connectivity: Json<JsonText>", services AS "services: Json<JsonText>", running_services,
               failures AS "failures: Json<JsonText>", updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_status
        WHERE org = $1 AND node = ANY ($2)"#,
        org,
        nodes,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.node, status_row!(row))).collect())
}

/// Writes the status of a node.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the node does not exist.
pub async fn upsert_status(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
    row: &NodeStatusRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node_part.upsert_status
        INSERT INTO node_status (org, node, connectivity, services, running_services, updated_at, failures)
        VALUES ($1, $2, $3::text::json, $4::text::json, $5, $6, $7::text::json)
        ON CONFLICT (org, node) DO UPDATE
        SET connectivity = excluded.connectivity, services = excluded.services,
            running_services = excluded.running_services, updated_at = excluded.updated_at,
            failures = excluded.failures",
        org,
        node,
        row.connectivity.get(),
        row.services.get(),
        row.running_services,
        to_sql(row.updated_at) as _,
        row.failures.get(),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes the status of a node; false when there is none.
pub async fn delete_status(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node_part.delete_status
        DELETE FROM node_status WHERE org = $1 AND node = $2",
        org,
        node,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Finds the errors of a node.
pub async fn find_errors(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
) -> Result<Option<JsonRow>, StoreError> {
    let row = sqlx::query!(
        r#"-- node_part.find_errors
        SELECT errors AS "errors: Json<JsonText>", updated_at AS "updated_at: jiff_sqlx::Timestamp"
        FROM node_error
        WHERE org = $1 AND node = $2"#,
        org,
        node,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| JsonRow { value: row.errors.0, updated_at: from_sql(row.updated_at) }))
}

/// Writes the errors of a node.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the node does not exist.
pub async fn upsert_errors(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
    row: &JsonRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node_part.upsert_errors
        INSERT INTO node_error (org, node, errors, updated_at)
        VALUES ($1, $2, $3::text::json, $4)
        ON CONFLICT (org, node) DO UPDATE SET errors = excluded.errors, updated_at = excluded.updated_at",
        org,
        node,
        row.value.get(),
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes the errors of a node; false when there are none.
pub async fn delete_errors(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node_part.delete_errors
        DELETE FROM node_error WHERE org = $1 AND node = $2",
        org,
        node,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Lists the statuses of management policies on a node by policy, those after the given policy, at most `limit`; or the one of a policy.
pub async fn list_management_statuses(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
    policy: Option<&str>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<(String, JsonText)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- node_part.list_management_statuses
        SELECT policy, status AS "status: Json<JsonText>"
        FROM node_management_status
        WHERE org = $1 AND node = $2 AND ($3::text IS NULL OR policy = $3) AND policy > COALESCE($4::text, '')
        ORDER BY policy
        LIMIT $5"#,
        org,
        node,
        policy,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.policy, row.status.0)).collect())
}

/// Writes the status of a management policy on a node.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the node or the policy does not exist.
pub async fn upsert_management_status(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
    policy: &str,
    row: &JsonRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- node_part.upsert_management_status
        INSERT INTO node_management_status (org, node, policy, status, updated_at)
        VALUES ($1, $2, $3, $4::text::json, $5)
        ON CONFLICT (org, node, policy) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at",
        org,
        node,
        policy,
        row.value.get(),
        to_sql(row.updated_at) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Counts the statuses of other management policies on a node.
pub async fn count_other_management_statuses(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
    policy: &str,
) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- node_part.count_other_management_statuses
        SELECT count(*) AS "count!" FROM node_management_status WHERE org = $1 AND node = $2 AND policy <> $3"#,
        org,
        node,
        policy,
    )
    .fetch_one(conn)
    .await?;
    Ok(row.count)
}

/// Removes the status of a management policy on a node; false when there is none.
pub async fn delete_management_status(
    tx: &mut Permitted<right::NodeWrite>,
    org: &str,
    node: &str,
    policy: &str,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "-- node_part.delete_management_status
        DELETE FROM node_management_status WHERE org = $1 AND node = $2 AND policy = $3",
        org,
        node,
        policy,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// A member of an HA group with its status for a management policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatusRow {
    /// Bare id.
    pub node: String,
    /// `active`, `pause` or `drain`.
    pub availability: String,
    /// Status; `None` when the node has not reported one for the policy.
    pub status: Option<String>,
}

/// Lists the members of an HA group with their status for a management policy, by id; empty when there is no such group.
pub async fn list_member_statuses(
    conn: &mut PgConnection,
    org: &str,
    ha_group: &str,
    policy: &str,
) -> Result<Vec<MemberStatusRow>, StoreError> {
    Ok(sqlx::query_as!(
        MemberStatusRow,
        r#"-- node_part.list_member_statuses
        SELECT node.node, node.availability, reported.status ->> 'status' AS status
        FROM ha_group_member AS member
        JOIN node ON node.org = member.org AND node.node = member.node
        LEFT JOIN node_management_status AS reported
            ON reported.org = member.org AND reported.node = member.node AND reported.policy = $3
        WHERE member.org = $1 AND member.ha_group = $2
        ORDER BY node.node"#,
        org,
        ha_group,
        policy,
    )
    .fetch_all(conn)
    .await?)
}
