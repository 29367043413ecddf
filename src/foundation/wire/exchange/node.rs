//! Nodes on the wire. Source: exchange-api 4.4.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::node_orchestration::NodeOrchestration;
use super::node_part::{NodePolicyResponse, NodeStatusResponse};
use super::node_report::NodeOrchestrationStatus;
use super::user_input::UserInputService;
use super::{lenient, query, response};

/// Replaces or creates a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutNode {
    /// Secret; together with pattern and public key, or none of the three.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// `device` (default) or `cluster`.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub node_type: Option<String>,
    /// `org/pattern`; empty for a node that follows policies.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Services the node offers to run.
    #[serde(default, deserialize_with = "lenient::objects")]
    pub registered_services: Vec<RegisteredService>,
    /// Values for variables of services.
    #[serde(default, deserialize_with = "lenient::objects")]
    pub user_input: Vec<UserInputService>,
    /// Address of the node, for information.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub msg_end_point: Option<String>,
    /// Versions of the agent's parts.
    #[serde(
        default,
        deserialize_with = "lenient::optional_text_map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Object>)]
    pub software_versions: Option<Map<String, Value>>,
    /// Key for messages to the node.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Architecture.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Heartbeat intervals of the node.
    #[serde(default, deserialize_with = "lenient::optional_object", skip_serializing_if = "Option::is_none")]
    pub heartbeat_intervals: Option<HeartbeatIntervals>,
    /// Namespace of a cluster agent.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<String>,
    /// True if the cluster agent is confined to its namespace.
    #[serde(
        default,
        deserialize_with = "lenient::optional_json_flag",
        skip_serializing_if = "Option::is_none"
    )]
    pub is_namespace_scoped: Option<bool>,
}

/// Changes one attribute of a node: exactly one member must be given.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PatchNode {
    /// Secret; not while a public key is set.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Kind of node.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub node_type: Option<String>,
    /// `org/pattern` or empty.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Services the node offers to run.
    #[serde(deserialize_with = "lenient::optional_objects", skip_serializing_if = "Option::is_none")]
    pub registered_services: Option<Vec<RegisteredService>>,
    /// Values for variables of services.
    #[serde(deserialize_with = "lenient::optional_objects", skip_serializing_if = "Option::is_none")]
    pub user_input: Option<Vec<UserInputService>>,
    /// Address of the node, for information.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub msg_end_point: Option<String>,
    /// Versions of the agent's parts.
    #[serde(deserialize_with = "lenient::optional_text_map", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub software_versions: Option<Map<String, Value>>,
    /// Key for messages to the node; only the node itself may set it.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Architecture.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Heartbeat intervals of the node.
    #[serde(deserialize_with = "lenient::optional_object", skip_serializing_if = "Option::is_none")]
    pub heartbeat_intervals: Option<HeartbeatIntervals>,
    /// Namespace of a cluster agent.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<String>,
    /// True if the cluster agent is confined to its namespace.
    #[serde(deserialize_with = "lenient::optional_json_flag", skip_serializing_if = "Option::is_none")]
    pub is_namespace_scoped: Option<bool>,
    /// State of the agent as it reports it: `running` or `stopped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<AgentState>,
}

/// A service that a node offers to run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisteredService {
    /// `org/url`.
    #[serde(deserialize_with = "lenient::text")]
    pub url: String,
    /// Agreements wanted.
    #[serde(default, deserialize_with = "lenient::int")]
    pub num_agreements: i64,
    /// `active` (default) or `suspended`.
    #[serde(default = "active", deserialize_with = "active_or_text")]
    pub config_state: String,
    /// Policy of the service, as JSON text.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub policy: Option<String>,
    /// Properties to search by.
    #[serde(default, deserialize_with = "lenient::objects")]
    pub properties: Vec<ServiceProperty>,
    /// Version; empty is any.
    #[serde(default, deserialize_with = "lenient::text_or_empty")]
    pub version: String,
}

fn active() -> String {
    "active".to_owned()
}

fn active_or_text<'de, D: serde::Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    Ok(lenient::optional_text(input)?.unwrap_or_else(active))
}

/// A property of a registered service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceProperty {
    /// Name.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// Value as text.
    #[serde(deserialize_with = "lenient::text")]
    pub value: String,
    /// `string`, `list`, `version`, `boolean`, `int` or `wildcard`.
    #[serde(deserialize_with = "lenient::text")]
    pub prop_type: String,
    /// `in`, `=`, `>=` or `<=`.
    #[serde(deserialize_with = "lenient::text")]
    pub op: String,
}

/// Heartbeat intervals of a node, in seconds; 0 leaves the choice to the organization or the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HeartbeatIntervals {
    /// Shortest interval.
    #[serde(deserialize_with = "lenient::int")]
    pub min_interval: i64,
    /// Longest interval.
    #[serde(deserialize_with = "lenient::int")]
    pub max_interval: i64,
    /// Step between them.
    #[serde(deserialize_with = "lenient::int")]
    pub interval_adjustment: i64,
}

response! {
    /// A node.
    pub struct NodeResponse {
        /// Masked.
        token: FixedText,
        /// Display name.
        name: String,
        /// `org/user`.
        owner: String,
        /// `device` or `cluster`.
        node_type: String,
        /// `org/pattern` or empty.
        pattern: String,
        /// Services the node offers to run.
        #[schema(value_type = Vec<RegisteredService>)]
        registered_services: Box<RawValue>,
        /// Values for variables of services.
        #[schema(value_type = Vec<UserInputService>)]
        user_input: Box<RawValue>,
        /// Address of the node, for information.
        msg_end_point: String,
        /// Versions of the agent's parts.
        #[schema(value_type = Object)]
        software_versions: Box<RawValue>,
        /// Last heartbeat; none when never seen.
        last_heartbeat: Option<String>,
        /// Key for messages to the node.
        public_key: String,
        /// Architecture.
        arch: String,
        /// Heartbeat intervals of the node.
        #[schema(value_type = HeartbeatIntervals)]
        heartbeat_intervals: Box<RawValue>,
        /// High availability group.
        #[serde(rename = "ha_group")]
        ha_group: Option<String>,
        /// Last change.
        last_updated: String,
        /// Namespace of a cluster agent.
        cluster_namespace: String,
        /// True if the cluster agent is confined to its namespace.
        is_namespace_scoped: bool,
        /// Operator's settings for orchestration; left out when they are the defaults.
        #[serde(skip_serializing_if = "Option::is_none")]
        orchestration: Option<NodeOrchestration>,
        /// User who changed these settings last; only for agbots, which name the user in events.
        #[serde(skip_serializing_if = "Option::is_none")]
        orchestration_updated_by: Option<String>,
        /// State of the agent as it reported it; only when it has stopped.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_state: Option<AgentState>,
        /// Activity and compatibility version of the agent; only for agents that report one of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        orchestration_status: Option<NodeOrchestrationStatus>,
        /// Policy and status; only in lists that were requested with them.
        #[serde(skip_serializing_if = "Option::is_none")]
        parts: Option<NodeParts>,
    }
}

response! {
    /// What else belongs to a node, as their own resources show it.
    pub struct NodeParts {
        /// Policy of the node, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        policy: Option<NodePolicyResponse>,
        /// Status of the node, if it has reported one.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<NodeStatusResponse>,
    }
}

impl NodeResponse {
    /// Returns the services that the node offers to run.
    ///
    /// # Errors
    /// When the response of the exchange has another shape.
    pub fn registered_services(&self) -> Result<Vec<RegisteredService>, serde_json::Error> {
        response::part(&self.registered_services)
    }

    /// Returns the values for variables of services, one object for each service.
    ///
    /// # Errors
    /// As those of [`NodeResponse::registered_services`].
    pub fn user_input(&self) -> Result<Vec<Value>, serde_json::Error> {
        response::part(&self.user_input)
    }

    /// Returns the versions of the agent's parts by name.
    ///
    /// # Errors
    /// As those of [`NodeResponse::registered_services`].
    pub fn software_versions(&self) -> Result<BTreeMap<String, String>, serde_json::Error> {
        response::part(&self.software_versions)
    }

    /// Returns the heartbeat intervals of the node.
    ///
    /// # Errors
    /// As those of [`NodeResponse::registered_services`].
    pub fn heartbeat_intervals(&self) -> Result<HeartbeatIntervals, serde_json::Error> {
        response::part(&self.heartbeat_intervals)
    }
}

/// State of an agent as it reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// It runs; also of agents that never say it.
    #[default]
    Running,
    /// It ended, and stopped its services before.
    Stopped,
}

impl AgentState {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }

    /// Reads a word; an unknown one means a running agent.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        if word == Self::Stopped.word() { Self::Stopped } else { Self::Running }
    }

    /// Returns the state as it is shown with its node: none for an agent that runs.
    #[must_use]
    pub fn unless_running(self) -> Option<Self> {
        (self != Self::Running).then_some(self)
    }
}

response! {
    /// Nodes by `org/node`.
    pub struct NodesResponse {
        /// The nodes.
        nodes: BTreeMap<String, NodeResponse>,
        /// Always 0.
        last_index: i32,
        paged
    }
}

/// Ids of nodes, in the shape of the list of whole nodes.
#[expect(clippy::zero_sized_map_values, reason = "clients read the names of an object")]
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeIdsResponse {
    /// Empty objects by `org/node`.
    pub nodes: BTreeMap<String, NoMembers>,
    /// Always 0.
    pub last_index: i32,
}

/// An object without members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NoMembers {}

/// Options of the removal of a node.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct NodeRemovalQuery {
    /// True to count the instances of the node as stopped although its agent may be alive.
    #[serde(deserialize_with = "query::optional_flag")]
    pub force: Option<bool>,
    /// For an agent that removes its own node: `false` when a service could not be stopped. Instances that may run only once then start
    /// elsewhere when the agent, or an administrator, has confirmed the end; left out, everything has stopped.
    #[serde(deserialize_with = "query::optional_flag")]
    pub stopped: Option<bool>,
}

/// Deleted nodes whose agents have not confirmed that they stopped everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeparturesResponse {
    /// By `org/node`.
    pub nodes: BTreeMap<String, DepartingNode>,
}

/// A node that was deleted while it may have run instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DepartingNode {
    /// When it was deleted.
    pub deleted: String,
    /// Its last heartbeat.
    pub last_heartbeat: String,
    /// Seconds without contact after which its guardian has killed a task, by task; left out without a running guardian.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub leases: BTreeMap<String, u32>,
}

/// Filters of the node list; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct NodesQuery {
    /// Pattern of `org/node`.
    pub idfilter: Option<String>,
    /// Pattern of the name.
    pub name: Option<String>,
    /// Pattern of the architecture.
    pub arch: Option<String>,
    /// Pattern of the namespace.
    pub clusternamespace: Option<String>,
    /// Pattern of `org/user`.
    pub owner: Option<String>,
    /// `device` or `cluster`.
    pub nodetype: Option<String>,
    /// Only nodes confined to their namespace, or only others.
    #[serde(rename = "isNamespaceScoped", deserialize_with = "query::optional_flag")]
    #[param(rename = "isNamespaceScoped")]
    pub is_namespace_scoped: Option<bool>,
    /// True for the ids of the nodes alone: the values are empty objects.
    #[serde(rename = "idsOnly", deserialize_with = "query::optional_flag")]
    #[param(rename = "idsOnly")]
    pub ids_only: Option<bool>,
    /// True for the policy and the status of each node besides its record, so that one request reads what takes two for each node otherwise.
    #[serde(deserialize_with = "query::optional_flag")]
    pub parts: Option<bool>,
}

/// Attribute of a resource to return.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct AttributeQuery {
    /// Name of an attribute; without it the whole resource.
    pub attribute: Option<String>,
}

/// Query of a write that may count as a heartbeat.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct HeartbeatQuery {
    /// The write is no heartbeat of the node.
    #[serde(deserialize_with = "query::optional_flag")]
    pub noheartbeat: Option<bool>,
}

/// Filters of node details; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct NodeDetailsQuery {
    /// Pattern of `org/node`.
    pub id: Option<String>,
    /// Pattern of the name.
    pub name: Option<String>,
    /// Pattern of the architecture.
    pub arch: Option<String>,
    /// Pattern of `org/user`.
    pub owner: Option<String>,
    /// `device` or `cluster`.
    #[serde(rename = "type")]
    #[param(rename = "type")]
    pub node_type: Option<String>,
}
