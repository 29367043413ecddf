//! Queries for the observers that keep the model current: what it holds, and whose state a decision waits for.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{GroupId, NmpId, NodeId, PatternId, PolicyId, ServiceId};
use evenkeel_planner_record::claims::{Claim, Purpose, Scope};
use jiff::Timestamp;

use super::{Model, Observed};

/// The ids of everything the model holds of the exchange.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// Nodes.
    pub nodes: BTreeSet<NodeId>,
    /// HA groups.
    pub groups: BTreeSet<GroupId>,
    /// Served deployment policies.
    pub policies: BTreeSet<PolicyId>,
    /// Service definitions.
    pub services: BTreeSet<ServiceId>,
}

impl Model {
    /// Returns the ids of everything the model holds of the exchange.
    pub fn known(&self) -> Known {
        Known {
            nodes: self.nodes.keys().cloned().collect(),
            groups: self.groups.keys().cloned().collect(),
            policies: self.policies.keys().cloned().collect(),
            services: self.catalog.services().map(|service| service.id.clone()).collect(),
        }
    }

    /// Returns the services of a pattern.
    pub fn policies_of_pattern(&self, pattern: &PatternId) -> BTreeSet<PolicyId> {
        self.policies_by_pattern.get(pattern).cloned().unwrap_or_default()
    }

    /// Returns the organizations of the nodes, by the pattern that they use; none for nodes that work by policy.
    pub fn node_orgs(&self) -> BTreeMap<Option<PatternId>, BTreeSet<String>> {
        let mut orgs: BTreeMap<Option<PatternId>, BTreeSet<String>> = BTreeMap::new();
        for (id, record) in &self.nodes {
            let of_pattern = orgs.entry(record.facts.pattern.clone()).or_default();
            if !of_pattern.contains(id.org()) {
                of_pattern.insert(id.org().to_owned());
            }
        }
        orgs
    }

    /// Returns the nodes with live agreements.
    pub fn nodes_with_agreements(&self) -> BTreeSet<NodeId> {
        self.live.iter().map(|(node, ..)| node.clone()).collect()
    }

    /// Returns the management policies under which a node holds agent claims.
    pub fn nmps_claimed_by(&self, node: &NodeId) -> BTreeSet<NmpId> {
        let of_node = |claim: &&Claim| claim.scope == Scope::Agent && claim.node == *node;
        self.claims
            .values()
            .filter(of_node)
            .filter_map(|claim| match &claim.purpose {
                Purpose::AgentUpgrade { nmp, .. } => Some(nmp.clone()),
                Purpose::ServiceUpgrade | Purpose::Drain => None,
            })
            .collect()
    }

    /// Returns the nodes whose status is to be read again before it shows what does not run.
    pub fn nodes_awaiting_status(&self) -> impl Iterator<Item = &NodeId> {
        self.nodes.iter().filter(|(_, record)| record.awaits_status).map(|(id, _)| id)
    }

    /// Returns the nodes whose status a decision may be waiting for: members of groups with a claim or an open rollout, nodes
    /// with an agreement that was not seen running, and nodes that have not confirmed the stop of an instance. Only nodes of the
    /// partitions this agbot owns: others decide about the rest.
    pub fn awaited_nodes(&self, now: Timestamp) -> BTreeSet<NodeId> {
        let mut groups: BTreeSet<&GroupId> = self.claims.keys().map(|(group, _)| group).collect();
        groups
            .extend(self.rollouts.values().filter(|rollout| rollout.is_open()).map(|rollout| &rollout.group));
        let mut nodes: BTreeSet<NodeId> = groups
            .into_iter()
            .filter_map(|group| self.groups.get(group))
            .flat_map(|group| group.members.clone())
            .collect();
        nodes.extend(
            self.live
                .iter()
                .filter_map(|(.., id)| self.agreements.get(id))
                .filter(|agreement| self.observed(agreement, now) != Observed::Running)
                .map(|agreement| agreement.node.clone()),
        );
        let ended = self.ended.values().flatten().filter_map(|id| self.agreements.get(id));
        let stopping = ended.filter(|agreement| self.stopping_since(agreement, now).is_some());
        nodes.extend(stopping.map(|agreement| agreement.node.clone()));
        nodes.extend(self.engine.monitored_nodes(now));
        nodes.extend(self.awaiting_stop().map(|agreement| agreement.node.clone()));
        nodes.retain(|node| self.lease_for(node).is_some());
        nodes
    }
}
