//! The condition of nodes as people are told of it: whether they are heard, and whether they are empty when they shall be.

use std::ops::Bound;

use jiff::Timestamp;

use super::{Liveness, Model};
use crate::{facts::Availability, ids::NodeId};

/// Condition of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    /// The node.
    pub node: NodeId,
    /// Last heartbeat of a node that is down.
    pub down_since: Option<Timestamp>,
    /// Whether the node is to be drained and has no agreement any more.
    pub is_drained: bool,
}

impl Model {
    /// Returns the conditions of the nodes that this agbot decides about, among `count` nodes after the given one.
    ///
    /// # Shape
    /// In order of their ids, with the last node that was visited; none at the end. Nodes that were never heard are left out.
    pub fn node_conditions(
        &self,
        after: Option<&NodeId>,
        count: usize,
        now: Timestamp,
    ) -> (Vec<NodeCondition>, Option<NodeId>) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let visited: Vec<&NodeId> = self
            .nodes
            .range::<NodeId, _>((start, Bound::Unbounded))
            .take(count)
            .map(|(node, _)| node)
            .collect();
        let last = visited.last().map(|node| (*node).clone());
        let own = visited.into_iter().filter(|node| self.lease_for(node).is_some());
        let conditions = own.filter_map(|node| {
            let down_since = match self.liveness(node, now) {
                Liveness::NeverHeard => return None,
                Liveness::Alive => None,
                Liveness::Down { since } => Some(since),
            };
            let is_drained =
                self.availability(node) == Availability::Drain && self.live_on(node).next().is_none();
            Some(NodeCondition { node: node.clone(), down_since, is_drained })
        });
        (conditions.collect(), last)
    }
}
