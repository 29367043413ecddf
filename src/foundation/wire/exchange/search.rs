//! Searches for nodes on the wire. Source: exchange-api 7.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::lenient;
use super::node_orchestration::NodeOrchestration;

/// Search for nodes that a deployment policy may select.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicySearchRequest {
    /// Only nodes changed since then, in seconds since 1970; 0: all.
    #[serde(deserialize_with = "lenient::long")]
    pub changed_since: i64,
    /// Organizations of the nodes; that of the path when absent.
    #[serde(deserialize_with = "lenient::optional_texts")]
    pub node_orgids: Option<Vec<String>>,
    /// Maximum number of nodes.
    #[serde(deserialize_with = "lenient::optional_int")]
    pub num_entries: Option<i64>,
    /// Name of a series of paged searches.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub session: Option<String>,
    /// Ignored.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub start_index: Option<String>,
}

response! {
    /// A node that was found.
    pub struct FoundNode {
        /// `org/node`.
        id: String,
        /// `device` or `cluster`.
        node_type: String,
        /// Key for messages to the node.
        public_key: String,
    }
}

response! {
    /// Nodes that a deployment policy may select.
    pub struct PolicySearchResponse {
        /// The nodes, by last change.
        nodes: Vec<FoundNode>,
        /// The series of paged searches got ahead.
        offset_updated: bool,
    }
}

/// Another series of paged searches is in progress.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SessionConflict {
    /// `org/agbot`.
    pub agbot: String,
    /// Position of the running series.
    pub offset: Option<String>,
    /// Name of the running series.
    pub session: String,
}

/// Search for nodes that a pattern may select.
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
    /// Only nodes with a heartbeat within this number of seconds; 0: all.
    #[serde(deserialize_with = "lenient::optional_int")]
    pub seconds_stale: Option<i64>,
    /// Ignored.
    #[serde(deserialize_with = "lenient::optional_int")]
    pub num_entries: Option<i64>,
    /// Ignored.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub start_index: Option<String>,
}

response! {
    /// Nodes that a pattern may select.
    pub struct PatternSearchResponse {
        /// The nodes.
        nodes: Vec<FoundNode>,
        /// Always 0.
        last_index: i32,
    }
}

/// The request for heartbeats.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeHealthRequest {
    /// Only nodes seen since then; empty: all.
    #[serde(deserialize_with = "lenient::text")]
    pub last_time: String,
    /// Organizations of the nodes; that of the path when absent.
    #[serde(default, deserialize_with = "lenient::optional_texts", skip_serializing_if = "Option::is_none")]
    pub node_orgids: Option<Vec<String>>,
}

response! {
    /// Heartbeats by `org/node`.
    pub struct NodeHealthResponse {
        /// The nodes.
        nodes: BTreeMap<String, NodeHealth>,
    }
}

response! {
    /// Heartbeats of a node.
    pub struct NodeHealth {
        /// Last heartbeat.
        last_heartbeat: String,
        /// Its agreements by id.
        agreements: BTreeMap<String, AgreementHealth>,
    }
}

response! {
    /// When an agreement changed last.
    pub struct AgreementHealth {
        /// Last change.
        last_updated: String,
    }
}

response! {
    /// Nodes that report errors.
    pub struct NodesWithErrors {
        /// `org/node` of each.
        nodes: Vec<String>,
    }
}

response! {
    /// Errors of nodes.
    pub struct AllNodeErrors {
        /// One entry a node.
        node_errors: Vec<ErrorsOfNode>,
    }
}

response! {
    /// Errors of one node.
    pub struct ErrorsOfNode {
        /// `org/node`.
        node_id: String,
        /// The list of errors, as JSON text.
        error: String,
        /// Last change.
        last_updated: String,
    }
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
    /// Pairs of `org/node` and last heartbeat.
    #[schema(value_type = Vec<Vec<Value>>)]
    pub nodes: Vec<(String, Option<String>)>,
}

/// Everything about nodes, by id.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(transparent)]
pub struct NodeDetailsResponse(pub Vec<NodeDetails>);

response! {
    /// A page of everything about nodes, by id. The whole list is an array.
    pub struct NodeDetailsPage {
        /// The nodes.
        nodes: Vec<NodeDetails>,
        paged
    }
}

response! {
    /// Everything about a node.
    pub struct NodeDetails {
        /// Architecture.
        arch: Option<String>,
        /// Reachable hosts, of the status.
        #[schema(value_type = Option<Object>)]
        connectivity: Value,
        /// Constraints, of the policy.
        #[schema(value_type = Option<Vec<String>>)]
        constraints: Value,
        /// Errors.
        #[schema(value_type = Option<Vec<Value>>)]
        errors: Value,
        /// Heartbeat intervals of the node.
        #[schema(value_type = Object)]
        heartbeat_intervals: Value,
        /// `org/node`.
        id: String,
        /// Last heartbeat.
        last_heartbeat: Option<String>,
        /// Last change of the node.
        last_updated_node: String,
        /// Last change of its errors.
        last_updated_node_error: Option<String>,
        /// Last change of its policy.
        last_updated_node_policy: Option<String>,
        /// Last change of its status.
        last_updated_node_status: Option<String>,
        /// Address of the node.
        msg_end_point: Option<String>,
        /// Display name.
        name: Option<String>,
        /// `device` or `cluster`.
        node_type: String,
        /// `org/user`.
        owner: String,
        /// Organization.
        orgid: String,
        /// `org/pattern`.
        pattern: Option<String>,
        /// Properties, of the policy.
        #[schema(value_type = Option<Vec<Value>>)]
        properties: Value,
        /// Key for messages to the node.
        public_key: Option<String>,
        /// Services the node offers to run.
        #[schema(value_type = Vec<Value>)]
        registered_services: Value,
        /// The running services as text, of the status.
        running_services: Option<String>,
        /// Running services, of the status.
        #[schema(value_type = Option<Vec<Value>>)]
        services: Value,
        /// Versions of the agent's parts.
        #[schema(value_type = Object)]
        software_versions: Value,
        /// Masked.
        token: FixedText,
        /// Values for variables of services.
        #[schema(value_type = Vec<Value>)]
        user_input: Value,
        /// High availability group.
        #[serde(rename = "ha_group")]
        ha_group: Option<String>,
        /// Namespace of a cluster agent.
        cluster_namespace: Option<String>,
        /// True if the cluster agent is confined to its namespace.
        is_namespace_scoped: bool,
        /// Operator's settings for orchestration; left out when they are the defaults.
        #[serde(skip_serializing_if = "Option::is_none")]
        orchestration: Option<NodeOrchestration>,
    }
}
