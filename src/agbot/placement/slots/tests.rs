//! The slots that count and the order of their removal: B2, B7, A2.

use evenkeel_ids::{NodeId, PolicyId, TaskId};
use evenkeel_planner_record::{
    fixture::at,
    goal::Surplus,
    workload::{Cause, DesiredState, Ending, Slot, Slots, SpecVersion, Task, TaskState, UnitId, by_slot},
};

use super::*;

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
        health: evenkeel_planner_record::workload::TaskHealth::default(),
        is_end_requested: None,
        restarts: evenkeel_planner_record::workload::NodeRestarts::default(),
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
