//! HA groups: D11, E4, E5, P.

use evenkeel_ids::NodeId;
use evenkeel_planner_model::plan::TaskChange;
use evenkeel_planner_record::{
    facts::Availability,
    goal::Goal,
    report::Blocked,
    time::later,
    workload::{Slot, UpdateState},
};

use super::simulated::*;
use crate::{
    reconcile::{plan_removal, plan_unit},
    unit_pass::UnitFacts,
};

fn pair() -> World {
    let mut world = World::new(Goal::global(), 2);
    world.group(&["n1", "n2"]);
    world.edit(|workload| workload.update.parallelism = 0);
    world.run(5);
    world
}

/// E4-S1.
#[test]
fn one_member_runs_at_every_instant_of_an_update() {
    let mut world = pair();
    world.write(2);
    world.run_until(60, |world| {
        assert!(!world.running().is_empty(), "{:#?}", world.summary());
        world.update.state == UpdateState::Completed
    });
    assert_eq!(world.running_versions(), [2, 2]);
}

/// E4-S2, D11-S1.
#[test]
fn update_waits_while_the_peer_is_down() {
    let mut world = pair();
    world.take_down("n2");
    world.write(2);
    world.run(60);
    assert_eq!(world.running_versions(), [1]);
    let blocked = world.update.blocked.clone().expect("the update is blocked");
    assert!(blocked.is_shown(world.now()));
    assert!(
        matches!(&blocked.slots[0], (slot, Blocked::HaMinimum { .. }) if *slot == Slot::Node(node("n1")))
    );
    world.bring_back("n2");
    world.run(60);
    assert_eq!((world.running_versions(), world.update.blocked.clone()), (vec![2, 2], None));
}

/// E4-S3.
#[test]
fn minimum_available_is_limited_to_the_other_members() {
    for (min_running, expected) in [(2, 2), (5, 2)] {
        let mut world = World::new(Goal::global(), 3);
        world.group(&["n1", "n2", "n3"]);
        world.edit(|workload| {
            workload.update.parallelism = 0;
            workload.update.min_running = min_running;
        });
        world.run(5);
        world.write(2);
        world.run_until(60, |world| {
            assert!(world.running().len() >= expected, "{:#?}", world.summary());
            world.update.state == UpdateState::Completed
        });
    }
}

/// E4-S4.
#[test]
fn peer_keeps_the_old_version_when_the_new_one_crashes() {
    let mut world = pair();
    world.behaviors.insert(2, Behavior::Exits(1, 1));
    world.write(2);
    world.run(60);
    assert_eq!(world.update.state, UpdateState::Paused);
    assert!(world.running_versions().contains(&1));
}

/// P-S4.
#[test]
fn drain_of_the_last_running_member_waits() {
    let mut world = pair();
    world.take_down("n2");
    world.set_availability("n1", Availability::Drain);
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1"]);
    assert!(!world.last.blocked.is_empty(), "what it waits for is known");
    world.bring_back("n2");
    world.run(30);
    assert_eq!(world.running_nodes(), ["n2"]);
}

/// P-S3.
#[test]
fn parallelism_gives_way_to_the_group() {
    let mut world = pair();
    world.edit(|workload| workload.update.parallelism = 4);
    world.write(2);
    world.run_until(60, |world| {
        assert!(world.running().len() + 1 >= 2, "{:#?}", world.summary());
        world.update.state == UpdateState::Completed
    });
}

/// P-S5.
#[test]
fn rollback_waits_when_only_the_new_version_runs() {
    let mut world = pair();
    world.write(2);
    // The old version no longer runs anywhere, and does not start again on n2.
    world.run_until(60, |world| world.update.state == UpdateState::Completed);
    world.take_down("n2");
    world.workload.versions = world.workload.versions.roll_back().expect("there is a previous version");
    world.request(evenkeel_planner_record::workload::UpdateEvent::RollbackRequested);
    world.run(60);
    assert_eq!(world.running_versions(), [2]);
    assert_eq!(world.update.state, UpdateState::RollbackStarted);
    assert!(world.update.blocked.is_some());
}

/// P-S16.
#[test]
fn scale_down_keeps_the_last_member_of_a_group() {
    let mut world = World::new(Goal::replicated(3), 3);
    // By balance alone slot 3 would go.
    world.group(&["n3", "n9"]);
    world.run(5);
    world.edit(|workload| workload.goal = Goal::replicated(2));
    world.run(10);
    assert_eq!(world.running_nodes(), ["n1", "n3"]);
}

/// The group keeps one as long as the node has another one.
#[test]
fn scale_down_takes_one_of_two_instances_on_the_only_member_that_has_some() {
    let mut world = World::new(Goal::replicated(2), 1);
    world.group(&["n1", "n9"]);
    world.change_node("n1", |node| node.is_capable = true);
    world.edit(|workload| workload.placement.max_per_node = 2);
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1", "n1"]);
    world.edit(|workload| workload.goal = Goal::replicated(1));
    world.run(10);
    assert_eq!(world.running_nodes(), ["n1"]);
}

/// 1.3: the scope names another group of the same nodes.
#[test]
fn workload_unit_that_another_one_takes_over_keeps_the_minimum_of_the_group() {
    let mut world = World::new(Goal::global(), 3);
    world.group(&["n1", "n2", "n3"]);
    world.edit(|workload| workload.update.min_running = 2);
    world.run(5);
    let stopped = |taken_over: &[NodeId]| {
        let plan = world.with_facts(|facts, now| plan_removal(&UnitFacts { taken_over, ..*facts }, now));
        plan.changes.iter().filter(|change| matches!(change, TaskChange::Raise { .. })).count()
    };
    assert_eq!(stopped(&[]), 3, "nothing of it is wanted any more");
    assert_eq!(stopped(&["n1", "n2", "n3"].map(node)), 1);
}

/// B5: nodes that have not been heard since a start of the hub.
#[test]
fn instance_that_ended_starts_on_its_node_while_other_nodes_are_unheard() {
    let run_unheard = |world: &mut World| {
        for _ in 0..10 {
            // Ids of tasks are made from it.
            let seed = 1_000 + world.now().as_second().unsigned_abs();
            let plan = world.with_facts(|facts, now| {
                let facts = UnitFacts { unheard_until: Some(later(now, 1_000)), ..*facts };
                plan_unit(&facts, now, seed)
            });
            world.carry_out(plan);
            world.pass_second();
        }
    };
    let mut world = World::new(Goal::replicated(1), 2);
    world.edit(|workload| workload.restart.delay_seconds = 1);
    run_unheard(&mut world);
    assert_eq!(world.running().len(), 0, "it may run on a node that has not been heard");
    world.run(5);
    let (task, node) = (world.running()[0].id.clone(), world.running()[0].node.clone());
    world.fail(&task, 1);
    run_unheard(&mut world);
    assert_eq!(world.running().first().map(|task| task.node.clone()), Some(node));
}
