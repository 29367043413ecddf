//! Searches for nodes on the wire; see the exchange contract section 7.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::lenient;
use super::node_orchestration::NodeOrchestration;

/// Asks for nodes that a deployment policy may concern.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicySearchRequest {
    /// Only nodes changed since then, in seconds since 1970; 0: all.
    #[serde(deserialize_with = "lenient::long")]
    pub changed_since: i64,
    /// Organizations of the nodes; that of the path when absent.
    #[serde(deserialize_with = "lenient::optional_texts")]
    pub node_orgids: Option<Vec<String>>,
    /// Most nodes wanted.
    #[serde(deserialize_with = "lenient::optional_int")]
    pub num_entries: Option<i64>,
    /// Name of a series of paged searches.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub session: Option<String>,
    /// Ignored.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub start_index: Option<String>,
}

/// A node that was found.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundNode {
    /// `org/node`.
    pub id: String,
    /// `device` or `cluster`.
    pub node_type: String,
    /// Key for messages to the node.
    pub public_key: String,
}

/// Nodes that a deployment policy may concern.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySearchAnswer {
    /// The nodes, by last change.
    pub nodes: Vec<FoundNode>,
    /// The series of paged searches got ahead.
    pub offset_updated: bool,
}

/// Another series of paged searches is under way.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SessionConflict {
    /// `org/agbot`.
    pub agbot: String,
    /// Where the running series stands.
    pub offset: Option<String>,
    /// Name of the running series.
    pub session: String,
}

/// Asks for nodes that a pattern may concern.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PatternSearchRequest {
    /// `org/url` or url of a service of the pattern.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub service_url: Option<String>,
    /// Architecture; none, empty or `*` is any.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub arch: Option<String>,
    /// Organizations of the nodes; that of the path when absent.
    #[serde(deserialize_with = "lenient::optional_texts")]
    pub node_orgids: Option<Vec<String>>,
    /// Only nodes that gave a sign of life within so many seconds; 0: all.
    #[serde(deserialize_with = "lenient::optional_int")]
    pub seconds_stale: Option<i64>,
    /// Ignored.
    #[serde(deserialize_with = "lenient::optional_int")]
    pub num_entries: Option<i64>,
    /// Ignored.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub start_index: Option<String>,
}

/// Nodes that a pattern may concern.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatternSearchAnswer {
    /// The nodes.
    pub nodes: Vec<FoundNode>,
    /// Always 0.
    pub last_index: i32,
}

/// Asks for signs of life.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeHealthRequest {
    /// Only nodes seen since then; empty: all.
    #[serde(deserialize_with = "lenient::text")]
    pub last_time: String,
    /// Organizations of the nodes; that of the path when absent.
    #[serde(default, deserialize_with = "lenient::optional_texts")]
    pub node_orgids: Option<Vec<String>>,
}

/// Signs of life by `org/node`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NodeHealthAnswer {
    /// The nodes.
    pub nodes: BTreeMap<String, NodeHealth>,
}

/// Signs of life of a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeHealth {
    /// Last sign of life.
    pub last_heartbeat: String,
    /// Its agreements by id.
    pub agreements: BTreeMap<String, AgreementHealth>,
}

/// When an agreement changed last.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgreementHealth {
    /// Last change.
    pub last_updated: String,
}

/// Nodes that report errors.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NodesWithErrors {
    /// `org/node` of each.
    pub nodes: Vec<String>,
}

/// Errors of nodes.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllNodeErrors {
    /// One entry a node.
    pub node_errors: Vec<ErrorsOfNode>,
}

/// Errors of one node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorsOfNode {
    /// `org/node`.
    pub node_id: String,
    /// The list of errors, as JSON text.
    pub error: String,
    /// Last change.
    pub last_updated: String,
}

/// Asks for nodes that run a service.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceSearchRequest {
    /// Organization of the service.
    #[serde(deserialize_with = "lenient::text")]
    pub orgid: String,
    /// URL of the service.
    #[serde(rename = "serviceURL", deserialize_with = "lenient::text")]
    pub service_url: String,
    /// Version of the service.
    #[serde(deserialize_with = "lenient::text")]
    pub service_version: String,
    /// Architecture of the service.
    #[serde(deserialize_with = "lenient::text")]
    pub service_arch: String,
}

/// Nodes that run a service.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NodesWithService {
    /// Pairs of `org/node` and last sign of life.
    #[schema(value_type = Vec<Vec<Value>>)]
    pub nodes: Vec<(String, Option<String>)>,
}

/// Everything about nodes, by id.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(transparent)]
pub struct NodeDetailsAnswer(pub Vec<NodeDetails>);

/// Everything about a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDetails {
    /// Architecture.
    pub arch: Option<String>,
    /// Reachable hosts, of the status.
    #[schema(value_type = Option<Object>)]
    pub connectivity: Value,
    /// Constraints, of the policy.
    #[schema(value_type = Option<Vec<String>>)]
    pub constraints: Value,
    /// Errors.
    #[schema(value_type = Option<Vec<Value>>)]
    pub errors: Value,
    /// How often the node shall give signs of life.
    #[schema(value_type = Object)]
    pub heartbeat_intervals: Value,
    /// `org/node`.
    pub id: String,
    /// Last sign of life.
    pub last_heartbeat: Option<String>,
    /// Last change of the node.
    pub last_updated_node: String,
    /// Last change of its errors.
    pub last_updated_node_error: Option<String>,
    /// Last change of its policy.
    pub last_updated_node_policy: Option<String>,
    /// Last change of its status.
    pub last_updated_node_status: Option<String>,
    /// Where the node can be reached.
    pub msg_end_point: Option<String>,
    /// Display name.
    pub name: Option<String>,
    /// `device` or `cluster`.
    pub node_type: String,
    /// `org/user`.
    pub owner: String,
    /// Organization.
    pub orgid: String,
    /// `org/pattern`.
    pub pattern: Option<String>,
    /// Properties, of the policy.
    #[schema(value_type = Option<Vec<Value>>)]
    pub properties: Value,
    /// Key for messages to the node.
    pub public_key: Option<String>,
    /// Services the node offers to run.
    #[schema(value_type = Vec<Value>)]
    pub registered_services: Value,
    /// The running services as text, of the status.
    pub running_services: Option<String>,
    /// Running services, of the status.
    #[schema(value_type = Option<Vec<Value>>)]
    pub services: Value,
    /// Versions of the agent's parts.
    #[schema(value_type = Object)]
    pub software_versions: Value,
    /// Masked.
    pub token: &'static str,
    /// Values for variables of services.
    #[schema(value_type = Vec<Value>)]
    pub user_input: Value,
    /// High availability group.
    #[serde(rename = "ha_group")]
    pub ha_group: Option<String>,
    /// Namespace of a cluster agent.
    pub cluster_namespace: Option<String>,
    /// The cluster agent keeps to its namespace.
    pub is_namespace_scoped: bool,
    /// What its operator asks of the engine; only when that is not what holds without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<NodeOrchestration>,
}
