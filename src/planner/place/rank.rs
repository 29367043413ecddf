//! Rankings: the order in which nodes are preferred.
//!
//! Source: orchestration A3, without those that need statistics of nodes.

use std::collections::BTreeMap;

use evenkeel_ids::NodeId;
use roaring::RoaringBitmap;
use sha2::{Digest, Sha256};

use super::NodeTable;
use crate::workload::{NodeOrder, PlacementRules, UnitId};

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

    /// Returns the keys of nodes, in no order; empty when the policy ranks none.
    pub(super) fn keys(&self, among: &RoaringBitmap) -> Vec<Key> {
        let table = self.table;
        let one = |key: u64| [key, 0, 0, 0];
        let of_each = |key: &dyn Fn(u32) -> [u64; 4]| among.iter().map(|node| (key(node), node)).collect();
        match self.placement.order {
            NodeOrder::Unranked => Vec::new(),
            NodeOrder::Listed => of_each(&|node| one(self.position(node))),
            NodeOrder::Spread => of_each(&|node| self.spread(node)),
            NodeOrder::LastStart => of_each(&|node| {
                let started = table.node(node).last_start_at;
                one(started.map_or(u64::MAX, |at| u64::MAX / 2 - at.as_millisecond().max(0) as u64))
            }),
            NodeOrder::Shifted(shift) => {
                let mut order: Vec<Key> = of_each(&|node| one(self.position(node)));
                order.sort_unstable();
                let by = shift as usize % order.len().max(1);
                order.rotate_left(by);
                (0..).zip(order).map(|(position, (_, node))| (one(position), node)).collect()
            }
            NodeOrder::LeastInstances => of_each(&|node| {
                [u64::from(table.own(node)), u64::from(table.node(node).instance_count), 0, 0]
            }),
        }
    }

    /// Nodes that are not listed follow in scope order.
    fn position(&self, node: u32) -> u64 {
        self.positions.get(&self.table.node(node).id).copied().unwrap_or(u64::MAX)
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
