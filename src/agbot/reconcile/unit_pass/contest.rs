//! Instances that are ready during the ready period, and whether another node contests that they start.
//!
//! Source: orchestration A9.5.

use std::collections::BTreeSet;

use evenkeel_ids::TaskId;
use evenkeel_placement::place::Elimination;
use evenkeel_planner_record::{
    goal::StartMode,
    workload::{NodeOrder, SlotTasks, Task},
};
use roaring::RoaringBitmap;

use super::{UnitPass, has_stayed};

/// Returns the contenders that are given up: their nodes can no longer take an instance, or better ones can.
///
/// Of several those of the lowest rank give way, as many as there are better nodes. Rankings that change with every measurement
/// or placement contest nothing: no ready period would end.
pub(crate) fn contested(pass: &UnitPass<'_>) -> BTreeSet<TaskId> {
    let goal = &pass.facts.workload.goal;
    let rules = &pass.facts.workload.placement.affinity;
    // Without a ready period nothing is ready for longer than its preparation takes.
    let is_contestable = goal.ready_secs > 0 || !rules.hard.is_empty() || !rules.hard_anti.is_empty();
    if goal.is_per_node() || !goal.moves_by_itself() || !is_contestable {
        return BTreeSet::new();
    }
    let contenders: Vec<Contender<'_>> = contenders(pass).collect();
    if contenders.is_empty() {
        return BTreeSet::new();
    }
    let table = pass.facts.table;
    // Nothing contends while automatic decisions are suspended (A7).
    let is_suspended = |contender: &Contender<'_>| pass.suspended_by(contender.task).is_some();
    let mut candidates = Elimination::with_instances(table);
    if goal.start == StartMode::NaturalLeader && !pass.is_started_by_user() {
        candidates &= pass.leaders().natural.into_iter().collect::<RoaringBitmap>();
    }
    let open: RoaringBitmap =
        contenders.iter().filter(|contender| contender.is_open).map(|contender| contender.node).collect();
    let kept: RoaringBitmap = if has_stable_order(pass) && !open.is_empty() {
        let order = pass.ranking().order_of_candidates(&candidates).into_iter();
        let free = order.filter(|number| open.contains(*number) || table.own(*number) == 0);
        free.take(open.len() as usize).collect()
    } else {
        candidates.clone()
    };
    let is_over = |contender: &&Contender<'_>| match contender.is_restart {
        true => table.node(contender.node).affinity.hard.is_some(),
        false => {
            is_suspended(contender)
                || !if contender.is_open { &kept } else { &candidates }.contains(contender.node)
        }
    };
    contenders.iter().filter(is_over).map(|contender| contender.task.id.clone()).collect()
}

/// A task that starts on its node unless a better one contests that.
struct Contender<'p> {
    task: &'p Task,
    node: u32,
    /// True if the task waits for its delay on the node of its predecessor.
    is_restart: bool,
    /// True if its ready period is not over, so that a better node may still replace the chosen one.
    is_open: bool,
}

fn contenders<'p>(pass: &'p UnitPass<'_>) -> impl Iterator<Item = Contender<'p>> {
    let tasks = pass.facts.slots.values().flat_map(SlotTasks::iter);
    tasks.filter(|task| task.is_wanted() && task.is_contender()).filter_map(|task| {
        let node = task.node.as_ref()?;
        let is_restart = has_stayed(pass, task, node);
        let is_open = !is_restart && pass.now < task.start_at;
        Some(Contender { task, node: pass.facts.table.number(node)?, is_restart, is_open })
    })
}

fn has_stable_order(pass: &UnitPass<'_>) -> bool {
    !matches!(
        pass.facts.workload.placement.order,
        NodeOrder::LoadAverage | NodeOrder::Score | NodeOrder::LeastInstances | NodeOrder::Unranked
    )
}
