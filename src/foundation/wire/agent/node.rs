//! The node: registration, policy, user input.

use serde::{Deserialize, Serialize};

use crate::exchange::response::or_default;

/// State of an agent that is not registered.
pub const UNCONFIGURED: &str = "unconfigured";
/// State of an agent whose registration is not complete.
pub const CONFIGURING: &str = "configuring";
/// State of an agent whose registration is complete.
pub const CONFIGURED: &str = "configured";

/// The node as its agent knows it.
///
/// # Shape
/// An agent that is not registered leaves out the members that it does not know yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalNode {
    /// Id; empty when the agent is not registered and has no id of its own.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// Organization.
    pub organization: Option<String>,
    /// `org/pattern`, empty for a node that uses policies.
    pub pattern: Option<String>,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `device` or `cluster`.
    #[serde(rename = "nodeType", skip_serializing_if = "Option::is_none")]
    pub node_type: Option<String>,
    /// Namespace of a cluster agent.
    #[serde(rename = "clusterNamespace")]
    pub cluster_namespace: Option<String>,
    /// True if a cluster agent is confined to its namespace.
    #[serde(rename = "NamespaceScoped", skip_serializing_if = "Option::is_none")]
    pub is_namespace_scoped: Option<bool>,
    /// When the node's token was accepted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_last_valid_time: Option<u64>,
    /// True if the token was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_valid: Option<bool>,
    /// HA group of the node; empty without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ha_group: Option<String>,
    /// Progress of the registration.
    #[serde(deserialize_with = "or_default")]
    pub configstate: ConfigState,
}

/// Progress of a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigState {
    /// `unconfigured`, `configuring`, `configured` or `unconfiguring`.
    pub state: String,
    /// When it changed.
    pub last_update_time: u64,
}

impl Default for ConfigState {
    fn default() -> Self {
        Self { state: UNCONFIGURED.to_owned(), last_update_time: 0 }
    }
}

/// Completes a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutConfigState {
    /// `configured`.
    pub state: String,
}

/// Registers a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PostNode {
    /// Id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// `[org/]pattern`, empty for a node that uses policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Display name; without it the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `device`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_type: Option<String>,
    /// HA group of the node, for information.
    #[serde(rename = "ha_group", skip_serializing_if = "Option::is_none")]
    pub ha_group: Option<String>,
}

/// Options of the unregistration of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnregisterQuery {
    /// `false` does not wait until everything has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// `true` removes the node from the exchange as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_node: Option<String>,
    /// `true` removes everything that the agent keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deep_clean: Option<String>,
}

/// A token that the agent generated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RandomToken {
    /// The token.
    pub token: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unregistered_agent_leaves_out_what_it_does_not_know() {
        let shown = json!(LocalNode::default()).to_string();
        assert_eq!(
            shown,
            r#"{"id":"","organization":null,"pattern":null,"clusterNamespace":null,"configstate":{"state":"unconfigured","last_update_time":0}}"#
        );
        let read: LocalNode = serde_json::from_value(json!({"id": null, "more": 1})).expect("tolerant");
        assert_eq!(read, LocalNode::default());
    }
}
