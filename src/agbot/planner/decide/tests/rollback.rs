//! Rollbacks: to what worked last, as a whole document: B11.7, B11.9.

use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::workload::{
    Requester, RolloutAction, SpecVersion, UpdateState, WorkloadAction, WorkloadRecord,
};
use serde_json::{Value, json};

use super::fleet::{Fleet, policy};

fn document(replicas: u32, failure_action: &str) -> Value {
    json!({
        "mode": "replicated", "replicas": replicas, "restart": {"delaySeconds": 1},
        "update": {"monitorSeconds": 3, "failureAction": failure_action},
        "rollback": {"monitorSeconds": 1, "parallelism": 0},
    })
}

fn record(fleet: &Fleet) -> &WorkloadRecord {
    fleet.model.workload(&policy("w")).expect("the workload exists")
}

fn state(fleet: &Fleet) -> UpdateState {
    record(fleet).update.state
}

fn current(fleet: &Fleet) -> SpecVersion {
    record(fleet).versions.current
}

/// A workload whose first version runs on two of four nodes.
fn fleet() -> Fleet {
    let mut fleet = Fleet::new(&["n1", "n2", "n3", "n4"]);
    fleet.put_policy("w", document(2, "rollback"));
    fleet.run_until(30, |fleet| fleet.running("w").len() == 5);
    fleet
}

/// Publishes a version that fails everywhere, and waits until its update has a state.
fn publish_broken(fleet: &mut Fleet, version: &str, document: Value, until: UpdateState) {
    fleet.broken_versions.insert((policy("w"), version.to_owned()));
    fleet.put_version("w", version, document);
    fleet.run_until(60, |fleet| state(fleet) == until);
}

/// A user rolls the update back.
fn roll_back(fleet: &mut Fleet) -> Result<(), String> {
    let requester = Requester { actor: "o/ann", now: fleet.now };
    let action = WorkloadAction::Update(RolloutAction::Rollback);
    let next = record(fleet).act(action, fleet.model.instance_summary(&policy("w")), requester)?;
    fleet.handle(&Event::WorkloadRecorded { workload: Box::new(next) });
    Ok(())
}

#[test]
fn rollback_restores_the_whole_document_that_worked_last() {
    let mut fleet = fleet();
    let first = current(&fleet);
    // The number of instances is not part of the version, and was edited while it ran.
    fleet.put_policy("w", document(3, "rollback"));
    fleet.run_until(30, |fleet| fleet.running("w").len() == 8);
    publish_broken(&mut fleet, "2.0.0", document(4, "rollback"), UpdateState::RollbackStarted);
    fleet.run_until(90, |fleet| state(fleet) == UpdateState::RollbackCompleted);
    fleet.run(20);
    assert_eq!((current(&fleet), fleet.running("w").len()), (first, 8), "three run, as before");
    let status = fleet.status("w");
    assert_eq!(status.restored.as_ref().and_then(|document| document.replicas), Some(3));
    let rolled_back = "version 2 was rolled back: the document of version 1 is in force";
    assert_eq!(status.warnings, [rolled_back]);
    let written = fleet.model.written_policy(&policy("w")).expect("it was written");
    assert_eq!(written.orchestration.document.as_ref().and_then(|document| document.replicas), Some(4));
    // There is no earlier version to return to.
    let refused = roll_back(&mut fleet).unwrap_err();
    assert_eq!(refused, "o/w has no previous version to return to");
    // A later write is in force, but still not the version that failed.
    fleet.put_version("w", "2.0.0", document(1, "rollback"));
    fleet.run_until(30, |fleet| fleet.running("w").len() == 2);
    assert_eq!((current(&fleet), fleet.status("w").restored), (first, None));
    fleet.put_version("w", "3.0.0", document(2, "rollback"));
    fleet.run_until(60, |fleet| state(fleet) == UpdateState::Completed);
    assert_eq!((current(&fleet).number, fleet.running("w").len()), (3, 5));
}

#[test]
fn rollback_skips_versions_whose_updates_never_completed() {
    let mut fleet = fleet();
    let first = current(&fleet);
    publish_broken(&mut fleet, "2.0.0", document(2, "pause"), UpdateState::Paused);
    publish_broken(&mut fleet, "3.0.0", document(2, "rollback"), UpdateState::RollbackStarted);
    fleet.run_until(60, |fleet| state(fleet) == UpdateState::RollbackCompleted);
    assert_eq!((current(&fleet), fleet.running("w").len()), (first, 5));
    let good = fleet.tasks().into_iter().filter(|task| task.is_wanted() && task.is_running());
    assert!(good.into_iter().all(|task| task.spec == first));
}

#[test]
fn user_rolls_a_completed_update_back_once() {
    let mut fleet = fleet();
    let first = current(&fleet);
    fleet.put_version("w", "2.0.0", document(4, "pause"));
    fleet.run_until(60, |fleet| state(fleet) == UpdateState::Completed);
    assert_eq!(fleet.running("w").len(), 11);
    roll_back(&mut fleet).expect("there is a version before");
    fleet.run_until(60, |fleet| state(fleet) == UpdateState::RollbackCompleted);
    fleet.run(10);
    assert_eq!((current(&fleet), fleet.running("w").len()), (first, 5));
    assert!(roll_back(&mut fleet).is_err());
}

/// Instances that are stopped when the rollback wants fewer: those of the version that is given up.
#[test]
fn instances_that_a_rollback_removes_are_not_those_that_run_the_version_before() {
    let mut fleet = fleet();
    let first: Vec<_> = fleet.tasks().iter().map(|task| task.id.clone()).collect();
    publish_broken(&mut fleet, "2.0.0", document(4, "rollback"), UpdateState::RollbackStarted);
    fleet.run_until(90, |fleet| state(fleet) == UpdateState::RollbackCompleted);
    fleet.run(10);
    let kept = fleet.tasks().into_iter().filter(|task| task.is_wanted() && first.contains(&task.id)).count();
    assert!(kept >= 1, "what the update had not replaced yet goes on: {:#?}", fleet.tasks());
}
