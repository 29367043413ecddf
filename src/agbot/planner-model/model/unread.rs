//! Organizations whose objects could not be read since the start: nothing is decided about what belongs to them.
//!
//! The records of agreements, tasks and claims are known, but not the nodes and policies that they are about. A decision would take those for
//! deleted and end what runs.

use std::collections::BTreeSet;

use evenkeel_ids::{NodeId, OrgId, PolicyId};
use evenkeel_planner_record::{
    claims::{Claim, Scope},
    health::Entity,
};

use super::Model;

impl Model {
    /// Returns the organizations that could not be read since the start.
    pub fn unread_orgs(&self) -> &BTreeSet<OrgId> {
        &self.unread_orgs
    }

    /// Returns whether the organization could not be read since the start.
    pub(crate) fn is_unread(&self, org: &str) -> bool {
        !self.unread_orgs.is_empty() && self.unread_orgs.iter().any(|one| one.as_str() == org)
    }

    /// Returns whether the node or the policy of a pair could not be read since the start.
    pub fn is_unread_pair(&self, node: &NodeId, policy: &PolicyId) -> bool {
        self.is_unread(node.org()) || self.is_unread(policy.org())
    }

    /// Returns whether what a claim is about could not be read since the start.
    pub fn is_unread_claim(&self, claim: &Claim) -> bool {
        let of_policy = match &claim.scope {
            Scope::Policy(policy) => self.is_unread(policy.org()),
            Scope::Agent => false,
        };
        of_policy || self.is_unread(claim.group.org())
    }

    /// Returns whether an entity, or the node that it is on, could not be read since the start.
    pub fn is_unread_entity(&self, entity: &Entity) -> bool {
        self.is_unread(entity.org())
            || entity.node().is_some_and(|node| self.is_unread(node.org()))
            || entity.policy().is_some_and(|policy| self.has_unread_nodes(policy))
    }

    /// Returns whether a workload, or some of the nodes that it may run on, could not be read since the start.
    pub(crate) fn has_unread_nodes(&self, policy: &PolicyId) -> bool {
        let is_unread = |org: &OrgId| self.is_unread(org.as_str());
        self.is_unread(policy.org())
            || self.policies.get(policy).is_some_and(|facts| facts.node_orgs.iter().any(is_unread))
    }
}
