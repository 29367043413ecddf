//! Rollback: a group rollout whose new version failed returns to the version that ran before.
//!
//! The policy is not edited. During a rollback the members of the group are planned as if the policy named the older version
//! only; minimum available, claims and everything else are the same engine. Source: orchestration B11.7.

use evenkeel_ids::NodeId;
use evenkeel_placement::matching::Fit;
use evenkeel_planner_model::model::{Liveness, Model, Observed, selection};
use evenkeel_planner_record::{
    agreement::Agreement,
    claims::ReleaseReason,
    facts::{DeploymentOverrides, DeploymentPolicyFacts},
    report::{Blocked, HoldReason},
    rollout::Rollout,
    time::later,
};
use jiff::Timestamp;

/// Returns the version that all instances of a group rollout have, with its deployment overrides, if it is one of the policy's
/// service; if an older rollout was not finished, the version from which that rollout began: no other is known to work.
pub(super) fn previous_version<'a>(
    policy: &DeploymentPolicyFacts,
    mut agreements: impl Iterator<Item = &'a Agreement>,
    stored: Option<&Rollout>,
) -> Option<(String, DeploymentOverrides)> {
    let first = agreements.next()?;
    if first.service_key != policy.service {
        return None;
    }
    if let Some(open) = stored.filter(|rollout| rollout.is_open()) {
        return Some((open.previous_version.clone()?, open.previous_overrides.clone()));
    }
    let is_same = |one: &Agreement| {
        one.service_key == first.service_key
            && one.version == first.version
            && one.overrides.is_same_environment(&first.overrides)
    };
    agreements.all(is_same).then(|| (first.version.clone(), first.overrides.clone()))
}

/// Returns the version to which a rollout returns after a failure, if the failure counts against the new one: a silent member does not.
pub(super) fn rollback_version<'a>(
    model: &Model,
    policy: &DeploymentPolicyFacts,
    rollout: &'a Rollout,
    why: &HoldReason,
    now: Timestamp,
) -> Option<&'a str> {
    let speaks_against = match why {
        HoldReason::StepFailed { .. } => true,
        HoldReason::StepStalled { node, missing, .. } => {
            !matches!(**missing, Blocked::NodeDown { .. }) && model.liveness(node, now) == Liveness::Alive
        }
        _ => false,
    };
    let version = rollout.previous_version.as_deref().filter(|_| speaks_against)?;
    // Withdrawn meanwhile: there is no version to return to.
    model.services_of(&policy.service).find(|service| service.version == version)?;
    Some(version)
}

/// Returns the members on which the new version failed and that do not have the old one again yet, except those that no
/// longer belong to the rollout.
pub(super) fn pending_members<'a>(
    model: &'a Model,
    rollout: &'a Rollout,
    now: Timestamp,
) -> impl Iterator<Item = &'a NodeId> {
    let failed = failed_members(model, rollout, now).filter(|_| rollout.rollback.is_some());
    failed.filter(move |node| {
        model.may_start_on(node, now) && selection::is_intended(model, node, &rollout.policy, now)
    })
}

/// Returns the members on which a step failed and that do not run what the policy wants now.
pub(super) fn failed_members<'a>(
    model: &'a Model,
    rollout: &'a Rollout,
    now: Timestamp,
) -> impl Iterator<Item = &'a NodeId> {
    let members = model.group(&rollout.group).map(|group| &group.members);
    let failed = rollout.failed.iter();
    let failed = failed.filter(move |node| members.is_some_and(|members| members.contains(*node)));
    failed.filter(move |node| {
        let agreement = model.live_agreement(node, &rollout.policy);
        !agreement.is_some_and(|agreement| {
            matches!(selection::fit(model, agreement, now), Fit::Clean(_))
                && model.observed(agreement, now) == Observed::Running
        })
    })
}

/// Returns the reason when a member that is still to be rolled back exceeded the time of a step.
pub(super) fn overdue(model: &Model, rollout: &Rollout, node: &NodeId, now: Timestamp) -> Option<HoldReason> {
    let back = rollout.rollback.as_ref()?;
    let began = rollout.last_step_at.map_or(back.since, |at| at.max(back.since));
    if now < later(began, model.update_settings(&rollout.policy).start_timeout_secs) {
        return None;
    }
    let backoff = model.backoff.get(&(node.clone(), rollout.policy.clone()));
    let missing = match (model.live_agreement(node, &rollout.policy), backoff) {
        (Some(agreement), _) => {
            let since = agreement.finalized_at().unwrap_or(agreement.created_at);
            let why = model.why_not_running(agreement, now);
            Blocked::NotSeenRunning { agreement: agreement.id.clone(), since, why }
        }
        (None, Some(backoff)) => Blocked::BackingOff {
            until: backoff.not_before,
            failure_count: backoff.failure_count,
            reason: backoff.reason,
        },
        (None, None) => Blocked::ClaimReleased { why: ReleaseReason::DeadlinePassed },
    };
    let (node, version) = (node.clone(), back.version.clone());
    Some(HoldReason::StepStalled { node, version, missing: Box::new(missing) })
}
