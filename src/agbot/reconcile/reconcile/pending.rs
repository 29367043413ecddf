//! Places the tasks of a decision that wait for a node, all in one evaluation.
//!
//! Source: orchestration B3 (scheduler), A1, A9.5 (ready period).

use std::collections::BTreeSet;

use evenkeel_ids::NodeId;
use evenkeel_placement::place::{self, Buffer, Placed, Want};
use evenkeel_planner_record::{
    report::{Blocked, Constraint},
    settings::UpdateOrder,
    time::later,
    workload::{Cause, Change, Step, Task},
};
use jiff::Timestamp;

use super::lost;
use crate::unit_pass::{UnitPass, has_stayed, ready_at, shortage};

/// Workloads that the reason of a wait names.
const MOST_PARTNERS: usize = 10;

/// Places every task of the decision that waits for a node.
pub(super) fn place(pass: &mut UnitPass<'_>) {
    let mut seen = BTreeSet::new();
    let waiting: Vec<Task> = std::mem::take(&mut pass.pending)
        .iter()
        .filter(|(_, id)| seen.insert(id.clone()))
        .filter_map(|(slot, id)| pass.tasks(slot).iter().find(|task| task.id == *id))
        .filter(|task| task.is_live() && task.node.is_none())
        .cloned()
        .collect();
    if waiting.is_empty() {
        return;
    }
    let waiting = without_suspended(pass, waiting);
    let (waiting, wants) = without_those_that_wait_for_partners(pass, waiting);
    if waiting.is_empty() {
        return;
    }
    for buffer in [Buffer::Open, Buffer::Kept] {
        let is_meant = |task: &Task, pass: &UnitPass<'_>| buffer_of(pass, task) == buffer;
        let meant = waiting.iter().zip(&wants).filter(|(task, _)| is_meant(task, pass));
        let meant = meant.map(|(task, want)| (task.clone(), *want)).collect();
        place_tasks(pass, meant, buffer);
    }
}

/// Places those that use what the current version does in one evaluation, and the others one by one before them.
fn place_tasks(pass: &mut UnitPass<'_>, waiting: Vec<(Task, Want)>, buffer: Buffer) {
    let is_other = |(task, _): &(Task, Want)| pass.other_loads_of(task.spec).is_some();
    let (others, current): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_other);
    for (task, want) in others {
        let spec = task.spec;
        let one = [task];
        let left = lost::left_by(pass, &one);
        let placed = pass.place_one(spec, &left, want, buffer);
        assign_placed(pass, &one, &placed);
    }
    if !current.is_empty() {
        let (tasks, wants): (Vec<Task>, Vec<Want>) = current.into_iter().unzip();
        let left = lost::left_by(pass, &tasks);
        let placed = pass.place_without(&left, &wants, buffer);
        assign_placed(pass, &tasks, &placed);
    }
}

fn assign_placed(pass: &mut UnitPass<'_>, waiting: &[Task], placed: &Placed) {
    for ((task, node), violations) in waiting.iter().zip(&placed.nodes).zip(&placed.violations) {
        if let Some(number) = node {
            let node = pass.facts.table.node(*number).id.clone();
            let start_at = start_of(pass, task, &node);
            pass.assign(&task.slot, &task.id, &node, start_at);
            pass.stay_apart(&task.slot, &node, task.cause);
            note_soft_affinity(pass, task, *number);
            let soft: Vec<&str> = violations.soft().map(Constraint::name).collect();
            if !soft.is_empty() {
                let text = format!("{}: level soft", soft.join(", "));
                pass.emit("placement.violation", Some(&task.slot), Some(&node), text);
            }
        }
    }
    if placed.count() < waiting.len() as u32 {
        let blocked = pass.note_unplaced(place::report(pass.facts.table, placed));
        let left = waiting.iter().zip(&placed.nodes).filter(|(_, node)| node.is_none());
        for (task, _) in left {
            let step = unplaced_step(pass, task);
            pass.block(&step, blocked.clone());
        }
    }
}

/// Lets tasks wait for whose causes decisions are suspended.
///
/// # Source
/// Orchestration A7.
fn without_suspended(pass: &mut UnitPass<'_>, tasks: Vec<Task>) -> Vec<Task> {
    let (suspended, others): (Vec<Task>, Vec<Task>) =
        tasks.into_iter().partition(|task| pass.suspended_by(task).is_some());
    for task in suspended {
        if let Some(blocked) = pass.suspended_by(&task) {
            let step = unplaced_step(pass, &task);
            pass.block(&step, blocked);
        }
    }
    others
}

/// Lets tasks wait for workloads that should be on the same node, as long as those start or stop. An instance that stays on its node is
/// not placed again.
///
/// # Source
/// Orchestration A4.5.
fn without_those_that_wait_for_partners(pass: &mut UnitPass<'_>, tasks: Vec<Task>) -> (Vec<Task>, Vec<Want>) {
    let partners = pass.facts.unsettled_partners;
    let wait_secs = pass.facts.workload.placement.affinity.wait_secs;
    let (mut placed, mut wants) = (Vec::new(), Vec::new());
    for task in tasks {
        let want = want(pass, &task);
        let until = later(task.created_at, wait_secs);
        if partners.is_empty() || want.preferred.is_some() || pass.now >= until {
            placed.push(task);
            wants.push(want);
            continue;
        }
        let workloads = partners.iter().take(MOST_PARTNERS).cloned().collect();
        let step = unplaced_step(pass, &task);
        pass.block(&step, Blocked::AffinityWait { workloads, until });
    }
    (placed, wants)
}

/// Reports that the best candidate has, or lacks, a workload that it should not. The only candidate is taken without regard to that.
fn note_soft_affinity(pass: &mut UnitPass<'_>, task: &Task, number: u32) {
    let row = pass.facts.table.node(number);
    let Some(text) =
        row.affinity.soft_text.as_ref().filter(|_| pass.elimination(Buffer::Kept).remaining.len() > 1)
    else {
        return;
    };
    let text = format!("soft affinity: {text}");
    pass.emit("placement.violation", Some(&task.slot), Some(&row.id), text);
}

/// An updated task stays on the node of its slot if it can; so does a restarted one, if the goal wants that.
fn want(pass: &UnitPass<'_>, task: &Task) -> Want {
    let earlier = || pass.tasks(&task.slot).iter().filter(|one| one.id != task.id);
    let number = |node: &NodeId| pass.facts.table.number(node);
    let live = earlier().find(|one| one.is_live()).and_then(|one| one.node.as_ref());
    let stays =
        task.cause.is_update() || task.cause == Cause::TaskFailed && pass.facts.workload.goal.is_sticky;
    let last = earlier().find_map(|one| one.node.as_ref()).filter(|_| stays);
    let is_leaving = |one: &&Task| !one.is_wanted() && !one.state.is_ended() && one.node.as_ref() == last;
    let is_hard = pass.facts.table.priorities().is_hard(Constraint::NodeCapacity);
    let fits = |one: &Task| !is_hard || task.spec != pass.versions.current || shortage(pass, one).is_none();
    let keeps_load = last.is_some() && earlier().any(|one| is_leaving(&one) && fits(one));
    let location = pass.location(&task.slot, task.origin.as_ref());
    Want { preferred: last.and_then(number), avoided: live.and_then(number), keeps_load, location }
}

/// Another node than before waits for the ready period, in which a better one may appear.
fn start_of(pass: &UnitPass<'_>, task: &Task, node: &NodeId) -> Timestamp {
    let ready_at = ready_at(pass, task).filter(|_| !has_stayed(pass, task, node));
    ready_at.map_or(task.start_at, |at| task.start_at.max(at))
}

fn unplaced_step(pass: &UnitPass<'_>, task: &Task) -> Step {
    let change = Change::Replace { node: None, may_run: false, order: UpdateOrder::StopFirst };
    pass.step(&task.slot, change, task.cause)
}

/// Returns whether a task that waits for its node may use the buffer of the capacities.
fn buffer_of(pass: &UnitPass<'_>, task: &Task) -> Buffer {
    let earlier = pass.tasks(&task.slot).iter().filter(|one| one.generation < task.generation);
    pass.buffer_for(task.cause, earlier.into_iter().find_map(|one| one.node.as_ref()))
}
