//! Administration, status and agent files on the wire. Source: exchange-api 4.1, 4.2.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lenient;

/// Counts of the whole exchange, as far as the caller may see them; -1 hides a count.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdminStatus {
    /// Level of the compatible schema; -1 hides it.
    pub db_schema_version: i64,
    /// The counts.
    #[serde(flatten)]
    pub counts: StatusCounts,
}

/// Counts of one organization, as far as the caller may see them; -1 hides a count.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OrganizationStatus {
    /// The counts.
    #[serde(flatten)]
    pub counts: StatusCounts,
    /// Level of the compatible schema; -1 hides it.
    #[serde(rename = "SchemaVersion")]
    pub schema_version: i64,
}

/// Counts of both kinds of status.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCounts {
    /// Human-readable message.
    pub msg: String,
    /// Agreements of agbots.
    pub number_of_agbot_agreements: i64,
    /// Messages waiting for agbots.
    pub number_of_agbot_msgs: i64,
    /// Agbots.
    pub number_of_agbots: i64,
    /// Agreements of nodes.
    pub number_of_node_agreements: i64,
    /// Messages waiting for nodes.
    pub number_of_node_msgs: i64,
    /// Nodes.
    pub number_of_nodes: i64,
    /// Organizations.
    pub number_of_organizations: i64,
    /// Nodes with a pattern or a public key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_registered_nodes: Option<i64>,
    /// All other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_unregistered_nodes: Option<i64>,
    /// Users.
    pub number_of_users: i64,
}

response! {
    /// Nodes of each organization; -1 hides a count.
    pub struct OrganizationsStatus {
        /// Human-readable message.
        msg: String,
        /// Nodes by organization.
        nodes: BTreeMap<String, i64>,
    }
}

/// Sets one value of the running configuration.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigurationChange {
    /// Path of the setting, for instance `api.limits.maxNodes`.
    #[serde(deserialize_with = "lenient::text")]
    pub var_path: String,
    /// The value as text.
    #[serde(deserialize_with = "lenient::text")]
    pub value: String,
}

response! {
    /// A token for older clients.
    pub struct EmptyToken {
        /// Always empty.
        token: String,
    }
}

/// Versions of the files that agents upgrade to.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PutAgentFileVersions {
    /// Versions of the agent, in the order of the response.
    #[serde(deserialize_with = "lenient::texts")]
    pub agent_software_versions: Vec<String>,
    /// Versions of its configuration.
    #[serde(deserialize_with = "lenient::texts")]
    pub agent_config_versions: Vec<String>,
    /// Versions of its certificate.
    #[serde(deserialize_with = "lenient::texts")]
    pub agent_cert_versions: Vec<String>,
}

response! {
    /// Versions of the files that agents upgrade to.
    pub struct AgentFileVersions {
        /// Versions of the certificate.
        agent_cert_versions: Vec<String>,
        /// Versions of the configuration.
        agent_config_versions: Vec<String>,
        /// Versions of the agent.
        agent_software_versions: Vec<String>,
        /// Last change.
        last_updated: String,
    }
}
