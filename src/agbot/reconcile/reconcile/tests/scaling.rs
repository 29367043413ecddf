//! Numbers of slots: B1, B2, B4, B6, B7, B8, B13.

use evenkeel_placement::place::Verdict;
use evenkeel_planner_model::plan::TaskChange;
use evenkeel_planner_record::{facts::Availability, goal::Goal, workload::Slot};

use super::{history_of, simulated::*, wanted_slots};
use crate::reconcile::plan_removal;

/// B1-S1.
#[test]
fn three_replicas_over_five_nodes_take_three_nodes() {
    let mut world = World::new(Goal::replicated(3), 5);
    world.run(5);
    assert_eq!(wanted_slots(&world), ["1", "2", "3"]);
    assert_eq!(world.running_nodes(), ["n1", "n2", "n3"]);
}

/// B1-S2.
#[test]
fn global_workload_runs_where_the_expression_is_true() {
    let mut world = World::new(Goal::global(), 4);
    world.change_node("n4", |node| node.expression = Verdict::Failed("false".into()));
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1", "n2", "n3"]);
}

/// B1-S4.
#[test]
fn tasks_of_a_deleted_workload_disappear_after_they_stopped() {
    let mut world = World::new(Goal::replicated(3), 3);
    world.run(5);
    for _ in 0..5 {
        let plan = world.with_facts(plan_removal);
        world.carry_out(plan);
        world.pass_second();
    }
    assert!(world.tasks.is_empty(), "{:#?}", world.summary());
}

/// B2-S1.
#[test]
fn replacement_keeps_the_slot_and_the_history() {
    let mut world = World::new(Goal::replicated(3), 3);
    world.run(5);
    world.fail_slot(2, 1);
    world.run(10);
    assert_eq!(wanted_slots(&world), ["1", "2", "3"]);
    let ids: Vec<_> = history_of(&world, 2).into_iter().map(|task| task.id).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| world.tasks.contains_key(id)));
}

/// B2-S2.
#[test]
fn numbers_that_became_free_are_used_again() {
    let mut world = World::new(Goal::replicated(3), 6);
    world.run(5);
    world.edit(|workload| workload.goal = Goal::replicated(5));
    world.run(5);
    assert_eq!(wanted_slots(&world), ["1", "2", "3", "4", "5"]);
    world.edit(|workload| workload.goal = Goal::replicated(3));
    world.run(5);
    assert_eq!(wanted_slots(&world), ["1", "2", "3"]);
    world.edit(|workload| workload.goal = Goal::replicated(4));
    world.run(5);
    assert_eq!(wanted_slots(&world), ["1", "2", "3", "4"]);
}

/// B4-S1.
#[test]
fn failure_of_one_task_is_planned_from_its_slot_alone() {
    let mut world = World::new(Goal::replicated(50), 50);
    world.run(5);
    world.fail_slot(7, 1);
    let plan = world.plan(Some(&Slot::Number(7)));
    let touched = plan.changes.iter().filter_map(|change| match change {
        TaskChange::Create(task) => Some(task.slot.clone()),
        TaskChange::Raise { task, .. } => Some(world.tasks[task].slot.clone()),
        _ => None,
    });
    assert_eq!(touched.collect::<Vec<_>>(), [Slot::Number(7), Slot::Number(7)]);
}

/// B4-S3.
#[test]
fn a_hundred_failures_are_repaired_without_a_full_reconcile() {
    let mut world = World::new(Goal::replicated(100), 100);
    world.run(5);
    world.plans_slots = true;
    (1..=100).for_each(|slot| world.fail_slot(slot, 1));
    for _ in 0..20 {
        for slot in 1..=100 {
            let plan = world.plan(Some(&Slot::Number(slot)));
            world.carry_out(plan);
        }
        world.pass_second();
    }
    assert_eq!(world.running().len(), 100);
}

/// B6-S1.
#[test]
fn new_slots_run_the_new_version_at_once_and_the_others_are_updated() {
    let mut world = World::new(Goal::replicated(3), 9);
    world.edit(|workload| workload.update.parallelism = 1);
    world.run(5);
    world.edit(|workload| workload.goal = Goal::replicated(6));
    world.write(2);
    world.run(4);
    let new = world.running().into_iter().filter(|task| task.spec.digest == 2).count();
    assert!(new >= 3, "{:#?}", world.summary());
    assert_eq!(world.update.total(), 3);
    world.run(40);
    assert_eq!(world.running_versions(), [2; 6]);
}

/// B6-S2.
#[test]
fn scaling_to_zero_leaves_no_tasks() {
    let mut world = World::new(Goal::replicated(3), 3);
    world.group(&["n1", "n2"]);
    world.run(5);
    world.edit(|workload| workload.goal = Goal::replicated(0));
    world.run(5);
    assert!(world.tasks.is_empty(), "{:#?}", world.summary());
}

/// B6-S3.
#[test]
fn edit_of_a_label_changes_nothing() {
    let mut world = World::new(Goal::replicated(3), 3);
    world.run(5);
    world.write(1);
    let plan = world.plan(None);
    assert_eq!((plan.changes, plan.update), (vec![], None));
}

/// B8-S1.
#[test]
fn new_node_gets_a_global_task() {
    let mut world = World::new(Goal::global(), 4);
    world.run(5);
    world.nodes.push(evenkeel_placement::place::UnitNode::new(node("n5")));
    world.edit(|_| ());
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1", "n2", "n3", "n4", "n5"]);
}

/// B8-S2.
#[test]
fn update_leaves_a_node_that_is_down_out_and_it_follows_when_it_returns() {
    let mut world = World::new(Goal::global(), 4);
    world.run(5);
    world.take_down("n3");
    world.run(2);
    world.write(2);
    world.run(60);
    assert_eq!(world.update.state, evenkeel_planner_record::workload::UpdateState::Completed);
    assert_eq!((world.update.done(), world.update.total()), (3, 3));
    world.bring_back("n3");
    world.run(10);
    assert_eq!(world.running_versions(), [2; 4]);
    assert_eq!(world.update.state, evenkeel_planner_record::workload::UpdateState::Completed);
}

/// B8-S3.
#[test]
fn paused_node_keeps_its_version_and_is_replaced_outside_of_the_update() {
    let mut world = World::new(Goal::global(), 3);
    world.run(5);
    world.set_availability("n2", Availability::Pause);
    world.write(2);
    world.run(60);
    assert_eq!(world.running_versions(), [1, 2, 2]);
    let status = world.update.clone();
    assert_eq!(status.state, evenkeel_planner_record::workload::UpdateState::Completed);
    world.set_availability("n2", Availability::Active);
    world.run(10);
    assert_eq!(world.running_versions(), [2, 2, 2]);
    assert_eq!(world.update, status);
}

/// B8-S4.
#[test]
fn node_that_no_longer_fits_loses_its_global_task() {
    let mut world = World::new(Goal::global(), 3);
    world.run(5);
    world.change_node("n1", |node| node.expression = Verdict::Failed("false".into()));
    world.run(5);
    assert_eq!(world.running_nodes(), ["n2", "n3"]);
    assert_eq!(wanted_slots(&world), ["o/n2", "o/n3"]);
}

/// B13-S4.
#[test]
fn records_of_removed_slots_are_gone_after_the_stop() {
    let mut world = World::new(Goal::replicated(3), 3);
    world.run(5);
    world.edit(|workload| workload.goal = Goal::replicated(1));
    world.run(5);
    assert_eq!(world.tasks.len(), 1);
}

/// D3-S3.
#[test]
fn third_instance_on_two_nodes_waits_and_says_why() {
    let mut world = World::new(Goal::replicated(3), 2);
    let report = world.plan(None).unplaced.expect("one is not placed");
    assert_eq!((report.requested, report.placed), (3, 2));
    assert_eq!(report.summary, "2 of 3 placed: maxPerNode removed 2");
    assert_eq!(report.cause, Some(evenkeel_planner_record::report::UnplacedCause::Unsatisfiable));
    world.run(5);
    assert_eq!(world.running().len(), 2);
}
