//! Actions of users on deployment policies.
//!
//! Source: orchestration 1.8, A6, A11, A12, B12.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Target and options of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// Only this workload unit: `all`, or the name of an HA group.
    #[serde(rename = "unit", default, skip_serializing_if = "Option::is_none")]
    pub workload_unit: Option<String>,
    /// Only this node, or the node to move to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Nodes on which instances are to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Vec<String>>,
    /// True to lift the rules that a user may lift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// True if the action `recover` also examines running instances by the health policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    /// True if the action `recover` creates missing instances and removes surplus ones afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_capacity: Option<bool>,
    /// The action that recovers, instead of those of the health policy: for instance `REBOOT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Parameters of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub operation_params: Option<serde_json::Value>,
}

/// An action that was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AcceptedAction {
    /// `ok`.
    #[schema(required = true)]
    pub code: String,
    /// Human-readable message.
    #[schema(required = true)]
    pub msg: String,
    /// Its id.
    #[schema(required = true)]
    pub action_id: String,
}

/// Progress of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionState {
    /// Its id.
    #[schema(required = true)]
    pub action_id: String,
    /// Name of the requested action, such as `freeze`.
    #[schema(required = true)]
    pub action: String,
    /// `pending`, `running`, `done`, `failed`, `refused` or `aborted`.
    #[schema(required = true)]
    pub state: String,
    /// The workload units that it concerns.
    #[serde(rename = "units")]
    #[schema(required = true)]
    pub workload_units: Vec<String>,
    /// The nodes whose instances are recovered; only of the action `recover`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// The user who requested it.
    pub actor: Option<String>,
    /// When it was requested.
    #[schema(required = true)]
    pub started_at: String,
    /// When it ended; none while it is running.
    pub ended_at: Option<String>,
    /// Human-readable message.
    #[schema(required = true)]
    pub message: String,
}
