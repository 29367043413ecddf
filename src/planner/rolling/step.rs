//! Carries on the step of the member that holds the claim of its group, up to the release.
//!
//! Source: orchestration B11, E4, E5.

use jiff::Timestamp;

use super::gates::may_stop_now;
use super::progress::{begin, record};
use super::{Rollout, RolloutState, drain, rollback, unit::Unit};
use crate::{
    agreement::{Agreement, AgreementState, CancelReason},
    claims::{Claim, Phase, Purpose, ReleaseReason},
    command::Action,
    facts::Availability,
    failover,
    matching::{self, Choice, Fit},
    model::{Liveness, Observed},
    pair,
    pass::Pass,
    report::{Blocked, HoldReason},
    settings::FailureAction,
    usage::later,
};

/// A verification may last so much longer than the monitoring time before it counts as stalled: reports come late.
const REPORT_GRACE_SECS: u64 = 60;

/// Somebody holds the claim: carry its step on.
pub(super) fn work(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, stored: Option<&Rollout>) {
    let model = pass.model;
    // The sweep releases these.
    if !unit.group.members.contains(&claim.node) || model.node(&claim.node).is_none() {
        return;
    }
    if claim.purpose == Purpose::Drain {
        return drain::work(pass, unit, claim);
    }
    let pair = (&claim.node, &unit.policy.id);
    pass.watch(pair, claim.deadline);
    if unit.rollout.is_none() && !unit.dirty.is_empty() {
        begin(pass, unit, stored);
    }
    if claim.phase != Phase::Stopping
        && let Some(reason) = failure_since(pass, unit, claim).or_else(|| crash_loop(pass, unit, claim))
    {
        return fail(pass, unit, claim, reason);
    }
    match model.live_agreement(&claim.node, &unit.policy.id) {
        None => work_without_agreement(pass, unit, claim),
        Some(agreement) if pass.is_stopping(agreement) => check_deadline(pass, unit, claim, None),
        Some(agreement) => match agreement.state {
            AgreementState::Finalized { at } => work_with_agreement(pass, unit, claim, agreement, at),
            _ => {
                let until = agreement.reply_by;
                let blocked = Blocked::WaitingForReply { agreement: agreement.id.clone(), until };
                if claim.phase == Phase::Stopping {
                    advance(pass, unit, claim, Phase::Starting, start_deadline(pass, unit));
                } else {
                    check_deadline(pass, unit, claim, Some(blocked));
                }
            }
        },
    }
}

fn start_deadline(pass: &Pass<'_>, unit: &Unit<'_>) -> Timestamp {
    later(pass.now, unit.update.start_timeout_secs)
}

/// Answers why the claim's version failed on its node since the claim was taken.
fn failure_since(pass: &Pass<'_>, unit: &Unit<'_>, claim: &Claim) -> Option<CancelReason> {
    let backoff = pass.model.backoff.get(&(claim.node.clone(), unit.policy.id.clone()))?;
    let counts = backoff.failed_at >= claim.since
        && backoff.version == claim.version
        && backoff.reason.is_service_failure();
    counts.then_some(backoff.reason)
}

/// Answers whether the claim's version ends again and again, so that waiting for it is of no use.
fn crash_loop(pass: &Pass<'_>, unit: &Unit<'_>, claim: &Claim) -> Option<CancelReason> {
    let agreement = pass.model.live_agreement(&claim.node, &unit.policy.id)?;
    let is_looping = agreement.version == claim.version
        && pass.model.is_crash_looping(agreement, unit.update.monitor_secs);
    is_looping.then_some(CancelReason(103))
}

fn work_without_agreement(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim) {
    if claim.phase == Phase::Stopping {
        return advance(pass, unit, claim, Phase::Starting, start_deadline(pass, unit));
    }
    if pass.model.availability(&claim.node) == Availability::Drain {
        return release(pass, unit, claim, ReleaseReason::NodeDraining);
    }
    // A member that joined with an instance of its own has it now: nothing failed here.
    if failover::is_elsewhere(pass.model, &claim.node, &unit.policy.id) {
        return release(pass, unit, claim, ReleaseReason::NotWanted);
    }
    match matching::select(pass.model, &claim.node, &unit.policy.id, pass.now) {
        Err(blocked) if blocked.is_incompatibility() => release(pass, unit, claim, ReleaseReason::NotWanted),
        Err(blocked) => check_deadline(pass, unit, claim, Some(blocked)),
        Ok(_) => check_deadline(pass, unit, claim, None),
    }
}

fn work_with_agreement(
    pass: &mut Pass<'_>,
    unit: &Unit<'_>,
    claim: &Claim,
    agreement: &Agreement,
    final_at: Timestamp,
) {
    match matching::fit(pass.model, agreement, pass.now) {
        Fit::Outdated(choice) if claim.phase == Phase::Stopping && choice.version == claim.version => {
            stop(pass, unit, claim, agreement, &choice);
        }
        Fit::Outdated(_) => release(pass, unit, claim, ReleaseReason::Superseded),
        Fit::Lost(_) => release(pass, unit, claim, ReleaseReason::NotWanted),
        Fit::Leaving => release(pass, unit, claim, ReleaseReason::NodeDraining),
        Fit::Unclear(Blocked::NodePaused) => release(pass, unit, claim, ReleaseReason::AvailabilityChanged),
        Fit::Unclear(blocked) => check_deadline(pass, unit, claim, Some(blocked)),
        // A lower version by rollback, or the policy was edited back: the step did not lead where it was to lead.
        Fit::Clean(_) if agreement.version != claim.version => {
            release(pass, unit, claim, ReleaseReason::Superseded)
        }
        Fit::Clean(_) if claim.phase == Phase::Stopping => {
            advance(pass, unit, claim, Phase::Starting, start_deadline(pass, unit));
        }
        Fit::Clean(_) => see(pass, unit, claim, agreement, final_at),
    }
}

/// The old copy is still there: stop it, if the floor still allows.
fn stop(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, agreement: &Agreement, choice: &Choice) {
    if pass.now >= claim.deadline {
        return release(pass, unit, claim, ReleaseReason::DeadlinePassed);
    }
    if unit.rollout.is_some_and(|rollout| matches!(rollout.state, RolloutState::Held { .. })) {
        return release(pass, unit, claim, ReleaseReason::RolloutHeld);
    }
    if may_stop_now(pass, unit, claim, agreement, &choice.key) {
        let claim = Some(claim.reference());
        pair::cancel(pass, unit.lease, agreement, CancelReason::POLICY_CHANGED, claim, true);
        let text = format!("replacing {} by {}", agreement.version, choice.version);
        pass.act(&agreement.node, &agreement.policy, text);
    }
}

/// The new agreement is final: see whether the service runs, and watch it for a while.
fn see(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, agreement: &Agreement, final_at: Timestamp) {
    let (now, update) = (pass.now, unit.update);
    let observed = match pass.model.observed(agreement, now) {
        _ if pass.model.settings.broken.trusts_agreements => Observed::Running,
        observed => observed,
    };
    match (observed, claim.phase) {
        (Observed::Running, Phase::Verifying) => {
            let until = later(claim.phase_since, update.monitor_secs);
            if now >= until {
                return complete_step(pass, unit, claim);
            }
            pass.watch((&claim.node, &unit.policy.id), until);
            pass.wait(agreement, Blocked::BeingWatched { until });
        }
        (Observed::Running, _) => {
            let deadline = later(now, update.monitor_secs.saturating_add(REPORT_GRACE_SECS));
            advance(pass, unit, claim, Phase::Verifying, deadline);
        }
        // Seen running before and seen not running now.
        (Observed::Absent, Phase::Verifying) => fail(pass, unit, claim, CancelReason(103)),
        _ => {
            let why = pass.model.why_not_running(agreement, now);
            let blocked = Blocked::NotSeenRunning { agreement: agreement.id.clone(), since: final_at, why };
            pass.wait(agreement, blocked.clone());
            check_deadline(pass, unit, claim, Some(blocked));
        }
    }
}

/// The rollout's row is written before the claim is released, so that a crash in between loses nothing: whoever goes on
/// finds the claim and does the same again.
fn is_recorded(unit: &Unit<'_>, claim: &Claim) -> bool {
    unit.rollout.is_none_or(|rollout| rollout.last_step_at >= Some(claim.phase_since))
}

fn complete_step(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim) {
    match unit.rollout {
        Some(rollout) if !is_recorded(unit, claim) => {
            // A group has far fewer members than a u32 counts.
            let laggards = rollback::laggards(pass.model, rollout, pass.now).count();
            let left = u32::try_from(unit.dirty.len() + laggards).unwrap_or(u32::MAX);
            let done = rollout.total.saturating_sub(left).max(rollout.done);
            let (last_step_at, last_node) = (Some(pass.now), Some(claim.node.clone()));
            record(pass, unit.lease, Rollout { done, last_step_at, last_node, ..rollout.clone() });
        }
        _ => release(pass, unit, claim, ReleaseReason::Done),
    }
}

fn check_deadline(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, missing: Option<Blocked>) {
    if pass.now < claim.deadline {
        return;
    }
    let backoff = pass.model.backoff.get(&(claim.node.clone(), unit.policy.id.clone()));
    let missing = missing.unwrap_or_else(|| match (pass.model.liveness(&claim.node, pass.now), backoff) {
        (Liveness::Down { since }, _) => Blocked::NodeDown { since },
        (_, Some(backoff)) => Blocked::BackingOff {
            until: backoff.not_before,
            failure_count: backoff.failure_count,
            reason: backoff.reason,
        },
        _ => Blocked::ClaimReleased { why: ReleaseReason::DeadlinePassed },
    });
    let (node, version) = (claim.node.clone(), claim.version.clone());
    let reason = HoldReason::StepStalled { node, version, missing: Box::new(missing) };
    give_up(pass, unit, claim, reason, ReleaseReason::DeadlinePassed);
}

/// The new version failed: give the attempt up, and hold the rollout if that is one failure too many.
fn fail(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, reason: CancelReason) {
    let (node, version) = (claim.node.clone(), claim.version.clone());
    let detail = pass.model.failure_text(&node, &unit.policy.service, &version);
    let reason = HoldReason::StepFailed { node, version, reason, detail };
    give_up(pass, unit, claim, reason, ReleaseReason::Failed);
}

fn give_up(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, reason: HoldReason, why: ReleaseReason) {
    let Some(rollout) = unit.rollout.filter(|_| !is_recorded(unit, claim)) else {
        return release(pass, unit, claim, why);
    };
    let update = unit.update;
    let (last_step_at, last_node) = (Some(pass.now), Some(claim.node.clone()));
    let mut rollout = Rollout { last_step_at, last_node, ..rollout.clone() };
    let is_failure = matches!(reason, HoldReason::StepFailed { .. });
    if is_failure && !rollout.failed.contains(&claim.node) {
        rollout.failed.push(claim.node.clone());
    }
    let ratio = rollout.failed.len() as f64 / f64::from(rollout.total.max(1));
    let tolerated =
        is_failure && (ratio <= update.max_failure_ratio || update.failure_action == FailureAction::Continue);
    if !tolerated {
        let back = (update.failure_action == FailureAction::Rollback)
            .then(|| rollback::turned_back(pass.model, unit.policy, &rollout, &reason, pass.now));
        rollout = match back.flatten() {
            Some(back) => back,
            None => {
                Rollout { state: RolloutState::Held { hold: Box::new(reason), since: pass.now }, ..rollout }
            }
        };
    }
    record(pass, unit.lease, rollout);
}

fn advance(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, phase: Phase, deadline: Timestamp) {
    let action = Action::AdvanceClaim { claim: claim.reference(), phase, deadline };
    pass.issue(unit.lease, action, (&claim.node, &unit.policy.id));
}

fn release(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, why: ReleaseReason) {
    super::sweep::release(pass, unit.lease, claim, why);
}
