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

/// Returns the claims that are given up: their nodes can take no instance any more, or better ones can.
///
/// With several claims those of the lowest rank give way, as many as there are better nodes. Rankings that change with every measurement
/// or placement contest nothing: no ready period would end.
pub(crate) fn contested(pass: &UnitPass<'_>) -> BTreeSet<TaskId> {
    let goal = &pass.facts.workload.goal;
    if goal.is_per_node() || !goal.moves_by_itself() {
        return BTreeSet::new();
    }
    let claims: Vec<(u32, &Task)> = claims(pass).collect();
    if claims.is_empty() {
        return BTreeSet::new();
    }
    let table = pass.facts.table;
    let mut candidates = Elimination::with_instances(table);
    if goal.start == StartMode::NaturalLeader && !pass.is_started_by_user() {
        candidates &= pass.leaders().natural.into_iter().collect::<RoaringBitmap>();
    }
    let claimed: RoaringBitmap = claims.iter().map(|(number, _)| *number).collect();
    let kept = if has_stable_order(pass) {
        let order = pass.ranking().order_of_candidates(&candidates).into_iter();
        let open = order.filter(|number| claimed.contains(*number) || table.own(*number) == 0);
        open.take(claimed.len() as usize).collect()
    } else {
        candidates
    };
    claims
        .into_iter()
        .filter(|(number, _)| !kept.contains(*number))
        .map(|(_, task)| task.id.clone())
        .collect()
}

/// Returns the claims whose ready period is not over, each with its node.
fn claims<'p>(pass: &'p UnitPass<'_>) -> impl Iterator<Item = (u32, &'p Task)> {
    let tasks = pass.facts.slots.values().flat_map(SlotTasks::iter);
    tasks.filter(|task| task.is_wanted() && task.is_claim() && pass.now < task.start_at).filter_map(|task| {
        let node = task.node.as_ref()?;
        // A restart on the same node only waits for its delay.
        let number = pass.facts.table.number(node)?;
        (!has_stayed(pass, task, node)).then_some((number, task))
    })
}

fn has_stable_order(pass: &UnitPass<'_>) -> bool {
    !matches!(
        pass.facts.workload.placement.order,
        NodeOrder::LoadAverage | NodeOrder::Score | NodeOrder::LeastInstances | NodeOrder::Unranked
    )
}
