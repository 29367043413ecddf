//! The nodes and the capacity of each fault domain of an organization.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The fault domains of an organization. Only nodes that the caller may read are counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct FleetDomains {
    /// The innermost fault domains of nodes, by name; nodes without one are counted under an empty name.
    #[schema(required = true)]
    pub domains: Vec<FleetDomain>,
    /// True if there are more than are listed.
    #[schema(required = true)]
    pub more: bool,
}

/// A fault domain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct FleetDomain {
    /// Its name, with the enclosing domains, such as `fd:/dc/rack`.
    #[schema(required = true)]
    pub name: String,
    /// Its nodes.
    #[schema(required = true)]
    pub nodes: u64,
    /// Those whose heartbeats arrive.
    #[schema(required = true)]
    pub up: u64,
    /// Those on which something may be placed: they are up, active and not frozen.
    #[schema(required = true)]
    pub open: u64,
    /// Live agreements.
    #[schema(required = true)]
    pub instances: u64,
    /// Those whose service is seen running.
    #[schema(required = true)]
    pub running: u64,
    /// The capacities that workloads use, of those nodes that are not down, by name.
    #[schema(required = true)]
    pub capacities: BTreeMap<String, DomainCapacity>,
}

/// A capacity of the nodes of a domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DomainCapacity {
    /// Amount that instances use.
    #[schema(required = true)]
    pub used: f64,
    /// Amount that instances may use.
    #[schema(required = true)]
    pub usable: f64,
}
