//! Continues the step of the member that holds its group's claim, up to the release.
//!
//! Source: orchestration B11, E4, E5.

use evenkeel_ids::NodeId;
use evenkeel_placement::matching::{Choice, Fit};
use evenkeel_planner_model::{
    command::Action,
    model::{Observed, selection},
    pass::Pass,
};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, CancelReason},
    claims::{Claim, Phase, Purpose, ReleaseReason},
    facts::Availability,
    report::{Blocked, HoldReason},
    rollout::{Rollout, RolloutState},
    time::{later, secs_since},
    workload::UpdateState,
};
use evenkeel_reconcile::supervise::rules;
use jiff::Timestamp;

use super::{
    drain,
    group_rollout::GroupRollout,
    progress::{begin, record},
    rollback,
    stop::{self, Candidate},
};
use crate::agreement_end;

/// Continues the step of the claim's holder.
pub(super) fn work(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    stored: Option<&Rollout>,
) {
    let model = pass.model;
    // Claim expiry releases these.
    if !group_rollout.group.members.contains(&claim.node) || model.node(&claim.node).is_none() {
        return;
    }
    if claim.purpose == Purpose::Drain {
        return drain::work(pass, group_rollout, claim);
    }
    if model.is_down(&claim.node, pass.now) {
        return set_aside(pass, group_rollout, claim);
    }
    let pair = (&claim.node, &group_rollout.policy.id);
    pass.watch(pair, claim.deadline);
    if group_rollout.current.is_none() && !group_rollout.dirty.is_empty() {
        begin(pass, group_rollout, stored);
    }
    if claim.phase != Phase::Stopping
        && let Some(reason) =
            failure_since(pass, group_rollout, claim).or_else(|| crash_loop(pass, group_rollout, claim))
    {
        return fail(pass, group_rollout, claim, reason);
    }
    match model.live_agreement(&claim.node, &group_rollout.policy.id) {
        None => work_without_agreement(pass, group_rollout, claim),
        Some(agreement) if pass.is_stopping(agreement) => check_deadline(pass, group_rollout, claim, None),
        Some(agreement) => match agreement.state {
            AgreementState::Finalized { at } => {
                work_with_agreement(pass, group_rollout, claim, agreement, at);
            }
            _ => {
                let until = agreement.reply_by;
                let blocked = Blocked::WaitingForReply { agreement: agreement.id.clone(), until };
                if claim.phase == Phase::Stopping {
                    advance(pass, group_rollout, claim, Phase::Starting, start_deadline(pass, group_rollout));
                } else {
                    check_deadline(pass, group_rollout, claim, Some(blocked));
                }
            }
        },
    }
}

fn start_deadline(pass: &Pass<'_>, group_rollout: &GroupRollout<'_>) -> Timestamp {
    group_rollout.update.start_deadline(pass.now)
}

/// Returns why the claim's version failed on its node since the claim was taken.
fn failure_since(pass: &Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim) -> Option<CancelReason> {
    let backoff = pass.model.backoff.get(&(claim.node.clone(), group_rollout.policy.id.clone()))?;
    let counts = backoff.failed_at >= claim.since
        && backoff.version == claim.version
        && backoff.reason.is_service_failure();
    counts.then_some(backoff.reason)
}

/// Returns the reason when the claim's version keeps exiting, so that waiting for it is pointless.
fn crash_loop(pass: &Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim) -> Option<CancelReason> {
    let agreement = pass.model.live_agreement(&claim.node, &group_rollout.policy.id)?;
    let is_looping = agreement.version == claim.version
        && pass.model.is_crash_looping(agreement, group_rollout.update.monitor_secs);
    is_looping.then_some(CancelReason(103))
}

fn work_without_agreement(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim) {
    if claim.phase == Phase::Stopping {
        return advance(pass, group_rollout, claim, Phase::Starting, start_deadline(pass, group_rollout));
    }
    if pass.model.availability(&claim.node) == Availability::Drain {
        return release(pass, group_rollout, claim, ReleaseReason::NodeDraining);
    }
    match selection::select(pass.model, &claim.node, &group_rollout.policy.id, pass.now) {
        Err(blocked) if blocked.is_incompatibility() => {
            release(pass, group_rollout, claim, ReleaseReason::NotWanted);
        }
        Err(blocked) => check_deadline(pass, group_rollout, claim, Some(blocked)),
        Ok(_) => check_deadline(pass, group_rollout, claim, None),
    }
}

fn work_with_agreement(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    agreement: &Agreement,
    final_at: Timestamp,
) {
    match selection::fit(pass.model, agreement, pass.now) {
        Fit::Outdated(choice) if claim.phase == Phase::Stopping && choice.version == claim.version => {
            stop(pass, group_rollout, claim, agreement, &choice);
        }
        Fit::Outdated(_) => release(pass, group_rollout, claim, ReleaseReason::Superseded),
        Fit::Lost(_) => release(pass, group_rollout, claim, ReleaseReason::NotWanted),
        Fit::Leaving => release(pass, group_rollout, claim, ReleaseReason::NodeDraining),
        Fit::Unclear(Blocked::NodePaused) => {
            release(pass, group_rollout, claim, ReleaseReason::AvailabilityChanged);
        }
        Fit::Unclear(blocked) => check_deadline(pass, group_rollout, claim, Some(blocked)),
        // A lower version by rollback, or the policy was edited back: the step did not reach its target.
        Fit::Clean(_) if agreement.version != claim.version => {
            release(pass, group_rollout, claim, ReleaseReason::Superseded);
        }
        Fit::Clean(_) if claim.phase == Phase::Stopping => {
            advance(pass, group_rollout, claim, Phase::Starting, start_deadline(pass, group_rollout));
        }
        Fit::Clean(_) => see(pass, group_rollout, claim, agreement, final_at),
    }
}

/// Stops the old instance if the minimum available still holds.
fn stop(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    agreement: &Agreement,
    choice: &Choice,
) {
    if pass.now >= claim.deadline {
        return release(pass, group_rollout, claim, ReleaseReason::DeadlinePassed);
    }
    let (wanted, version) = (&choice.key, choice.version.as_str());
    let candidate = Candidate { agreement, wanted, purpose: Purpose::ServiceUpgrade, version };
    if stop::may_stop_now(pass, group_rollout, claim, &candidate) {
        let claim = Some(claim.reference());
        agreement_end::cancel(
            pass,
            group_rollout.lease,
            agreement,
            CancelReason::POLICY_CHANGED,
            claim,
            true,
        );
        let text = format!("replacing {} by {}", agreement.version, choice.version);
        pass.act(&agreement.node, &agreement.policy, text);
    }
}

/// Checks whether the service of a final agreement runs, and monitors it.
fn see(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    agreement: &Agreement,
    final_at: Timestamp,
) {
    let (now, update) = (pass.now, group_rollout.update);
    let observed = pass.model.observed(agreement, now);
    match (observed, claim.phase) {
        (Observed::Running, Phase::Verifying) => {
            let until = update.monitored_until(claim.phase_since);
            if now >= until {
                return complete_step(pass, group_rollout, claim);
            }
            pass.watch((&claim.node, &group_rollout.policy.id), until);
            pass.wait(agreement, Blocked::BeingWatched { until });
        }
        (Observed::Running, _) => {
            // Reports arrive late: the verification may last that much longer than the monitoring time before it counts as stalled.
            let grace_secs = pass.model.unit_settings(group_rollout.policy.id.org()).report_grace_secs;
            let deadline = later(now, update.monitor_secs.saturating_add(grace_secs));
            advance(pass, group_rollout, claim, Phase::Verifying, deadline);
        }
        // Seen running before and seen not running now.
        (Observed::Absent, Phase::Verifying) => fail(pass, group_rollout, claim, CancelReason(103)),
        _ => {
            let why = pass.model.why_not_running(agreement, now);
            let blocked = Blocked::NotSeenRunning { agreement: agreement.id.clone(), since: final_at, why };
            pass.wait(agreement, blocked.clone());
            check_deadline(pass, group_rollout, claim, Some(blocked));
        }
    }
}

/// The rollout's row is written before the claim is released, so that a crash in between loses nothing: the next owner finds
/// the claim and repeats the release.
fn is_recorded(group_rollout: &GroupRollout<'_>, claim: &Claim) -> bool {
    group_rollout.current.is_none_or(|rollout| rollout.last_step_at >= Some(claim.phase_since))
}

fn complete_step(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim) {
    match group_rollout.current {
        Some(rollout) if !is_recorded(group_rollout, claim) => {
            let failed = match rollout.rollback {
                Some(_) => rollback::pending_members(pass.model, rollout, pass.now).count(),
                None => rollback::failed_members(pass.model, rollout, pass.now).count(),
            };
            let left = u32::try_from(group_rollout.dirty.len() + failed).unwrap_or(u32::MAX);
            let done = rules::done(rollout.done, rollout.total, left);
            let (last_step_at, last_node) = (Some(pass.now), Some(claim.node.clone()));
            let started_in = secs_since(claim.since, claim.phase_since);
            let rollout = Rollout {
                done,
                last_step_at,
                last_node,
                durations: rollout.durations.clone().with(started_in),
                ..rollout.clone()
            };
            record(pass, group_rollout.lease, rollout);
        }
        _ => release(pass, group_rollout, claim, ReleaseReason::Done),
    }
}

fn check_deadline(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    missing: Option<Blocked>,
) {
    if pass.now < claim.deadline {
        return;
    }
    let backoff = pass.model.backoff.get(&(claim.node.clone(), group_rollout.policy.id.clone()));
    let missing = missing.unwrap_or_else(|| match backoff {
        Some(backoff) => Blocked::BackingOff {
            until: backoff.not_before,
            failure_count: backoff.failure_count,
            reason: backoff.reason,
        },
        None => Blocked::ClaimReleased { why: ReleaseReason::DeadlinePassed },
    });
    let (node, version) = (claim.node.clone(), claim.version.clone());
    let reason = HoldReason::StepStalled { node, version, missing: Box::new(missing) };
    give_up(pass, group_rollout, claim, reason, ReleaseReason::DeadlinePassed);
}

/// Ends the step of a member that is down: no other one waits for it, and it gets the version when it is back. It is neither done nor failed.
///
/// # Source
/// Orchestration B11.3.
fn set_aside(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim) {
    let Some(rollout) = group_rollout.current.filter(|_| !is_recorded(group_rollout, claim)) else {
        return release(pass, group_rollout, claim, ReleaseReason::NodeSilent);
    };
    // What has not been stopped is still to be replaced.
    let is_left = group_rollout.dirty.iter().any(|slot| slot.agreement.node == claim.node);
    let total = rollout.total.saturating_sub(u32::from(!is_left));
    let last_step_at = Some(pass.now);
    record(pass, group_rollout.lease, Rollout { total, last_step_at, last_node: None, ..rollout.clone() });
}

/// Ends a step whose new version failed, and holds the rollout when too many failed.
fn fail(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim, reason: CancelReason) {
    let (node, version) = (claim.node.clone(), claim.version.clone());
    let detail = pass.model.failure_text(&node, &group_rollout.policy.service, &version);
    let reason = HoldReason::StepFailed { node, version, reason, detail };
    give_up(pass, group_rollout, claim, reason, ReleaseReason::Failed);
}

fn give_up(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    reason: HoldReason,
    why: ReleaseReason,
) {
    let Some(rollout) = group_rollout.current.filter(|_| !is_recorded(group_rollout, claim)) else {
        return release(pass, group_rollout, claim, why);
    };
    record_failure(pass, group_rollout, rollout, &claim.node, reason);
}

/// Records the failure of the member whose step was finished last, if it failed while the next one waits for its delay. Returns whether it did.
///
/// # Source
/// Orchestration B11.6.
pub(super) fn note_late_failure(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>) -> bool {
    let Some(rollout) = group_rollout.current.filter(|one| one.state == RolloutState::Updating) else {
        return false;
    };
    let (Some(node), Some(done_at)) = (&rollout.last_node, rollout.last_step_at) else { return false };
    let update = &group_rollout.update;
    let judged_until = later(done_at, update.judged_secs() - update.monitor_secs);
    if rollout.failed.contains(node) || pass.now > judged_until {
        return false;
    }
    let (model, policy) = (pass.model, &group_rollout.policy.id);
    let agreement = model.live_agreement(node, policy);
    let backoff = model.backoff.get(&(node.clone(), policy.clone()));
    let backoff = backoff.filter(|one| one.failed_at >= done_at && one.reason.is_service_failure());
    let is_down = |one: &&Agreement| {
        model.is_crash_looping(one, update.judged_secs()) || model.observed(one, pass.now) == Observed::Absent
    };
    let (version, reason) = match (backoff, agreement.filter(is_down)) {
        (Some(backoff), _) => (backoff.version.clone(), backoff.reason),
        (None, Some(agreement)) => (agreement.version.clone(), CancelReason(103)),
        (None, None) => return false,
    };
    let detail = model.failure_text(node, &group_rollout.policy.service, &version);
    let reason = HoldReason::StepFailed { node: node.clone(), version, reason, detail };
    record_failure(pass, group_rollout, rollout, node, reason);
    true
}

fn record_failure(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    rollout: &Rollout,
    node: &NodeId,
    reason: HoldReason,
) {
    let update = group_rollout.update;
    let (last_step_at, last_node) = (Some(pass.now), Some(node.clone()));
    let mut rollout = Rollout { last_step_at, last_node, ..rollout.clone() };
    let is_failure = matches!(reason, HoldReason::StepFailed { .. });
    if is_failure && !rollout.failed.contains(node) {
        rollout.failed.push(node.clone());
    }
    let back = rollback::rollback_version(pass.model, group_rollout.policy, &rollout, &reason, pass.now);
    let back = back.map(str::to_owned);
    let counts = (u32::try_from(rollout.failed.len()).unwrap_or(u32::MAX), rollout.total);
    // The slot in work may fail while the rollout is held.
    let state = if rollout.rollback.is_some() { UpdateState::RollbackStarted } else { UpdateState::Updating };
    // A member that stalls is not a failure of the version, and is never passed over.
    let next = match is_failure {
        true => rules::after_failures(state, &update, counts, back.is_some()),
        false => Some(rules::after_failure(state, update.failure_action, back.is_some())),
    };
    rollout = match (next, back) {
        (None, _) => rollout,
        (Some(UpdateState::RollbackStarted), Some(version)) => {
            rollout.into_rollback(&version, reason, pass.now)
        }
        (Some(_), _) => {
            Rollout { state: RolloutState::Held { hold: Box::new(reason), since: pass.now }, ..rollout }
        }
    };
    record(pass, group_rollout.lease, rollout);
}

fn advance(
    pass: &mut Pass<'_>,
    group_rollout: &GroupRollout<'_>,
    claim: &Claim,
    phase: Phase,
    deadline: Timestamp,
) {
    let action = Action::AdvanceClaim { claim: claim.reference(), phase, deadline };
    pass.issue(group_rollout.lease, action, (&claim.node, &group_rollout.policy.id));
}

fn release(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, claim: &Claim, why: ReleaseReason) {
    super::claim_expiry::release(pass, group_rollout.lease, claim, why);
}

#[cfg(test)]
mod tests {
    use evenkeel_domain::orchestration::org_settings::OrgSettings;
    use evenkeel_ids::{GroupId, NodeId};
    use evenkeel_planner_model::{event::Event, group_fixture::running_group};
    use evenkeel_planner_record::{
        claims::Scope,
        facts::NodeStatusFacts,
        fixture::{at, deployment_policy, service},
        settings::PlannerSettings,
    };

    use super::*;

    #[test]
    fn verification_waits_as_long_for_late_reports_as_the_organization_says() {
        let (mut model, now) = running_group(&["a", "b"]);
        let leases = (0..PlannerSettings::default().partition_count).map(|number| (number, 1)).collect();
        model.apply(&Event::PartitionsChanged { leases }, now);
        for node in ["a", "b"].map(|name| NodeId::new("o", name)) {
            // What was reported before the leases does not count.
            let status = model.node(&node).and_then(|record| record.status.clone());
            let status = status.map(|status| Box::new(NodeStatusFacts { reported_at: Some(now), ..status }));
            model.apply(&Event::NodeStatusChanged { node, status }, now);
        }
        model.apply(&Event::ServiceChanged { service: Box::new(service("s", "1.0.0")) }, now);
        model.apply(&Event::DeploymentPolicyChanged { policy: Box::new(deployment_policy()) }, now);
        let settings = OrgSettings::read(serde_json::json!({"reportGraceSeconds": 7})).expect("settings");
        let org = "o".parse().expect("an organization");
        model.apply(&Event::OrgSettingsChanged { org, settings: Box::new(settings) }, now);
        let policy = deployment_policy().id;
        let claim = Claim {
            group: GroupId::new("o", "g"),
            scope: Scope::Policy(policy.clone()),
            node: NodeId::new("o", "a"),
            purpose: Purpose::ServiceUpgrade,
            version: "1.0.0".into(),
            fencing: 1,
            phase: Phase::Starting,
            since: at(90),
            phase_since: at(90),
            deadline: at(200),
        };
        model.apply(&Event::ClaimRecorded { claim: Box::new(claim.clone()) }, now);
        let mut pass = Pass::new(&model, now, 1);
        let agreement = model.live_agreement(&claim.node, &policy).expect("an agreement");
        let group_rollout = GroupRollout {
            lease: pass.lease_for_group(&claim.group).expect("a lease"),
            group: model.group(&claim.group).expect("the group"),
            policy: model.policy(&policy).expect("the policy"),
            digest: 0,
            update: model.update_settings(&policy),
            dirty: Vec::new(),
            leaving: Vec::new(),
            current: None,
        };
        see(&mut pass, &group_rollout, &claim, agreement, at(1));
        let decision = pass.finish();
        let deadline = decision.commands.iter().find_map(|command| match &command.action {
            Action::AdvanceClaim { phase: Phase::Verifying, deadline, .. } => Some(*deadline),
            _ => None,
        });
        assert_eq!(deadline, Some(later(now, model.update_settings(&policy).monitor_secs + 7)));
    }
}
