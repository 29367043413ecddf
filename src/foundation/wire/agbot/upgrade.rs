//! Permission for agent upgrades, and the members of a group that wait.

use evenkeel_ids::{NodeId, PolicyId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::claim::{Claim, ClaimPurpose};
use super::orchestration::UpdateBlocked;

/// Request for permission to upgrade the agent of a node now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpgradeRequest {
    /// `org/name` of the management policy; without organization it is the node's.
    #[schema(min_length = 1)]
    pub nmp: String,
}

/// Claims of a group and the members that wait for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpgradesResponse {
    /// Members of the group, as far as the agbot has read it.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub members: Vec<NodeId>,
    /// The claim for an upgrade of an agent, when a member holds it.
    pub agent: Option<HeldClaim>,
    /// Claims for upgrades of services.
    pub workloads: Vec<HeldClaim>,
    /// Members that wait.
    pub waiting: Vec<WaitingMember>,
    /// Common reason for which updates, drains and agent upgrades wait, shown after 10 seconds; none when
    /// nothing is blocked.
    #[serde(default)]
    pub blocked: Option<UpdateBlocked>,
}

/// A claim, with the policy that it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldClaim {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// `org/policy` of the deployment policy; left out for the upgrade of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub policy: Option<PolicyId>,
    /// `org/name` of the management policy; left out for the upgrade of a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nmp: Option<String>,
}

impl From<Claim> for HeldClaim {
    fn from(claim: Claim) -> Self {
        let nmp = match &claim.purpose {
            ClaimPurpose::AgentUpgrade { nmp } => Some(nmp.clone()),
            ClaimPurpose::ServiceUpgrade | ClaimPurpose::Drain => None,
        };
        Self { policy: claim.scope.policy().cloned(), nmp, claim }
    }
}

/// A member of a group that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingMember {
    /// `org/policy`.
    #[schema(value_type = String)]
    pub policy: PolicyId,
    /// `org/node`.
    #[schema(value_type = String)]
    pub node: NodeId,
    /// Human-readable reason for which it waits.
    pub reason: String,
}
