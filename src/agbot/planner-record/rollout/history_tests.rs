use evenkeel_ids::{GroupId, PolicyId};
use jiff::Timestamp;

use super::*;
use crate::{agreement::CancelReason, claims::ReleaseReason, facts::DeploymentOverrides, rollout::Rollback};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn started() -> Rollout {
    Rollout {
        group: GroupId::new("o", "g"),
        policy: PolicyId::new("o", "w"),
        target: "o/s 2.0.0".into(),
        target_digest: 1,
        started_at: NOW,
        total: 3,
        done: 0,
        failed: Vec::new(),
        last_step_at: None,
        last_node: None,
        previous_version: Some("1.0.0".into()),
        previous_overrides: DeploymentOverrides::default(),
        durations: crate::rollout::StepDurations::default(),
        rollback: None,
        revision: 1,
        state: RolloutState::Updating,
    }
}

fn failure() -> HoldReason {
    HoldReason::StepFailed {
        node: NodeId::new("o", "n1"),
        version: "2.0.0".into(),
        reason: CancelReason(104),
        detail: None,
    }
}

fn held(hold: HoldReason) -> RolloutState {
    RolloutState::Held { hold: Box::new(hold), since: NOW }
}

fn kinds(before: Option<&Rollout>, after: &Rollout) -> Vec<&'static str> {
    events(before, after).into_iter().map(|event| event.kind).collect()
}

#[test]
fn every_step_of_a_rollout_is_an_event() {
    let first = started();
    assert_eq!(kinds(None, &first), ["rollout.started"]);
    let one = Rollout { done: 1, last_node: Some(NodeId::new("o", "n1")), ..first.clone() };
    let step = events(Some(&first), &one);
    assert_eq!((step[0].kind, step[0].node.clone()), ("rollout.step-done", one.last_node.clone()));
    assert_eq!(step[0].detail, json!({"done": 1, "total": 3, "target": "o/s 2.0.0"}));
    let last = Rollout { done: 3, state: RolloutState::Completed { at: NOW }, ..one.clone() };
    assert_eq!(kinds(Some(&one), &last), ["rollout.step-done", "rollout.completed"]);
    assert!(events(Some(&last), &last).is_empty(), "a write that is repeated");
    let gone = Rollout {
        state: RolloutState::Abandoned { at: NOW, why: ReleaseReason::PolicyRemoved },
        ..one.clone()
    };
    assert_eq!(kinds(Some(&one), &gone), ["rollout.abandoned"]);
    let next = Rollout { target_digest: 2, target: "o/s 3.0.0".into(), ..first };
    assert_eq!(kinds(Some(&one), &next), ["rollout.started"]);
}

#[test]
fn hold_and_its_end_name_reason_and_member() {
    let failed = Rollout { failed: vec![NodeId::new("o", "n1")], state: held(failure()), ..started() };
    let found = events(Some(&started()), &failed);
    assert_eq!(
        found.iter().map(|one| one.kind).collect::<Vec<_>>(),
        ["rollout.step-failed", "rollout.paused"]
    );
    assert_eq!(found[1].node, Some(NodeId::new("o", "n1")));
    assert_eq!(found[1].detail["text"], "2.0.0 failed on o/n1: service did not start in time (104)");
    let again = Rollout { state: RolloutState::Updating, ..failed.clone() };
    assert_eq!(kinds(Some(&failed), &again), ["rollout.resumed"]);
}

#[test]
fn rollback_names_its_target_its_numbers_and_the_rule() {
    let failed = vec![NodeId::new("o", "n1")];
    let one = Rollout { done: 1, ..started() };
    let back = Rollout { failed, ..one.clone() }.into_rollback("1.0.0", failure(), NOW);
    assert_eq!((back.done, back.total, back.effective_target().as_str()), (0, 2, "o/s 1.0.0"));
    let found = events(Some(&one), &back);
    let kinds: Vec<&str> = found.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, ["rollout.step-failed", "rollout.rollback-started"]);
    assert_eq!(found[1].detail["target"], "o/s 1.0.0");
    assert_eq!(found[1].detail["from"], "o/s 2.0.0");
    assert_eq!(found[1].detail["rule"], "update.failureAction");
    let over = Rollout { done: 2, state: RolloutState::Completed { at: NOW }, ..back.clone() };
    let kinds: Vec<&str> = events(Some(&back), &over).into_iter().map(|one| one.kind).collect();
    assert_eq!(kinds, ["rollout.step-done", "rollout.rollback-completed"]);
    assert!(over.text().starts_with("rolled back to 1.0.0, 2 of 2 done"), "{}", over.text());
    let why = HoldReason::RollbackRequested { actor: "o/ann".into() };
    assert!(!matches!(back.rollback, Some(Rollback { why: ref one, .. }) if *one == why));
}
