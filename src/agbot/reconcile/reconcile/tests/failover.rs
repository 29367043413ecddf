//! Failover and flex: A1, A2, A3, B9.

use evenkeel_planner_record::{
    facts::Availability,
    goal::{Goal, StartMode},
    report::{Blocked, FrozenLevel},
    workload::{NodeOrder, Slot},
};

use super::{simulated::*, wanted_slots};

fn failover(start: StartMode) -> World {
    let mut world = World::new(Goal::failover(start, 16), 2);
    world.edit(|workload| workload.placement.order = NodeOrder::Listed);
    world
}

fn flex(target: u32) -> World {
    let mut world = World::new(Goal::flex((1, 3, target), StartMode::BestAvailable, 0), 3);
    world.edit(|workload| workload.placement.order = NodeOrder::Listed);
    world
}

/// A1-S1.
#[test]
fn nothing_starts_automatically_under_start_mode_never() {
    let mut world = failover(StartMode::Never);
    world.run(120);
    assert!(world.tasks.is_empty());
}

/// A1-S2.
#[test]
fn only_the_natural_leader_starts_automatically() {
    let mut world = failover(StartMode::NaturalLeader);
    world.take_down("n1");
    world.run(120);
    assert!(world.tasks.is_empty(), "{:#?}", world.summary());
    world.bring_back("n1");
    let passed = world.run_until(30, |world| world.running_nodes() == ["n1"]);
    assert!((16..=20).contains(&passed), "{passed} s");
}

/// A1-S3.
#[test]
fn best_available_node_starts_after_the_ready_period() {
    let mut world = failover(StartMode::BestAvailable);
    world.take_down("n1");
    let passed = world.run_until(30, |world| world.running_nodes() == ["n2"]);
    assert!((16..=20).contains(&passed), "{passed} s");
}

/// A1-S4.
#[test]
fn instance_on_another_node_than_the_leader_stays() {
    let mut world = failover(StartMode::BestAvailable);
    world.take_down("n1");
    world.run(30);
    world.bring_back("n1");
    world.edit(|workload| workload.goal.start = StartMode::NaturalLeader);
    world.run(120);
    assert_eq!(world.running_nodes(), ["n2"]);
}

/// A1-S5.
#[test]
fn flex_starts_only_the_natural_leaders_that_are_there() {
    let mut world = World::new(Goal::flex((2, 3, 2), StartMode::NaturalLeader, 0), 3);
    world.edit(|workload| workload.placement.order = NodeOrder::Listed);
    world.take_down("n2");
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1"]);
}

/// A2-S1.
#[test]
fn flex_runs_the_target_on_the_best_nodes_and_grows_without_restarts() {
    let mut world = flex(2);
    world.run(10);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
    let before: Vec<_> = world.running().into_iter().map(|task| task.id.clone()).collect();
    world.edit(|workload| workload.goal = Goal::flex((1, 3, 3), StartMode::BestAvailable, 0));
    world.run(10);
    assert_eq!(world.running_nodes(), ["n1", "n2", "n3"]);
    assert!(before.iter().all(|id| world.running().iter().any(|task| task.id == *id)));
}

/// A2-S2.
#[test]
fn flex_stops_the_lowest_ranked_instances() {
    let mut world = flex(3);
    world.run(10);
    let survivor = world.running().into_iter().find(|task| task.node == Some(node("n1"))).unwrap().id.clone();
    world.edit(|workload| workload.goal = Goal::flex((1, 3, 1), StartMode::BestAvailable, 0));
    world.run(10);
    assert_eq!(world.running_nodes(), ["n1"]);
    assert_eq!(world.running()[0].id, survivor);
}

/// A2-S2: the rank decides between instances that a user placed as well, whatever their slots are.
#[test]
fn flex_stops_the_lowest_ranked_of_those_that_a_user_placed() {
    let mut world = flex(2);
    world.edit(|workload| workload.placement.listed = ["n3", "n2", "n1"].map(node).into());
    world.run(10);
    assert_eq!(world.running_nodes(), ["n2", "n3"]);
    // Now the instance in the first slot is the one with the lower rank.
    world.edit(|workload| workload.placement.listed = ["n1", "n2", "n3"].map(node).into());
    for name in ["n2", "n3"] {
        world.change_node(name, |node| node.is_pinned = true);
    }
    world.edit(|workload| workload.goal = Goal::flex((1, 3, 1), StartMode::BestAvailable, 0));
    world.run(10);
    assert_eq!(world.running_nodes(), ["n2"]);
}

#[test]
fn surplus_of_failover_is_left_to_a_user() {
    let mut world = World::new(Goal::flex((0, 2, 2), StartMode::BestAvailable, 0), 2);
    world.run(10);
    world.edit(|workload| workload.goal = Goal::failover(StartMode::BestAvailable, 0));
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
}

/// A3-S1.
#[test]
fn nodes_order_leads_to_the_next_node_when_the_first_is_frozen() {
    let mut world = failover(StartMode::BestAvailable);
    world.edit(|workload| workload.placement.listed = vec![node("n2"), node("n1")]);
    world.change_node("n2", |node| node.frozen = Some(FrozenLevel::Node));
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1"]);
    let mut world = failover(StartMode::BestAvailable);
    world.edit(|workload| workload.placement.listed = vec![node("n2"), node("n1")]);
    world.run(30);
    assert_eq!(world.running_nodes(), ["n2"]);
}

/// A3-S6.
#[test]
fn nothing_starts_without_a_ranking() {
    let mut world = failover(StartMode::BestAvailable);
    world.edit(|workload| workload.placement.order = NodeOrder::Unranked);
    world.run(60);
    assert!(world.tasks.is_empty());
}

/// B9-S4.
#[test]
fn drain_of_the_active_node_stops_and_confirms_before_it_starts_the_other() {
    let mut world = failover(StartMode::BestAvailable);
    world.group(&["n1", "n2"]);
    world.run(30);
    assert_eq!(world.running_nodes(), ["n1"]);
    world.stop_secs = 7;
    world.set_availability("n1", Availability::Drain);
    let passed = world.run_until(30, |world| {
        let alive = world.tasks.values().filter(|task| task.state.is_running()).count();
        assert!(alive <= 1, "{:#?}", world.summary());
        world.running_nodes() == ["n2"]
    });
    assert!((8..=12).contains(&passed), "{passed} s");
}

#[test]
fn failover_waits_without_limit_for_a_stop_that_is_not_confirmed() {
    let mut world = failover(StartMode::BestAvailable);
    world.run(30);
    world.stuck.insert(node("n1"));
    world.set_availability("n1", Availability::Drain);
    world.run(600);
    assert_eq!(world.running_nodes(), Vec::<&str>::new());
    let blocked = world.plan(Some(&Slot::Number(1))).blocked;
    assert!(matches!(&blocked[0].1, Blocked::TaskStopping { node: on, .. } if *on == node("n1")));
    // A node that is down does not keep the other one waiting.
    world.take_down("n1");
    world.run(5);
    assert_eq!(world.running_nodes(), ["n2"]);
}

#[test]
fn drain_of_a_failover_instance_waits_for_a_candidate() {
    let mut world = failover(StartMode::BestAvailable);
    world.group(&["n1", "n2"]);
    world.run(30);
    world.take_down("n2");
    world.set_availability("n1", Availability::Drain);
    world.run(60);
    assert_eq!(world.running_nodes(), ["n1"]);
    assert!(matches!(world.plan(None).blocked[0].1, Blocked::NoCandidate { .. }));
    world.bring_back("n2");
    world.run(10);
    assert_eq!(world.running_nodes(), ["n2"]);
    assert_eq!(wanted_slots(&world), ["1"]);
}
