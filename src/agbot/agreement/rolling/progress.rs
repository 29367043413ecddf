//! State changes of a rollout (begun, paused, completed, abandoned), each written to its row.
//!
//! Source: orchestration B11, E5.

use evenkeel_placement::matching::Fit;
use evenkeel_planner_model::{
    command::Action,
    model::{Observed, selection},
    pass::Pass,
};
use evenkeel_planner_record::{
    claims::ReleaseReason,
    facts::Availability,
    lease::Lease,
    report::HoldReason,
    rollout::{Rollout, RolloutState},
    settings::UpdateOrder,
};

use super::{group_rollout::GroupRollout, rollback};

/// Records that a rollout began, or continues after the stalled member caught up.
pub(super) fn begin(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, stored: Option<&Rollout>) {
    let rollout = match group_rollout.current {
        Some(rollout) if rollout.state == RolloutState::Updating => return,
        // A rollback also applies to members that join later.
        Some(rollout) if rollout.is_open() || rollout.rollback.is_some() => {
            Rollout { state: RolloutState::Updating, ..rollout.clone() }
        }
        _ => new_rollout(pass, group_rollout, stored),
    };
    record(pass, group_rollout.lease, rollout);
}

fn new_rollout(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, stored: Option<&Rollout>) -> Rollout {
    if group_rollout.update.order == UpdateOrder::StartFirst {
        let text = format!(
            "{} of {} in {}: stop first, because a node holds one agreement of a policy",
            target_text(group_rollout),
            group_rollout.policy.id,
            group_rollout.group.id
        );
        pass.emit("update.order-degraded", text);
    }
    let model = pass.model;
    let members = group_rollout.group.members.iter();
    let agreements = members.filter_map(|member| model.live_agreement(member, &group_rollout.policy.id));
    let agreements = agreements.filter(|agreement| agreement.finalized_at().is_some());
    let previous = rollback::previous_version(group_rollout.policy, agreements, stored);
    let (previous_version, previous_overrides) = previous.unzip();
    Rollout {
        group: group_rollout.group.id.clone(),
        policy: group_rollout.policy.id.clone(),
        target: target_text(group_rollout),
        target_digest: group_rollout.digest,
        started_at: pass.now,
        total: u32::try_from(group_rollout.dirty.len()).unwrap_or(u32::MAX),
        done: 0,
        failed: Vec::new(),
        last_step_at: None,
        last_node: None,
        previous_version,
        previous_overrides: previous_overrides.unwrap_or_default(),
        rollback: None,
        durations: stored.map(|stored| stored.durations.clone().of_next()).unwrap_or_default(),
        // The revision continues across rollouts of the same row.
        revision: stored.map_or(0, |stored| stored.revision),
        state: RolloutState::Updating,
    }
}

fn target_text(group_rollout: &GroupRollout<'_>) -> String {
    let version = group_rollout.dirty.first().map_or("", |slot| &slot.choice.version);
    format!("{} {version}", group_rollout.policy.service)
}

/// Writes a new state of a rollout; `rollout` is based on the newest row.
pub(super) fn record(pass: &mut Pass<'_>, lease: Lease, mut rollout: Rollout) {
    let kind = match (&rollout.state, &rollout.rollback) {
        (RolloutState::Updating, None) => "rollout.updating",
        (RolloutState::Updating, Some(_)) => "rollout.going-back",
        (RolloutState::Held { .. }, _) => "rollout.paused",
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
        pass.emit(kind, text);
    }
}

/// Handles a group rollout with nothing outdated and no claim.
pub(super) fn finish(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, stored: Option<&Rollout>) {
    let Some(stored) = stored else { return };
    let is_current = group_rollout.current.is_some();
    let is_over = match &stored.state {
        RolloutState::Updating => !is_current || is_rollback_complete(pass, group_rollout, stored),
        RolloutState::Held { hold, .. } => !is_current || has_caught_up(pass, group_rollout, hold),
        // A changed target clears the remembered failure.
        RolloutState::Completed { .. } => !is_current && stored.remembers_failure(),
        RolloutState::Abandoned { .. } => false,
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
    record(pass, group_rollout.lease, Rollout { done, state, ..stored.clone() });
}

/// A rollback is complete when the members on which the new version failed run the old one again; one that never does holds it.
fn is_rollback_complete(pass: &mut Pass<'_>, group_rollout: &GroupRollout<'_>, rollout: &Rollout) -> bool {
    let Some(node) = rollback::pending_members(pass.model, rollout, pass.now).next() else { return true };
    if let Some(hold) = rollback::overdue(pass.model, rollout, node, pass.now) {
        let state = RolloutState::Held { hold: Box::new(hold), since: pass.now };
        record(pass, group_rollout.lease, Rollout { state, ..rollout.clone() });
    }
    false
}

pub(super) fn abandon(pass: &mut Pass<'_>, lease: Lease, rollout: &Rollout) {
    if rollout.is_open() || rollout.remembers_failure() {
        let why = match (pass.model.policy(&rollout.policy), pass.model.group(&rollout.group)) {
            (None, _) => ReleaseReason::PolicyRemoved,
            (_, None) => ReleaseReason::GroupRemoved,
            _ => ReleaseReason::TasksTakeOver,
        };
        record(
            pass,
            lease,
            Rollout { state: RolloutState::Abandoned { at: pass.now, why }, ..rollout.clone() },
        );
    }
}

/// Returns whether a hold ends by itself: the member runs the wanted version after all, is down, or the service is no longer
/// intended for it. A user's pause and a failed version end only by a user's action.
pub(super) fn has_caught_up(pass: &Pass<'_>, group_rollout: &GroupRollout<'_>, hold: &HoldReason) -> bool {
    let (HoldReason::StepStalled { node, .. } | HoldReason::StepFailed { node, .. }) = hold else {
        return false;
    };
    if !group_rollout.group.members.contains(node) {
        return true;
    }
    let runs_wanted = pass.model.live_agreement(node, &group_rollout.policy.id).is_some_and(|agreement| {
        matches!(selection::fit(pass.model, agreement, pass.now), Fit::Clean(_))
            && pass.model.observed(agreement, pass.now) == Observed::Running
    });
    match hold {
        HoldReason::StepStalled { .. } => {
            runs_wanted
                || pass.model.is_down(node, pass.now)
                || !selection::is_intended(pass.model, node, &group_rollout.policy.id, pass.now)
                || pass.model.availability(node) == Availability::Drain
        }
        _ => group_rollout.dirty.is_empty() && runs_wanted,
    }
}
