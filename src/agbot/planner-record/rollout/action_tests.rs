//! Every cell of the state table of B12 that a user's action can reach.

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use jiff::Timestamp;

use super::*;
use crate::{claims::ReleaseReason, facts::DeploymentOverrides, rollout::Rollback};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn rollout(state: RolloutState, goes_back: bool) -> Rollout {
    let back = Rollback {
        version: "1.0.0".into(),
        overrides: DeploymentOverrides::default(),
        why: HoldReason::RollbackRequested { actor: "o/bob".into() },
        since: NOW,
        slots: 2,
    };
    Rollout {
        group: GroupId::new("o", "g"),
        policy: PolicyId::new("o", "w"),
        target: "o/s 2.0.0".into(),
        target_digest: 1,
        started_at: NOW,
        total: 2,
        done: 1,
        failed: Vec::new(),
        last_step_at: None,
        last_node: None,
        previous_version: Some("1.0.0".into()),
        previous_overrides: DeploymentOverrides::default(),
        durations: crate::rollout::StepDurations::default(),
        rollback: goes_back.then_some(back),
        revision: 7,
        state,
    }
}

fn paused() -> RolloutState {
    RolloutState::Held { hold: Box::new(HoldReason::Paused { actor: "o/bob".into() }), since: NOW }
}

fn failed() -> RolloutState {
    let reason = crate::agreement::CancelReason(104);
    let hold =
        HoldReason::StepFailed { node: NodeId::new("o", "n"), version: "2.0.0".into(), reason, detail: None };
    RolloutState::Held { hold: Box::new(hold), since: NOW }
}

/// The state after an action as B12 names it, `=` when nothing changes, 409 when the action is refused.
fn after(state: RolloutState, goes_back: bool, action: RolloutAction) -> String {
    let requester = Requester { actor: "o/ann", now: NOW };
    match act(&rollout(state, goes_back), action, requester) {
        Err(why) => {
            assert!(why.contains("o/s 2.0.0") && why.contains("o/g"), "{why}");
            "409".to_owned()
        }
        Ok(None) => "=".to_owned(),
        Ok(Some(next)) => {
            assert_eq!(next.revision, 8);
            let back = if next.rollback.is_some() { "rollback " } else { "" };
            let state = match next.state {
                RolloutState::Updating => "updating".to_owned(),
                RolloutState::Held { hold, .. } => hold.to_string(),
                other => format!("{other:?}"),
            };
            format!("{back}{state}")
        }
    }
}

/// B12-S1.
#[test]
fn every_action_in_every_state_has_its_result() {
    use RolloutAction::{Abort, Pause, Resume, Retry, Rollback};
    let updating = || RolloutState::Updating;
    let completed = || RolloutState::Completed { at: NOW };
    let abandoned = || RolloutState::Abandoned { at: NOW, why: ReleaseReason::Superseded };
    type Row = (fn() -> RolloutState, bool, [&'static str; 5]);
    let table: [Row; 7] = [
        (updating, false, ["paused by o/ann", "409", "aborted by o/ann", "rollback updating", "409"]),
        (paused, false, ["=", "updating", "aborted by o/ann", "rollback updating", "409"]),
        (failed, false, ["=", "updating", "aborted by o/ann", "rollback updating", "updating"]),
        (completed, false, ["409", "409", "409", "rollback updating", "409"]),
        (updating, true, ["rollback paused by o/ann", "409", "rollback aborted by o/ann", "409", "updating"]),
        (paused, true, ["409", "rollback updating", "rollback aborted by o/ann", "409", "updating"]),
        (completed, true, ["409", "409", "409", "409", "updating"]),
    ];
    for (state, goes_back, expected) in table {
        let found = [Pause, Resume, Abort, Rollback, Retry].map(|action| after(state(), goes_back, action));
        assert_eq!(found, expected, "{:?} {goes_back}", state());
    }
    for action in [Pause, Resume, Abort, Rollback, Retry] {
        assert_eq!(after(abandoned(), false, action), "409");
    }
}

/// B11.7: without a version to return to, a rollback is refused with the reason.
#[test]
fn rollback_without_previous_version_is_refused() {
    let without = Rollout { previous_version: None, ..rollout(RolloutState::Updating, false) };
    let requester = Requester { actor: "o/ann", now: NOW };
    let why = act(&without, RolloutAction::Rollback, requester).unwrap_err();
    assert!(why.contains("no single version"), "{why}");
    assert_eq!(RolloutAction::from_name("undo"), Some(RolloutAction::Rollback));
    assert_eq!(RolloutAction::from_name("stop"), None);
}

#[test]
fn write_that_is_not_based_on_the_newest_row_is_refused() {
    let stored = rollout(RolloutState::Updating, false);
    let next = Rollout { revision: 8, ..stored.clone() };
    assert!(next.may_replace(Some(&stored)) && next.may_replace(None));
    assert!(stored.may_replace(Some(&stored)), "carried out before");
    let later = Rollout { revision: 9, ..stored.clone() };
    assert!(!next.may_replace(Some(&later)) && !later.may_replace(Some(&stored)));
}
