//! Takes services off a node that is being drained or left to another agbot, one member of a group at a time.
//!
//! Either is a planned disruption like the step of a rollout: it needs the group's claim, the floor must hold, and what may
//! not stop now waits with its reason. It needs no rollout, and none holds it back. Source: orchestration B9, E4, P (drain of
//! the node with the last copy).

use super::{gates, sweep, unit::Unit};
use crate::{
    agreement::Agreement,
    claims::{Claim, Purpose, ReleaseReason},
    command::Action,
    failover,
    ids::NodeId,
    matching::{self, Fit},
    model::Observed,
    pair::{self, STOP_CONFIRMATION_SECS},
    pass::Pass,
    report::Blocked,
    usage::later,
};

/// Asks for the claim of the first copy that may leave, and tells of the others what they wait for. Returns the node of the
/// copy that the claim was asked for.
pub(super) fn next_step(pass: &mut Pass<'_>, unit: &Unit<'_>) -> Option<NodeId> {
    let mut leaving = unit.leaving.clone();
    // Copies that do not run have nothing to lose.
    leaving.sort_by_key(|agreement| pass.model.observed(agreement, pass.now) == Observed::Running);
    let mut chosen: Option<NodeId> = None;
    for agreement in leaving {
        gates::recheck(pass, agreement);
        let wish = match &chosen {
            Some(first) => Err(Blocked::PeerFirst { node: first.clone() }),
            None => may_leave(pass, unit, agreement),
        };
        match wish {
            Ok(action) => {
                chosen = Some(agreement.node.clone());
                pass.wait(agreement, Blocked::ClaimRequested);
                pass.issue(unit.lease, action, (&agreement.node, &agreement.policy));
            }
            Err(blocked) => pass.wait(agreement, blocked),
        }
    }
    chosen
}

fn may_leave(pass: &Pass<'_>, unit: &Unit<'_>, agreement: &Agreement) -> Result<Action, Blocked> {
    if let Some(blocked) = gates::just_started(pass, unit.group) {
        return Err(blocked);
    }
    has_somewhere_to_go(pass, unit, agreement)?;
    let key = &agreement.service_key;
    let request = gates::request_for(pass, unit, agreement, key, (Purpose::Drain, String::new()))?;
    Ok(Action::TakeClaim { request: Box::new(request) })
}

/// The one copy of a group moves only to where it can start.
fn has_somewhere_to_go(pass: &Pass<'_>, unit: &Unit<'_>, agreement: &Agreement) -> Result<(), Blocked> {
    let (model, policy) = (pass.model, &unit.policy.id);
    if !failover::is_failover(model, policy)
        || model.other_agbot_of(&agreement.node, policy).is_some()
        || failover::others_can_take(model, unit.group, &agreement.node, policy, pass.now)
    {
        return Ok(());
    }
    Err(Blocked::NoCandidate { group: unit.group.id.clone() })
}

/// A claim for a drain is held: carry it on.
pub(super) fn work(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim) {
    let model = pass.model;
    pass.watch((&claim.node, &unit.policy.id), claim.deadline);
    let release = |pass: &mut Pass<'_>, why| sweep::release(pass, unit.lease, claim, why);
    match model.live_agreement(&claim.node, &unit.policy.id) {
        None => confirm(pass, unit, claim),
        Some(_) if pass.now >= claim.deadline => release(pass, ReleaseReason::DeadlinePassed),
        Some(agreement) if pass.is_stopping(agreement) => {}
        Some(agreement) => match matching::fit(model, agreement, pass.now) {
            Fit::Leaving => stop(pass, unit, claim, agreement),
            Fit::Lost(_) => release(pass, ReleaseReason::NotWanted),
            Fit::Clean(_) | Fit::Outdated(_) | Fit::Unclear(_) => {
                release(pass, ReleaseReason::AvailabilityChanged);
            }
        },
    }
}

fn stop(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, agreement: &Agreement) {
    if let Err(blocked) = has_somewhere_to_go(pass, unit, agreement) {
        sweep::release(pass, unit.lease, claim, ReleaseReason::FloorLost);
        return pass.wait(agreement, blocked);
    }
    if gates::may_stop_now(pass, unit, claim, agreement, &agreement.service_key) {
        pair::take_off(pass, unit.lease, agreement, Some(claim.reference()));
    }
}

/// The group is free again when the node says that its copy is gone, or has had the time to say so.
fn confirm(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim) {
    let (model, now) = (pass.model, pass.now);
    let mut ended = model.lately_ended_on(&claim.node).filter(|one| one.policy == unit.policy.id);
    match ended.find_map(|agreement| model.stopping_since(agreement, now)) {
        Some(since) => {
            pass.watch((&claim.node, &unit.policy.id), later(since, STOP_CONFIRMATION_SECS));
        }
        None => sweep::release(pass, unit.lease, claim, ReleaseReason::Drained),
    }
}
