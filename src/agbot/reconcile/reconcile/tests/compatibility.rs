//! Different compatibility versions of the agents: A7.

use evenkeel_planner_record::{
    goal::{Goal, StartMode},
    workload::{ActionGoal, Cause, NodeOrder},
};

use super::simulated::*;

/// Nodes with agents of these versions; the first is the leader.
fn fleet(goal: Goal, versions: &[Option<i64>]) -> World {
    let mut world = World::new(goal, versions.len());
    world.edit(|workload| {
        workload.placement.order = NodeOrder::Listed;
        workload.is_compat_gated = true;
    });
    for (number, version) in (1..).zip(versions) {
        announce(&mut world, &format!("n{number}"), *version);
    }
    world
}

fn announce(world: &mut World, name: &str, version: Option<i64>) {
    world.change_node(name, |row| row.compat_version = version);
}

fn failover() -> Goal {
    Goal::failover(StartMode::BestAvailable, 16)
}

/// A7-S1, P-S13.
#[test]
fn nothing_is_taken_over_while_versions_differ() {
    let mut world = fleet(failover(), &[Some(12); 3]);
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1"]);
    announce(&mut world, "n2", Some(13));
    world.take_down("n1");
    world.run(120);
    let on_others = |world: &World| world.running_nodes().iter().filter(|name| **name != "n1").count();
    assert_eq!(on_others(&world), 0, "{:#?}", world.summary());
    announce(&mut world, "n3", Some(13));
    world.run(15);
    assert_eq!(on_others(&world), 0, "the ready period begins with the same versions");
    world.run(10);
    assert!(world.running_nodes().contains(&"n2"), "{:#?}", world.summary());
}

/// A7-S1, as to a claim.
#[test]
fn claim_is_given_up_when_versions_differ() {
    let mut world = fleet(failover(), &[Some(12); 2]);
    world.run(5);
    announce(&mut world, "n2", Some(13));
    world.run(60);
    assert!(world.running_nodes().is_empty(), "{:#?}", world.summary());
}

/// A7-S2.
#[test]
fn users_move_the_instance_while_versions_differ() {
    let mut world = fleet(failover(), &[Some(12), Some(12), Some(13)]);
    announce(&mut world, "n3", Some(12));
    world.run(30);
    announce(&mut world, "n3", Some(13));
    world.begin(ActionGoal::Placed { nodes: [node("n2")].into(), pinned: [node("n2")].into() }, false);
    world.run(30);
    assert_eq!(world.running_nodes(), ["n2"], "{:#?}", world.summary());
}

/// A7-S3, A7-S4.
#[test]
fn agents_without_a_version_and_workloads_without_the_gate_are_not_blocked() {
    let mut legacy = fleet(failover(), &[Some(12), Some(12), None]);
    legacy.run(30);
    assert_eq!(legacy.running_nodes(), ["n1"]);
    let mut global = fleet(Goal::global(), &[Some(1), Some(2), Some(3)]);
    global.edit(|workload| workload.is_compat_gated = false);
    global.run(30);
    assert_eq!(global.running_nodes().len(), 3);
    let mut natural = fleet(Goal::failover(StartMode::NaturalLeader, 1), &[Some(1), Some(2)]);
    natural.run(30);
    assert_eq!(natural.running_nodes(), ["n1"], "what is bound to its leader starts");
}

/// P-S13.
#[test]
fn surplus_stays_and_failures_are_restarted_while_versions_differ() {
    let mut world = fleet(Goal::flex((1, 3, 3), StartMode::BestAvailable, 0), &[Some(12); 3]);
    world.run(30);
    announce(&mut world, "n2", Some(13));
    world.edit(|workload| workload.goal = Goal::flex((1, 3, 1), StartMode::BestAvailable, 0));
    world.run(30);
    assert_eq!(world.running_nodes().len(), 3);
    world.edit(|workload| workload.goal = Goal::flex((1, 3, 3), StartMode::BestAvailable, 0));
    world.fail_slot(3, 1);
    world.run(30);
    assert_eq!(world.running_nodes().len(), 3, "the restart supervisor goes on");
    assert!(world.tasks.values().any(|task| task.cause == Cause::TaskFailed), "{:#?}", world.summary());
    world.edit(|workload| workload.goal = Goal::flex((1, 3, 1), StartMode::BestAvailable, 0));
    announce(&mut world, "n2", Some(12));
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1"]);
}
