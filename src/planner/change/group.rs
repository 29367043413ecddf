//! The HA group of a node as to one service: the minimum available, and one disruption at a time.
//!
//! Source: orchestration E4, E5.4.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{NodeId, PolicyId, ServiceKey};

use crate::{
    claims::{Claim, Scope, lock_of},
    facts::HaGroupFacts,
    report::Blocked,
};

/// An HA group as to one service.
///
/// # Shape
/// `running` and `missing` together are the intended members: those that a policy selects for the service. Members that do not
/// count under the policy's rule for offline peers are in neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// The group.
    pub facts: HaGroupFacts,
    /// The service.
    pub service: ServiceKey,
    /// Intended members that are seen running it.
    pub running: BTreeSet<NodeId>,
    /// The other intended members, each with the reason.
    pub missing: BTreeMap<NodeId, String>,
    /// The claims of the group, whatever their subject.
    pub claims: Vec<Claim>,
}

/// Returns the other members that keep the service up while the one on `node` is stopped.
///
/// # Errors
/// [`Blocked::HaMinimum`] when there are fewer than `min_running`, limited to the number of other intended members.
pub(super) fn may_stop(group: &GroupState, node: &NodeId, min_running: u32) -> Result<Vec<NodeId>, Blocked> {
    let is_disrupted = |member: &&NodeId| group.claims.iter().any(|claim| claim.node == **member);
    let others: Vec<&NodeId> = group.running.iter().filter(|member| *member != node).collect();
    let running: Vec<NodeId> =
        others.iter().filter(|one| !is_disrupted(one)).map(|&one| one.clone()).collect();
    let missing = group.missing.iter().filter(|(member, _)| *member != node);
    let intended = others.len() + missing.clone().count();
    let minimum = (min_running as usize).min(intended);
    // A member that does not run the service loses nothing.
    if !group.running.contains(node) || running.len() >= minimum {
        return Ok(running);
    }
    let disrupted = others.iter().filter(|one| is_disrupted(one));
    let disrupted = disrupted.map(|&one| (one.clone(), "being disrupted".to_owned()));
    Err(Blocked::HaMinimum {
        group: group.facts.id.clone(),
        service: group.service.clone(),
        wanted: u32::try_from(minimum).unwrap_or(u32::MAX),
        running,
        missing: missing.map(|(member, why)| (member.clone(), why.clone())).chain(disrupted).collect(),
    })
}

/// Checks that no more members are disrupted than the group allows. Claims on the same node do not conflict; a policy has one
/// claim in a group.
///
/// # Errors
/// [`Blocked::HaLock`] with the claim of another member.
pub(super) fn may_disrupt(group: &GroupState, node: &NodeId, policy: &PolicyId) -> Result<(), Blocked> {
    may_claim(&group.facts, &group.claims, node, policy)
}

/// See [`may_disrupt`]; by the rows of the group alone.
pub(super) fn may_claim(
    facts: &HaGroupFacts,
    claims: &[Claim],
    node: &NodeId,
    policy: &PolicyId,
) -> Result<(), Blocked> {
    let is_own = |claim: &&Claim| matches!(&claim.scope, Scope::Policy(one) if one == policy);
    if let Some(claim) = claims.iter().filter(is_own).find(|claim| claim.node != *node) {
        return Err(lock_of(claim));
    }
    let others: BTreeMap<&NodeId, &Claim> =
        claims.iter().filter(|claim| claim.node != *node).map(|claim| (&claim.node, claim)).collect();
    let allowed = if facts.is_exclusive { 0 } else { facts.max_unavailable.max(1) as usize - 1 };
    match others.values().next() {
        Some(claim) if others.len() > allowed => Err(lock_of(claim)),
        _ => Ok(()),
    }
}
