//! Actions of users on a rollout: pause, resume, abort, rollback, retry.
//!
//! A pure step of the state table; the caller stores the result in the same transaction that read the row. The agbot that
//! owns the group reads it from there, so a request survives the restart of any agbot. Source: orchestration B12, 2.8.

use super::{Rollout, RolloutState};
use crate::{
    report::HoldReason,
    workload::{Requester, RolloutAction},
};

/// Returns the rollout after a user's action; `None` when it already is in that state.
///
/// # Errors
/// A message, when the rollout's state does not allow the action.
pub fn act(
    rollout: &Rollout,
    action: RolloutAction,
    requester: Requester<'_>,
) -> Result<Option<Rollout>, String> {
    let next = match (action, &rollout.state) {
        (RolloutAction::Pause, RolloutState::Updating) => {
            held(rollout, HoldReason::Paused { actor: requester.actor.to_owned() }, requester)
        }
        (RolloutAction::Pause, RolloutState::Held { .. }) if rollout.rollback.is_none() => return Ok(None),
        (RolloutAction::Abort, RolloutState::Updating | RolloutState::Held { .. }) => {
            let hold = HoldReason::Aborted { actor: requester.actor.to_owned() };
            if is_held_by(rollout, &hold) {
                return Ok(None);
            }
            held(rollout, hold, requester)
        }
        (RolloutAction::Resume, RolloutState::Held { .. }) => {
            Rollout { state: RolloutState::Updating, ..rollout.clone() }
        }
        (RolloutAction::Rollback, state) => back(rollout, state, requester)?,
        (RolloutAction::Retry, state) => retry(rollout, state, requester)?,
        (_, state) => {
            return Err(format!(
                "the rollout of {} in {} is {}",
                rollout.target,
                rollout.group,
                state_name(state)
            ));
        }
    };
    Ok(Some(Rollout { revision: rollout.revision + 1, ..next }))
}

fn held(rollout: &Rollout, hold: HoldReason, requester: Requester<'_>) -> Rollout {
    Rollout { state: RolloutState::Held { hold: Box::new(hold), since: requester.now }, ..rollout.clone() }
}

fn is_held_by(rollout: &Rollout, hold: &HoldReason) -> bool {
    matches!(&rollout.state, RolloutState::Held { hold: one, .. } if **one == *hold)
}

fn back(rollout: &Rollout, state: &RolloutState, requester: Requester<'_>) -> Result<Rollout, String> {
    let name = format!("the rollout of {} in {}", rollout.target, rollout.group);
    if rollout.rollback.is_some() {
        return Err(format!("{name} is already rolling back"));
    }
    if let RolloutState::Abandoned { .. } = state {
        return Err(format!("{name} is {}", state_name(state)));
    }
    let Some(version) = rollout.previous_version.clone() else {
        return Err(format!("{name} has no single version to return to"));
    };
    let why = HoldReason::RollbackRequested { actor: requester.actor.to_owned() };
    Ok(rollout.clone().into_rollback(&version, why, requester.now))
}

/// Returns the rollout restarted toward the version that failed.
fn retry(rollout: &Rollout, state: &RolloutState, requester: Requester<'_>) -> Result<Rollout, String> {
    let again = Rollout { state: RolloutState::Updating, failed: Vec::new(), ..rollout.clone() };
    match state {
        _ if rollout.remembers_failure() => {
            let total = rollout.rollback.as_ref().map_or(0, |back| back.slots).max(rollout.total);
            Ok(Rollout { rollback: None, total, done: 0, started_at: requester.now, ..again })
        }
        RolloutState::Held { hold, .. } if hold.is_failure() => Ok(again),
        _ => Err(format!("nothing failed in the rollout of {} in {}", rollout.target, rollout.group)),
    }
}

fn state_name(state: &RolloutState) -> &'static str {
    match state {
        RolloutState::Updating => "not paused",
        RolloutState::Held { .. } => "paused",
        RolloutState::Abandoned { .. } => "abandoned",
        RolloutState::Completed { .. } => "completed",
    }
}

#[cfg(test)]
#[path = "action_tests.rs"]
mod tests;
