//! Pace of an update, and the slots that it leaves out: B11.3 to B11.6.

use evenkeel_planner_record::{
    facts::Availability,
    goal::Goal,
    report::Blocked,
    settings::{FailureAction, Pace, UpdateOrder},
    workload::{Slot, UpdateEvent, UpdateState, Workload},
};

use super::{history_of, simulated::*};

fn running(goal: Goal, nodes: usize, change: impl FnOnce(&mut Workload)) -> World {
    let mut world = World::new(goal, nodes);
    world.edit(|workload| {
        workload.update.parallelism = 1;
        workload.update.start_timeout_secs = 600;
        workload.rollback = workload.update;
    });
    world.edit(change);
    world.run(10);
    world
}

fn ends(world: &mut World, state: UpdateState) -> u64 {
    world.run_until(700, |world| world.update.state == state)
}

/// Runs until the update is in a state and returns the fewest instances of the version before meanwhile.
fn fewest_old(world: &mut World, state: UpdateState) -> usize {
    let mut fewest = usize::MAX;
    world.run_until(300, |world| {
        let old = world.running_versions().into_iter().filter(|digest| *digest == 1).count();
        fewest = fewest.min(old);
        world.update.state == state
    });
    fewest
}

#[test]
fn version_that_fails_while_it_is_monitored_costs_one_slot() {
    for order in [UpdateOrder::StopFirst, UpdateOrder::StartFirst] {
        let mut world = running(Goal::replicated(4), 5, |workload| {
            workload.update.monitor_secs = 10;
            workload.update.order = order;
            workload.restart.delay_seconds = 30;
        });
        world.behaviors.insert(2, Behavior::Exits(6, 2));
        world.write(2);
        assert_eq!(fewest_old(&mut world, UpdateState::Paused), 3, "{order:?}");
        let replaced = (1..=4).filter(|slot| history_of(&world, *slot).len() > 1).count();
        assert_eq!(replaced, 1, "{order:?}");
    }
}

#[test]
fn pace_running_replaces_the_next_slot_as_soon_as_one_runs() {
    let mut world = running(Goal::replicated(4), 4, |workload| {
        workload.update.monitor_secs = 60;
        workload.update.pace = Pace::Running;
    });
    world.write(2);
    let passed = world.run_until(60, |world| world.running_versions() == [2; 4]);
    assert!(passed < 30, "{passed} s");
    let mut world = running(Goal::replicated(4), 4, |workload| workload.update.monitor_secs = 60);
    world.write(2);
    let passed = world.run_until(400, |world| world.running_versions() == [2; 4]);
    assert!((180..220).contains(&passed), "{passed} s");
    assert!(ends(&mut world, UpdateState::Completed) <= 61, "the last slot is not monitored twice");
}

/// SwarmKit judges a task for longer than it is monitored if the next one waits for longer.
#[test]
fn failure_during_the_delay_after_a_slot_is_one_of_the_update() {
    let mut world = running(Goal::replicated(2), 2, |workload| {
        workload.update.monitor_secs = 2;
        workload.update.delay_secs = 15;
        workload.update.failure_action = FailureAction::Rollback;
        workload.restart.delay_seconds = 1;
    });
    world.behaviors.insert(2, Behavior::Exits(4, 1));
    world.write(2);
    assert_eq!(fewest_old(&mut world, UpdateState::RollbackCompleted), 1);
    assert_eq!(world.running_versions(), [1, 1]);
}

/// B11.3: lost and drained slots without another node block no other slot.
#[test]
fn slots_without_a_node_are_set_aside_and_follow_when_they_get_one() {
    for is_lost in [true, false] {
        let mut world = running(Goal::replicated(4), 4, |_| ());
        for name in ["n2", "n3", "n4"] {
            match is_lost {
                true => world.take_down(name),
                false => world.set_availability(name, Availability::Drain),
            }
        }
        world.run(5);
        world.write(2);
        let passed = ends(&mut world, UpdateState::Completed);
        assert!(passed <= 20, "{passed} s");
        assert_eq!((world.update.done(), world.update.total(), world.update.set_aside()), (1, 1, 3));
        for name in ["n2", "n3", "n4"] {
            world.bring_back(name);
            world.set_availability(name, Availability::Active);
        }
        let mut fewest = usize::MAX;
        world.run_until(90, |world| {
            let count = world.running().len();
            fewest = if is_lost { fewest.min(count) } else { fewest };
            world.running_versions() == [2; 4]
        });
        assert!(!is_lost || fewest >= 3, "what returns is replaced one after the other: {fewest}");
        world.run(10);
        assert_eq!((world.update.state, world.update.set_aside()), (UpdateState::Completed, 0));
    }
}

#[test]
fn node_that_is_lost_while_its_slot_is_in_work_frees_the_update() {
    for goal in [Goal::replicated(3), Goal::global()] {
        let mut world = running(goal, 3, |_| ());
        world.write(2);
        world.run_until(30, |world| world.update.tickets().count() == 1);
        let (_, slot, _) = world.update.tickets().next().expect("a slot in work");
        let slot = slot.clone();
        let task = world.tasks.values().find(|task| task.slot == slot && task.spec.digest == 2);
        let name = task.and_then(|task| task.node.clone()).expect("it has a node").name().to_owned();
        world.take_down(&name);
        let passed = ends(&mut world, UpdateState::Completed);
        assert!(passed < 40, "{passed} s");
        assert!(world.has_event("update.set-aside"));
        assert_eq!((world.update.failed(), world.running_versions()), (0, vec![2, 2]));
        world.bring_back(&name);
        world.run_until(60, |world| world.running_versions() == [2, 2, 2]);
    }
}

#[test]
fn rollback_is_not_held_by_a_lost_node_and_begins_with_what_failed() {
    let mut world = running(Goal::replicated(4), 4, |workload| {
        workload.update.parallelism = 2;
        workload.update.delay_secs = 3;
        workload.update.monitor_secs = 1;
        workload.update.max_failure_ratio = 0.3;
        workload.update.failure_action = FailureAction::Rollback;
        workload.restart.delay_seconds = 100;
    });
    world.behaviors.insert(2, Behavior::Exits(2, 1));
    world.write(2);
    world.run_until(60, |world| world.update.is_rollback());
    let failed: Vec<Slot> = world
        .slots()
        .into_iter()
        .filter(|(_, tasks)| tasks.newest().is_some_and(|task| task.spec.digest == 2 && !task.is_running()))
        .map(|(slot, _)| slot)
        .collect();
    assert!(!failed.is_empty());
    let name = world.running_nodes().last().expect("one runs").to_string();
    world.take_down(&name);
    let passed = ends(&mut world, UpdateState::RollbackCompleted);
    assert!(passed < 60, "{passed} s");
    assert_eq!(world.running_versions(), [1, 1, 1]);
}

#[test]
fn version_that_no_node_takes_replaces_nothing() {
    let mut world = running(Goal::replicated(3), 3, |_| ());
    let blocked = Blocked::Blocklisted {
        service: evenkeel_ids::ServiceKey::new("o", "s"),
        version: "2.0.0".into(),
        until: world.now() + jiff::SignedDuration::from_hours(1),
        failure: "broken".into(),
    };
    for name in ["n1", "n2", "n3"] {
        world.change_node(name, |node| node.marks.blocklisted = Some(Box::new(blocked.clone())));
    }
    world.write(2);
    world.run(60);
    assert_eq!(world.running_versions(), [1, 1, 1]);
    assert_eq!(world.update.state, UpdateState::Updating, "the version has not shown itself anywhere");
    let shown = world.update.blocked.clone().expect("it is shown");
    assert_eq!(shown.slots.len(), 3);
    for name in ["n1", "n2", "n3"] {
        world.change_node(name, |node| node.marks.blocklisted = None);
    }
    ends(&mut world, UpdateState::Completed);
    assert_eq!((world.running_versions(), world.update.total()), (vec![2, 2, 2], 3));
}

/// An update of nodes that are all away is not over before one of them has shown the version.
#[test]
fn update_while_all_nodes_are_lost_waits_for_them_and_goes_one_by_one() {
    for goal in [Goal::replicated(3), Goal::global()] {
        let mut world = running(goal, 3, |_| ());
        for name in ["n1", "n2", "n3"] {
            world.take_down(name);
        }
        world.run(5);
        world.behaviors.insert(2, Behavior::Exits(2, 1));
        world.write(2);
        world.run(100);
        assert_eq!(world.update.state, UpdateState::Updating);
        for name in ["n1", "n2", "n3"] {
            world.bring_back(name);
        }
        assert_eq!(fewest_old(&mut world, UpdateState::Paused), 2);
    }
}

#[test]
fn update_that_was_resumed_watches_again_what_runs() {
    let mut world = running(Goal::replicated(1), 1, |workload| workload.update.monitor_secs = 30);
    world.write(2);
    world.run(10);
    world.request(UpdateEvent::Pause);
    world.run(60);
    world.request(UpdateEvent::Resume);
    let passed = ends(&mut world, UpdateState::Completed);
    assert!((30..=33).contains(&passed), "{passed} s");
}
