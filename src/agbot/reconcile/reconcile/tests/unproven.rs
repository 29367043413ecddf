//! Versions that have not shown themselves are spread by nothing but their update, one slot at a time: B11.3 to B11.8.

use evenkeel_placement::place::Verdict;
use evenkeel_planner_record::{
    facts::Availability,
    goal::Goal,
    settings::FailureAction,
    workload::{Slot, SlotTasks, Task, TaskState, UpdateEvent, UpdateState},
};

use super::simulated::*;

fn updated_one_by_one(goal: Goal, nodes: usize) -> World {
    let mut world = World::new(goal, nodes);
    world.edit(|workload| {
        workload.update.parallelism = 1;
        workload.update.monitor_secs = 8;
        workload.update.failure_action = FailureAction::Pause;
        workload.restart.delay_seconds = 1;
    });
    world.run(20);
    world
}

/// Returns the slots in which a version ever had a task on a node.
fn tried(world: &World, digest: u64) -> Vec<Slot> {
    let tasks = world.history.values().filter(|task| task.spec.digest == digest && task.node.is_some());
    let mut slots: Vec<Slot> = tasks.map(|task| task.slot.clone()).collect();
    slots.sort();
    slots.dedup();
    slots
}

#[test]
fn write_that_moves_every_instance_tries_its_version_in_one_slot() {
    let mut world = updated_one_by_one(Goal::replicated(3), 6);
    let before: Vec<String> = world.running_nodes().iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(before.len(), 3);
    world.behaviors.insert(2, Behavior::Exits(4, 1));
    world.write(2);
    for name in &before {
        let name = name.rsplit('/').next().unwrap_or(name);
        world.change_node(name, |node| node.eligibility = Verdict::Failed("no longer selected".into()));
    }
    world.run_until(120, |world| world.update.state == UpdateState::Paused);
    world.run(120);
    assert_eq!(tried(&world, 2).len(), 1, "{:#?}", world.summary());
    assert_eq!(world.running_versions().iter().filter(|version| **version == 1).count(), 2);
    assert!(world.running_nodes().iter().all(|name| !before.contains(&(*name).to_owned())));
}

#[test]
fn slots_that_follow_a_completed_update_are_judged_like_those_before() {
    let mut world = updated_one_by_one(Goal::global(), 4);
    for name in ["n2", "n3", "n4"] {
        world.take_down(name);
    }
    world.write(2);
    world.run_until(120, |world| world.update.state == UpdateState::Completed);
    for name in ["n2", "n3", "n4"] {
        world.bring_back(name);
    }
    let late = |world: &World| {
        let tasks = world.running().into_iter();
        let found = tasks.filter(|task| task.spec.digest == 2 && task.slot != Slot::Node(node("n1")));
        found.map(|task| task.id.clone()).next()
    };
    world.run_until(120, |world| late(world).is_some());
    let failed = late(&world).expect("one has followed");
    world.run(2);
    world.fail(&failed, 1);
    world.run(120);
    assert_eq!(world.update.state, UpdateState::Paused, "{:#?}", world.summary());
    assert_eq!(tried(&world, 2).len(), 2, "that of the update, and the one that failed");
}

#[test]
fn slot_that_keeps_failing_is_at_no_moment_done() {
    let mut world = updated_one_by_one(Goal::replicated(3), 3);
    world.behaviors.insert(2, Behavior::Exits(6, 1));
    world.write(2);
    world.run_until(120, |world| world.update.state == UpdateState::Paused);
    world.run_until(60, |world| {
        let runs = |slot: &Slot| {
            let tasks = world.tasks.values().filter(|task| task.slot == *slot);
            tasks.clone().any(|task| task.spec.digest == 2 && task.state == TaskState::RUNNING)
        };
        let failing: u32 = world.update.parts.iter().map(|(_, part)| part.failing).sum();
        let runs_again = tried(world, 2).iter().any(runs);
        assert!(!runs_again || failing == 1, "{:#?}", world.summary());
        runs_again
    });
}

/// Of three nodes, what runs on one exits again and again, and the records of its tasks are deleted soon.
fn failing_on_one_node() -> World {
    let mut world = updated_one_by_one(Goal::replicated(3), 3);
    world.settings.task_history_limit = 1;
    world.edit(|workload| workload.update.failure_action = FailureAction::Continue);
    world.node_behaviors.insert(node("n2"), Behavior::Exits(4, 1));
    world
}

#[test]
fn slot_that_keeps_failing_is_not_done_when_the_records_of_its_failures_are_deleted() {
    let mut world = failing_on_one_node();
    world.write(2);
    world.run_until(200, |world| world.update.state == UpdateState::Completed);
    assert_eq!((world.update.done(), world.update.total()), (2, 3), "{:#?}", world.summary());
    for _ in 0..60 {
        world.run(1);
        assert_eq!(world.update.done(), 2, "{:#?}", world.summary());
    }
    world.node_behaviors.clear();
    world.run(60);
    assert_eq!((world.update.done(), world.update.failed()), (3, 1), "the version has shown itself");
}

#[test]
fn slot_that_fails_after_it_was_monitored_is_not_done_while_it_does_not_run() {
    let mut world = updated_one_by_one(Goal::replicated(3), 3);
    world.settings.task_history_limit = 1;
    world.edit(|workload| workload.restart.delay_seconds = 10);
    world.set_availability("n3", Availability::Pause);
    world.node_behaviors.insert(node("n1"), Behavior::Exits(20, 1));
    world.write(2);
    world.run_until(100, |world| world.update.done() == 2);
    let mut seen = Vec::new();
    for _ in 0..100 {
        world.run(1);
        assert!(world.update.is_rolling(), "{:#?}", world.update);
        let slots = world.slots();
        let newest = |tasks: &SlotTasks| tasks.newest().cloned();
        let of_version = slots.values().filter_map(newest).filter(|task| task.spec.digest == 2);
        let running = of_version.filter(Task::is_running).count() as u32;
        assert!(world.update.done() <= running, "{:?} {:#?}", world.update.parts, world.summary());
        seen.push(world.update.done());
    }
    seen.dedup();
    assert!(seen.starts_with(&[2, 1, 2, 1]), "{seen:?}");
}

#[test]
fn slot_that_failed_is_in_work_again_after_a_user_resumed_the_update() {
    let mut world = updated_one_by_one(Goal::replicated(3), 3);
    world.settings.task_history_limit = 1;
    world.behaviors.insert(2, Behavior::Exits(6, 1));
    world.write(2);
    world.run_until(120, |world| world.update.state == UpdateState::Paused);
    assert_eq!(world.update.done(), 0);
    world.request(UpdateEvent::Resume);
    for _ in 0..60 {
        world.run(1);
        assert_eq!(world.update.done(), 0, "{:#?}", world.summary());
    }
}

#[test]
fn slot_that_keeps_failing_is_named_in_words() {
    let mut world = failing_on_one_node();
    world.write(2);
    let part = world.unit_id.part.clone();
    assert_eq!(world.update.failing_text(&part), None);
    world.run_until(200, |world| world.update.state == UpdateState::Completed);
    let text = world.update.failing_text(&part);
    assert!(text.is_some_and(|text| text.starts_with("1 slot is not updated: ")));
    world.node_behaviors.clear();
    world.run(60);
    assert_eq!(world.update.failing_text(&part), None);
}
