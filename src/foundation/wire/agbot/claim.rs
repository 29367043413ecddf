//! Claims on HA groups.

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A claim on one HA group: only the member that holds it may be upgraded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Claim {
    /// The group.
    #[schema(value_type = String)]
    pub group: GroupId,
    /// Subject of the claim.
    pub scope: ClaimScope,
    /// The member that holds it.
    #[schema(value_type = String)]
    pub node: NodeId,
    /// Purpose of the claim.
    pub purpose: ClaimPurpose,
    /// Wanted version; empty for agent upgrades and drains.
    pub version: String,
    /// Number that every command under the claim states.
    pub fencing: u64,
    /// `stopping`, `starting` or `verifying`.
    pub phase: String,
    /// When the claim was taken.
    pub since: String,
    /// When the phase began.
    // An older agbot leaves it out.
    #[serde(default)]
    #[schema(required = true)]
    pub phase_since: String,
    /// When the claim expires.
    pub deadline: String,
}

/// Subject of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum ClaimScope {
    /// Upgrade of the agent.
    Agent,
    /// Upgrade of the service that a policy deploys.
    Policy {
        /// The policy.
        #[schema(value_type = String)]
        policy: PolicyId,
    },
}

impl ClaimScope {
    /// Returns the deployment policy that the claim is about.
    #[must_use]
    pub fn policy(&self) -> Option<&PolicyId> {
        match self {
            Self::Agent => None,
            Self::Policy { policy } => Some(policy),
        }
    }
}

/// Purpose of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "purpose")]
pub enum ClaimPurpose {
    /// Replaces a service by a wanted version.
    ServiceUpgrade,
    /// Removes a service from a node that is being drained.
    Drain,
    /// Executes a management policy.
    AgentUpgrade {
        /// The management policy.
        nmp: String,
    },
}

/// Claims that an administrator released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FreedClaims {
    /// The claims.
    pub freed: Vec<Claim>,
}
