//! Approvals of plans by a second person: additions to the exchange API.
//!
//! An organization may require that another of its users approves a write that stops, replaces or starts instances. The agbot plans the
//! write, the exchange keeps the request with the plan, and the write is accepted once, while its plan still holds.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

/// The header with the id of the approval of a write. It counts in requests that an approved agbot makes for the caller.
pub const APPROVAL: &str = "x-evenkeel-approval";

/// Code of the refusal of a write that needs the approval of a second person.
pub const APPROVAL_REQUIRED: &str = "approval-required";

/// Seconds after which an approval expires, unless the request says otherwise.
pub const APPROVAL_EXPIRES_SECS: u64 = 86_400;

/// A write that a second person approves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum ApprovalWrite {
    /// Creates or replaces a deployment policy.
    DeploymentPolicy {
        /// Name of the policy.
        policy: String,
        /// The policy, as the body of its write.
        #[schema(value_type = Object)]
        document: Map<String, Value>,
    },
    /// Removes a deployment policy.
    DeploymentPolicyRemoval {
        /// Name of the policy.
        policy: String,
    },
    /// Carries out an action on a deployment policy.
    PolicyAction {
        /// Name of the policy.
        policy: String,
        /// Name of the action, such as `restart`.
        action: String,
        /// Target and options, as the body of the action.
        #[serde(default)]
        #[schema(value_type = Object)]
        request: Map<String, Value>,
    },
    /// Resumes, rolls back or retries the rollouts of a deployment policy.
    RolloutAction {
        /// Name of the policy.
        policy: String,
        /// Name of the action, such as `resume`.
        action: String,
        /// Only the rollout through this HA group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
    },
    /// Changes settings of the organization for its workloads and nodes.
    Settings {
        /// The changes, as a merge patch.
        #[schema(value_type = Object)]
        settings: Map<String, Value>,
    },
}

impl ApprovalWrite {
    /// Returns the kind as it is stored and shown.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::DeploymentPolicy { .. } => "deploymentPolicy",
            Self::DeploymentPolicyRemoval { .. } => "deploymentPolicyRemoval",
            Self::PolicyAction { .. } => "policyAction",
            Self::RolloutAction { .. } => "rolloutAction",
            Self::Settings { .. } => "settings",
        }
    }

    /// Returns the deployment policy that it is about; none for settings.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        match self {
            Self::DeploymentPolicy { policy, .. }
            | Self::DeploymentPolicyRemoval { policy }
            | Self::PolicyAction { policy, .. }
            | Self::RolloutAction { policy, .. } => Some(policy),
            Self::Settings { .. } => None,
        }
    }

    /// Returns the write in words.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::DeploymentPolicy { policy, .. } => format!("write deployment policy {policy}"),
            Self::DeploymentPolicyRemoval { policy } => format!("remove deployment policy {policy}"),
            Self::PolicyAction { policy, action, .. } => format!("{action} deployment policy {policy}"),
            Self::RolloutAction { policy, action, group: None } => {
                format!("{action} the rollouts of deployment policy {policy}")
            }
            Self::RolloutAction { policy, action, group: Some(group) } => {
                format!("{action} the rollout of deployment policy {policy} through HA group {group}")
            }
            Self::Settings { .. } => "change settings of the organization".to_owned(),
        }
    }
}

/// Plan of a write, as it is shown to the person who approves it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApprovalPlan {
    /// Digest of the write, of the state that it affects and of its effects; it is the same until one of them changes.
    #[schema(required = true)]
    pub token: String,
    /// The plan in a sentence.
    #[schema(required = true)]
    pub summary: String,
    /// Its changes or the instances that it concerns, in words.
    #[schema(required = true)]
    pub lines: Vec<String>,
    /// Number of lines that are left out.
    #[schema(required = true)]
    pub others: u64,
    /// When the object of the write was written last, as the exchange shows it; none when it does not exist.
    pub basis: Option<String>,
}

/// Requests the approval of a write; the agbot plans it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestPlanApproval {
    /// The write.
    pub write: ApprovalWrite,
    /// Reason for it, 1 to 1000 characters.
    pub reason: String,
    /// Seconds for which it may be approved and applied, 60 to 604800 [default: 86400].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 60, maximum = 604_800)]
    pub expires_seconds: Option<u64>,
}

/// Adds a request that an approved agbot has planned for the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostPlanApproval {
    /// The request.
    pub request: RequestPlanApproval,
    /// The plan.
    pub plan: ApprovalPlan,
}

/// Approves, rejects or cancels a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecidePlanApproval {
    /// Reason, at most 1000 characters.
    #[serde(default)]
    pub reason: String,
    /// Token of the plan that was read; an approval of another plan is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Uses an approval up, before an approved agbot carries its action out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UsePlanApproval {
    /// Token of the plan that was made again.
    pub token: String,
}

response! {
    /// A request that a second person approves a plan.
    pub struct PlanApproval {
        /// Its id.
        id: String,
        /// The user who requested it, as `org/user`.
        requester: String,
        /// Kind of the write: `deploymentPolicy`, `deploymentPolicyRemoval`, `policyAction`, `rolloutAction` or `settings`.
        kind: String,
        /// The deployment policy that it is about; none for settings.
        policy: Option<String>,
        /// The write in words.
        title: String,
        /// Reason for it.
        reason: String,
        /// `pending`, `approved`, `rejected`, `canceled`, `used` or `expired`.
        state: String,
        /// When it was requested.
        created_at: String,
        /// When it expires.
        expires_at: String,
        /// The user who approved, rejected or canceled it, as `org/user`.
        decided_by: Option<String>,
        /// When.
        decided_at: Option<String>,
        /// Reason for that.
        decision: Option<String>,
        /// The user who applied it, as `org/user`.
        used_by: Option<String>,
        /// When.
        used_at: Option<String>,
        /// The write; only of a single request.
        write: Option<ApprovalWrite>,
        /// The plan; only of a single request.
        plan: Option<ApprovalPlan>,
        /// Reason why the caller may not approve or reject it now; none when the caller may. Only of a single request.
        objection: Option<String>,
    }
}

response! {
    /// Requests for approvals, newest first.
    pub struct PlanApprovalsResponse {
        /// The requests, without their writes and plans.
        approvals: Vec<PlanApproval>,
        /// Value of `after` for the next page; none on the last one.
        next: Option<String>,
    }
}

/// Selection of requests for approvals.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(default)]
pub struct PlanApprovalsQuery {
    /// Only requests in this state: `pending`, `approved`, `rejected`, `canceled`, `used` or `expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only requests older than this one: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of requests in one response, 1 to 100 [default: 50].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<i64>,
}

response! {
    /// The write of an approval was carried out.
    pub struct AppliedPlanApproval {
        /// `ok`.
        code: String,
        /// Human-readable message.
        msg: String,
        /// Id of the action, if it is one on a deployment policy.
        action_id: Option<String>,
        /// Reasons for which parts of it were left as they are.
        refused: Vec<String>,
    }
}

/// Actions on deployment policies that need no approval: they stop nothing and start nothing, or end what was begun.
const SAFE_ACTIONS: [&str; 3] = ["freeze", "pause", "abort"];

/// Returns whether an action on a deployment policy or on its rollouts needs the approval of a second person where an organization
/// requires it.
///
/// # Source
/// docs/adr/0031-a-second-person-approves-a-plan.md.
#[must_use]
pub fn needs_approval(action: &str) -> bool {
    !SAFE_ACTIONS.contains(&action)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn write_is_read_by_its_kind_and_refuses_unknown_members() {
        let read = |value| serde_json::from_value::<ApprovalWrite>(value);
        let action =
            read(json!({"kind": "policyAction", "policy": "p", "action": "restart"})).expect("an action");
        assert_eq!(
            (action.kind(), action.policy(), action.title().as_str()),
            ("policyAction", Some("p"), "restart deployment policy p")
        );
        assert!(
            read(json!({"kind": "policyAction", "policy": "p", "action": "restart", "nodes": []})).is_err()
        );
        assert!(read(json!({"kind": "node", "node": "n"})).is_err());
        assert_eq!(read(json!({"kind": "settings", "settings": {}})).expect("settings").policy(), None);
    }

    #[test]
    fn what_holds_instances_as_they_are_needs_no_approval() {
        for action in ["freeze", "pause", "abort"] {
            assert!(!needs_approval(action), "{action}");
        }
        for action in
            ["start", "stop", "restart", "thaw", "resume", "rollback", "retry", "switch", "clear", "unknown"]
        {
            assert!(needs_approval(action), "{action}");
        }
    }
}
