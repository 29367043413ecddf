//! Bodies of the agbot's API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Asks whether a node may upgrade its agent now.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpgradeRequest {
    /// `org/name` of the management policy; without organization it is the node's.
    #[schema(min_length = 1)]
    pub nmp: String,
}

/// Health of the agbot.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgbotStatus {
    /// Name of this process among the agbots of the hub.
    pub agbot: String,
    /// Whether everything it serves has been read.
    pub loaded: bool,
    /// Nodes it knows; only for people to whom the exchange shows its own counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Deployment policies it knows; only for people to whom the exchange shows its own counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<usize>,
    /// Agreements that are alive; only for people to whom the exchange shows its own counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreements: Option<usize>,
    /// Messages that were not what the protocol allows.
    pub dropped_messages: u64,
}

/// Claims of a group and what waits for them.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct UpgradesAnswer {
    /// Members of the group, as far as the agbot has read it.
    #[serde(default)]
    pub members: Vec<String>,
    /// The claim for an upgrade of an agent, when somebody holds it.
    #[schema(value_type = Option<Object>)]
    pub agent: Option<Value>,
    /// Claims for upgrades of services.
    #[schema(value_type = Vec<Object>)]
    pub workloads: Vec<Value>,
    /// Members that wait.
    pub waiting: Vec<WaitingMember>,
}

/// A member of a group that waits.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WaitingMember {
    /// `org/policy`.
    pub policy: String,
    /// `org/node`.
    pub node: String,
    /// What for, in words.
    pub reason: String,
}

/// What the agbot has agreed to with the nodes of an organization.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AgreementsAnswer {
    /// By whether they are alive.
    pub agreements: Agreements,
}

/// Agreements by whether they are alive.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Agreements {
    /// Alive.
    #[schema(value_type = Vec<Object>)]
    pub active: Vec<Value>,
    /// Ended, newest first.
    #[schema(value_type = Vec<Object>)]
    pub archived: Vec<Value>,
}

/// How each pair of node and policy stands.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ReasonsAnswer {
    /// When each deployment policy of the organization was written, as far as the agbot has read it.
    #[serde(default)]
    pub policies: BTreeMap<String, String>,
    /// The pairs.
    pub reasons: Vec<Reason>,
}

/// How one pair of node and policy stands.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// `org/node`.
    pub node: String,
    /// `org/policy`.
    pub policy: String,
    /// For programs.
    #[schema(value_type = Object)]
    pub state: Value,
    /// For people.
    pub text: String,
}

/// Rollouts through the groups of an organization.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RolloutsAnswer {
    /// The rollouts.
    #[schema(value_type = Vec<Object>)]
    pub rollouts: Vec<Value>,
}

/// What the agbot did lately.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventsAnswer {
    /// The events, newest first.
    pub events: Vec<AgbotEvent>,
}

/// Something that the agbot did.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgbotEvent {
    /// When.
    pub at: String,
    /// What kind.
    pub kind: String,
    /// `org/group`.
    pub ha_group: Option<String>,
    /// `org/node`.
    pub node: Option<String>,
    /// `org/policy`.
    pub policy: Option<String>,
    /// More, by kind.
    pub detail: Value,
}

/// Rollouts after an administrator's wish.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ChangedRollouts {
    /// Those that are now as wished.
    #[schema(value_type = Vec<Object>)]
    pub rollouts: Vec<Value>,
    /// Why others are not.
    pub refused: Vec<String>,
}

/// Claims that an administrator freed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FreedClaims {
    /// The claims.
    #[schema(value_type = Vec<Object>)]
    pub freed: Vec<Value>,
}
