//! Permits for the stops of a group rollout: the next one, and the one that has the claim.
//!
//! Source: design 4; orchestration B11, E5.

use evenkeel_change as change;
use evenkeel_ids::{NodeId, ServiceKey};
use evenkeel_planner_model::{command::Action, model::Observed, pass::Pass};
use evenkeel_planner_record::{
    agreement::Agreement,
    claims::{Claim, Purpose, ReleaseReason},
    report::Blocked,
    time::later,
    workload::Step,
};
use evenkeel_reconcile::supervise::rules;

use super::{
    claim_expiry,
    gate_facts::{RolloutFacts, removal, replacement},
    group_rollout::GroupRollout,
};

/// A blocked group rollout is planned again after this time, even if no event asks for it.
const RECHECK_SECS: u64 = 10;

/// An instance that is to stop.
#[derive(Clone)]
pub(super) struct Candidate<'a> {
    pub agreement: &'a Agreement,
    /// The service that replaces it.
    pub wanted: &'a ServiceKey,
    pub purpose: Purpose,
    /// Wanted version; empty when there is none.
    pub version: &'a str,
}

impl Candidate<'_> {
    fn step(&self, group_rollout: &GroupRollout<'_>) -> Step {
        match self.purpose {
            Purpose::Drain => removal(group_rollout, self.agreement),
            Purpose::ServiceUpgrade | Purpose::AgentUpgrade { .. } => {
                replacement(group_rollout, self.agreement)
            }
        }
    }
}

/// Schedules the instance to be reconciled again.
pub(super) fn recheck(pass: &mut Pass<'_>, agreement: &Agreement) {
    pass.watch((&agreement.node, &agreement.policy), later(pass.now, RECHECK_SECS));
}

/// Returns why none of the instances may stop now.
pub(super) fn blocked(
    pass: &Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    candidates: &[Candidate<'_>],
) -> Option<Blocked> {
    let first = candidates.first()?;
    let facts = RolloutFacts::new(pass, group_rollout, &first.agreement.service_key, first.wanted);
    facts.blocked(&first.step(group_rollout))
}

/// Requests the claim for the first instance that may stop, and reports what the others wait for. Returns the node for which the
/// claim is requested.
pub(super) fn take_next(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    candidates: Vec<Candidate<'_>>,
) -> Option<NodeId> {
    let candidates =
        rules::in_order(candidates, |one| pass.model.observed(one.agreement, pass.now) == Observed::Running);
    let verdicts = verdicts(pass, group_rollout, &candidates);
    let mut chosen: Option<NodeId> = None;
    let mut verdicts = verdicts.into_iter();
    for agreement in candidates.iter().map(|one| one.agreement) {
        recheck(pass, agreement);
        match (verdicts.next(), &chosen) {
            (Some(Ok(action)), _) => {
                chosen = Some(agreement.node.clone());
                pass.wait(agreement, Blocked::ClaimRequested);
                pass.issue(group_rollout.lease, action, (&agreement.node, &agreement.policy));
            }
            (Some(Err(blocked)), _) => pass.wait(agreement, blocked),
            (None, Some(first)) => pass.wait(agreement, Blocked::PeerFirst { node: first.clone() }),
            (None, None) => {}
        }
    }
    chosen
}

/// Asks the gates for each instance in turn, until one may stop: the claim for it comes last.
fn verdicts(
    pass: &Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    candidates: &[Candidate<'_>],
) -> Vec<Result<Action, Blocked>> {
    let mut verdicts = Vec::new();
    let mut known: Option<RolloutFacts<'_, '_>> = None;
    for one in candidates {
        let service = &one.agreement.service_key;
        let facts = known
            .take()
            .filter(|facts| facts.is_about(service, one.wanted))
            .unwrap_or_else(|| RolloutFacts::new(pass, group_rollout, service, one.wanted));
        let verdict = request(pass, group_rollout, &facts, one);
        known = Some(facts);
        let is_last = verdict.is_ok();
        verdicts.push(verdict);
        if is_last {
            break;
        }
    }
    verdicts
}

fn request(
    pass: &Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    facts: &RolloutFacts<'_, '_>,
    one: &Candidate<'_>,
) -> Result<Action, Blocked> {
    let permit = change::permit(facts, &one.step(group_rollout))?;
    let update = &group_rollout.update;
    let parallelism = if one.purpose == Purpose::ServiceUpgrade { update.parallelism } else { 0 };
    let deadline = update.start_deadline(pass.now);
    let request = permit.claim_request((one.purpose.clone(), one.version), deadline, parallelism);
    request
        .map(|request| Action::TakeClaim { request: Box::new(request) })
        .ok_or_else(|| Blocked::NotAMember { group: group_rollout.group.id.clone() })
}

/// Returns whether the holder of the claim may stop now; if not, the claim is released or the instance waits.
pub(super) fn may_stop_now(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    one: &Candidate<'_>,
) -> bool {
    let agreement = one.agreement;
    let step = one.step(group_rollout);
    let facts = RolloutFacts::new(pass, group_rollout, &agreement.service_key, one.wanted).with_claim();
    let blocked = match facts.blocked(&step) {
        Some(blocked) => Some(blocked),
        None => change::permit(&facts, &step).err(),
    };
    let why = match &blocked {
        None => return true,
        Some(Blocked::JustStarted { .. }) => None,
        Some(Blocked::RolloutHeld { .. }) => Some(ReleaseReason::RolloutHeld),
        Some(_) => Some(ReleaseReason::MinimumAvailableLost),
    };
    match why {
        Some(why) => claim_expiry::release(pass, group_rollout.lease, claim, why),
        None => recheck(pass, agreement),
    }
    blocked.into_iter().for_each(|blocked| pass.wait(agreement, blocked));
    false
}
