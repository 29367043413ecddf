//! Parents and children of a workload, as ids.
//!
//! Source: orchestration A8, 1.2 ("References").

use std::fmt;

use evenkeel_domain::orchestration::InstanceReference;
use evenkeel_ids::{NodeId, PolicyId};
use serde::{Deserialize, Serialize};

use super::Partner;

/// A parent or a child of a workload: another workload, one instance of it, or a service on the same node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dependency {
    /// The workload, or the service.
    pub partner: Partner,
    /// Only the instance on this node; none is the whole workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
}

impl Dependency {
    /// Returns those that a policy names.
    pub fn list(policy: &PolicyId, references: &[InstanceReference]) -> Vec<Self> {
        let dependency = |reference: &InstanceReference| {
            let partner = Partner::of(policy, &reference.workload)?;
            Some(Self { partner, node: reference.node_id(policy.org()) })
        };
        references.iter().filter_map(dependency).collect()
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.partner.fmt(formatter)?;
        self.node.as_ref().map_or(Ok(()), |node| write!(formatter, "@{}", node.name()))
    }
}
