//! Nodes that are drained, paused, frozen, lost or that violate the placement: A5, A12, B9.

use evenkeel_domain::orchestration::OnViolation;
use evenkeel_ids::TaskId;
use evenkeel_placement::place::Verdict;
use evenkeel_planner_record::{
    facts::Availability,
    goal::Goal,
    report::{Blocked, FrozenLevel},
    workload::{Cause, DesiredState, Slot, Task, TaskState},
};

use super::{history_of, simulated::*, wanted_slots};

/// B9-S1.
#[test]
fn drained_instance_starts_elsewhere_without_delay_before_it_stops() {
    let mut world = World::new(Goal::replicated(4), 5);
    world.run(5);
    world.set_availability("n4", Availability::Drain);
    let passed = world.run_until(4, |world| {
        assert!(world.running().len() >= 4);
        world.running_nodes() == ["n1", "n2", "n3", "n5"]
    });
    assert!(passed <= 4);
    assert_eq!(wanted_slots(&world), ["1", "2", "3", "4"]);
}

#[test]
fn drained_instance_that_nothing_can_take_over_stops_and_waits_for_a_node() {
    let mut world = World::new(Goal::replicated(2), 2);
    world.run(5);
    world.set_availability("n2", Availability::Drain);
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1"]);
    assert!(world.last.blocked.is_empty() || world.tasks.values().any(|task| task.node.is_none()));
    world.set_availability("n2", Availability::Active);
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
}

/// B9-S2.
#[test]
fn task_that_fails_on_a_paused_node_is_replaced_elsewhere() {
    let mut world = World::new(Goal::replicated(2), 3);
    world.run(5);
    world.set_availability("n2", Availability::Pause);
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
    world.fail_slot(2, 1);
    world.run(10);
    assert_eq!(world.running_nodes(), ["n1", "n3"]);
}

/// B9-S3.
#[test]
fn instance_that_survived_a_partition_is_stopped_and_one_remains() {
    let mut world = World::new(Goal::replicated(3), 4);
    world.run(5);
    world.take_down("n3");
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1", "n2", "n4"]);
    world.bring_back("n3");
    world.run(5);
    let unstopped = world.tasks.values().filter(|task| !task.state.is_ended()).count();
    assert_eq!((unstopped, world.running_nodes()), (3, vec!["n1", "n2", "n4"]));
}

#[test]
fn tasks_of_a_node_that_stays_away_are_orphaned() {
    let mut world = World::new(Goal::replicated(1), 2);
    world.settings.orphan_after_secs = 30;
    world.run(5);
    world.take_down("n1");
    world.run(20);
    assert!(world.tasks.values().all(|task| task.state.name() != "orphaned"));
    world.run(20);
    assert!(world.tasks.values().any(|task| task.state.name() == "orphaned"));
}

#[test]
fn tasks_of_a_deleted_node_are_given_up_and_replaced() {
    let mut world = World::new(Goal::replicated(2), 3);
    world.run(5);
    world.delete_node("n2");
    world.run(5);
    assert_eq!(world.running_nodes(), ["n1", "n3"]);
    assert!(world.tasks.values().all(|task| !task.state.is_running() || task.is_wanted()));
}

/// P-S18.
#[test]
fn update_leaves_a_paused_instance_as_it_is() {
    let mut world = World::new(Goal::replicated(2), 3);
    world.run(5);
    world.set_availability("n2", Availability::Pause);
    world.write(2);
    world.run(30);
    assert_eq!(world.running_versions(), [1, 2]);
}

/// A12-S1.
#[test]
fn frozen_workload_is_not_restarted_until_it_is_thawed() {
    let mut world = World::new(Goal::replicated(1), 2);
    world.run(5);
    world.edit(|workload| workload.is_frozen = true);
    world.fail_slot(1, 1);
    world.run(60);
    assert_eq!(world.running().len(), 0);
    let frozen = Blocked::Frozen { level: FrozenLevel::Workload };
    assert!(world.plan(None).blocked.iter().any(|(_, blocked)| *blocked == frozen));
    world.edit(|workload| workload.is_frozen = false);
    world.run(10);
    assert_eq!(world.running().len(), 1);
}

/// A12-S2.
#[test]
fn frozen_node_gets_nothing_and_keeps_what_it_has() {
    let mut world = World::new(Goal::replicated(1), 2);
    world.change_node("n1", |node| node.frozen = Some(FrozenLevel::Node));
    world.run(5);
    assert_eq!(world.running_nodes(), ["n2"]);
    world.change_node("n2", |node| node.frozen = Some(FrozenLevel::Instance));
    world.set_availability("n2", Availability::Drain);
    world.run(10);
    assert_eq!(world.running_nodes(), ["n2"]);
}

/// A12-S3.
#[test]
fn nothing_starts_while_all_nodes_are_frozen() {
    let mut world = World::new(Goal::global(), 2);
    world.change_node("n1", |node| node.frozen = Some(FrozenLevel::Node));
    world.change_node("n2", |node| node.frozen = Some(FrozenLevel::Node));
    world.run(30);
    assert!(world.tasks.is_empty());
}

#[test]
fn update_waits_for_frozen_slots_and_says_so() {
    let mut world = World::new(Goal::global(), 2);
    world.run(5);
    world.change_node("n1", |node| node.frozen = Some(FrozenLevel::Instance));
    world.write(2);
    world.run(40);
    assert_eq!(world.running_versions(), [1, 2]);
    assert_eq!(world.update.state, evenkeel_planner_record::workload::UpdateState::Updating);
    let blocked = world.update.blocked.clone().expect("the update is blocked");
    assert!(blocked.is_shown(world.now()));
    let frozen = Blocked::Frozen { level: FrozenLevel::Instance };
    assert_eq!(blocked.slots, [(Slot::Node(node("n1")), frozen)]);
}

#[test]
fn instance_that_violates_the_expression_moves_start_first_if_it_may() {
    let mut world = World::new(Goal::replicated(1), 2);
    world.run(5);
    world.change_node("n1", |node| node.expression = Verdict::Failed("false".into()));
    world.run_until(10, |world| {
        assert!(!world.running().is_empty());
        world.running_nodes() == ["n2"]
    });
}

#[test]
fn violating_instance_stays_when_it_is_pinned_or_only_reported() {
    for is_pinned in [true, false] {
        let mut world = World::new(Goal::replicated(1), 2);
        let policy = if is_pinned { OnViolation::Move } else { OnViolation::Report };
        world.edit(|workload| workload.placement.on_violation = policy);
        world.run(5);
        world.change_node("n1", |node| {
            node.expression = Verdict::Failed("false".into());
            node.is_pinned = is_pinned;
        });
        world.run(30);
        assert_eq!(world.running_nodes(), ["n1"]);
    }
}

/// P-S6.
#[test]
fn nothing_stops_when_no_node_satisfies_the_expression() {
    let mut world = World::new(Goal::replicated(2), 3);
    world.run(5);
    for name in ["n1", "n2", "n3"] {
        world.change_node(name, |node| node.expression = Verdict::Failed("false".into()));
    }
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
    assert!(matches!(world.plan(None).blocked[0].1, Blocked::Unplaced { .. }));
}

#[test]
fn instance_on_a_node_that_left_stops_after_its_replacement_runs() {
    let mut world = World::new(Goal::replicated(1), 2);
    world.run(5);
    world.change_node("n1", |node| node.is_member = false);
    world.run_until(10, |world| {
        assert!(!world.running().is_empty());
        world.running_nodes() == ["n2"]
    });
    assert_eq!(history_of(&world, 1).last().map(|task| task.cause), Some(Cause::Cure));
}

/// E3-S3, E4.7: as long as too few others run that may.
#[test]
fn lost_compatibility_keeps_the_minimum_of_the_group() {
    let mut world = World::new(Goal::global(), 2);
    world.group(&["n1", "n2"]);
    world.run(5);
    world.take_down("n1");
    world.change_node("n2", |node| node.eligibility = Verdict::Failed("no longer selected".into()));
    world.run(5);
    assert_eq!(world.running_nodes(), ["n2"], "{:?}", world.summary());
    world.bring_back("n1");
    world.run_until(30, |world| world.running_nodes() == ["n1"]);
    world.run(5);
    let last = world.tasks.values().find(|task| task.node == Some(node("n2"))).expect("there is a task");
    assert_eq!(last.desired, DesiredState::Shutdown);
    assert!(matches!(last.state, TaskState::Ended(_)));
}

/// 1.3, B8: an instance whose node left goes back to the one before it, if that still runs; a slot never has a third one.
#[test]
fn slot_with_an_instance_before_goes_back_to_it_when_the_newer_one_has_to_leave() {
    let mut world = World::new(Goal::replicated(1), 3);
    world.run(5);
    let first = world.running()[0].clone();
    let own = first.node.clone().expect("it has a node");
    // Instances on a frozen node are not stopped for newer ones.
    world.change_node(own.name(), |node| node.frozen = Some(FrozenLevel::Node));
    let other =
        world.nodes.iter().map(|node| node.id.clone()).find(|node| *node != own).expect("another node");
    let second = Task {
        id: TaskId::from_text("second"),
        generation: first.generation + 1,
        node: Some(other.clone()),
        ..first.clone()
    };
    world.tasks.insert(second.id.clone(), second);
    world.run(5);
    assert_eq!(world.running().len(), 2, "the older one is not stopped");
    world.change_node(other.name(), |node| node.is_member = false);
    for _ in 0..30 {
        world.run(1);
        let live = world.tasks.values().filter(|task| task.is_live()).count();
        assert!(live <= 2, "{:#?}", world.tasks);
    }
    assert_eq!(world.running_nodes(), [own.name()]);
}
