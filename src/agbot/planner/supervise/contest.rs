//! Claims of nodes during the ready period, and whether another node contests them.
//!
//! Source: orchestration A9.5.

use std::collections::BTreeSet;

use evenkeel_ids::TaskId;
use roaring::RoaringBitmap;

use crate::{
    goal::StartMode,
    place::Elimination,
    reconcile::{UnitPass, has_stayed},
    workload::{NodeOrder, SlotTasks, Task},
};

/// Returns the claims that are given up: their nodes can no longer take an instance, or better ones can.
///
/// With several claims those of the lowest rank give way, as many as there are better nodes. Rankings that change with every measurement
/// or placement contest nothing: no ready period would end.
pub(crate) fn contested(pass: &UnitPass<'_>) -> BTreeSet<TaskId> {
    let goal = &pass.facts.workload.goal;
    let rules = &pass.facts.workload.placement.affinity;
    // Without a ready period nothing is claimed for longer than its preparation takes.
    let is_contestable = goal.ready_secs > 0 || !rules.hard.is_empty() || !rules.hard_anti.is_empty();
    if goal.is_per_node() || !goal.moves_by_itself() || !is_contestable {
        return BTreeSet::new();
    }
    let claims: Vec<Claim<'_>> = claims(pass).collect();
    if claims.is_empty() {
        return BTreeSet::new();
    }
    let table = pass.facts.table;
    // Nothing is claimed while automatic decisions are suspended (A7).
    let is_suspended = |claim: &Claim<'_>| pass.suspended_by(claim.task).is_some();
    let mut candidates = Elimination::with_instances(table);
    if goal.start == StartMode::NaturalLeader && !pass.is_started_by_user() {
        candidates &= pass.leaders().natural.into_iter().collect::<RoaringBitmap>();
    }
    let open: RoaringBitmap = claims.iter().filter(|claim| claim.is_open).map(|claim| claim.node).collect();
    let kept: RoaringBitmap = if has_stable_order(pass) && !open.is_empty() {
        let order = pass.ranking().order_of_candidates(&candidates).into_iter();
        let free = order.filter(|number| open.contains(*number) || table.own(*number) == 0);
        free.take(open.len() as usize).collect()
    } else {
        candidates.clone()
    };
    let is_over = |claim: &&Claim<'_>| match claim.is_restart {
        true => table.node(claim.node).affinity.hard.is_some(),
        false => is_suspended(claim) || !if claim.is_open { &kept } else { &candidates }.contains(claim.node),
    };
    claims.iter().filter(is_over).map(|claim| claim.task.id.clone()).collect()
}

/// A task that claims a node.
struct Claim<'p> {
    task: &'p Task,
    node: u32,
    /// True if the task waits for its delay on the node of its predecessor.
    is_restart: bool,
    /// True if its ready period is not over, so that a better node may still replace the chosen one.
    is_open: bool,
}

fn claims<'p>(pass: &'p UnitPass<'_>) -> impl Iterator<Item = Claim<'p>> {
    let tasks = pass.facts.slots.values().flat_map(SlotTasks::iter);
    tasks.filter(|task| task.is_wanted() && task.is_claim()).filter_map(|task| {
        let node = task.node.as_ref()?;
        let is_restart = has_stayed(pass, task, node);
        let is_open = !is_restart && pass.now < task.start_at;
        Some(Claim { task, node: pass.facts.table.number(node)?, is_restart, is_open })
    })
}

fn has_stable_order(pass: &UnitPass<'_>) -> bool {
    !matches!(
        pass.facts.workload.placement.order,
        NodeOrder::LoadAverage | NodeOrder::Score | NodeOrder::LeastInstances | NodeOrder::Unranked
    )
}
