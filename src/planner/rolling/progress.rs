//! What becomes of a rollout: begun, held, completed, abandoned; each is a row that outlives the agbot.
//!
//! Source: orchestration B11, E5.

use super::{Rollout, RolloutState, rollback, unit::Unit};
use crate::{
    claims::ReleaseReason,
    command::{Action, Lease},
    facts::Availability,
    matching::{self, Fit},
    model::Observed,
    pass::Pass,
    report::HoldReason,
    settings::UpdateOrder,
};

/// Records that a rollout began, or goes on after the stalled member caught up.
pub(super) fn begin(pass: &mut Pass<'_>, unit: &Unit<'_>, stored: Option<&Rollout>) {
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
        last_node: None,
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
pub(super) fn record(pass: &mut Pass<'_>, lease: Lease, mut rollout: Rollout) {
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
pub(super) fn finish(pass: &mut Pass<'_>, unit: &Unit<'_>, stored: Option<&Rollout>) {
    let Some(stored) = stored else { return };
    let is_current = unit.rollout.is_some();
    let is_over = match &stored.state {
        RolloutState::Updating => !is_current || has_everybody_back(pass, unit, stored),
        RolloutState::Held { hold, .. } => !is_current || has_caught_up(pass, unit, hold),
        // Whoever names another version forgets the one that failed.
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
    record(pass, unit.lease, Rollout { state, done, ..stored.clone() });
}

/// Going back is over when the members on which the new version failed run the old one again; one that never does holds it.
fn has_everybody_back(pass: &mut Pass<'_>, unit: &Unit<'_>, rollout: &Rollout) -> bool {
    let Some(node) = rollback::laggards(pass.model, rollout, pass.now).next() else { return true };
    if let Some(hold) = rollback::overdue(pass.model, rollout, node, pass.now) {
        let state = RolloutState::Held { hold: Box::new(hold), since: pass.now };
        record(pass, unit.lease, Rollout { state, ..rollout.clone() });
    }
    false
}

pub(super) fn abandon(pass: &mut Pass<'_>, lease: Lease, rollout: &Rollout) {
    if rollout.is_open() || rollout.remembers_failure() {
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
pub(super) fn has_caught_up(pass: &Pass<'_>, unit: &Unit<'_>, hold: &HoldReason) -> bool {
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
