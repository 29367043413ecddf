//! Restarts: B5, B10.

use evenkeel_domain::orchestration::{OnExhausted, RestartCondition};
use evenkeel_planner_record::{
    fixture::at,
    goal::{Goal, StartMode},
    time::secs_since,
    workload::DesiredState,
};

use super::{history_of, simulated::*};

/// B10-S1.
#[test]
fn task_is_never_restarted_under_condition_none() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.edit(|workload| workload.restart.condition = RestartCondition::None);
    world.run(5);
    world.fail_slot(1, 1);
    world.run(60);
    let tasks = history_of(&world, 1);
    assert_eq!((tasks.len(), tasks[0].desired), (1, DesiredState::Shutdown));
}

/// B10-S2.
#[test]
fn only_failures_are_restarted_under_condition_on_failure() {
    let mut world = World::new(Goal::replicated(2), 2);
    world.edit(|workload| workload.restart.condition = RestartCondition::OnFailure);
    world.run(5);
    world.fail_slot(1, 0);
    world.fail_slot(2, 1);
    let passed = world.run_until(20, |world| history_of(world, 2).len() == 2 && world.running().len() == 1);
    assert!((5..=8).contains(&passed), "{passed} s");
    world.run(60);
    assert_eq!((history_of(&world, 1).len(), history_of(&world, 2).len()), (1, 2));
}

/// B10-S3.
#[test]
fn slot_is_given_up_after_the_allowed_restarts() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.edit(|workload| workload.restart.max_attempts = 2);
    world.behaviors.insert(1, Behavior::Exits(1, 1));
    world.run(120);
    assert_eq!(history_of(&world, 1).len(), 3);
    assert!(world.has_event("restart.exhausted"));
}

/// B5-S3.
#[test]
fn restarts_are_counted_from_the_records_after_the_agbot_restarts() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.edit(|workload| workload.restart.max_attempts = 3);
    world.behaviors.insert(1, Behavior::Exits(1, 1));
    world.run_until(60, |world| history_of(world, 1).len() == 3);
    // The plan depends on the rows alone; nothing is lost with the process.
    world.plan_count += 1_000_000;
    world.edit(|_| ());
    world.run(120);
    assert_eq!(history_of(&world, 1).len(), 4);
}

/// B10-S5.
#[test]
fn image_that_cannot_be_fetched_is_tried_once_in_each_delay() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.edit(|workload| workload.restart.delay_seconds = 10);
    world.behaviors.insert(1, Behavior::Rejected);
    world.run(60);
    let tasks = history_of(&world, 1);
    assert!((5..=7).contains(&tasks.len()), "{} tasks", tasks.len());
    let ends: Vec<_> = tasks.iter().filter(|task| task.state.is_ended()).collect();
    assert!(ends.windows(2).skip(1).all(|two| secs_since(two[0].state_at, two[1].state_at) >= 10));
}

/// B10-S6.
#[test]
fn new_task_waits_until_the_old_one_has_stopped_for_a_limited_time() {
    for (stop_secs, expected) in [(20, 20), (1_000, 60)] {
        let mut world = World::new(Goal::replicated(1), 1);
        world.run(5);
        world.stop_secs = stop_secs;
        world.write(2);
        let passed = world.run_until(90, |world| {
            world.tasks.values().any(|task| {
                task.is_wanted() && task.desired == DesiredState::Running && task.spec.digest == 2
            })
        });
        assert!((expected..=expected + 2).contains(&passed), "{passed} s");
    }
}

/// B10-S7.
#[test]
fn exhausted_failover_instance_switches_to_another_node() {
    let mut world = World::new(Goal::failover(StartMode::BestAvailable, 0), 2);
    world.edit(|workload| {
        workload.restart.max_attempts = 1;
        workload.restart.on_exhausted = OnExhausted::Switch;
    });
    world.node_behaviors.insert(node("n1"), Behavior::Exits(1, 1));
    world.run(60);
    assert_eq!(world.running_nodes(), ["n2"]);
    assert!(world.nodes[0].marks.start_failed.is_some());
    assert_eq!(history_of(&world, 1).iter().filter(|task| task.node == Some(node("n1"))).count(), 2);
}

/// P-S12.
#[test]
fn instance_that_failed_on_every_node_stays_down_until_it_is_cleared() {
    let mut world = World::new(Goal::failover(StartMode::BestAvailable, 0), 2);
    world.edit(|workload| {
        workload.restart.max_attempts = 1;
        workload.restart.on_exhausted = OnExhausted::Switch;
    });
    world.behaviors.insert(1, Behavior::Exits(1, 1));
    world.run(120);
    let count = history_of(&world, 1).iter().filter(|task| task.node.is_some()).count();
    world.run(120);
    assert_eq!(history_of(&world, 1).iter().filter(|task| task.node.is_some()).count(), count);
    assert!(world.nodes.iter().all(|node| node.marks.start_failed.is_some()));
    world.behaviors.clear();
    let now = world.now();
    world.change_node("n2", |node| (node.marks.start_failed, node.marks.cleared_at) = (None, Some(now)));
    world.run(10);
    assert_eq!(world.running_nodes(), ["n2"]);
}

/// B10-S8.
#[test]
fn new_version_starts_a_slot_that_was_given_up() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.edit(|workload| workload.restart.max_attempts = 1);
    world.behaviors.insert(1, Behavior::Exits(1, 1));
    world.run(60);
    assert_eq!(world.running().len(), 0);
    world.write(2);
    world.run(10);
    assert_eq!(world.running_versions(), [2]);
}

#[test]
fn cleared_slot_that_was_given_up_starts_again() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.edit(|workload| workload.restart.max_attempts = 1);
    world.behaviors.insert(1, Behavior::Exits(1, 1));
    world.run(60);
    world.behaviors.clear();
    let now = world.now();
    world.change_node("n1", |node| node.marks.cleared_at = Some(now));
    world.run(10);
    assert_eq!(world.running().len(), 1);
}

/// B5-S2.
#[test]
fn rest_of_a_delay_is_waited_for_after_the_agbot_restarts() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.edit(|workload| workload.restart.delay_seconds = 30);
    world.run(5);
    world.fail_slot(1, 1);
    world.run(20);
    // Another process reads the rows.
    world.edit(|_| ());
    let passed = world.run_until(30, |world| world.running().len() == 1);
    assert!((9..=13).contains(&passed), "{passed} s");
}

/// B5-S1.
#[test]
fn failure_and_scaling_during_an_outage_are_handled_by_one_pass() {
    let mut world = World::new(Goal::replicated(3), 5);
    world.run(5);
    world.fail_slot(2, 1);
    world.seconds += 60;
    world.edit(|workload| workload.goal = Goal::replicated(4));
    world.run(10);
    assert_eq!(world.running().len(), 4);
    assert_eq!(history_of(&world, 2).len(), 2);
}

/// A1-S6.
#[test]
fn instance_of_a_user_is_restarted_where_it_was() {
    let mut world = World::new(Goal::failover(StartMode::BestAvailable, 0), 2);
    world.run(5);
    world.edit(|workload| workload.goal = Goal::failover(StartMode::Never, 0));
    world.fail_slot(1, 1);
    world.run(10);
    assert_eq!(world.running_nodes(), ["n1"]);
}

#[test]
fn failing_task_is_not_restarted_faster_than_its_delay() {
    let mut world = World::new(Goal::global(), 1);
    world.behaviors.insert(1, Behavior::Exits(0, 1));
    world.run(61);
    assert!(world.history.len() <= 11, "{} tasks in a minute", world.history.len());
    assert!(world.history.values().all(|task| task.created_at >= at(0)));
}

/// Engine 6: agents that read no tasks restart by themselves and report no exit code.
#[test]
fn condition_degrades_to_any_where_the_agent_reads_no_tasks() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.change_node("n1", |node| node.is_capable = false);
    world.edit(|workload| workload.restart.condition = RestartCondition::None);
    world.run(5);
    let events = |world: &World| world.events.iter().filter(|event| event.kind == "restart.degraded").count();
    assert_eq!(events(&world), 1);
    world.fail_slot(1, 1);
    world.run(60);
    assert_eq!((history_of(&world, 1).len(), world.running().len()), (2, 1));
    assert_eq!(events(&world), 1, "once for the slot on the node");
}

/// A node without contact restarts by the settings of the policy; only agents that know the rule get it.
#[test]
fn nodes_get_the_restart_settings_with_what_was_restarted_before() {
    let mut world = World::new(Goal::replicated(1), 1);
    world.edit(|workload| workload.restart.max_attempts = 3);
    world.run_until(10, |world| world.running().len() == 1);
    let rule = |world: &World| world.running()[0].health.supervision.restart.expect("a rule");
    assert_eq!((rule(&world).max_attempts, rule(&world).attempts), (3, 0));
    let first = world.running()[0].id.clone();
    world.fail(&first, 1);
    world.run_until(20, |world| world.running().len() == 1 && world.running()[0].id != first);
    assert_eq!(rule(&world).attempts, 1);
    world.edit(|workload| workload.restart.delay_seconds = 77);
    world.run(1);
    assert_eq!(rule(&world).delay_secs, 77, "running instances follow the policy");
    world.change_node("n1", |node| node.is_named = false);
    world.run(1);
    assert_eq!(world.running()[0].health.supervision.restart, None);
}
