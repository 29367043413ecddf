//! Placement of instances on nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use super::{Mode, WorkloadReference};
use crate::policy::expression::Expression;

/// Preferred and excluded nodes.
///
/// # Source
/// Orchestration 1.2, A3 to A5, D5 to D9.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Ranking of nodes; `None` with the mode `global`, which ranks none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// Nodes that come first, in this order; without an organization in that of the policy.
    #[schema(required = false)]
    pub nodes_order: Vec<String>,
    /// Rotation of the order with the policy `shift`; `None` is the number that the policy's name begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<u32>,
    /// True on the nodes that may run an instance.
    #[serde(serialize_with = "expression_text")]
    #[schema(required = false, value_type = String, max_length = 4096)]
    pub expression: Expression,
    /// Workloads on the same node.
    #[schema(required = false)]
    pub affinity: Affinity,
    /// Action for an instance whose node no longer satisfies its placement.
    #[schema(required = false)]
    pub on_violation: OnViolation,
    /// Fault domains and upgrade domains.
    #[schema(required = false)]
    pub domains: Domains,
    /// Priorities of constraints; for missing ones those of the organization apply.
    #[schema(required = false, value_type = BTreeMap<String, i8>)]
    pub constraint_priorities: BTreeMap<Constraint, i8>,
    /// True if instances move to nodes that rank better.
    #[schema(required = false)]
    pub rebalance: bool,
}

impl Placement {
    pub(super) fn of_mode(mode: Mode) -> Self {
        Self {
            policy: match mode {
                Mode::Global => None,
                Mode::Replicated => Some(PlacementPolicy::LeastInstances),
                Mode::Failover | Mode::Flex => Some(PlacementPolicy::NodesOrder),
            },
            nodes_order: Vec::new(),
            shift: None,
            expression: Expression::default(),
            affinity: Affinity::default(),
            on_violation: if mode.is_topology() { OnViolation::Report } else { OnViolation::Move },
            domains: Domains::default(),
            constraint_priorities: BTreeMap::new(),
            rebalance: false,
        }
    }
}

fn expression_text<S: Serializer>(expression: &Expression, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(expression.as_str())
}

/// Ranking of nodes.
///
/// # Source
/// Orchestration A3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementPolicy {
    /// By `nodesOrder`, then by the order of the scope.
    NodesOrder,
    /// By load, the smallest first.
    LoadAvg,
    /// By a hash of workload and node.
    Spread,
    /// By a score of load and free memory.
    Score,
    /// By the time of the last start, the latest first.
    LastStart,
    /// By `nodesOrder`, rotated.
    Shift,
    /// By the number of instances.
    LeastInstances,
    /// Not at all: nothing starts automatically.
    None,
}

/// Workloads that an instance must, must not, should or should not share its node with.
///
/// # Source
/// Orchestration A4.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Affinity {
    /// Must run on the node.
    #[schema(required = false, value_type = Vec<String>)]
    pub hard: Vec<WorkloadReference>,
    /// Must not run on the node.
    #[schema(required = false, value_type = Vec<String>)]
    pub hard_anti: Vec<WorkloadReference>,
    /// Should run on the node.
    #[schema(required = false, value_type = Vec<String>)]
    pub soft: Vec<WorkloadReference>,
    /// Should not run on the node.
    #[schema(required = false, value_type = Vec<String>)]
    pub soft_anti: Vec<WorkloadReference>,
}

impl Affinity {
    /// Returns each list with the name of its member.
    pub(super) fn lists(&self) -> [(&'static str, &[WorkloadReference]); 4] {
        [
            ("hard", &self.hard),
            ("hardAnti", &self.hard_anti),
            ("soft", &self.soft),
            ("softAnti", &self.soft_anti),
        ]
    }
}

/// Action for an instance whose node no longer satisfies its placement.
///
/// # Source
/// Orchestration A5.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnViolation {
    /// It stays, with a warning.
    Report,
    /// It moves as soon as another node can run it.
    Move,
}

/// Fault domains and upgrade domains of the nodes of a unit.
///
/// # Source
/// Orchestration D6, D8.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Domains {
    /// True if two instances may never share a domain.
    #[schema(required = false)]
    pub require_domain_distribution: bool,
    /// The fault domain in which the primary instance should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_domain: Option<String>,
}

/// A constraint on placement whose priority can be set: 0 hard, 1 soft, 2 an optimization, -1 off.
///
/// # Source
/// Orchestration D5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Constraint {
    /// `placement.expression`.
    PlacementConstraint,
    /// Loads and capacities.
    NodeCapacity,
    /// Hard affinity.
    Affinity,
    /// Distribution over fault domains.
    FaultDomain,
    /// Distribution over upgrade domains.
    UpgradeDomain,
    /// The preferred domain, and the origin of an instance that moved.
    PreferredLocation,
}

impl Constraint {
    /// Every constraint by its name, and by the name that ends in `ConstraintPriority`.
    pub(super) const NAMES: [(&str, &str, Self); 6] = [
        ("PlacementConstraint", "PlacementConstraintPriority", Self::PlacementConstraint),
        ("NodeCapacity", "CapacityConstraintPriority", Self::NodeCapacity),
        ("Affinity", "AffinityConstraintPriority", Self::Affinity),
        ("FaultDomain", "FaultDomainConstraintPriority", Self::FaultDomain),
        ("UpgradeDomain", "UpgradeDomainConstraintPriority", Self::UpgradeDomain),
        ("PreferredLocation", "PreferredLocationConstraintPriority", Self::PreferredLocation),
    ];
}
