//! Versions that have not shown themselves are spread by nothing but their update, one slot at a time: B11.3 to B11.8.

use super::simulated::*;
use crate::{
    goal::Goal,
    place::Verdict,
    settings::FailureAction,
    supervise::UpdateState,
    workload::{Slot, TaskState},
};

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
