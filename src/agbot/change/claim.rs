//! Claims on an HA group: whether one may be taken, by the rows of the group alone.
//!
//! The agbot reads the rows at one revision and inserts at the same. Source: orchestration E5; agbot 3.4; design 4.2.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use evenkeel_planner_record::{
    claims::{Claim, ClaimRequest, Purpose, Scope},
    facts::HaGroupFacts,
    report::Blocked,
};

/// The effect of an allowed claim request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Insert the row.
    Insert,
    /// The same node already holds the same claim for the same purpose: grant it and change nothing.
    Held,
}

/// Returns whether a claim may be taken, judged by the rows of the group alone.
///
/// With exclusive disruption no *other* member may hold any row; otherwise at most `max_unavailable` members hold rows.
/// Rows of the same node never conflict, except one of the same scope for something else.
/// # Shape
/// `rows`: all rows of the request's group (others are ignored).
/// # Errors
/// The [`Blocked`] reason to show.
/// # Source
/// Orchestration E5.1, E5.4.
pub fn may_take(rows: &[Claim], request: &ClaimRequest, group: &HaGroupFacts) -> Result<Grant, Blocked> {
    if !group.members.contains(&request.node) {
        return Err(Blocked::NotAMember { group: group.id.clone() });
    }
    let rows: Vec<&Claim> = rows.iter().filter(|row| row.group == request.group).collect();
    if let Some(row) = rows.iter().find(|row| row.scope == request.scope) {
        return if row.node == request.node
            && row.purpose.is_same(&request.purpose)
            && row.version == request.version
        {
            Ok(Grant::Held)
        } else {
            Err(lock_of(row))
        };
    }
    may_disrupt(group, rows, &request.node).map(|()| Grant::Insert)
}

/// Checks that one more group in work keeps the update parallelism of a policy.
///
/// Counts groups, because a group has one claim per policy.
/// # Shape
/// `limit`: 0 means none. `in_work`: groups that hold a claim of the policy or have requested one; `group` itself does not count.
/// # Errors
/// [`Blocked::UpdateParallelism`] with the groups in work when as many as allowed are in work already.
/// # Source
/// Orchestration B11; engine 8.
pub fn check_parallelism(
    group: &GroupId,
    limit: u32,
    in_work: impl IntoIterator<Item = GroupId>,
) -> Result<(), Blocked> {
    if limit == 0 {
        return Ok(());
    }
    let groups: BTreeSet<GroupId> = in_work.into_iter().filter(|other| other != group).collect();
    if groups.len() < limit as usize {
        return Ok(());
    }
    Err(Blocked::UpdateParallelism { limit, groups: groups.into_iter().collect() })
}

/// Returns the reason that a group is busy with the task of a claim.
pub fn lock_of(row: &Claim) -> Blocked {
    Blocked::HaLock {
        group: row.group.clone(),
        holder: row.node.clone(),
        scope: row.scope.clone(),
        is_drain: row.purpose == Purpose::Drain,
        since: row.since,
        deadline: row.deadline,
    }
}

/// Checks that no more members are disrupted than the group allows, by the rows of the group alone. Claims on
/// the same node do not conflict; a policy has one claim in a group, and under it continues even if fewer
/// members may be disrupted meanwhile.
///
/// # Errors
/// [`Blocked::HaLock`] with the claim of another member.
pub(super) fn may_claim(
    facts: &HaGroupFacts,
    claims: &[Claim],
    node: &NodeId,
    policy: &PolicyId,
) -> Result<(), Blocked> {
    let is_own = |claim: &&Claim| matches!(&claim.scope, Scope::Policy(one) if one == policy);
    if let Some(claim) = claims.iter().find(is_own) {
        return if claim.node == *node { Ok(()) } else { Err(lock_of(claim)) };
    }
    may_disrupt(facts, claims, node)
}

/// Checks that a claim on one more member is allowed.
///
/// # Shape
/// `claims`: those of the group. Those on the same node do not conflict.
/// # Errors
/// [`Blocked::HaLock`] with the claim of another member.
fn may_disrupt<'c>(
    facts: &HaGroupFacts,
    claims: impl IntoIterator<Item = &'c Claim>,
    node: &NodeId,
) -> Result<(), Blocked> {
    let mut others: BTreeMap<&NodeId, &Claim> = BTreeMap::new();
    for claim in claims.into_iter().filter(|claim| claim.node != *node) {
        others.entry(&claim.node).or_insert(claim);
    }
    let allowed = if facts.is_exclusive { 0 } else { facts.max_unavailable.max(1) as usize - 1 };
    match others.values().next() {
        Some(claim) if others.len() > allowed => Err(lock_of(claim)),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
