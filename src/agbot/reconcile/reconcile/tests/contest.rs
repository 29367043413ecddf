//! Choice between two nodes that can start an instance, and the end of what is only ready: A9.5 to A9.7.

use Condition::{Affinity, Changing, Constraint, Frozen, Idle, StartFailed, StopFailed, Warn};
use evenkeel_domain::orchestration::OnExhausted;
use evenkeel_placement::place::Verdict;
use evenkeel_planner_record::{
    goal::{Goal, StartMode},
    report::FrozenLevel,
    workload::{ActionGoal, Cause, DesiredState, Impairment, NodeOrder, Slot, Task, TaskState},
};

use super::simulated::*;
use crate::user_action::Progress;

/// A possible problem of a node of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// Nothing.
    Idle,
    Affinity,
    Constraint,
    Frozen,
    StartFailed,
    StopFailed,
    /// An instance there starts.
    Changing,
    /// An instance there runs, and is impaired.
    Warn,
}

const CONDITIONS: [Condition; 8] =
    [Idle, Affinity, Constraint, Frozen, StartFailed, StopFailed, Changing, Warn];

pub(super) fn failover(node_count: usize) -> World {
    let mut world = World::new(Goal::failover(StartMode::BestAvailable, 16), node_count);
    world.edit(|workload| {
        workload.placement.order = NodeOrder::Listed;
        workload.restart.on_exhausted = OnExhausted::Switch;
    });
    world
}

fn set(world: &mut World, name: &str, condition: Condition) {
    world.change_node(name, |row| match condition {
        Idle | Changing | Warn => {}
        Affinity => row.affinity.hard = Some("a partner is missing".into()),
        Constraint => row.expression = Verdict::Failed("false".into()),
        Frozen => row.frozen = Some(FrozenLevel::Instance),
        StartFailed => row.marks.start_failed = Some("exit 1".into()),
        StopFailed => row.marks.stop_failed = Some("it hangs".into()),
    });
    let impaired = TaskState::Running { impaired: Some(Impairment::Unhealthy) };
    let state = match condition {
        Changing => TaskState::Starting,
        Warn => impaired,
        _ => return,
    };
    world.put_task(|task| Task { node: Some(node(name)), desired: DesiredState::Running, state, ..task });
}

/// Returns the node on which the instance is ready.
pub(super) fn ready_on(world: &World) -> Option<&str> {
    let mut ready = world.tasks.values().filter(|task| task.is_wanted() && task.is_contender());
    ready.next().and_then(|task| Some(task.node.as_ref()?.name()))
}

/// The table of two nodes, with the cells that follow by symmetry:
/// A9-S1, A9-S2, A9-S3, A9-S4, A9-S5, A9-S6, A9-S7, A9-S8, A9-S9, A9-S10, A9-S11, A9-S12,
/// A9-S13, A9-S14, A9-S15, A9-S16, A9-S17, A9-S18, A9-S19, A9-S20, A9-S21, A9-S22, A9-S23, A9-S24,
/// A9-S25, A9-S26, A9-S27, A9-S28, A9-S29, A9-S30, A9-S31, A9-S32, A9-S33, A9-S34, A9-S35, A9-S36.
#[test]
fn transitions_of_two_nodes_follow_the_table() {
    // The flags of node A, whether it is the leader, and which node becomes ready for each condition of node B.
    let (a, b, none) = (Some("a"), Some("b"), None);
    let table = [
        (Idle, false, [b, a, a, a, a, a, none, none]),
        (Idle, true, [a, a, a, a, a, a, none, none]),
        (Affinity, true, [b, none, none, none, none, none, none, none]),
        (Constraint, true, [b, none, none, none, none, none, none, none]),
        (Frozen, true, [b, none, none, none, none, none, none, none]),
    ];
    for (flag, is_leader, row) in table {
        for (condition, expected) in CONDITIONS.into_iter().zip(row) {
            let mut world = failover(2);
            let (first, second) = if is_leader { ("n1", "n2") } else { ("n2", "n1") };
            set(&mut world, first, flag);
            set(&mut world, second, condition);
            world.run(2);
            let expected = expected.map(|name| if name == "a" { first } else { second });
            let case = format!("A {flag:?} leader {is_leader}, B {condition:?}: {:#?}", world.summary());
            assert_eq!(ready_on(&world), expected, "{case}");
            let placed = world.tasks.values().filter(|task| task.node.is_some()).count();
            let others = placed - usize::from(expected.is_some());
            assert_eq!(others, usize::from(matches!(condition, Changing | Warn)), "{case}");
        }
    }
}

/// A9-S37.
#[test]
fn leader_starts_after_the_ready_period() {
    let mut world = failover(2);
    world.run(15);
    assert_eq!(ready_on(&world), Some("n1"));
    assert!(world.tasks.values().all(|task| task.desired == DesiredState::Ready), "{:#?}", world.summary());
    let passed = world.run_until(3, |world| ready_on(world).is_none());
    assert!((1..=3).contains(&passed), "{passed} s");
}

/// A9-S38.
#[test]
fn better_node_contests_what_is_ready_on_another_one() {
    let mut world = failover(2);
    set(&mut world, "n1", Frozen);
    world.run(8);
    assert_eq!(ready_on(&world), Some("n2"));
    world.change_node("n1", |row| row.frozen = None);
    world.run(1);
    assert_eq!(ready_on(&world), Some("n1"), "{:#?}", world.summary());
    let live = world.tasks.values().filter(|task| task.is_live()).count();
    assert_eq!(live, 1, "the other one is given up: {:#?}", world.summary());
    let passed = world.run_until(30, |world| world.running_nodes() == ["n1"]);
    assert!((15..=19).contains(&passed), "{passed} s");
}

/// A9-S39.
#[test]
fn ready_instance_gives_way_to_a_users_start_on_another_node() {
    for is_exclusive in [true, false] {
        let mut world = failover(3);
        if !is_exclusive {
            world.edit(|workload| workload.goal = Goal::flex((1, 1, 1), StartMode::BestAvailable, 16));
        }
        set(&mut world, "n1", Frozen);
        world.run(10);
        assert_eq!(ready_on(&world), Some("n2"));
        world.begin(ActionGoal::StartedOn { node: node("n3") }, false);
        world.run(3);
        assert_eq!(world.finish(5), Progress::Done);
        world.run(60);
        assert_eq!((world.running_nodes(), ready_on(&world)), (vec!["n3"], None), "{:#?}", world.summary());
        let started_on_n2 = |task: &&Task| task.node == Some(node("n2")) && task.running_at.is_some();
        assert_eq!(world.history.values().find(started_on_n2), None);
    }
}

/// A9-S38: it is given up as well when its node can take the instance no longer.
#[test]
fn instance_that_is_ready_on_a_node_that_is_no_candidate_any_more_is_given_up() {
    for condition in [Affinity, Constraint, Frozen] {
        let mut world = failover(2);
        world.run(8);
        assert_eq!(ready_on(&world), Some("n1"));
        set(&mut world, "n1", condition);
        world.run(1);
        assert_eq!(ready_on(&world), Some("n2"), "{condition:?}: {:#?}", world.summary());
    }
}

/// A9.5: of several the lowest gives way.
#[test]
fn surplus_ready_instance_of_the_lowest_rank_gives_way() {
    let mut world = World::new(Goal::flex((1, 3, 2), StartMode::BestAvailable, 16), 4);
    world.edit(|workload| workload.placement.order = NodeOrder::Listed);
    set(&mut world, "n2", Frozen);
    let ready = |world: &World| {
        let ready = world.tasks.values().filter(|task| task.is_wanted() && task.is_contender());
        let mut nodes: Vec<String> =
            ready.map(|task| task.node.as_ref().unwrap().name().to_owned()).collect();
        nodes.sort();
        nodes.join(" ")
    };
    world.run(8);
    assert_eq!(ready(&world), "n1 n3");
    world.change_node("n2", |row| row.frozen = None);
    world.run(1);
    assert_eq!(ready(&world), "n1 n2");
    let passed = world.run_until(12, |world| world.running_nodes() == ["n1"]);
    assert!(passed <= 10, "the one that nobody contests goes on: {passed} s");
    world.run(15);
    assert_eq!(world.running_nodes(), ["n1", "n2"]);
}

/// A9-S40, A9.7: the start that failed is not tried again; the instance is ready on the next best node.
#[test]
fn node_on_which_the_start_failed_is_left() {
    for behavior in [Behavior::Rejected, Behavior::Hangs] {
        let mut world = failover(2);
        world.node_behaviors.insert(node("n1"), behavior);
        let timeout = if behavior == Behavior::Hangs { 600 } else { 0 };
        let passed = world.run_until(timeout + 40, |world| ready_on(world) == Some("n2"));
        assert!(passed >= timeout, "{passed} s");
        let failed = world.nodes.iter().find(|row| row.id == node("n1")).unwrap();
        assert!(failed.marks.start_failed.is_some(), "{behavior:?}");
        assert!(world.has_event("instance.start-failed"));
        let tasks_on =
            |world: &World| world.history.values().filter(|task| task.node == Some(node("n1"))).count();
        let before = tasks_on(&world);
        world.run(120);
        assert_eq!((world.running_nodes(), tasks_on(&world)), (vec!["n2"], before), "{behavior:?}");
    }
}

/// B10: what has run on a node is restarted there, however it ends.
#[test]
fn instance_that_ran_on_its_node_is_restarted_there() {
    let mut world = failover(2);
    world.run(20);
    assert_eq!(world.running_nodes(), ["n1"]);
    world.fail_slot(1, 1);
    world.run(10);
    assert_eq!(world.running_nodes(), ["n1"]);
    assert!(!world.has_event("instance.start-failed"));
    let first = world.history.values().filter(|task| task.slot == Slot::Number(1)).count();
    assert_eq!(first, 2);
    assert!(world.history.values().all(|task| matches!(task.cause, Cause::Scale | Cause::TaskFailed)));
}
