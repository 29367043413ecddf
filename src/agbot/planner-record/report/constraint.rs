//! The constraints that remove nodes, in their order.
//!
//! Source: orchestration D3.

use serde::{Deserialize, Serialize};

/// A reason for which nodes are not candidates.
///
/// # Shape
/// In the order in which they are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Constraint {
    /// The policy does not select the node.
    Eligibility,
    /// The node is down, was never heard of, is paused or is being drained.
    NodeState,
    /// Node or instance is frozen.
    Frozen,
    /// The placement expression is not true.
    PlacementConstraint,
    /// The node runs as many instances of the workload unit as it may.
    #[serde(rename = "ReplicaExclusionStatic")]
    MaxPerNode,
    /// The last start or stop on the node failed.
    StartFailed,
    /// The service version that the node would run keeps failing on it.
    Blocklist,
    /// A workload that must be on the node is not there, or one that must not be is.
    Affinity,
    /// The node has too little of something that an instance uses.
    NodeCapacity,
    /// The fault domain of the node has more instances than the domains beside it.
    FaultDomain,
    /// The upgrade domain of the node has more instances than the others.
    UpgradeDomain,
    /// The node was chosen for other instances of the same decision.
    #[serde(rename = "ReplicaExclusionDynamic")]
    AlreadyChosen,
    /// The node is neither the origin of the instance nor in the preferred domain.
    PreferredLocation,
}

impl Constraint {
    /// The constraints that depend on the node alone, in their order.
    pub const OF_NODES: [Self; 9] = [
        Self::Eligibility,
        Self::NodeState,
        Self::Frozen,
        Self::PlacementConstraint,
        Self::MaxPerNode,
        Self::StartFailed,
        Self::Blocklist,
        Self::Affinity,
        Self::NodeCapacity,
    ];

    /// The constraints that depend on the instances in the domains of a node.
    pub const OF_DOMAINS: [Self; 2] = [Self::FaultDomain, Self::UpgradeDomain];

    /// Returns the name that the API shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eligibility => "Eligibility",
            Self::NodeState => "NodeState",
            Self::Frozen => "Frozen",
            Self::PlacementConstraint => "PlacementConstraint",
            Self::MaxPerNode => "ReplicaExclusionStatic",
            Self::StartFailed => "StartFailed",
            Self::Blocklist => "Blocklist",
            Self::Affinity => "Affinity",
            Self::NodeCapacity => "NodeCapacity",
            Self::FaultDomain => "FaultDomain",
            Self::UpgradeDomain => "UpgradeDomain",
            Self::AlreadyChosen => "ReplicaExclusionDynamic",
            Self::PreferredLocation => "PreferredLocation",
        }
    }

    /// Returns the word for it in texts: what other texts call it, where the API has the name of another product.
    pub fn label(self) -> &'static str {
        match self {
            Self::MaxPerNode | Self::AlreadyChosen => "maxPerNode",
            constraint => constraint.name(),
        }
    }

    /// Returns in words why the decision removed a node that by itself satisfies the constraint.
    pub fn reason_of_decision(self) -> &'static str {
        match self {
            Self::PreferredLocation => "not in the preferred domain",
            _ => "chosen for other instances of this decision",
        }
    }

    /// Returns whether the constraint removes a node only for a while.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::NodeState | Self::Frozen | Self::StartFailed | Self::Blocklist | Self::NodeCapacity
        )
    }
}
