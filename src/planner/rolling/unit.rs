//! Plans one unit: the rollout of one policy through one HA group, step by step.
//!
//! A step is: take the group's claim, stop the old copy, start the new one, see it running and healthy for a while,
//! release the claim. A step that fails or stalls holds the rollout and leaves the others as they are. Every wait has the
//! claim's deadline and a reason in the report. Source: orchestration B11, E4, E5.

use jiff::Timestamp;

use super::{Rollout, RolloutState, drain, floor, rollback};
use crate::{
    agreement::{Agreement, AgreementState, CancelReason},
    claims::{self, Claim, ClaimRequest, Phase, Purpose, ReleaseReason, Scope},
    command::{Action, Lease},
    facts::{Availability, DeploymentPolicyFacts, HaGroupFacts},
    focus::Focus,
    ids::{GroupId, NodeId, PolicyId, ServiceKey, stable_hash},
    matching::{self, Choice, Fit},
    model::{Liveness, Observed},
    pair,
    pass::Pass,
    report::{Blocked, HoldReason},
    settings::{FailureAction, UpdateOrder, UpdateSettings},
    usage::later,
};

/// A blocked unit is looked at again after so long, although nothing is known to have changed.
const RECHECK_SECS: u64 = 10;

/// A verification may last so much longer than the monitoring time before it counts as stalled: reports come late.
const REPORT_GRACE_SECS: u64 = 60;

/// Plans every unit in focus.
pub(crate) fn plan_all(pass: &mut Pass<'_>, focus: &Focus) {
    for (group, policy) in &focus.units {
        plan(pass, group, policy);
    }
}

/// One copy that is to be replaced.
struct Slot<'a> {
    agreement: &'a Agreement,
    choice: Choice,
}

/// A unit with everything its steps look at.
pub(super) struct Unit<'a> {
    pub(super) lease: Lease,
    pub(super) group: &'a HaGroupFacts,
    pub(super) policy: &'a DeploymentPolicyFacts,
    digest: u64,
    update: UpdateSettings,
    dirty: Vec<Slot<'a>>,
    /// Copies that are to leave nodes that are being drained.
    pub(super) leaving: Vec<&'a Agreement>,
    /// The rollout to the present target, if it has begun.
    rollout: Option<&'a Rollout>,
}

fn plan(pass: &mut Pass<'_>, group: &GroupId, policy: &PolicyId) {
    let model = pass.model;
    let Some(lease) = pass.lease_for_group(group) else { return };
    let stored = model.rollouts.get(&(group.clone(), policy.clone()));
    let (Some(group), Some(policy)) = (model.group(group), model.policy(policy)) else {
        if let Some(rollout) = stored {
            abandon(pass, lease, rollout);
        }
        return;
    };
    let digest = target_digest(policy);
    let is_current = |rollout: &&Rollout| {
        rollout.target_digest == digest && rollout.rollback.as_ref().is_none_or(|back| back.is_for(policy))
    };
    let rollout = stored.filter(is_current);
    let update = model.update_settings(&policy.id);
    let (dirty, leaving) = copies_to_change(pass, group, policy);
    let unit = Unit { lease, group, policy, digest, update, dirty, leaving, rollout };
    let claim = model.claims.get(&(group.id.clone(), Scope::Policy(policy.id.clone())));
    match claim {
        Some(claim) => {
            let copies = unit.dirty.iter().map(|slot| slot.agreement).chain(unit.leaving.iter().copied());
            for agreement in copies.filter(|agreement| agreement.node != claim.node) {
                pass.wait(agreement, claims::lock_of(claim));
            }
            work(pass, &unit, claim, stored);
        }
        None => match drain::next_step(pass, &unit) {
            Some(first) => wait_for(pass, &unit, &first),
            None if unit.dirty.is_empty() => finish(pass, &unit, stored),
            None => next_step(pass, &unit, stored),
        },
    }
}

fn wait_for(pass: &mut Pass<'_>, unit: &Unit<'_>, first: &NodeId) {
    for slot in &unit.dirty {
        recheck(pass, slot.agreement);
        pass.wait(slot.agreement, Blocked::PeerFirst { node: first.clone() });
    }
}

/// Digest of what a rollout leads to: service and version list.
pub(crate) fn target_digest(policy: &DeploymentPolicyFacts) -> u64 {
    let versions: Vec<String> =
        policy.versions.iter().map(|entry| format!("{} {}", entry.version, entry.priority)).collect();
    stable_hash(&[policy.service.as_str(), &versions.join(",")])
}

/// The copies to be replaced and those to be taken off, in the order of their nodes.
fn copies_to_change<'a>(
    pass: &Pass<'a>,
    group: &HaGroupFacts,
    policy: &DeploymentPolicyFacts,
) -> (Vec<Slot<'a>>, Vec<&'a Agreement>) {
    let model = pass.model;
    let copies = group.members.iter().filter_map(|member| model.live_agreement(member, &policy.id));
    let (mut dirty, mut leaving) = (Vec::new(), Vec::new());
    for agreement in copies.filter(|one| one.finalized_at().is_some() && !pass.is_stopping(one)) {
        match matching::fit(model, agreement, pass.now) {
            Fit::Outdated(choice) => dirty.push(Slot { agreement, choice }),
            Fit::Leaving => leaving.push(agreement),
            Fit::Clean(_) | Fit::Lost(_) | Fit::Unclear(_) => {}
        }
    }
    (dirty, leaving)
}

/// Nobody holds the claim and copies are outdated: choose the next one and ask for the claim.
fn next_step(pass: &mut Pass<'_>, unit: &Unit<'_>, stored: Option<&Rollout>) {
    let now = pass.now;
    let blocked = unit.rollout.and_then(|rollout| match &rollout.state {
        RolloutState::Held { hold, since } if !has_caught_up(pass, unit, hold) => {
            Some(Blocked::RolloutHeld { hold: (**hold).clone(), since: *since })
        }
        _ => {
            let until = later(rollout.last_step_at?, unit.update.delay_secs);
            (now < until).then_some(Blocked::Delay { until })
        }
    });
    if let Some(blocked) = blocked.or_else(|| just_started(pass)).or_else(|| too_many_groups(pass, unit)) {
        for slot in &unit.dirty {
            pass.wait(slot.agreement, blocked.clone());
            match blocked {
                // A wait with a known end is looked at again when it ends.
                Blocked::Delay { until } | Blocked::JustStarted { until } => {
                    pass.watch((&slot.agreement.node, &slot.agreement.policy), until);
                }
                _ => recheck(pass, slot.agreement),
            }
        }
        return;
    }
    begin(pass, unit, stored);
    let mut order: Vec<&Slot<'_>> = unit.dirty.iter().collect();
    // Copies that do not run have nothing to lose.
    order.sort_by_key(|slot| {
        (pass.model.observed(slot.agreement, now) == Observed::Running, slot.agreement.node.clone())
    });
    let mut chosen: Option<NodeId> = None;
    for slot in order {
        recheck(pass, slot.agreement);
        if let Some(first) = &chosen {
            pass.wait(slot.agreement, Blocked::PeerFirst { node: first.clone() });
            continue;
        }
        let step = (Purpose::ServiceUpgrade, slot.choice.version.clone());
        match request_for(pass, unit, slot.agreement, &slot.choice.key, step) {
            Ok(request) => {
                chosen = Some(slot.agreement.node.clone());
                pass.wait(slot.agreement, Blocked::ClaimRequested);
                let pair = (&slot.agreement.node, &slot.agreement.policy);
                pass.issue(unit.lease, Action::TakeClaim { request: Box::new(request) }, pair);
            }
            Err(blocked) => pass.wait(slot.agreement, blocked),
        }
    }
}

pub(super) fn recheck(pass: &mut Pass<'_>, agreement: &Agreement) {
    pass.watch((&agreement.node, &agreement.policy), later(pass.now, RECHECK_SECS));
}

/// What was read first may be older than what is true.
pub(super) fn just_started(pass: &Pass<'_>) -> Option<Blocked> {
    let until = later(pass.model.began_at?, pass.model.settings.rejoin_grace_secs);
    (pass.now < until).then_some(Blocked::JustStarted { until })
}

/// The limit on groups that are rolled at the same time.
fn too_many_groups(pass: &Pass<'_>, unit: &Unit<'_>) -> Option<Blocked> {
    let limit = unit.update.parallelism as usize;
    if limit == 0 {
        return None;
    }
    let mut busy = pass.model.claims().filter(|claim| claim.scope == Scope::Policy(unit.policy.id.clone()));
    busy.nth(limit - 1).map(|claim| Blocked::PeerFirst { node: claim.node.clone() })
}

/// The gates before a member may be touched: it must be heard, the group must be free, the floor must hold.
///
/// `wanted`: the service that its copy makes room for.
pub(super) fn request_for(
    pass: &Pass<'_>,
    unit: &Unit<'_>,
    agreement: &Agreement,
    wanted: &ServiceKey,
    (purpose, version): (Purpose, String),
) -> Result<ClaimRequest, Blocked> {
    let (model, now) = (pass.model, pass.now);
    let node = &agreement.node;
    if let Liveness::Down { since } = model.liveness(node, now) {
        // It could not obey now, and would stop its copy at some later time when nobody looks.
        return Err(Blocked::NodeDown { since });
    }
    let mut request = ClaimRequest {
        group: unit.group.id.clone(),
        scope: Scope::Policy(unit.policy.id.clone()),
        node: node.clone(),
        purpose,
        version,
        deadline: later(now, unit.update.start_timeout_secs),
        seen_running: Vec::new(),
    };
    let rows: Vec<Claim> = model.claims_of(&unit.group.id).cloned().collect();
    claims::may_take(&rows, &request, unit.group)?;
    request.seen_running = floor::may_stop(pass, unit.group, agreement, wanted)?;
    Ok(request)
}

/// Records that a rollout began, or goes on after the stalled member caught up.
fn begin(pass: &mut Pass<'_>, unit: &Unit<'_>, stored: Option<&Rollout>) {
    let rollout = match unit.rollout {
        Some(rollout) if rollout.state == RolloutState::Updating => return,
        // What leads back goes on doing so for members that come later.
        Some(rollout) if rollout.is_open() || rollout.rollback.is_some() => {
            Rollout { state: RolloutState::Updating, ..rollout.clone() }
        }
        _ => new_rollout(pass, unit, stored),
    };
    record(pass, unit.lease, rollout);
}

fn new_rollout(pass: &mut Pass<'_>, unit: &Unit<'_>, stored: Option<&Rollout>) -> Rollout {
    if unit.update.order == UpdateOrder::StartFirst {
        let text = format!(
            "{} of {} in {}: stop first, because a node holds one agreement of a policy",
            target_text(unit),
            unit.policy.id,
            unit.group.id
        );
        pass.tell("update.order-degraded", text);
    }
    let model = pass.model;
    let members = unit.group.members.iter();
    let copies = members.filter_map(|member| model.live_agreement(member, &unit.policy.id));
    let copies = copies.filter(|agreement| agreement.finalized_at().is_some());
    Rollout {
        group: unit.group.id.clone(),
        policy: unit.policy.id.clone(),
        target: target_text(unit),
        target_digest: unit.digest,
        started_at: pass.now,
        // A group has far fewer members than a u32 counts.
        total: u32::try_from(unit.dirty.len()).unwrap_or(u32::MAX),
        done: 0,
        failed: Vec::new(),
        last_step_at: None,
        previous_version: rollback::previous_version(unit.policy, copies, stored),
        rollback: None,
        // The row's count goes on, whatever rollout it held before.
        revision: stored.map_or(0, |stored| stored.revision),
        state: RolloutState::Updating,
    }
}

fn target_text(unit: &Unit<'_>) -> String {
    let version = unit.dirty.first().map_or("", |slot| &slot.choice.version);
    format!("{} {version}", unit.policy.service)
}

/// Writes what becomes of a rollout, `rollout` being based on the newest row.
fn record(pass: &mut Pass<'_>, lease: Lease, mut rollout: Rollout) {
    let kind = match (&rollout.state, &rollout.rollback) {
        (RolloutState::Updating, None) => "rollout.updating",
        (RolloutState::Updating, Some(_)) => "rollout.going-back",
        (RolloutState::Held { .. }, _) => "rollout.held",
        (RolloutState::Completed { .. }, None) => "rollout.completed",
        (RolloutState::Completed { .. }, Some(_)) => "rollout.rollback-completed",
        (RolloutState::Abandoned { .. }, _) => "rollout.abandoned",
    };
    let why = match (&rollout.state, &rollout.rollback) {
        (RolloutState::Held { hold, .. }, _) => format!(": {hold}"),
        (RolloutState::Abandoned { why, .. }, _) => format!(": {why}"),
        (_, Some(back)) => format!(", back to {}: {}", back.version, back.why),
        _ => String::new(),
    };
    let text = format!("{} of {} in {}{why}", rollout.target, rollout.policy, rollout.group);
    rollout.revision += 1;
    if pass.issue_for_group(lease, Action::RecordRollout { rollout: Box::new(rollout) }) {
        pass.tell(kind, text);
    }
}

/// Nothing is outdated and nobody holds the claim.
fn finish(pass: &mut Pass<'_>, unit: &Unit<'_>, stored: Option<&Rollout>) {
    let Some(stored) = stored else { return };
    let is_current = unit.rollout.is_some();
    let is_over = match &stored.state {
        RolloutState::Updating => !is_current || has_everybody_back(pass, unit, stored),
        RolloutState::Held { hold, .. } => !is_current || has_caught_up(pass, unit, hold),
        RolloutState::Completed { .. } | RolloutState::Abandoned { .. } => false,
    };
    if !is_over {
        return;
    }
    let state = if is_current {
        RolloutState::Completed { at: pass.now }
    } else {
        RolloutState::Abandoned { at: pass.now, why: ReleaseReason::Superseded }
    };
    let done = if is_current && stored.rollback.is_some() { stored.total } else { stored.done };
    record(pass, unit.lease, Rollout { state, done, ..stored.clone() });
}

/// Going back is over when the members on which the new version failed run the old one again; one that never does holds it.
fn has_everybody_back(pass: &mut Pass<'_>, unit: &Unit<'_>, rollout: &Rollout) -> bool {
    let Some(node) = rollback::laggard(pass.model, rollout, pass.now) else { return true };
    if let Some(hold) = rollback::overdue(pass.model, rollout, node, pass.now) {
        let state = RolloutState::Held { hold: Box::new(hold), since: pass.now };
        record(pass, unit.lease, Rollout { state, ..rollout.clone() });
    }
    false
}

fn abandon(pass: &mut Pass<'_>, lease: Lease, rollout: &Rollout) {
    if matches!(rollout.state, RolloutState::Updating | RolloutState::Held { .. }) {
        let policy_gone = pass.model.policy(&rollout.policy).is_none();
        let why = if policy_gone { ReleaseReason::PolicyRemoved } else { ReleaseReason::GroupRemoved };
        record(
            pass,
            lease,
            Rollout { state: RolloutState::Abandoned { at: pass.now, why }, ..rollout.clone() },
        );
    }
}

/// Answers whether the reason for a hold is over by itself: the member runs the wanted version after all, or the service
/// is no longer meant for it. A user's pause and a failed version end by a user's word only.
fn has_caught_up(pass: &Pass<'_>, unit: &Unit<'_>, hold: &HoldReason) -> bool {
    let (HoldReason::StepStalled { node, .. } | HoldReason::StepFailed { node, .. }) = hold else {
        return false;
    };
    if !unit.group.members.contains(node) {
        return true;
    }
    let runs_wanted = pass.model.live_agreement(node, &unit.policy.id).is_some_and(|agreement| {
        matches!(matching::fit(pass.model, agreement, pass.now), Fit::Clean(_))
            && pass.model.observed(agreement, pass.now) == Observed::Running
    });
    match hold {
        HoldReason::StepStalled { .. } => {
            runs_wanted
                || !matching::is_intended(pass.model, node, &unit.policy.id, pass.now)
                || pass.model.availability(node) == Availability::Drain
        }
        _ => unit.dirty.is_empty() && runs_wanted,
    }
}

/// Somebody holds the claim: carry its step on.
fn work(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, stored: Option<&Rollout>) {
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
        && let Some(reason) = failure_since(pass, unit, claim)
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

fn work_without_agreement(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim) {
    if claim.phase == Phase::Stopping {
        return advance(pass, unit, claim, Phase::Starting, start_deadline(pass, unit));
    }
    if pass.model.availability(&claim.node) == Availability::Drain {
        return release(pass, unit, claim, ReleaseReason::NodeDraining);
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

/// Answers whether the holder of the claim may be touched this instant; if it may not, the claim is released, or the copy
/// waits. `wanted`: the service that the copy makes room for.
pub(super) fn may_stop_now(
    pass: &mut Pass<'_>,
    unit: &Unit<'_>,
    claim: &Claim,
    agreement: &Agreement,
    wanted: &ServiceKey,
) -> bool {
    if let Some(blocked) = just_started(pass) {
        recheck(pass, agreement);
        pass.wait(agreement, blocked);
        return false;
    }
    let blocked = match pass.model.liveness(&claim.node, pass.now) {
        Liveness::Down { since } => Some(Blocked::NodeDown { since }),
        _ => floor::may_stop(pass, unit.group, agreement, wanted).err(),
    };
    match blocked {
        None => true,
        Some(blocked) => {
            release(pass, unit, claim, ReleaseReason::FloorLost);
            pass.wait(agreement, blocked);
            false
        }
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
            let blocked = Blocked::NotSeenRunning { agreement: agreement.id.clone(), since: final_at };
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
            let left = u32::try_from(unit.dirty.len()).unwrap_or(u32::MAX);
            let done = rollout.total.saturating_sub(left).max(rollout.done);
            record(pass, unit.lease, Rollout { done, last_step_at: Some(pass.now), ..rollout.clone() });
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
    give_up(pass, unit, claim, HoldReason::StepFailed { node, version, reason }, ReleaseReason::Failed);
}

fn give_up(pass: &mut Pass<'_>, unit: &Unit<'_>, claim: &Claim, reason: HoldReason, why: ReleaseReason) {
    let Some(rollout) = unit.rollout.filter(|_| !is_recorded(unit, claim)) else {
        return release(pass, unit, claim, why);
    };
    let update = unit.update;
    let mut rollout = Rollout { last_step_at: Some(pass.now), ..rollout.clone() };
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
