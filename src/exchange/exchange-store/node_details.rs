//! Nodes with all their parts, for display.

use evenkeel_ids::UserId;
use jiff::Timestamp;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::node::{JsonText, NodeFilter, select_filtered};
use super::node_spec::NodeSpecRow;
use evenkeel_store::{StoreError, from_sql};

/// A node with policy, status, errors and group.
#[derive(Debug, Clone)]
pub struct NodeDetailsRow {
    /// Organization.
    pub org: String,
    /// Bare id.
    pub node: String,
    /// Display name.
    pub name: String,
    /// Organization of the owner.
    pub owner_org: String,
    /// Account of the owner.
    pub owner: String,
    /// Kind of node.
    pub node_type: String,
    /// `org/pattern` or empty.
    pub pattern: String,
    /// List of registered services.
    pub registered_services: JsonText,
    /// List of values for variables of services.
    pub user_input: JsonText,
    /// Endpoint of the node.
    pub msg_end_point: String,
    /// Object with versions of the agent's parts.
    pub software_versions: JsonText,
    /// Key for messages to the node.
    pub public_key: String,
    /// Architecture.
    pub arch: String,
    /// Object with intervals in seconds.
    pub heartbeat_intervals: JsonText,
    /// Namespace of a cluster agent.
    pub cluster_namespace: String,
    /// True if the cluster agent is bound to its namespace.
    pub is_namespace_scoped: bool,
    /// Last change.
    pub updated_at: Timestamp,
    /// Last stored heartbeat.
    pub seen_at: Option<Timestamp>,
    /// HA group the node is in.
    pub ha_group: Option<String>,
    /// Operator's settings for orchestration.
    pub spec: NodeSpecRow,
    /// Properties, constraints and last change of the policy.
    pub policy: Option<(JsonText, JsonText, Timestamp)>,
    /// Connectivity, services, running services and last change of the status.
    pub status: Option<(JsonText, JsonText, String, Timestamp)>,
    /// Errors and their last change.
    pub errors: Option<(JsonText, Timestamp)>,
}

/// Selects nodes with all their parts.
macro_rules! select_details {
    ($name:literal, $tail:literal $(+ $more:literal)*, $($argument:expr),*) => {
        sqlx::query!(
            "-- " + $name + r#"
            SELECT node.org, node.node, node.name, node.owner_org, node.owner, node.node_type, node.pattern,
                   node.registered_services AS "registered_services: Json<JsonText>",
                   node.user_input AS "user_input: Json<JsonText>", node.msg_end_point,
                   node.software_versions AS "software_versions: Json<JsonText>", node.public_key, node.arch,
                   node.heartbeat_intervals AS "heartbeat_intervals: Json<JsonText>", node.cluster_namespace,
                   node.is_namespace_scoped, node.updated_at AS "updated_at: jiff_sqlx::Timestamp", node.availability,
                   node.is_frozen, node.is_drain_forced, node.is_in_upgrade, node.capacities, node.fault_domain, node.upgrade_domain, node.spec_updated_by, node_heartbeat.seen_at AS "seen_at?: jiff_sqlx::Timestamp", ha_group_member.ha_group AS "ha_group?",
                   node_policy.properties AS "properties?: Json<JsonText>", node_policy.constraints AS "constraints?: Json<JsonText>",
                   node_policy.updated_at AS "policy_updated_at?: jiff_sqlx::Timestamp",
                   node_status.connectivity AS "connectivity?: Json<JsonText>", node_status.services AS "services?: Json<JsonText>",
                   node_status.running_services AS "running_services?",
                   node_status.updated_at AS "status_updated_at?: jiff_sqlx::Timestamp",
                   node_error.errors AS "errors?: Json<JsonText>", node_error.updated_at AS "errors_updated_at?: jiff_sqlx::Timestamp"
            FROM node
            LEFT JOIN node_heartbeat ON node_heartbeat.org = node.org AND node_heartbeat.node = node.node
            LEFT JOIN ha_group_member ON ha_group_member.org = node.org AND ha_group_member.node = node.node
            LEFT JOIN node_policy ON node_policy.org = node.org AND node_policy.node = node.node
            LEFT JOIN node_status ON node_status.org = node.org AND node_status.node = node.node LEFT JOIN node_error ON node_error.org = node.org AND node_error.node = node.node
            "# + $tail $(+ $more)*,
            $($argument),*
        )
    };
}

/// Lists nodes of an organization with all their parts by id, those after the given one, at most `limit`.
pub async fn list_node_details(
    conn: &mut PgConnection,
    org: &str,
    filter: &NodeFilter,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<NodeDetailsRow>, StoreError> {
    let rows =
        select_filtered!(select_details, "node_details.list_node_details", "", (org, filter, after, limit))
            .fetch_all(conn)
            .await?;
    Ok(rows
        .into_iter()
        .map(|row| NodeDetailsRow {
            org: row.org,
            node: row.node,
            name: row.name,
            owner_org: row.owner_org,
            owner: row.owner,
            node_type: row.node_type,
            pattern: row.pattern,
            registered_services: row.registered_services.0,
            user_input: row.user_input.0,
            msg_end_point: row.msg_end_point,
            software_versions: row.software_versions.0,
            public_key: row.public_key,
            arch: row.arch,
            heartbeat_intervals: row.heartbeat_intervals.0,
            cluster_namespace: row.cluster_namespace,
            is_namespace_scoped: row.is_namespace_scoped,
            updated_at: from_sql(row.updated_at),
            seen_at: row.seen_at.map(from_sql),
            ha_group: row.ha_group,
            spec: NodeSpecRow {
                availability: row.availability,
                is_frozen: row.is_frozen,
                is_drain_forced: row.is_drain_forced,
                is_in_upgrade: row.is_in_upgrade,
                capacities: row.capacities,
                fault_domain: row.fault_domain,
                upgrade_domain: row.upgrade_domain,
                updated_by: row.spec_updated_by,
            },
            policy: policy_of(row.properties, row.constraints, row.policy_updated_at),
            status: row
                .connectivity
                .zip(row.services)
                .zip(row.running_services)
                .zip(row.status_updated_at)
                .map(|(((connectivity, services), running), at)| {
                    (connectivity.0, services.0, running, from_sql(at))
                }),
            errors: row.errors.zip(row.errors_updated_at).map(|(errors, at)| (errors.0, from_sql(at))),
        })
        .collect())
}

/// Returns a policy that was joined, if there is one.
fn policy_of(
    properties: Option<Json<JsonText>>,
    constraints: Option<Json<JsonText>>,
    at: Option<jiff_sqlx::Timestamp>,
) -> Option<(JsonText, JsonText, Timestamp)> {
    Some((properties?.0, constraints?.0, from_sql(at?)))
}
