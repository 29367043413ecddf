//! Rollouts of deployment policies through HA groups.

use evenkeel_ids::{GroupId, PolicyId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::orchestration::UpdateProgress;

/// Selection of rollouts and updates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
pub struct RolloutsQuery {
    /// Only rollouts and updates after this one: the value of `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Rollouts and updates together of a page, 1 to 1000; 100 if left out and a filter or a count is wanted. Without any of them, the list is sent whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// Only rollouts and updates whose members satisfy this constraint, in the language of policies, such as `state == paused`. One request examines at most 2000
    /// of them: a page may have fewer than its limit although `next` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 4096)]
    pub filter: Option<String>,
    /// Only those of this deployment policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// True for those in progress or paused before the others, and of each the newest first: a single page, without `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<bool>,
    /// True to count the rollouts and updates of all pages: at most 100000, or those among the first 2000 that satisfy the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<bool>,
}

/// Rollouts through the groups of an organization.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RolloutsResponse {
    /// The rollouts.
    pub rollouts: Vec<Rollout>,
    /// The updates of policies with `orchestration`; on pages they follow the rollouts.
    #[serde(default)]
    #[schema(required = true)]
    pub workloads: Vec<WorkloadUpdate>,
    /// Value of `after` for the next page; left out on the last one, and in a list that is sent whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of rollouts and updates on all pages, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// True if there may be more than `count`.
    #[serde(default, rename = "countIsMinimum", skip_serializing_if = "Option::is_none")]
    pub count_is_minimum: Option<bool>,
}

/// Rollouts after an administrator's action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangedRollouts {
    /// Rollouts to which the action was applied.
    pub rollouts: Vec<Rollout>,
    /// The update of a policy with `orchestration`.
    #[serde(default)]
    #[schema(required = true)]
    pub workloads: Vec<WorkloadUpdate>,
    /// Reasons for which it was not applied to others.
    pub refused: Vec<String>,
}

/// The update of a policy with `orchestration`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadUpdate {
    /// The policy.
    #[schema(value_type = String)]
    pub policy: PolicyId,
    /// Service and version that it leads to.
    pub target: String,
    /// Service and version that the policy wants and that was rolled back.
    #[serde(default, rename = "rolledBackFrom", skip_serializing_if = "Option::is_none")]
    pub rolled_back_from: Option<String>,
    /// Progress.
    #[serde(flatten)]
    pub update: UpdateProgress,
    /// Human-readable progress.
    pub text: String,
}

/// The rollout of one policy through one group.
///
/// # Shape
/// Numbers of instances are left out for callers who may not read every member of the group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rollout {
    /// The group.
    #[schema(value_type = String)]
    pub group: GroupId,
    /// The policy.
    #[schema(value_type = String)]
    pub policy: PolicyId,
    /// Service and version that it leads to now.
    pub target: String,
    /// Digest of the policy's service and version list; another digest is another rollout.
    pub target_digest: u64,
    /// When it began.
    pub started_at: String,
    /// Instances to be replaced when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Instances done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u32>,
    /// Members on which a step failed.
    pub failed: Vec<String>,
    /// When the last instance was finished or given up.
    pub last_step_at: Option<String>,
    /// Member of that instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_node: Option<String>,
    /// Version that all instances had before; none when they had several, or another service.
    pub previous_version: Option<String>,
    /// The rollback, if the rollout leads back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// Number of writes of its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// State of the rollout.
    #[serde(flatten)]
    pub state: RolloutState,
    /// Human-readable state.
    pub text: String,
    /// Service and version of the rollout before the rollback.
    #[serde(default, rename = "rolledBackFrom", skip_serializing_if = "Option::is_none")]
    pub rolled_back_from: Option<String>,
    /// The settings for updates that apply to it: those of the policy, else those of the hub; only in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub update: Option<Value>,
}

/// State of a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum RolloutState {
    /// Instances are being replaced.
    Updating,
    /// Paused: no further instance is changed until a user acts, or the stalled member catches up.
    #[serde(alias = "held")]
    Paused {
        /// Why.
        #[schema(value_type = Object)]
        hold: Value,
        /// Since when.
        since: String,
    },
    /// Canceled: its policy, its group, or its target no longer exists.
    Abandoned {
        /// When.
        at: String,
        /// Why.
        why: Value,
    },
    /// Every instance has the wanted version.
    Completed {
        /// When.
        at: String,
    },
}

/// The return of a rollout to the version that ran before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rollback {
    /// The version it leads back to.
    pub version: String,
    /// Cause: the failure, or the user who requested it.
    #[schema(value_type = Object)]
    pub why: Value,
    /// When it was decided.
    pub since: String,
    /// Instances to be replaced when the rollout began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
}
