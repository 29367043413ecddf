//! Recent events of the agbot.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Recent events of the agbot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventsResponse {
    /// The events, newest first.
    pub events: Vec<AgbotEvent>,
}

/// An event of the agbot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgbotEvent {
    /// When.
    pub at: String,
    /// Kind of event.
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

/// Selection of events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only events of this HA group.
    pub group: Option<String>,
    /// Only events of this node.
    pub node: Option<String>,
    /// Only events of this deployment policy.
    pub policy: Option<String>,
    /// Maximum number of events, 1 to 500.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<i64>,
}
