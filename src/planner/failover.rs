//! Failover: policies whose service has one instance in each HA group, which moves by stopping here and then starting there.
//!
//! An instance that can stay stays. Another member gets one only when the first is confirmed stopped, or its node is silent for
//! reasons other than the upgrade of its agent. Sources: orchestration A2, A3.1, E4 (last paragraph), E8, P1.

use evenkeel_ids::{NodeId, PolicyId};
use jiff::Timestamp;

use crate::{
    agreement::Agreement,
    claims::{Purpose, Scope},
    command::{Action, CommandKey, Lease},
    facts::{HaGroupFacts, Mode},
    matching,
    model::{Liveness, Model},
    pair::STOP_CONFIRMATION_SECS,
    pass::Pass,
    report::Blocked,
    usage::later,
};

/// A state that only time can change is planned again after this interval.
const RECHECK_SECS: u64 = 10;

/// After this many consecutive failures on one member the instance moves to the next (orchestration D4, `failureThreshold`).
const FAILURES_TO_MOVE: u32 = 5;

/// Returns whether a policy wants one instance in each group.
pub(crate) fn is_failover(model: &Model, policy: &PolicyId) -> bool {
    model.policies.get(policy).is_some_and(|facts| {
        // The tasks of a policy decide by themselves.
        facts.orchestration.mode == Mode::Failover && facts.orchestration.document.is_none()
    })
}

/// Returns whether another member of the node's group has the single instance of a failover policy.
pub(crate) fn is_elsewhere(model: &Model, node: &NodeId, policy: &PolicyId) -> bool {
    is_failover(model, policy)
        && model.group_of(node).is_some_and(|group| {
            group.members.iter().any(|one| one != node && model.live_agreement(one, policy).is_some())
        })
}

/// Returns whether a member may get the instance now; policies of other modes always may.
///
/// # Errors
/// The member that has the instance, whose instance is still stopping, or that comes first.
pub(crate) fn may_start(pass: &mut Pass<'_>, node: &NodeId, policy: &PolicyId) -> Result<(), Blocked> {
    let (model, now) = (pass.model, pass.now);
    let Some(group) = model.group_of(node).filter(|_| is_failover(model, policy)) else { return Ok(()) };
    for member in group.members.iter().filter(|member| *member != node) {
        if let Some(blocked) = occupied_by(model, member, policy, now) {
            pass.watch((node, policy), later(now, RECHECK_SECS));
            return Err(blocked);
        }
    }
    match first_choice(model, group, policy, now) {
        Some(first) if first != node => {
            pass.watch((node, policy), later(now, RECHECK_SECS));
            Err(Blocked::PeerFirst { node: first.clone() })
        }
        _ => Ok(()),
    }
}

/// Returns whether an instance is to move because its node is lost and another member can take it over.
pub(crate) fn is_to_move(pass: &mut Pass<'_>, agreement: &Agreement) -> bool {
    let (model, now) = (pass.model, pass.now);
    let (node, policy) = (&agreement.node, &agreement.policy);
    let Some(group) = model.group_of(node).filter(|_| is_failover(model, policy)) else { return false };
    pass.watch((node, policy), later(now, RECHECK_SECS));
    // Nothing moves off a frozen node.
    !model.is_frozen(node) && is_lost(model, node, now) && others_can_take(model, group, node, policy, now)
}

/// Returns whether another member could take over the instance of a node now.
pub(crate) fn others_can_take(
    model: &Model,
    group: &HaGroupFacts,
    node: &NodeId,
    policy: &PolicyId,
    now: Timestamp,
) -> bool {
    group.members.iter().any(|member| member != node && is_candidate(model, member, policy, now))
}

/// A silent node is lost, except while its agent is being upgraded.
fn is_lost(model: &Model, node: &NodeId, now: Timestamp) -> bool {
    let upgrades = |group: &HaGroupFacts| {
        model.claims.get(&(group.id.clone(), Scope::Agent)).is_some_and(|claim| claim.node == *node)
    };
    matches!(model.liveness(node, now), Liveness::Down { .. }) && !model.group_of(node).is_some_and(upgrades)
}

/// Returns why a member counts as having an instance.
fn occupied_by(model: &Model, member: &NodeId, policy: &PolicyId, now: Timestamp) -> Option<Blocked> {
    let elsewhere = || Blocked::InstanceElsewhere { node: member.clone() };
    if model.live_agreement(member, policy).is_some()
        || model.is_pending(&CommandKey::propose(member, policy), now)
    {
        return Some(elsewhere());
    }
    if is_lost(model, member, now) {
        return None;
    }
    let (agreement, since) = model.unconfirmed_stops(member, policy, now).next()?;
    Some(Blocked::StopUnconfirmed { node: member.clone(), agreement: agreement.id.clone(), since })
}

/// Follows the stops of a pair whose service may run once in the group: asks the node until it confirms that the instance is gone,
/// and records that.
pub(crate) fn follow_stops(pass: &mut Pass<'_>, lease: Lease, node: &NodeId, policy: &PolicyId) {
    let (model, now) = (pass.model, pass.now);
    let ended = model.lately_ended_on(node).filter(|one| one.policy == *policy);
    for agreement in ended.filter(|one| one.awaits_stop || is_failover(model, policy)) {
        let Some(since) = model.unconfirmed_stop(agreement, now) else {
            if agreement.awaits_stop {
                let action = Action::RecordStopped { agreement: agreement.id.clone(), node: node.clone() };
                pass.issue(lease, action, (node, policy));
            }
            continue;
        };
        if matches!(model.liveness(node, now), Liveness::Down { .. }) {
            continue;
        }
        let asked_at = agreement.verified_at.map_or(since, |at| at.max(since));
        let due_at = later(asked_at, STOP_CONFIRMATION_SECS / 2);
        if now < due_at {
            pass.watch((node, policy), due_at);
            continue;
        }
        let action = Action::SendVerification { agreement: agreement.id.clone(), node: node.clone() };
        pass.issue(lease, action, (node, policy));
    }
}

/// Returns the member that an instance goes to: the claim's holder, else where it failed lately and is retried, else the first candidate.
fn first_choice<'a>(
    model: &'a Model,
    group: &'a HaGroupFacts,
    policy: &PolicyId,
    now: Timestamp,
) -> Option<&'a NodeId> {
    if let Some(claim) = model.claims.get(&(group.id.clone(), Scope::Policy(policy.clone())))
        && claim.purpose == Purpose::ServiceUpgrade
        && group.members.contains(&claim.node)
        && !is_lost(model, &claim.node, now)
    {
        return Some(&claim.node);
    }
    let is_retried = |member: &&NodeId| {
        model.backoff.get(&((*member).clone(), policy.clone())).is_some_and(|backoff| {
            backoff.reason.is_service_failure() && backoff.failure_count < FAILURES_TO_MOVE
        }) && is_able(model, member, policy, now)
    };
    let retried = group.members.iter().find(is_retried);
    retried.or_else(|| group.members.iter().find(|member| is_candidate(model, member, policy, now)))
}

/// Returns whether a member is selected by the policy, alive, and open for placement.
fn is_able(model: &Model, member: &NodeId, policy: &PolicyId, now: Timestamp) -> bool {
    model.may_start_on(member, now)
        && model.node(member).is_some_and(|record| !record.facts.public_key.is_empty())
        && matching::select(model, member, policy, now).is_ok()
}

/// Returns whether a member could take over an instance now.
fn is_candidate(model: &Model, member: &NodeId, policy: &PolicyId, now: Timestamp) -> bool {
    let backs_off =
        model.backoff.get(&(member.clone(), policy.clone())).is_some_and(|backoff| now < backoff.not_before);
    !backs_off && is_able(model, member, policy, now)
}
