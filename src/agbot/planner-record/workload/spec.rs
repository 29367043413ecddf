//! A workload as the engine sees it: every default is applied, every reference is an id.
//!
//! Source: orchestration 1.2; engine 3.

use std::{collections::BTreeMap, sync::Arc};

use evenkeel_domain::{
    orchestration::{HealthPolicy, OnViolation, Orchestration, Restart, capacity::Amounts},
    policy::expression::Expression,
};
use evenkeel_ids::{NodeId, PolicyId};

use super::{AffinityRules, Dependency, HubDefaults, NodeScope, Partner, Priorities, UserAction, Versions};
use crate::{
    goal::{Goal, StartMode},
    settings::UpdateSettings,
};

/// A workload: one deployment policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The policy.
    pub policy: PolicyId,
    /// Number of instances, and the rules by which they are started and moved.
    pub goal: Goal,
    /// The nodes that belong to it.
    pub scope: NodeScope,
    /// The versions of its task spec.
    pub versions: Versions,
    /// Placement of instances.
    pub placement: PlacementRules,
    /// Capacities of its node that one instance of the current version uses.
    pub loads: Amounts,
    /// Capacities that one instance uses, by version number; empty when no version uses any.
    pub spec_loads: BTreeMap<u64, Amounts>,
    /// Workloads that must be up before an instance starts.
    pub parents: Vec<Dependency>,
    /// Workloads that must be down before an instance is stopped.
    pub children: Vec<Dependency>,
    /// Restart of a task that ended.
    pub restart: Restart,
    /// Settings of updates.
    pub update: UpdateSettings,
    /// True if running instances keep their version until their agreement ends.
    pub keeps_running: bool,
    /// Settings of rollbacks.
    pub rollback: UpdateSettings,
    /// True if different compatibility versions of the agents suspend automatic decisions.
    pub is_compat_gated: bool,
    /// Detection of failures of instances, and recovery from them.
    pub health: Option<HealthPolicy>,
    /// Time in which an instance must stop for a user's action, in seconds.
    pub stop_timeout_secs: u64,
    /// True if a user froze the workload.
    pub is_frozen: bool,
    /// The action of a user that is in progress.
    pub action: Option<UserAction>,
}

impl Workload {
    /// Returns the workload of a policy without `orchestration`: one instance on every node that the policy selects.
    pub fn new(policy: PolicyId, digest: u64) -> Self {
        Self::of_document(&policy, &Orchestration::default(), Versions::new(digest), &HubDefaults::default())
    }

    /// Returns the parents and children.
    pub fn dependencies(&self) -> impl Iterator<Item = &Partner> {
        self.parents.iter().chain(&self.children).map(|dependency| &dependency.partner)
    }

    /// Returns the compatibility versions of a workload unit's agents that suspend automatic decisions; empty when none do.
    ///
    /// Only decisions of `orchestrate: ha` are suspended: what is bound to natural leaders starts in one place anyway.
    /// # Source
    /// Orchestration A7.
    pub fn suspending_versions(&self, versions: impl Iterator<Item = i64>) -> Vec<i64> {
        let is_gated = self.is_compat_gated && self.goal.start == StartMode::BestAvailable;
        let versions: Vec<i64> = if is_gated { versions.collect() } else { Vec::new() };
        if versions.len() > 1 { versions } else { Vec::new() }
    }

    /// Returns whether nodes are ranked by their statistics.
    pub fn ranks_by_statistics(&self) -> bool {
        matches!(self.placement.order, NodeOrder::LoadAverage | NodeOrder::Score)
    }
}

/// Choice and order of the nodes of a workload unit that get instances.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementRules {
    /// The order in which nodes are preferred.
    pub order: NodeOrder,
    /// Nodes that come first under [`NodeOrder::Listed`] and [`NodeOrder::Shifted`]; the others follow in scope order.
    pub listed: Vec<NodeId>,
    /// True on the nodes that may run an instance.
    pub expression: Expression,
    /// Workloads on the same node.
    pub affinity: AffinityRules,
    /// Treatment of an instance whose node no longer satisfies its placement.
    pub on_violation: OnViolation,
    /// Instances of one workload unit that a node may run.
    pub max_per_node: u32,
    /// The hard constraints.
    pub priorities: Priorities,
    /// True if two instances may never share a fault domain or an upgrade domain.
    pub is_distribution_required: bool,
    /// The fault domain in which the instance of the first slot should be.
    pub preferred_domain: Option<Arc<str>>,
    /// True if instances move to nodes that rank better.
    pub is_rebalanced: bool,
}

impl PlacementRules {
    /// Returns whether instances that run move to nodes that are better for them.
    pub fn is_improved(&self) -> bool {
        self.is_rebalanced || self.preferred_domain.is_some()
    }
}

/// The order in which nodes are preferred.
///
/// # Source
/// Orchestration A3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeOrder {
    /// By the order of the document.
    Listed,
    /// By the load average over 15 minutes, the smallest first.
    LoadAverage,
    /// By a score of load, free memory and free swap space, the greatest first.
    Score,
    /// By a static, pseudo-random rank for each workload unit.
    Spread,
    /// The node on which the workload was started last.
    LastStart,
    /// By the order of the document, rotated left.
    Shifted(u32),
    /// The node with the fewest instances of the workload, then with the fewest at all.
    LeastInstances,
    /// Not at all, so that no node is chosen by itself; only explicit destinations work.
    Unranked,
}
