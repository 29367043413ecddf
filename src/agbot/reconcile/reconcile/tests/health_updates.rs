//! Health policies are part of the monitoring of updates: B11.6.

use evenkeel_planner_record::{
    goal::Goal,
    settings::{FailureAction, Pace},
    workload::{Cause, Task, UpdateEvent, UpdateState, Workload},
};
use serde_json::json;

use super::{
    health::{count, url},
    simulated::*,
};

/// Instances with a URL, of which the first version is healthy.
fn healthy(slots: u32, change: impl FnOnce(&mut Workload)) -> World {
    let mut world = World::new(Goal::replicated(slots), slots as usize);
    world.checks.insert(world.workload.versions.current.digest, Some(true));
    world.edit(|workload| {
        workload.update.parallelism = 1;
        workload.health = Some(url(json!({"actions": [{"name": "REBOOT"}]})));
    });
    world.edit(change);
    world.run(30);
    assert_eq!(world.running().len(), slots as usize);
    world
}

fn replaced(world: &World) -> usize {
    world.history.values().filter(|task| task.spec.digest == 2).count()
}

#[test]
fn version_whose_check_fails_pauses_the_update_after_its_first_slot() {
    let mut world = healthy(4, |workload| workload.update.failure_action = FailureAction::Pause);
    world.checks.insert(2, Some(false));
    world.write(2);
    world.run_until(100, |world| world.update.state == UpdateState::Paused);
    assert_eq!(replaced(&world), 1);
    assert!(world.update.message.contains("the body does not contain ok"), "{}", world.update.message);
    let versions = world.running_versions();
    assert_eq!(versions.iter().filter(|digest| **digest == 2).count(), 1, "{versions:?}");
    // An update that is resumed without a change is paused again after the next slot.
    world.request(UpdateEvent::Resume);
    world.run_until(100, |world| world.update.state == UpdateState::Paused);
    assert_eq!(replaced(&world), 2);
}

#[test]
fn version_whose_check_fails_is_rolled_back_after_its_first_slot() {
    let mut world = healthy(4, |workload| workload.update.failure_action = FailureAction::Rollback);
    let first = world.workload.versions.current.digest;
    world.checks.insert(2, Some(false));
    world.write(2);
    world.run_until(200, |world| {
        assert!(world.running().len() >= 3, "{:#?}", world.summary());
        world.update.state == UpdateState::RollbackCompleted
    });
    assert_eq!(replaced(&world), 1);
    assert_eq!(world.running_versions(), [first; 4]);
    assert_eq!(count(&world, "health.recover"), 0, "recoveries rest");
}

#[test]
fn slot_is_in_work_until_its_instance_is_healthy() {
    let mut world = healthy(3, |workload| workload.update.failure_action = FailureAction::Pause);
    world.checks.insert(2, Some(false));
    world.write(2);
    // Less than the time for which what has changed may fail its checks.
    world.run(12);
    assert_eq!((replaced(&world), world.update.state), (1, UpdateState::Updating));
    world.checks.insert(2, Some(true));
    world.edit(|_| {});
    world.run_until(200, |world| world.update.state == UpdateState::Completed);
    assert_eq!(world.running_versions(), [2; 3]);
}

/// A check that has come to no result is waited for as long as a start, and is not a failure.
#[test]
fn instance_of_which_no_check_has_come_to_a_result_is_waited_for_like_a_start() {
    let mut world = healthy(2, |workload| workload.update.start_timeout_secs = 60);
    world.write(2);
    world.run(50);
    assert_eq!(replaced(&world), 1);
    let passed = world.run_until(300, |world| world.update.state == UpdateState::Completed);
    assert!(passed >= 60, "{passed}");
    assert_eq!(world.update.failed(), 0);
}

/// With the failures that the policy tolerates every slot is tried, one at a time.
#[test]
fn tolerated_failures_are_counted_once_each() {
    let mut world = healthy(3, |workload| workload.update.failure_action = FailureAction::Continue);
    world.checks.insert(2, Some(false));
    world.write(2);
    world.run_until(300, |world| {
        assert!(world.running().len() >= 2, "{:#?}", world.summary());
        world.update.state == UpdateState::Completed
    });
    assert_eq!((replaced(&world), world.update.failed()), (3, 3));
}

/// A check that is broken is shown, recovers nothing, and holds up no update.
#[test]
fn broken_check_is_shown_and_never_a_reason_to_act() {
    let mut world = healthy(2, |_| {});
    let first = world.workload.versions.current.digest;
    let tasks: Vec<_> = world.running().iter().map(|task| task.id.clone()).collect();
    world.checks.extend([(first, None), (2, None)]);
    world.edit(|_| {});
    world.run(100);
    assert_eq!((count(&world, "health.check-broken"), count(&world, "health.recover")), (2, 0));
    assert!(tasks.iter().all(|task| world.tasks[task].health.check_error.is_some()));

    world.write(2);
    world.run_until(100, |world| world.update.state == UpdateState::Completed);
    assert_eq!((world.running_versions(), world.update.failed()), (vec![2; 2], 0));

    // It works again.
    world.checks.insert(2, Some(true));
    world.edit(|_| {});
    world.run(2);
    assert!(world.running().iter().all(|task| task.health.check_error.is_none()));
}

/// A recovery that is in progress when its check breaks is over: nothing proves that the instance has failed.
#[test]
fn recovery_ends_when_its_check_is_broken() {
    let mut world = healthy(3, |_| {});
    world.checks.clear();
    let task = world.running()[0].id.clone();
    world.report_health(&task, |reported| reported.healthy = Some(false));
    world.run(2);
    assert_eq!(count(&world, "health.recover"), 1);
    let done = super::health::command_done(&mut world, &task, true);
    assert_eq!(done, "REBOOT");
    world.report_health(&task, |reported| {
        (reported.healthy, reported.check_error) = (None, Some("refused".to_owned()));
    });
    world.run(1000);
    assert_eq!((count(&world, "health.recover-action"), world.running().len()), (1, 3));
}

/// B11.4: what has failed by its health policy runs nothing that is worth keeping.
#[test]
fn rollback_begins_with_the_slot_that_failed_its_check() {
    let mut world = healthy(4, |workload| {
        workload.update.failure_action = FailureAction::Rollback;
        workload.update.pace = Pace::Running;
        workload.update.monitor_secs = 300;
    });
    let first = world.workload.versions.current.digest;
    world.checks.insert(2, Some(true));
    world.write(2);
    world.run_until(100, |world| world.running_versions() == [2; 4]);
    world.checks.remove(&2);
    let failing = world.running().into_iter().max_by_key(|task| &task.slot).expect("one runs");
    let (id, slot) = (failing.id.clone(), failing.slot.clone());
    world.report_health(&id, |reported| reported.healthy = Some(false));
    let back = |world: &World| {
        let is_back = |task: &&Task| task.spec.digest == first && task.cause == Cause::Rollback;
        world.tasks.values().find(is_back).map(|task| task.slot.clone())
    };
    world.run_until(200, |world| back(world).is_some());
    assert_eq!(back(&world), Some(slot));
}
