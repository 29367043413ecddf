//! Lost nodes: what runs on them stays until its replacement starts (B9.2).

use evenkeel_domain::orchestration::RestartCondition;
use evenkeel_ids::TaskId;
use evenkeel_placement::place::Verdict;
use evenkeel_planner_record::{
    facts::Availability,
    goal::{Goal, StartMode},
    workload::{Cause, DesiredState, Ending, NodeOrder, Task, TaskReport, TaskState, Workload},
};

use super::simulated::*;

fn running_ids(world: &World) -> Vec<TaskId> {
    let mut ids: Vec<TaskId> = world.running().into_iter().map(|task| task.id.clone()).collect();
    ids.sort();
    ids
}

/// A workload that runs, on nodes of which each can have some instances.
fn settled(goal: Goal, node_count: usize, change: impl FnOnce(&mut Workload)) -> World {
    let mut world = World::new(goal, node_count);
    world.edit(change);
    world.run(30);
    world
}

fn failover(start: StartMode, nodes: usize) -> World {
    settled(Goal::failover(start, 5), nodes, |workload| workload.placement.order = NodeOrder::Listed)
}

fn flex(start: StartMode) -> World {
    settled(Goal::flex((1, 2, 2), start, 0), 2, |workload| workload.placement.order = NodeOrder::Listed)
}

/// Takes nodes down for some time and brings them back; whatever ran before runs on, as the same tasks.
fn assert_kept(world: &mut World, names: &[&str], what: &str) {
    let before = running_ids(world);
    assert!(!before.is_empty(), "{what}");
    for name in names {
        world.take_down(name);
    }
    world.run(120);
    for task in world.tasks.values().filter(|task| task.node.is_some()) {
        assert_eq!(task.desired, DesiredState::Running, "{what}: nothing has taken its place: {task:?}");
    }
    for name in names {
        world.bring_back(name);
        world.reconcile();
    }
    world.run(30);
    assert_eq!(running_ids(world), before, "{what}");
    assert_eq!(world.tasks.len(), before.len(), "{what}: what waited is withdrawn: {:#?}", world.summary());
}

#[test]
fn node_that_returns_keeps_what_nothing_has_replaced() {
    let replicated = |count, per_node, nodes| {
        settled(Goal::replicated(count), nodes, |workload| workload.placement.max_per_node = per_node)
    };
    assert_kept(&mut settled(Goal::global(), 3, |_| ()), &["n2"], "one instance on every node");
    assert_kept(&mut settled(Goal::global(), 2, |_| ()), &["n1", "n2"], "all nodes of a global workload");
    assert_kept(&mut replicated(2, 1, 2), &["n1"], "no other node");
    assert_kept(&mut replicated(8, 2, 4), &["n1", "n2", "n3", "n4"], "all nodes");
    assert_kept(&mut failover(StartMode::BestAvailable, 1), &["n1"], "the only node");
    assert_kept(&mut flex(StartMode::BestAvailable), &["n2"], "flex");
    assert_kept(&mut flex(StartMode::NaturalLeader), &["n2"], "natural leaders");
}

#[test]
fn condition_of_the_restart_policy_does_not_matter_for_what_runs_on_a_lost_node() {
    let none = |workload: &mut Workload| workload.restart.condition = RestartCondition::None;
    assert_kept(&mut settled(Goal::global(), 2, none), &["n1"], "global");
    assert_kept(&mut settled(Goal::replicated(2), 2, none), &["n1"], "replicated");
}

#[test]
fn node_on_which_nothing_may_be_placed_takes_over_nothing() {
    let mut world = failover(StartMode::BestAvailable, 2);
    world.set_availability("n2", Availability::Drain);
    assert_kept(&mut world, &["n1"], "the other node is drained");
}

#[test]
fn task_is_ordered_to_stop_when_its_replacement_starts() {
    let mut world = failover(StartMode::BestAvailable, 2);
    let first = running_ids(&world)[0].clone();
    world.take_down("n1");
    world.run(3);
    assert!(world.tasks[&first].is_wanted(), "its replacement waits for the end of its ready period");
    world.run(10);
    assert_eq!(world.tasks[&first].desired, DesiredState::Shutdown);
    assert_eq!(world.running_nodes(), ["n2"]);
    world.bring_back("n1");
    world.run(5);
    assert_eq!(world.tasks[&first].state, TaskState::Ended(Ending::Shutdown));
}

#[test]
fn replacement_that_has_not_started_is_withdrawn_when_the_node_returns() {
    let mut world = failover(StartMode::BestAvailable, 2);
    let before = running_ids(&world);
    world.take_down("n1");
    world.run(3);
    let pending = world.tasks.values().find(|task| task.cause == Cause::NodeLost).expect("a replacement");
    assert_eq!(pending.node, Some(node("n2")), "it has a node");
    world.bring_back("n1");
    for _ in 0..30 {
        world.run(1);
        assert_eq!(running_ids(&world), before, "there is never a second one");
    }
    assert!(world.has_event("instance.kept"));
}

#[test]
fn lost_instance_of_a_node_that_must_not_have_it_any_more_stops_with_its_return() {
    for goal in [Goal::global(), Goal::replicated(2)] {
        let mut world = settled(goal, 2, |_| ());
        world.take_down("n1");
        world.run(5);
        world.change_node("n1", |node| node.eligibility = Verdict::Failed("no longer selected".into()));
        world.run(5);
        let lost = world.tasks.values().find(|task| task.node == Some(node("n1"))).expect("a task");
        assert!(!lost.is_wanted(), "its slot is gone");
        world.bring_back("n1");
        world.run(5);
        assert_eq!(world.running_nodes(), ["n2"]);
    }
}

#[test]
fn scale_down_removes_the_slot_of_a_lost_node_first() {
    let mut world = settled(Goal::replicated(3), 3, |_| ());
    world.take_down("n1");
    world.run(5);
    world.edit(|workload| workload.goal = Goal::replicated(2));
    world.run(5);
    assert_eq!(world.running_nodes(), ["n2", "n3"]);
    let lost = world.tasks.values().find(|task| task.node == Some(node("n1"))).expect("a task");
    assert_eq!(lost.desired, DesiredState::Remove);
}

/// The machine was off: what ended with it is not a failure that a restart policy is about.
#[test]
fn instance_that_ended_with_its_node_is_started_again_whatever_the_restart_policy_says() {
    for goal in [Goal::global(), Goal::replicated(2), Goal::failover(StartMode::BestAvailable, 0)] {
        let mut world = settled(goal, 2, |workload| workload.restart.condition = RestartCondition::None);
        if goal.is_exclusive() {
            world.set_availability("n2", Availability::Drain);
        }
        let id = world.running().into_iter().find(|task| task.node == Some(node("n1"))).unwrap().id.clone();
        world.take_down("n1");
        world.run(60);
        let back_at = world.now();
        world.change_node("n1", |node| node.back_at = Some(back_at));
        world.bring_back("n1");
        // Its heartbeat arrives before its report.
        world.run(2);
        let ended = TaskState::Ended(Ending::Failed { exit_code: None, error: "gone".into() });
        let (seq, now) = (world.tasks[&id].seq + 1, world.now());
        let report = TaskReport { node: node("n1"), state: ended, seq, at: now };
        world.tasks.get_mut(&id).unwrap().report(report, now).unwrap();
        world.change_node("n1", |_| ());
        world.run(10);
        let on_it = |task: &&Task| task.node == Some(node("n1")) && task.is_wanted() && task.is_running();
        assert!(world.tasks.values().any(|task| on_it(&task)), "{goal:?}: {:#?}", world.summary());
    }
}
