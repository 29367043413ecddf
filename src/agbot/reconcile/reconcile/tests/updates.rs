//! Updates and rollbacks: B5, B11, B12, P.

use evenkeel_domain::orchestration::OnExhausted;
use evenkeel_planner_model::plan::{InstanceFailure, UnitPlan};
use evenkeel_planner_record::{
    facts::Availability,
    fixture::deployment_policy,
    goal::Goal,
    report::{Blocked, FrozenLevel},
    settings::{FailureAction, UpdateOrder},
    time::secs_since,
    workload::{Slot, SlotTasks, UpdateEvent, UpdateState, Workload, WorkloadRecord},
};

use super::{history_of, simulated::*};
use crate::unit_pass::stored_plan;

fn running(count: u32, nodes: usize, change: impl FnOnce(&mut Workload)) -> World {
    let mut world = World::new(Goal::replicated(count), nodes);
    world.edit(|workload| workload.update.parallelism = 1);
    world.edit(change);
    world.run(5);
    assert_eq!(world.running().len(), count as usize);
    world
}

fn ends(world: &mut World, state: UpdateState) -> u64 {
    world.run_until(300, |world| world.update.state == state)
}

/// B11-S1.
#[test]
fn two_slots_at_a_time_are_updated_with_the_delay_between_them() {
    let mut world = running(6, 6, |workload| {
        workload.update.parallelism = 2;
        workload.update.delay_secs = 10;
    });
    world.write(2);
    world.run_until(120, |world| {
        assert!(world.running().len() >= 4, "{:#?}", world.summary());
        assert!(world.update.tickets().count() <= 2);
        world.update.state == UpdateState::Completed
    });
    let mut starts: Vec<_> =
        world.history.values().filter(|task| task.spec.digest == 2).map(|task| task.created_at).collect();
    starts.sort();
    assert_eq!(starts.len(), 6);
    assert!(starts.windows(3).all(|three| secs_since(three[0], three[2]) >= 10), "{starts:?}");
}

/// B11-S2.
#[test]
fn start_first_stops_the_old_task_after_the_new_one_runs() {
    for is_capable in [true, false] {
        let mut world = running(1, 2, |workload| workload.update.order = UpdateOrder::StartFirst);
        for name in ["n1", "n2"] {
            world.change_node(name, |node| node.is_capable = is_capable);
        }
        world.write(2);
        world.run_until(130, |world| {
            assert!(!world.running().is_empty());
            world.update.state == UpdateState::Completed
        });
        assert_eq!(world.running_versions(), [2]);
        assert_eq!(world.running_nodes(), [if is_capable { "n1" } else { "n2" }]);
        world.run_until(30, |world| world.running_nodes() == ["n1"]);
    }
}

#[test]
fn start_first_that_no_node_allows_is_degraded() {
    let mut world = running(1, 1, |workload| workload.update.order = UpdateOrder::StartFirst);
    world.change_node("n1", |node| node.is_capable = false);
    world.write(2);
    ends(&mut world, UpdateState::Completed);
    assert!(world.has_event("update.order-degraded"));
    assert_eq!(world.running_versions(), [2]);
}

/// P-S2.
#[test]
fn start_first_exceeds_the_maximum_by_no_more_than_the_parallelism() {
    let mut world =
        World::new(Goal::flex((1, 3, 3), evenkeel_planner_record::goal::StartMode::BestAvailable, 0), 3);
    world.edit(|workload| {
        workload.update.parallelism = 1;
        workload.update.order = UpdateOrder::StartFirst;
    });
    world.run(5);
    world.write(2);
    world.run_until(60, |world| {
        let unstopped = world.tasks.values().filter(|task| task.is_live()).count();
        assert!((3..=4).contains(&unstopped), "{:#?}", world.summary());
        world.update.state == UpdateState::Completed
    });
}

/// B11-S3.
#[test]
fn failures_within_the_ratio_are_tolerated_and_more_roll_back() {
    for (failing, expected) in [(1, UpdateState::Completed), (2, UpdateState::RollbackCompleted)] {
        let mut world = running(4, 4, |workload| {
            workload.update.max_failure_ratio = 0.25;
            workload.update.failure_action = FailureAction::Rollback;
            workload.restart.max_attempts = 1;
        });
        world.write(2);
        for number in 1..=failing {
            world.run_until(60, |world| {
                let slot = Slot::Number(number);
                world.running().iter().any(|task| task.slot == slot && task.spec.digest == 2)
            });
            world.fail_slot(number, 1);
        }
        ends(&mut world, expected);
        assert!(world.update.state == expected);
    }
}

/// B11.6, B11.8: a failure that is tolerated lets the update complete, and its slot is not done.
#[test]
fn slot_whose_failure_is_tolerated_is_not_done() {
    let mut world = running(4, 4, |workload| {
        workload.update.max_failure_ratio = 0.25;
        workload.restart.delay_seconds = 1_000;
    });
    world.write(2);
    world.run_until(60, |world| {
        world.running().iter().any(|task| task.slot == Slot::Number(1) && task.spec.digest == 2)
    });
    world.fail_slot(1, 1);
    ends(&mut world, UpdateState::Completed);
    assert_eq!((world.update.done(), world.update.total(), world.update.failed()), (3, 4, 1));
}

/// B11-S4.
#[test]
fn last_slot_is_monitored_before_the_update_completes() {
    for (after, expected) in [(3, UpdateState::RollbackCompleted), (8, UpdateState::Completed)] {
        let mut world = running(1, 1, |workload| {
            workload.update.failure_action = FailureAction::Rollback;
            workload.update.monitor_secs = 5;
        });
        world.behaviors.insert(2, Behavior::Exits(after, 1));
        world.write(2);
        ends(&mut world, expected);
        assert_eq!(world.has_event("update.rollback-started"), after == 3);
        if after == 3 {
            assert_eq!(world.running_versions(), [1]);
            let why = world.update.message.strip_prefix("rollback completed: ");
            assert!(why.is_some_and(|why| why.contains("failed")), "{}", world.update.message);
        }
    }
}

/// B11.8: an agent that reads no tasks checks its instances from time to time only, and so reports a failure late.
#[test]
fn failure_that_is_reported_late_counts_where_the_agent_reads_no_tasks() {
    for (is_capable, expected) in [(false, UpdateState::RollbackCompleted), (true, UpdateState::Completed)] {
        let mut world = running(1, 1, |workload| {
            workload.update.failure_action = FailureAction::Rollback;
            workload.update.monitor_secs = 5;
        });
        world.change_node("n1", |node| node.is_capable = is_capable);
        world.behaviors.insert(2, Behavior::Exits(50, 1));
        world.write(2);
        world.run_until(300, |world| world.update.state == expected);
    }
}

/// B11.2, B12: a pause right after the rollback that it pauses.
#[test]
fn rollback_that_is_paused_before_it_begins_stays_paused() {
    let mut world = running(2, 2, |_| {});
    world.write(2);
    ends(&mut world, UpdateState::Completed);
    world.workload.versions = world.workload.versions.roll_back().expect("there is a version before");
    world.request(UpdateEvent::RollbackRequested);
    world.request(UpdateEvent::Pause);
    world.run(30);
    assert_eq!((world.update.state, world.running_versions()), (UpdateState::RollbackPaused, vec![2, 2]));
    world.request(UpdateEvent::Resume);
    ends(&mut world, UpdateState::RollbackCompleted);
    assert_eq!(world.running_versions(), [1, 1]);
}

/// B11.3: what an update started first and that was never seen running is dropped with the rollback.
#[test]
fn rollback_leaves_no_task_of_the_version_that_failed() {
    let mut world = running(1, 2, |workload| {
        workload.update.failure_action = FailureAction::Rollback;
        workload.update.order = UpdateOrder::StartFirst;
    });
    world.behaviors.insert(2, Behavior::Exits(0, 1));
    world.write(2);
    ends(&mut world, UpdateState::RollbackCompleted);
    world.run(30);
    assert_eq!(world.running_versions(), [1]);
    let left =
        world.slots().values().flat_map(SlotTasks::wanted).filter(|task| task.spec.number == 2).count();
    assert_eq!(left, 0);
}

/// B11-S5.
#[test]
fn rollback_that_fails_pauses_and_is_tried_again_on_resume() {
    let mut world = running(1, 1, |workload| {
        workload.update.failure_action = FailureAction::Rollback;
        workload.rollback.failure_action = FailureAction::Pause;
        workload.restart.max_attempts = 1;
    });
    world.behaviors.insert(1, Behavior::Exits(1, 1));
    world.behaviors.insert(2, Behavior::Exits(1, 1));
    world.write(2);
    ends(&mut world, UpdateState::RollbackPaused);
    let message = world.update.message.clone();
    world.run(120);
    assert_eq!((world.update.state, world.update.message.clone()), (UpdateState::RollbackPaused, message));
    world.behaviors.clear();
    world.request(UpdateEvent::Resume);
    ends(&mut world, UpdateState::RollbackCompleted);
    assert_eq!(world.running_versions(), [1]);
}

/// B11.5, B11.8: what is resumed is watched again, restarts included.
#[test]
fn resumed_update_is_not_completed_by_a_version_that_does_not_run() {
    let mut world = running(2, 2, |_| ());
    world.behaviors.insert(2, Behavior::Exits(1, 1));
    world.write(2);
    ends(&mut world, UpdateState::Paused);
    for _ in 0..2 {
        world.request(UpdateEvent::Resume);
        ends(&mut world, UpdateState::Paused);
        assert!(world.update.failed() > 0, "{:?}", world.update);
    }
    world.behaviors.clear();
    world.request(UpdateEvent::Resume);
    ends(&mut world, UpdateState::Completed);
    assert_eq!(world.running_versions(), [2, 2]);
}

/// B11.6: after a user resumed an update each slot can fail it once; restarts of what failed are the restart policy's.
#[test]
fn restarts_after_a_resume_are_no_further_failures() {
    let mut world = running(4, 4, |workload| workload.update.max_failure_ratio = 0.25);
    world.behaviors.insert(2, Behavior::Exits(1, 1));
    world.write(2);
    ends(&mut world, UpdateState::Paused);
    world.request(UpdateEvent::Resume);
    world.behaviors.clear();
    world.run(1);
    for _ in 0..4 {
        world.run_until(60, |world| world.running().iter().any(|task| task.slot == Slot::Number(3)));
        world.fail_slot(3, 1);
        world.run(1);
        assert!(world.update.failed() <= 1, "{:?}", world.update);
    }
    assert_ne!(world.update.state, UpdateState::Paused, "{:?}", world.update);
}

/// D11, B9.1: a slot on a paused node is not updated, and the update is not over.
#[test]
fn slot_on_a_paused_node_blocks_the_update_until_the_node_is_active() {
    let mut world = running(3, 3, |_| ());
    world.set_availability("n2", Availability::Pause);
    world.write(2);
    world.run(60);
    let mut versions = world.running_versions();
    versions.sort_unstable();
    assert_eq!((versions, world.update.state), (vec![1, 2, 2], UpdateState::Updating));
    let blocked = world.update.blocked.clone().expect("it is blocked");
    assert!(blocked.slots.iter().all(|(_, why)| *why == Blocked::NodePaused), "{blocked:?}");
    world.set_availability("n2", Availability::Active);
    ends(&mut world, UpdateState::Completed);
    assert_eq!(world.running_versions(), [2, 2, 2]);
}

/// B11-S6.
#[test]
fn new_version_takes_over_from_a_paused_update() {
    let mut world = running(2, 2, |_| ());
    world.behaviors.insert(2, Behavior::Exits(1, 1));
    world.write(2);
    ends(&mut world, UpdateState::Paused);
    world.write(3);
    ends(&mut world, UpdateState::Completed);
    assert_eq!(world.running_versions(), [3, 3]);
}

/// B11-S7.
#[test]
fn new_version_interrupts_an_update_and_is_counted_anew() {
    let mut world = running(6, 6, |_| ());
    world.write(2);
    world.run_until(60, |world| world.running_versions().iter().filter(|one| **one == 2).count() == 2);
    world.write(3);
    world.run(1);
    assert_eq!(world.update.total(), 6);
    world.run_until(120, |world| {
        assert!(world.update.tickets().count() <= 1);
        assert!(world.running().len() >= 4, "{:#?}", world.summary());
        world.update.state == UpdateState::Completed
    });
    assert_eq!(world.running_versions(), [3; 6]);
}

/// B11-S8.
#[test]
fn change_of_the_placement_alone_updates_nothing() {
    let mut world = running(2, 2, |_| ());
    world.edit(|workload| workload.placement.listed = vec![node("n2")]);
    world.run(10);
    assert_eq!(world.update.state, UpdateState::None);
    assert_eq!(world.history.len(), 2);
}

/// B5-S4.
#[test]
fn half_done_update_is_continued_and_no_slot_is_updated_twice() {
    let mut world = running(6, 6, |_| ());
    world.write(2);
    world.run_until(60, |world| world.update.done() == 2);
    // Another process reads the rows.
    world.plan_count += 1_000_000;
    ends(&mut world, UpdateState::Completed);
    assert!((1..=6).all(|slot| history_of(&world, slot).len() == 2));
}

/// B12-S2.
#[test]
fn pause_names_the_task_and_its_error() {
    let mut world = running(2, 2, |_| ());
    world.behaviors.insert(2, Behavior::Exits(1, 7));
    world.write(2);
    ends(&mut world, UpdateState::Paused);
    let new = world.history.values().filter(|task| task.spec.digest == 2);
    let failed = new.min_by_key(|task| task.created_at).expect("a slot was updated");
    assert!(world.update.message.contains(failed.id.as_str()), "{}", world.update.message);
    assert!(world.update.message.contains("exited with code 7"));
    assert_eq!(world.update.completed_at, None);
}

/// B12-S3.
#[test]
fn done_counts_up_to_the_total_at_the_start() {
    let mut world = running(4, 4, |_| ());
    world.write(2);
    let mut counts = vec![0];
    world.run_until(60, |world| {
        if world.update.state == UpdateState::Updating {
            assert_eq!(world.update.total(), 4);
        }
        let done = world.update.done();
        if counts.last() != Some(&done) {
            counts.push(done);
        }
        world.update.state == UpdateState::Completed
    });
    assert_eq!(counts, [0, 1, 2, 3, 4]);
}

#[test]
fn pause_of_a_user_lets_slots_in_work_finish_and_resume_continues() {
    let mut world = running(4, 4, |_| ());
    world.write(2);
    world.run(1);
    world.request(UpdateEvent::Pause);
    world.run(30);
    assert_eq!(world.running_versions(), [1, 1, 1, 2]);
    world.request(UpdateEvent::Resume);
    ends(&mut world, UpdateState::Completed);
    assert_eq!(world.running_versions(), [2; 4]);
}

#[test]
fn rollback_of_a_user_brings_the_previous_version_back() {
    let mut world = running(2, 2, |_| ());
    world.write(2);
    ends(&mut world, UpdateState::Completed);
    world.workload.versions = world.workload.versions.roll_back().expect("there is a previous version");
    world.request(UpdateEvent::RollbackRequested);
    ends(&mut world, UpdateState::RollbackCompleted);
    assert_eq!(world.running_versions(), [1, 1]);
}

#[test]
fn rollback_without_a_previous_version_pauses_with_the_reason() {
    let mut world = running(1, 1, |workload| workload.update.failure_action = FailureAction::Rollback);
    world.behaviors.insert(2, Behavior::Exits(1, 1));
    world.write(2);
    world.workload.versions.previous = None;
    ends(&mut world, UpdateState::Paused);
    assert!(world.update.message.contains("no previous version"));
}

#[test]
fn version_that_does_not_run_in_time_fails() {
    let mut world = running(2, 2, |workload| workload.update.start_timeout_secs = 20);
    world.behaviors.insert(2, Behavior::Hangs);
    world.write(2);
    let passed = ends(&mut world, UpdateState::Paused);
    // It counts from when the instance before it has stopped.
    assert!((20..=28).contains(&passed), "{passed} s");
    assert_eq!(world.running_versions(), [1]);
}

/// P-S14.
#[test]
fn update_takes_over_a_slot_that_waits_for_its_restart() {
    let mut world = running(1, 1, |workload| workload.restart.delay_seconds = 60);
    world.fail_slot(1, 1);
    world.run(2);
    world.write(2);
    let passed = world.run_until(30, |world| world.running_versions() == [2]);
    assert!(passed < 10, "{passed} s");
}

#[test]
fn paused_update_is_not_spread_by_restarts() {
    let mut world = running(3, 3, |workload| workload.update.delay_secs = 10);
    world.behaviors.insert(2, Behavior::Exits(1, 1));
    world.write(2);
    ends(&mut world, UpdateState::Paused);
    let slot = world.running().into_iter().find(|task| task.spec.digest == 1).unwrap().slot.clone();
    let Slot::Number(number) = slot else { panic!("slots are numbered") };
    world.fail_slot(number, 1);
    world.run(20);
    assert_eq!(world.running_versions().iter().filter(|one| **one == 1).count(), 2);
}

/// B11.3: a slot that no node takes is not part of the update.
#[test]
fn slot_that_never_had_a_node_blocks_nobody() {
    let mut world = World::new(Goal::replicated(2), 1);
    world.edit(|workload| {
        workload.update.parallelism = 1;
        workload.update.start_timeout_secs = 30;
        workload.update.failure_action = FailureAction::Pause;
    });
    world.run(5);
    world.write(2);
    let passed = ends(&mut world, UpdateState::Completed);
    assert!(passed < 15, "{passed} s");
    assert_eq!((world.update.failed(), world.running_versions()), (0, vec![2]));
    assert!(!world.has_event("update.blocked"));
    assert!(world.last.blocked.iter().any(|(_, blocked)| blocked.upgrade_rule() == "NoCandidate"));
    // When it gets a node it starts with the version.
    world.change_node("n1", |node| node.is_capable = true);
    world.edit(|workload| workload.placement.max_per_node = 2);
    world.run(10);
    assert_eq!(world.running_versions(), [2, 2]);
}

#[test]
fn slots_in_work_go_on_after_the_parallelism_was_lowered() {
    let mut world = running(4, 4, |workload| workload.update.parallelism = 0);
    world.write(2);
    world.reconcile();
    assert_eq!(world.update.tickets().count(), 4);
    world.edit(|workload| workload.update.parallelism = 1);
    world.write(3);
    ends(&mut world, UpdateState::Completed);
    assert_eq!(world.running_versions(), [3; 4]);
}

#[test]
fn version_written_while_another_one_starts_leaves_two_tasks_in_a_slot() {
    let mut world = running(1, 2, |workload| workload.update.order = UpdateOrder::StartFirst);
    for digest in 2..5 {
        world.write(digest);
        world.reconcile();
        let live = world.tasks.values().filter(|task| task.is_live()).count();
        assert!(live <= 2, "{:#?}", world.summary());
    }
    ends(&mut world, UpdateState::Completed);
    assert_eq!(world.running_versions(), [4]);
}

#[test]
fn failure_belongs_to_the_version_that_failed_though_the_same_plan_rolls_back() {
    let mut world = running(1, 2, |_| {});
    world.write(2);
    let failed = world.workload.versions.current.number;
    let plan = UnitPlan {
        failures: vec![InstanceFailure {
            node: node("n1"),
            message: "2 restarts were not enough".into(),
            version: failed,
            is_of_stop: false,
        }],
        versions: world.workload.versions.roll_back(),
        ..UnitPlan::default()
    };
    let record = WorkloadRecord::new(&deployment_policy());
    let stored = world.with_facts(|facts, now| stored_plan(&plan, facts, &record, now));
    let versions = stored.instances.iter().filter_map(|(_, row)| Some(row.failed.as_ref()?.version));
    assert_eq!(versions.collect::<Vec<_>>(), [failed]);
}

/// Engine 8: an instance that is stopping is still one.
#[test]
fn start_first_takes_the_next_slot_when_the_instance_before_is_gone() {
    let mut world = running(3, 5, |workload| workload.update.order = UpdateOrder::StartFirst);
    world.stop_secs = 10;
    world.write(2);
    world.run_until(120, |world| {
        let count = world.tasks.values().filter(|task| task.is_running()).count();
        assert!((3..=4).contains(&count), "{:#?}", world.summary());
        world.update.state == UpdateState::Completed
    });
}

#[test]
fn instance_that_never_confirms_its_stop_holds_a_start_first_update_up_for_a_limited_time() {
    let mut world = running(2, 4, |workload| workload.update.order = UpdateOrder::StartFirst);
    world.stuck.insert(node("n1"));
    world.write(2);
    let passed = ends(&mut world, UpdateState::Completed);
    assert!((60..=90).contains(&passed), "{passed} s");
    assert_eq!(world.running_versions(), [2, 2]);
}

#[test]
fn instance_that_a_move_has_left_stops_before_the_slot_gets_another_version() {
    let mut world = running(1, 3, |workload| workload.update.order = UpdateOrder::StartFirst);
    world.set_availability("n1", Availability::Drain);
    world.reconcile();
    let frozen = |world: &mut World, frozen| world.change_node("n1", |node| node.frozen = frozen);
    frozen(&mut world, Some(FrozenLevel::Node));
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
    world.write(2);
    for _ in 0..10 {
        world.run(1);
        assert_eq!(world.running_versions(), [1, 1]);
    }
    frozen(&mut world, None);
    ends(&mut world, UpdateState::Completed);
    assert_eq!(world.running_versions(), [2]);
}

/// A11: failures of the previous version say nothing about the next one.
#[test]
fn node_on_which_the_version_before_was_exhausted_is_tried_with_the_next_one() {
    let mut world = running(2, 2, |workload| {
        workload.restart.max_attempts = 1;
        workload.restart.delay_seconds = 1;
        workload.restart.on_exhausted = OnExhausted::Switch;
    });
    // The other slot is in work meanwhile.
    world.node_behaviors.insert(node("n1"), Behavior::Hangs);
    world.write(2);
    world.run(2);
    world.node_behaviors.insert(node("n2"), Behavior::Exits(1, 1));
    world.run_until(120, |world| world.has_event("restart.exhausted"));
    world.node_behaviors.clear();
    world.run_until(120, |world| world.running_versions() == [2, 2]);
}
