//! Takes services off a node that is being drained or left to another agbot, one member of a group at a time.
//!
//! Both are planned disruptions like a rollout step: they need the group's claim, the minimum available must hold, and an
//! instance that may not stop now waits with its reason. They need no rollout, and no rollout blocks them. Source:
//! orchestration B9, E4, P (drain of the node with the last instance).

use evenkeel_ids::NodeId;
use evenkeel_placement::matching::Fit;
use evenkeel_planner_model::{model::selection, pass::Pass};
use evenkeel_planner_record::{
    agreement::{Agreement, STOP_CONFIRMATION_SECS},
    claims::{Claim, Purpose, ReleaseReason},
    time::later,
};

use super::{
    claim_expiry,
    group_rollout::GroupRollout,
    stop::{self, Candidate},
};
use crate::agreement_end;

/// Requests the claim for the first instance that may leave, and reports what the others wait for. Returns the node for which
/// the claim was requested.
pub(super) fn next_step(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>) -> Option<NodeId> {
    let candidates: Vec<Candidate<'_>> =
        group_rollout.leaving.iter().map(|agreement| candidate(agreement)).collect();
    let Some(blocked) = stop::blocked(pass, group_rollout, &candidates) else {
        return stop::take_next(pass, group_rollout, candidates);
    };
    for agreement in &group_rollout.leaving {
        stop::recheck(pass, agreement);
        pass.wait(agreement, blocked.clone());
    }
    None
}

fn candidate(agreement: &Agreement) -> Candidate<'_> {
    Candidate { agreement, wanted: &agreement.service_key, purpose: Purpose::Drain, version: "" }
}

/// Continues the drain step of the member that holds the claim.
pub(super) fn work(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim) {
    let model = pass.model;
    pass.watch((&claim.node, &group_rollout.policy.id), claim.deadline);
    let release = |pass: &mut Pass<'_>, why| claim_expiry::release(pass, group_rollout.lease, claim, why);
    if model.is_down(&claim.node, pass.now) {
        return release(pass, ReleaseReason::NodeSilent);
    }
    match model.live_agreement(&claim.node, &group_rollout.policy.id) {
        None => confirm(pass, group_rollout, claim),
        Some(_) if pass.now >= claim.deadline => release(pass, ReleaseReason::DeadlinePassed),
        Some(agreement) if pass.is_stopping(agreement) => {}
        Some(agreement) => match selection::fit(model, agreement, pass.now) {
            Fit::Leaving => leave(pass, group_rollout, claim, agreement),
            Fit::Lost(_) => release(pass, ReleaseReason::NotWanted),
            Fit::Clean(_) | Fit::Outdated(_) | Fit::Unclear(_) => {
                release(pass, ReleaseReason::AvailabilityChanged);
            }
        },
    }
}

fn leave(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim, agreement: &Agreement) {
    if stop::may_stop_now(pass, group_rollout, claim, &candidate(agreement)) {
        agreement_end::take_off(pass, group_rollout.lease, agreement, Some(claim.reference()));
    }
}

/// Releases the claim when the node reports its instance gone, or the time for that report has passed.
fn confirm(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim) {
    let (model, now) = (pass.model, pass.now);
    let mut ended = model.lately_ended_on(&claim.node).filter(|one| one.policy == group_rollout.policy.id);
    match ended.find_map(|agreement| model.stopping_since(agreement, now)) {
        Some(since) => {
            pass.watch((&claim.node, &group_rollout.policy.id), later(since, STOP_CONFIRMATION_SECS));
        }
        None => claim_expiry::release(pass, group_rollout.lease, claim, ReleaseReason::Drained),
    }
}
