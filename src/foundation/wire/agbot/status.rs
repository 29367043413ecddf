//! Health of the agbot.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Health of the agbot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgbotStatus {
    /// Name of this process among the agbots of the hub.
    pub agbot: String,
    /// True if the agbot has read all policies that it serves.
    pub loaded: bool,
    /// Messages that violated the protocol.
    pub dropped_messages: u64,
    /// Seconds without a heartbeat after which it counts a node as down.
    pub node_down_after_secs: u64,
    /// Number of known nodes; only for users to whom the exchange shows its own counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Number of known deployment policies; only for users to whom the exchange shows its own counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<usize>,
    /// Number of live agreements; only for users to whom the exchange shows its own counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreements: Option<usize>,
    /// Entries that it leaves to other agbots; left out when there are none, and for users to whom the
    /// exchange does not show its own counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_to_other_agbots: Option<Vec<ServedElsewhere>>,
}

/// A deployment policy or a pattern that another agbot serves for nodes of an organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServedElsewhere {
    /// True for a pattern, false for a deployment policy.
    pub is_pattern: bool,
    /// Organization of the policy or pattern.
    pub org: String,
    /// Its name, or `*`.
    pub name: String,
    /// Organization of the nodes.
    pub node_org: String,
    /// The other agbot, `org/id`.
    pub agbot: String,
}
