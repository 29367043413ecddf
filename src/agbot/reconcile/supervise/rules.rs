//! The rules of an update, whatever its slots are: the instances of a policy in a group, or the tasks of a workload.
//!
//! A group rollout counts what fails in its group only, and so holds its group only; an update counts the whole workload. Source: orchestration B11,
//! B12; engine 6 (`update.hold`).

use evenkeel_planner_record::{
    settings::{FailureAction, UpdateSettings},
    workload::{UpdateEvent, UpdateState, next_state},
};

/// Returns slots in the order in which they are replaced: what does not run loses nothing.
///
/// # Shape
/// `slots`: in their own order, which is kept otherwise.
pub fn in_order<S>(mut slots: Vec<S>, is_running: impl FnMut(&S) -> bool) -> Vec<S> {
    slots.sort_by_cached_key(is_running);
    slots
}

/// Returns the number of slots that are done; it never goes back while the update lasts.
pub fn done(done: u32, total: u32, left: u32) -> u32 {
    done.max(total.saturating_sub(left))
}

/// Returns the state of an update after some of its slots failed; none while that many are tolerated.
pub fn after_failures(
    state: UpdateState,
    settings: &UpdateSettings,
    (failed, total): (u32, u32),
    can_roll_back: bool,
) -> Option<UpdateState> {
    let ratio = f64::from(failed) / f64::from(total.max(1));
    let is_tolerated =
        ratio <= settings.max_failure_ratio || settings.failure_action == FailureAction::Continue;
    (!is_tolerated).then(|| after_failure(state, settings.failure_action, can_roll_back))
}

/// Returns the state of an update after a failure that is not tolerated. One that cannot be rolled back is paused.
pub fn after_failure(state: UpdateState, action: FailureAction, can_roll_back: bool) -> UpdateState {
    let next = next_state(state, UpdateEvent::Failed(action)).unwrap_or(state);
    match (next, state) {
        (UpdateState::RollbackStarted, UpdateState::Updating) if !can_roll_back => UpdateState::Paused,
        _ => next,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_planner_record::settings::PlannerSettings;

    use super::*;

    fn after(state: UpdateState, action: FailureAction, can_roll_back: bool) -> Option<UpdateState> {
        let base = PlannerSettings::default().update;
        let settings = UpdateSettings { max_failure_ratio: 0.4, failure_action: action, ..base };
        assert_eq!(
            after_failures(state, &settings, (2, 5), can_roll_back),
            None,
            "two of five are tolerated"
        );
        after_failures(state, &settings, (3, 5), can_roll_back)
    }

    #[test]
    fn failures_beyond_the_tolerated_share_pause_the_update_or_roll_it_back_once() {
        use FailureAction::{Continue, Pause, Rollback};
        use UpdateState::{Paused, RollbackPaused, RollbackStarted, Updating};
        assert_eq!(after(Updating, Pause, true), Some(Paused));
        assert_eq!(after(Updating, Rollback, true), Some(RollbackStarted));
        assert_eq!(after(Updating, Rollback, false), Some(Paused));
        assert_eq!(after(RollbackStarted, Rollback, true), Some(RollbackPaused));
        assert_eq!(after(RollbackStarted, Rollback, false), Some(RollbackPaused));
        assert_eq!(after(Updating, Continue, true), None);
    }

    #[test]
    fn what_does_not_run_is_first_and_the_number_of_done_slots_never_goes_back() {
        assert_eq!(in_order(vec!["a", "b", "c"], |slot| *slot != "b"), ["b", "a", "c"]);
        assert_eq!([done(0, 5, 3), done(4, 5, 3), done(0, 5, 9)], [2, 4, 0]);
    }
}
