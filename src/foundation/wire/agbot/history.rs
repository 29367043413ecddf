//! States of tasks, agreements, claims and nodes at an instant, and the difference of two instants.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Selection of the states at an instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(rename_all = "camelCase")]
pub struct HistoryQuery {
    /// The instant, such as `2026-11-29T14:05:00Z`; now if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Only states of this kind: `task`, `agreement`, `claim` or `node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only tasks, agreements and claims of this deployment policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Only tasks and claims of this HA group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Only states about this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only states after those of the page before: the value of its `next`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// States of a page, 1 to 1000; 500 if left out. States of one subject are on one page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
}

/// Selection of the differences of two instants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(rename_all = "camelCase")]
pub struct HistoryDiffQuery {
    /// The earlier instant, such as `2026-11-29T14:05:00Z`; an hour before the later one, or the beginning of the history, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The later instant; now if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Only states of this kind: `task`, `agreement`, `claim` or `node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only tasks, agreements and claims of this deployment policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Only tasks and claims of this HA group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Only states about this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only changes after those of the page before: the value of its `next`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Changes of a page, 1 to 1000; 500 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
}

/// A page of the states at an instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryStates {
    /// The instant.
    #[schema(required = true)]
    pub at: String,
    /// The earliest instant whose states are known.
    #[schema(required = true)]
    pub complete_since: String,
    /// The states: tasks, agreements, claims, conditions of nodes.
    #[schema(required = true)]
    pub states: Vec<HistoryState>,
    /// Value of `after` for the next page; left out on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A page of the differences of two instants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryChanges {
    /// The earlier instant.
    #[schema(required = true)]
    pub from: String,
    /// The later instant.
    #[schema(required = true)]
    pub to: String,
    /// The earliest instant whose states are known.
    #[schema(required = true)]
    pub complete_since: String,
    /// The changes.
    #[schema(required = true)]
    pub changes: Vec<HistoryChange>,
    /// Value of `after` for the next page; left out on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A subject whose state at one instant differs from that at another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct HistoryChange {
    /// Its state at the earlier instant; left out if it did not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<HistoryState>,
    /// Its state at the later instant; left out if it had ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<HistoryState>,
}

/// A state, and the time that it held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryState {
    /// `task`, `agreement`, `claim` or `node`.
    #[schema(required = true)]
    pub kind: String,
    /// State of a task or an agreement, phase of a claim, or condition of a node: `down`, `drained`, `frozen`, `away`, `overdue` or `conflict`.
    #[schema(required = true)]
    pub state: String,
    /// When it began.
    #[schema(required = true)]
    pub since: String,
    /// When it ended; left out while it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The state that followed; left out if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Error of the task, or reason of the end of the agreement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The node, `org/node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The deployment policy, `org/policy`; of a claim, that whose service is upgraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The HA group of a claim, `org/group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Workload unit of a task: `all`, or the name of an HA group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Slot of a task: a number, or the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Id of a task, or of the task that an agreement carries out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Desired state of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_state: Option<String>,
    /// Cause of the creation of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Number of the version that a task runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_version: Option<u64>,
    /// Id of an agreement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement_id: Option<String>,
    /// Service version of an agreement, or version that a claim is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Purpose of a claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}
