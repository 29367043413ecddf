//! The leaders of a workload unit, as status and users' actions need them.
//!
//! Source: orchestration A1, A6 (placement); engine 6.

use evenkeel_planner_record::{
    goal::{self, Leaders},
    workload::{NodeOrder, UnitId, Workload},
};

use super::{Elimination, NodeTable, Ranking, spread};

/// Returns the leaders; none when every node is one. `has_task`: whether a node has an instance.
pub fn leaders_of(
    workload: &Workload,
    unit_id: &UnitId,
    table: &NodeTable,
    has_task: &dyn Fn(u32) -> bool,
) -> Leaders {
    if workload.goal.is_per_node() {
        return Leaders::default();
    }
    let ranking = Ranking::new(&workload.placement, unit_id, table);
    let ordered = |mut order: Vec<u32>| {
        if workload.placement.order == NodeOrder::LeastInstances {
            // Running instances count against their own node: without them, it would be the best one.
            order.sort_by_key(|number| !has_task(*number));
        }
        order
    };
    // An instance does not make its own node unavailable for itself.
    let available = Elimination::with_instances(table);
    let natural = ordered(ranking.order(&Elimination::of_eligibility(table)));
    let mut best = ordered(ranking.order(&available));
    best.sort_by_key(|number| table.weight(*number));
    let count = workload.goal.leader_count().map_or(0, |count| count as usize);
    let [natural, best] = [natural, best].map(|order| spread(table, ranking.preferred_first(order), count));
    goal::leaders(&workload.goal, &natural, &best)
}
