//! Nodes, and the policies of nodes and services.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::PropertyFile;
use super::{Ignored, UserInputFile};

/// The policy of a node, or parts of one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct NodePolicyFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<Vec<PropertyFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    constraints: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment: Option<PolicyPartFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    management: Option<PolicyPartFile>,
    #[serde(skip_serializing)]
    node_policy_version: Ignored,
    #[serde(skip_serializing)]
    last_updated: Ignored,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
struct PolicyPartFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<Vec<PropertyFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    constraints: Option<Vec<String>>,
}

/// The policy of a service.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct ServicePolicyFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<Vec<PropertyFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    constraints: Option<Vec<String>>,
    #[serde(skip_serializing)]
    last_updated: Ignored,
}

/// Attributes of a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct NodeFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    registered_services: Option<Vec<RegisteredServiceFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_input: Option<Vec<UserInputFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_end_point: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    software_versions: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_intervals: Option<HeartbeatIntervalsFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_namespace_scoped: Option<bool>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct RegisteredServiceFile {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_agreements: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct HeartbeatIntervalsFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_interval: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_interval: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_adjustment: Option<i64>,
}
