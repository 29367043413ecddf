//! References to other workloads.

use std::fmt;

use evenkeel_ids::{NodeId, PolicyId, ServiceKey};
use serde::{Serialize, Serializer};

use crate::object::MAX_NAME;

/// Prefix of a reference to a service.
const SERVICE: &str = "svc:";

/// A workload that another one names: `policy`, `org/policy` or `svc:serviceOrg/serviceUrl`.
///
/// # Shape
/// Ordered and compared as it was written.
///
/// # Source
/// Orchestration 1.2 ("References").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadReference {
    /// A deployment policy, with or without its organization.
    Policy(String),
    /// Any agreement of a service on the node.
    Service(ServiceKey),
}

impl WorkloadReference {
    /// Parses a reference; the error is the rule that it breaks.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const RULE: &str = "must hold references of the form policy, org/policy or svc:serviceOrg/serviceUrl";
        let has_both = |text: &str| {
            text.split_once('/').is_some_and(|(first, second)| !first.is_empty() && !second.is_empty())
        };
        if text.len() > MAX_NAME {
            return Err("must hold references of at most 512 bytes");
        }
        match text.strip_prefix(SERVICE) {
            Some(service) if has_both(service) => Ok(Self::Service(ServiceKey::from_text(service))),
            None if has_both(text) || (!text.is_empty() && !text.contains('/')) => {
                Ok(Self::Policy(text.to_owned()))
            }
            _ => Err(RULE),
        }
    }

    /// Returns the deployment policy that a policy of the organization names; none for a service.
    pub fn policy(&self, org: &str) -> Option<PolicyId> {
        match self {
            Self::Policy(name) if name.contains('/') => Some(PolicyId::from_text(name)),
            Self::Policy(name) => Some(PolicyId::new(org, name)),
            Self::Service(_) => None,
        }
    }
}

impl fmt::Display for WorkloadReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(name) => formatter.write_str(name),
            Self::Service(service) => write!(formatter, "{SERVICE}{service}"),
        }
    }
}

impl Serialize for WorkloadReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A workload, or its instance on one node: `policy@node`.
///
/// # Source
/// Orchestration 1.2 ("References"), A8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceReference {
    /// The workload.
    pub workload: WorkloadReference,
    /// The node, with or without its organization; none is the whole workload.
    pub node: Option<String>,
}

impl InstanceReference {
    /// Parses a reference; the error is the rule that it breaks.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text.rsplit_once('@') {
            Some((workload, node)) if !text.starts_with(SERVICE) => {
                if node.is_empty() || node.len() > MAX_NAME {
                    return Err("must name a node of 1 to 512 bytes after @");
                }
                Ok(Self { workload: WorkloadReference::parse(workload)?, node: Some(node.to_owned()) })
            }
            _ => Ok(Self { workload: WorkloadReference::parse(text)?, node: None }),
        }
    }

    /// Returns the node that a policy of the organization names.
    pub fn node_id(&self, org: &str) -> Option<NodeId> {
        let name = self.node.as_ref()?;
        Some(if name.contains('/') { NodeId::from_text(name) } else { NodeId::new(org, name) })
    }
}

impl fmt::Display for InstanceReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(formatter, "{}@{node}", self.workload),
            None => self.workload.fmt(formatter),
        }
    }
}

impl Serialize for InstanceReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
