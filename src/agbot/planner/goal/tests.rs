//! Numbers of slots, leaders and availability: A1, A2, A6, A9, A12, B2, B7.

use evenkeel_ids::{NodeId, PolicyId, TaskId};

use super::*;
use crate::{
    change::Cause,
    fixture::at,
    workload::{DesiredState, Ending, Slot, Slots, SpecVersion, Task, TaskState, UnitId, by_slot},
};

fn task(slot: u32, node: Option<&str>, is_running: bool) -> Task {
    Task {
        id: TaskId::from_text(&format!("{slot} {node:?}")),
        unit_id: UnitId::all(PolicyId::new("o", "w")),
        slot: Slot::Number(slot),
        generation: 1,
        spec: SpecVersion { number: 1, digest: 1 },
        node: node.map(|name| NodeId::new("o", name)),
        agreement: None,
        desired: DesiredState::Running,
        state: if is_running { TaskState::RUNNING } else { TaskState::Starting },
        seq: 0,
        cause: Cause::Scale,
        origin: None,
        created_at: at(0),
        start_at: at(0),
        desired_at: Some(at(0)),
        state_at: at(0),
        running_at: None,
        ended_at: None,
        health: crate::workload::TaskHealth::default(),
        is_end_requested: None,
        restarts: crate::workload::NodeRestarts::default(),
    }
}

/// Six slots: three on n1, two on n2, one on n3.
fn six(stopped: Option<u32>) -> Slots {
    let nodes = ["n1", "n1", "n1", "n2", "n2", "n3"];
    let tasks = (1..).zip(nodes).map(|(slot, node)| task(slot, Some(node), stopped != Some(slot)));
    by_slot(tasks)
}

fn removed(surplus: Surplus, slots: &Slots, count: usize) -> Vec<String> {
    let rank = |node: &NodeId| node.name()[1..].parse().unwrap();
    let order = removal_order(surplus, slots, rank, |_| false, |_| false);
    order.iter().take(count).map(ToString::to_string).collect()
}

/// B7-S1.
#[test]
fn slots_on_the_fullest_nodes_go_first() {
    assert_eq!(removed(Surplus::Balance, &six(None), 2), ["3", "5"]);
}

/// B7-S2.
#[test]
fn slot_that_does_not_run_goes_first_on_its_node() {
    assert_eq!(removed(Surplus::Balance, &six(Some(2)), 1), ["2"]);
}

/// B7-S3.
#[test]
fn highest_slot_goes_first_when_nodes_are_even() {
    let slots = by_slot((1..=3).map(|slot| task(slot, Some(&format!("n{slot}")), true)));
    assert_eq!(removed(Surplus::Balance, &slots, 1), ["3"]);
}

/// B7-S4.
#[test]
fn slot_without_a_node_goes_before_all_others() {
    let mut tasks: Vec<Task> = (1..=3).map(|slot| task(slot, Some(&format!("n{slot}")), true)).collect();
    tasks.push(task(2, None, false));
    tasks[3].slot = Slot::Number(7);
    let slots = by_slot(tasks);
    assert_eq!(removed(Surplus::Balance, &slots, 1), ["7"]);
    assert_eq!(removed(Surplus::LowestRank, &slots, 1), ["7"]);
}

#[test]
fn slot_with_several_tasks_goes_before_settled_ones() {
    let mut tasks = vec![task(1, Some("n1"), true), task(2, Some("n2"), true)];
    tasks.push(Task { slot: Slot::Number(1), ..task(9, Some("n3"), true) });
    assert_eq!(removed(Surplus::Balance, &by_slot(tasks), 1), ["1"]);
}

#[test]
fn surplus_of_flex_goes_from_the_lowest_rank_and_stopped_ones_first() {
    let mut tasks: Vec<Task> =
        (1..=3).map(|slot| task(slot, Some(&format!("n{}", 4 - slot)), true)).collect();
    assert_eq!(removed(Surplus::LowestRank, &by_slot(tasks.clone()), 3), ["1", "2", "3"]);
    tasks[2].state = TaskState::Starting;
    assert_eq!(removed(Surplus::LowestRank, &by_slot(tasks), 3), ["3", "1", "2"]);
}

/// B2-S3.
#[test]
fn new_slot_takes_the_smallest_free_number() {
    let used = [Slot::Number(1), Slot::Number(3)];
    assert_eq!(new_numbers(&used, 1), [2]);
    assert_eq!(new_numbers(&used, 3), [2, 4, 5]);
}

#[test]
fn slot_counts_while_it_is_wanted_or_given_up() {
    let ended = TaskState::Ended(Ending::Failed { exit_code: Some(1), error: String::new() });
    let of = |desired, state, may_restart| {
        let tasks = by_slot([Task { desired, state, ..task(1, Some("n1"), false) }]);
        condition(&tasks[&Slot::Number(1)], |_| may_restart)
    };
    assert_eq!(of(DesiredState::Ready, TaskState::Pending, false), SlotCondition::Runnable);
    assert_eq!(of(DesiredState::Shutdown, ended.clone(), false), SlotCondition::GivenUp);
    assert_eq!(of(DesiredState::Shutdown, ended, true), SlotCondition::Dead);
    let stopped = TaskState::Ended(Ending::Shutdown);
    assert_eq!(of(DesiredState::Shutdown, stopped, false), SlotCondition::Dead);
}

#[test]
fn natural_leaders_are_the_first_of_all_and_available_ones_of_the_rest() {
    let goal = Goal::flex((1, 3, 2), StartMode::BestAvailable, 0);
    // The first node is frozen: it stays a natural leader, and is not available.
    let found = leaders(&goal, &[0, 1, 2], &[1, 2]);
    assert_eq!((found.natural.clone(), found.available.clone()), ([0, 1].into(), [1, 2].into()));
    assert_eq!(found.of_giveback(&goal), found.available);
    let goal = Goal::flex((1, 3, 2), StartMode::NaturalLeader, 0);
    assert_eq!(found.of_giveback(&goal), found.natural);
}

fn instance(avail: Avail, is_leader: bool) -> InstanceState {
    InstanceState { avail, is_leader, is_frozen: false }
}

/// A9-S41.
#[test]
fn availability_of_a_workload_unit_follows_its_mode() {
    let (up, down) = (instance(Avail::Up, false), instance(Avail::Down, false));
    let (warn, none) = (instance(Avail::Warn, false), instance(Avail::NotApplicable, false));
    let failover = Goal::failover(StartMode::BestAvailable, 0);
    let flex = Goal::flex((2, 3, 2), StartMode::BestAvailable, 0);
    let table = [
        (failover, vec![up, up], Avail::Warn),
        (failover, vec![up, down], Avail::Up),
        (failover, vec![down, warn], Avail::Warn),
        (failover, vec![down, down], Avail::Down),
        (flex, vec![up, down], Avail::Warn),
        (flex, vec![down, down], Avail::Down),
        (flex, vec![up; 4], Avail::Warn),
        (flex, vec![up; 3], Avail::Up),
        (Goal::replicated(2), vec![up, up], Avail::Up),
        (Goal::replicated(2), vec![up, warn], Avail::Warn),
        (Goal::global(), vec![up, up], Avail::Up),
        (Goal::global(), vec![up, down], Avail::Warn),
        (Goal::global(), vec![none, none], Avail::NotApplicable),
        (Goal::global(), vec![], Avail::NotApplicable),
    ];
    for (goal, instances, expected) in table {
        assert_eq!(avail_of(&goal, &instances, 2, false), expected, "{goal:?} {instances:?}");
    }
    assert_eq!(avail_of(&Goal::replicated(2), &[up; 3], 0, true), Avail::Up);
}

#[test]
fn availability_of_a_workload_is_that_of_its_parts() {
    use Avail::{Down, NotApplicable, Up, Warn};
    assert_eq!(workload_avail(&[Up, NotApplicable, Up]), Up);
    assert_eq!(workload_avail(&[Up, Down]), Warn);
    assert_eq!(workload_avail(&[NotApplicable]), NotApplicable);
}

#[test]
fn placement_is_optimal_when_the_leaders_run_and_nothing_else() {
    let flex = Goal::flex((1, 3, 2), StartMode::BestAvailable, 0);
    let (up, down) = (|leader| instance(Avail::Up, leader), |leader| instance(Avail::Down, leader));
    let frozen = InstanceState { is_frozen: true, ..up(false) };
    let table = [
        (vec![up(true), up(true), down(false)], PlacementState::Optimal),
        (vec![up(true), down(true), up(false)], PlacementState::NonOptimal),
        (vec![down(true), down(false)], PlacementState::NotApplicable),
        (vec![frozen, down(true)], PlacementState::Optimal),
    ];
    for (instances, expected) in table {
        assert_eq!(placement_state(&flex, &instances, true), expected, "{instances:?}");
    }
    let states = [up(true), up(true)];
    assert_eq!(placement_state(&flex, &states, false), PlacementState::NotApplicable);
    let optional = Goal::flex((0, 3, 2), StartMode::BestAvailable, 0);
    assert_eq!(placement_state(&optional, &states, true), PlacementState::NotApplicable);
}
