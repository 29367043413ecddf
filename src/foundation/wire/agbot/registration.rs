//! The health registry: the targets of health checks, and the agbots that check them.
//!
//! Source: orchestration C9.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The registration of a target of health checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthRegistration {
    /// `group` for an HA group, whose members are nodes, or `workload` for a deployment policy, whose members are instances.
    #[schema(required = true)]
    pub kind: String,
    /// The HA group or deployment policy, as `org/name`.
    #[schema(required = true)]
    pub target: String,
    /// The modes of detection.
    #[schema(required = true)]
    pub detection_modes: Vec<String>,
    /// Time between two checks, in seconds.
    #[schema(required = true)]
    pub interval: u64,
    /// True if the health policy is enabled.
    #[schema(required = true)]
    pub enabled: bool,
    /// The operation of a user during which nothing is checked; none when there is none.
    pub suspended_by: Option<String>,
    /// The process of an agbot that checks the target, as `org/id/instance`.
    #[schema(required = true)]
    pub engine: String,
    /// When its lease ends unless it renews it; none when another agbot is about to take the target over.
    pub lease_until: Option<String>,
    /// When that agbot took the target over.
    #[schema(required = true)]
    pub adopted_at: String,
    /// When the responding agbot last checked the target; none if another one checks it, or it has not been checked.
    pub last_check_at: Option<String>,
    /// Recoveries of members of an HA group, by node; those of a deployment policy are in its tasks.
    #[schema(required = true)]
    pub recoveries: Vec<MemberRecovery>,
}

/// The recovery of a member of an HA group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberRecovery {
    /// The node.
    #[schema(required = true)]
    pub node: String,
    /// `running`, `recovered` or `failed`.
    #[schema(required = true)]
    pub state: String,
    /// Cause of the start.
    #[schema(required = true)]
    pub reason: String,
    /// When it began.
    #[schema(required = true)]
    pub since: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Reason of the failure.
    pub message: Option<String>,
}

/// The health registry of an organization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct HealthRegistryResponse {
    /// The registrations, by kind and name.
    #[schema(required = true)]
    pub registrations: Vec<HealthRegistration>,
}
