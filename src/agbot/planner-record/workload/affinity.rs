//! The workloads that a workload must, must not, should or should not share its nodes with, as ids.
//!
//! Source: orchestration A4, 1.2 ("References").

use std::fmt;

use evenkeel_domain::orchestration::{Affinity, WorkloadReference};
use evenkeel_ids::{PolicyId, ServiceKey};
use serde::{Deserialize, Serialize};

/// A workload, or a service, that the affinity of another workload names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partner {
    /// A deployment policy.
    Policy(PolicyId),
    /// Any agreement of a service, whatever its policy or pattern.
    Service(ServiceKey),
}

impl Partner {
    /// Returns what a policy names.
    pub fn of(policy: &PolicyId, reference: &WorkloadReference) -> Option<Self> {
        match reference {
            WorkloadReference::Service(service) => Some(Self::Service(service.clone())),
            WorkloadReference::Policy(_) => reference.policy(policy.org()).map(Self::Policy),
        }
    }
}

impl fmt::Display for Partner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(formatter),
            Self::Service(service) => write!(formatter, "svc:{service}"),
        }
    }
}

/// The partners of a workload.
///
/// # Shape
/// In the order of the document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AffinityRules {
    /// Each must run on the node.
    pub hard: Vec<Partner>,
    /// None may run on the node.
    pub hard_anti: Vec<Partner>,
    /// Each should run on the node.
    pub soft: Vec<Partner>,
    /// None should run on the node.
    pub soft_anti: Vec<Partner>,
    /// Time for which a start waits for partners in `soft` that start or stop, in seconds.
    pub wait_secs: u64,
}

impl AffinityRules {
    /// Returns the partners that a policy names.
    pub fn of(policy: &PolicyId, affinity: &Affinity, wait_secs: u64) -> Self {
        let partner = |reference: &WorkloadReference| Partner::of(policy, reference);
        let list = |references: &[WorkloadReference]| references.iter().filter_map(partner).collect();
        Self {
            hard: list(&affinity.hard),
            hard_anti: list(&affinity.hard_anti),
            soft: list(&affinity.soft),
            soft_anti: list(&affinity.soft_anti),
            wait_secs,
        }
    }

    /// Returns whether no partner is named.
    pub fn is_empty(&self) -> bool {
        self.partners().next().is_none()
    }

    /// Returns every partner; one that several lists name is repeated.
    pub fn partners(&self) -> impl Iterator<Item = &Partner> {
        [&self.hard, &self.hard_anti, &self.soft, &self.soft_anti].into_iter().flatten()
    }
}
