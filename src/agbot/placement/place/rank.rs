//! Rankings: the order in which nodes are preferred.
//!
//! Source: orchestration A3.

use std::collections::BTreeMap;

use evenkeel_ids::NodeId;
use evenkeel_planner_record::{
    report::Constraint,
    statistics::NodeStatistics,
    workload::{NodeOrder, PlacementRules, Priority, UnitId},
};
use roaring::RoaringBitmap;
use sha2::{Digest, Sha256};

use super::{NodeTable, Violations};

/// The key of a node: smaller is better; ties are broken by the scope order.
pub(super) type Key = ([u64; 4], u32);

/// The order in which a workload unit prefers its nodes.
#[derive(Debug, Clone)]
pub struct Ranking<'a> {
    placement: &'a PlacementRules,
    unit_id: &'a UnitId,
    table: &'a NodeTable,
    positions: BTreeMap<&'a NodeId, u64>,
}

impl<'a> Ranking<'a> {
    /// Prepares the ranking of a workload unit.
    pub fn new(placement: &'a PlacementRules, unit_id: &'a UnitId, table: &'a NodeTable) -> Self {
        let positions = (0..).zip(&placement.listed).map(|(position, node)| (node, position)).collect();
        Self { placement, unit_id, table, positions }
    }

    /// Returns whether the policy ranks nodes at all.
    pub fn has_order(&self) -> bool {
        self.placement.order != NodeOrder::Unranked
    }

    /// Returns whether every placement changes the ranking.
    pub(super) fn depends_on_counts(&self) -> bool {
        self.placement.order == NodeOrder::LeastInstances
    }

    /// Returns nodes in the order of preference, the best first; empty when the policy ranks none.
    pub fn order(&self, among: &RoaringBitmap) -> Vec<u32> {
        let mut keys: Vec<Key> = self.keys(among);
        keys.sort_unstable();
        keys.into_iter().map(|(_, number)| number).collect()
    }

    /// Returns candidates in the order in which they are tried: what they violate outweighs the ranking.
    pub fn order_of_candidates(&self, among: &RoaringBitmap) -> Vec<u32> {
        let mut order = self.order(among);
        order.sort_by_key(|number| self.table.weight(*number));
        self.preferred_first(order)
    }

    /// Returns the nodes in the preferred domain; none when no domain is preferred, or it does not matter.
    pub fn preferred_nodes(&self) -> Option<RoaringBitmap> {
        let domain = self.placement.preferred_domain.as_ref()?;
        let priority = self.table.priorities().of_constraint(Constraint::PreferredLocation);
        (priority != Priority::Off).then(|| self.table.nodes_in(domain))
    }

    /// Brings the node that the instance of the first slot prefers to the front.
    ///
    /// # Source
    /// Orchestration D8.
    pub fn preferred_first(&self, mut order: Vec<u32>) -> Vec<u32> {
        let Some(preferred) = self.preferred_nodes() else { return order };
        let priority = self.table.priorities().of_constraint(Constraint::PreferredLocation);
        let mut missed = Violations::default();
        // One that is hard weighs more than every other one.
        missed.add(Constraint::PreferredLocation, priority);
        let weight = |number: &u32| {
            let is_outside = !preferred.contains(*number);
            let violations = self.table.violations(*number);
            let violations = if is_outside { violations.with(missed) } else { violations };
            (is_outside && priority == Priority::Hard, violations.weight())
        };
        let first = (0..order.len()).min_by_key(|position| (weight(&order[*position]), *position));
        if let Some(first) = first {
            order[..=first].rotate_right(1);
        }
        order
    }

    /// Returns the keys of nodes, in no order; empty when the policy ranks none.
    pub(super) fn keys(&self, among: &RoaringBitmap) -> Vec<Key> {
        match self.placement.order {
            NodeOrder::Shifted(shift) => {
                let mut order: Vec<Key> = among.iter().map(|node| (one(self.position(node)), node)).collect();
                order.sort_unstable();
                let by = shift as usize % order.len().max(1);
                order.rotate_left(by);
                (0..).zip(order).map(|(position, (_, node))| (one(position), node)).collect()
            }
            _ => among.iter().filter_map(|node| Some((self.key(node)?, node))).collect(),
        }
    }

    /// Returns whether the key of a node depends on no other node.
    pub(super) fn has_single_keys(&self) -> bool {
        !matches!(self.placement.order, NodeOrder::Unranked | NodeOrder::Shifted(_))
    }

    /// Returns the best of some nodes, if each has a key of its own.
    pub(super) fn best(&self, among: &RoaringBitmap) -> Option<Key> {
        let node = match self.placement.order {
            // Small keys of numbers that lie side by side: all nodes of a large workload may be candidates.
            NodeOrder::LeastInstances => {
                let table = self.table;
                let counts = among.iter().map(|node| (table.own(node), table.instance_count(node), node));
                counts.min().map(|(_, _, node)| node)?
            }
            _ => return among.iter().filter_map(|node| Some((self.key(node)?, node))).min(),
        };
        Some((self.key(node)?, node))
    }

    /// Returns the key of one node; none when it depends on others, or the policy ranks none.
    pub(super) fn key(&self, node: u32) -> Option<[u64; 4]> {
        let table = self.table;
        Some(match self.placement.order {
            NodeOrder::Unranked | NodeOrder::Shifted(_) => return None,
            NodeOrder::Listed => one(self.position(node)),
            NodeOrder::LoadAverage => self.by_statistics(node, |statistics| statistics.load15),
            NodeOrder::Score => self.by_statistics(node, |statistics| Some(u64::MAX - statistics.score)),
            NodeOrder::Spread => self.spread(node),
            NodeOrder::LastStart => {
                let started = table.node(node).marks.last_start_at;
                one(started.map_or(u64::MAX, |at| u64::MAX / 2 - at.as_millisecond().max(0) as u64))
            }
            NodeOrder::LeastInstances => {
                [u64::from(table.own(node)), u64::from(table.instance_count(node)), 0, 0]
            }
        })
    }

    /// Nodes that are not listed follow in scope order.
    fn position(&self, node: u32) -> u64 {
        if self.positions.is_empty() {
            return u64::MAX;
        }
        self.positions.get(&self.table.node(node).id).copied().unwrap_or(u64::MAX)
    }

    /// Nodes without what is ranked by, or with too old statistics, come last.
    fn by_statistics(&self, node: u32, value: impl Fn(NodeStatistics) -> Option<u64>) -> [u64; 4] {
        let value = self.table.node(node).statistics.as_deref().copied().and_then(value);
        [u64::from(value.is_none()), value.unwrap_or_default(), 0, 0]
    }

    fn spread(&self, node: u32) -> [u64; 4] {
        let mut hash = Sha256::new();
        let parts = [self.unit_id.policy.as_str(), self.unit_id.name(), self.table.node(node).id.as_str()];
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                hash.update([0]);
            }
            hash.update(part);
        }
        let bytes = hash.finalize();
        let mut words = [0_u64; 4];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        words
    }
}

fn one(key: u64) -> [u64; 4] {
    [key, 0, 0, 0]
}
