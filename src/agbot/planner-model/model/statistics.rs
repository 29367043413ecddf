//! The statistics of nodes, where something depends on them.
//!
//! Source: orchestration A3, B4.

use std::collections::BTreeSet;

use evenkeel_ids::{NodeId, OrgId};
use evenkeel_planner_record::{
    facts::{HaGroupFacts, PolicyOrchestration},
    statistics::NodeStatistics,
    workload::{UnitId, Workload},
};
use jiff::Timestamp;

use super::Model;

impl Model {
    /// Brings the statistics in the tables up to date, where nodes are ranked by them. They change no decision that was made (B4).
    pub(super) fn refresh_statistics(&mut self, now: Timestamp) {
        let ranked =
            |unit_id: &UnitId| self.workload_of(&unit_id.policy).is_some_and(Workload::ranks_by_statistics);
        let ranked: Vec<UnitId> =
            self.engine.workload_units.keys().filter(|unit_id| ranked(unit_id)).cloned().collect();
        for unit_id in ranked {
            let Some(mut unit) = self.engine.workload_units.remove(&unit_id) else { continue };
            unit.table.set_statistics(|node| self.current_statistics(node, now));
            self.engine.workload_units.insert(unit_id, unit);
        }
    }

    /// Returns the statistics of a node, if they are recent enough to rank by.
    pub(crate) fn current_statistics(&self, node: &NodeId, now: Timestamp) -> Option<NodeStatistics> {
        let statistics = self.nodes.get(node)?.facts.statistics?;
        statistics.is_current(now, self.metrics_max_age_secs(node.org())).then_some(statistics)
    }

    /// Returns the organizations whose nodes' statistics or container engines something depends on.
    pub fn orgs_with_read_machines(&self) -> BTreeSet<OrgId> {
        let depends = |one: &PolicyOrchestration| one.ranks_by_statistics() || one.examines_machines();
        let reading = self.policies.values().filter(|facts| depends(&facts.orchestration));
        let of_policies = reading.flat_map(|facts| facts.node_orgs.iter().cloned());
        let needs =
            |group: &&HaGroupFacts| group.health.as_ref().is_some_and(|one| one.needs_machines_of_nodes());
        let groups = self.groups.values().filter(needs);
        of_policies.chain(groups.filter_map(|group| group.id.org().parse().ok())).collect()
    }
}
