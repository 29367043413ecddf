//! Dry runs: D3.

use evenkeel_placement::place::Verdict;
use evenkeel_planner_record::{facts::Availability, goal::Goal, report::Blocked, workload::Cause};

use super::simulated::*;
use crate::reconcile::{
    DryRun,
    ExpectedKind::{self, Create, Move, Replace, Stop},
    dry_run,
};

fn expected(world: &World) -> DryRun {
    let outcome = std::cell::RefCell::new(None);
    world.with_facts(|facts, now| {
        *outcome.borrow_mut() = Some(dry_run(facts, now));
        evenkeel_planner_model::plan::UnitPlan::default()
    });
    outcome.into_inner().expect("it was computed")
}

fn kinds(found: &DryRun) -> Vec<(ExpectedKind, String)> {
    found.changes.iter().map(|change| (change.kind, change.slot.to_string())).collect()
}

#[test]
fn plan_of_a_new_workload_creates_its_slots() {
    let found = expected(&World::new(Goal::replicated(2), 3));
    assert_eq!(kinds(&found), [(Create, "1".into()), (Create, "2".into())]);
    assert_eq!(found.changes[0].to, Some(node("n1")));
    assert!(found.is_complete && found.blocked.is_empty());
}

#[test]
fn plan_of_an_update_replaces_slot_after_slot_and_scales() {
    let mut world = World::new(Goal::replicated(3), 3);
    world.run(5);
    world.edit(|workload| workload.update.parallelism = 1);
    world.edit(|workload| workload.goal = Goal::replicated(2));
    world.write(2);
    let before = world.tasks.clone();
    let found = expected(&world);
    assert_eq!(kinds(&found), [(Replace, "1".into()), (Stop, "3".into()), (Replace, "2".into())]);
    assert!(found.is_complete);
    assert_eq!(world.tasks, before, "nothing is carried out");
}

#[test]
fn plan_of_a_drain_names_both_nodes() {
    let mut world = World::new(Goal::replicated(1), 2);
    world.run(5);
    world.set_availability("n1", Availability::Drain);
    let found = expected(&world);
    assert_eq!(kinds(&found), [(Move, "1".into())]);
    let change = &found.changes[0];
    assert_eq!((change.from.clone(), change.to.clone()), (Some(node("n1")), Some(node("n2"))));
    assert_eq!(change.cause, Some(Cause::Drain));
}

/// D3: what ends and has no other node is a stop, not a move.
#[test]
fn plan_of_a_slot_for_which_no_node_is_left_stops_its_instance() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.run(5);
    world.change_node("n1", |node| node.eligibility = Verdict::Failed("no longer selected".into()));
    let found = expected(&world);
    assert_eq!(kinds(&found), [(Stop, "1".into())]);
    let change = &found.changes[0];
    assert_eq!((change.from.clone(), change.to.clone()), (Some(node("n1")), None));
    assert_eq!(change.cause, Some(Cause::Incompatible));
}

#[test]
fn plan_shows_what_blocks_at_the_end() {
    let mut world = World::new(Goal::global(), 2);
    world.group(&["n1", "n2"]);
    world.run(5);
    world.take_down("n2");
    world.run(1);
    world.write(2);
    let found = expected(&world);
    assert!(found.changes.is_empty());
    assert!(matches!(found.blocked[0].1, Blocked::HaMinimum { .. }));
}

/// D3: a plan in the middle of an update lists the slots that are left.
#[test]
fn slots_that_are_left_are_listed_while_one_is_in_work() {
    let mut world = World::new(Goal::replicated(3), 3);
    world.edit(|workload| workload.update.parallelism = 1);
    world.run(5);
    world.write(2);
    world.reconcile();
    assert_eq!(world.update.tickets().count(), 1, "one is in work");
    let run = expected(&world);
    assert_eq!(run.changes.len(), 2, "{:?}", run.changes);
    assert!(run.changes.iter().all(|change| change.kind == ExpectedKind::Replace) && run.is_complete);
}

/// D3: a task that waits for a node is shown with the one that it would get.
#[test]
fn plan_assigns_what_has_waited_for_a_node() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.set_availability("n1", Availability::Pause);
    world.run(5);
    assert_eq!(world.running_nodes(), Vec::<&str>::new());
    assert_eq!(kinds(&expected(&world)), []);
    world.set_availability("n1", Availability::Active);
    let found = expected(&world);
    assert_eq!(kinds(&found), [(Create, "1".into())]);
    assert_eq!(found.changes[0].to, Some(node("n1")));
}

/// D3, B12: what a paused update has left names the pause.
#[test]
fn plan_of_a_paused_update_names_the_pause() {
    let mut world = World::new(Goal::replicated(2), 2);
    world.run(5);
    world.write(2);
    world.update.state = evenkeel_planner_record::workload::UpdateState::Paused;
    world.update.target = Some(world.workload.versions.current);
    "paused by o/ann".clone_into(&mut world.update.message);
    let found = expected(&world);
    let waits: Vec<String> = found.blocked.iter().map(|(_, blocked)| blocked.to_string()).collect();
    assert_eq!(waits, ["the update is paused: paused by o/ann"; 2]);
}
