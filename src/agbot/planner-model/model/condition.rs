//! The reported condition of nodes: whether they are alive or away, whether their drain is complete, and whether they are frozen.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use evenkeel_ids::NodeId;
use evenkeel_planner_record::{
    facts::{AgentFacts, AgentName, Availability, NodeMonitorState},
    time::later,
};
use jiff::Timestamp;

use super::{Liveness, Model};

/// The announced absence of an agent.
///
/// # Source
/// Orchestration A10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    /// Maintenance or upgrade.
    pub monitor_state: NodeMonitorState,
    /// When it was announced.
    pub since: Timestamp,
    /// True if the grace period passed without a heartbeat.
    pub is_expired: bool,
}

/// Time after the last refusal of another agent in which there are two.
const CONFLICT_SECS: u64 = 90;

/// Two agents with the identity of one node: a copied disk, or a token that was used twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityConflict {
    /// The one that reports for the node.
    pub current: AgentName,
    /// The one that the exchange refuses.
    pub refused: AgentName,
}

impl fmt::Display for IdentityConflict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { current, refused } = self;
        write!(
            out,
            "two agents have the identity of the node: boot {}, journal {} reports, and boot {}, journal {} is refused; give one of them an \
             identity of its own",
            current.boot, current.journal, refused.boot, refused.journal
        )
    }
}

/// Condition of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    /// The node.
    pub node: NodeId,
    /// Last heartbeat of a node that is down.
    pub down_since: Option<Timestamp>,
    /// Absence that the agent announced; none for an agent that works, or has started since.
    pub absence: Option<Absence>,
    /// Availability that the operator set.
    pub availability: Availability,
    /// True if a drain also removes the last instance of an HA group from the node.
    pub is_drain_forced: bool,
    /// True if the node is being drained and no longer has an agreement.
    pub is_drained: bool,
    /// True if the node is frozen.
    pub is_frozen: bool,
    /// User who last changed the availability of the node or froze or unfroze it; none when no user did.
    pub spec_updated_by: Option<Arc<str>>,
    /// The other agent that has its identity.
    pub conflict: Option<IdentityConflict>,
}

impl Model {
    /// Returns the conditions of up to `count` nodes after the given one that this agbot owns.
    ///
    /// # Shape
    /// In order of their ids, with the last node that was visited; none at the end. Nodes never heard of are left out.
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
                Liveness::Alive | Liveness::Away { .. } | Liveness::Unheard { .. } => None,
                Liveness::Down { since } => Some(since),
            };
            let facts = &self.nodes.get(node)?.facts;
            let announced =
                matches!(facts.monitor_state, NodeMonitorState::Maintenance | NodeMonitorState::Upgrade);
            let absence = facts.monitor_state_since.filter(|_| announced).map(|since| Absence {
                monitor_state: facts.monitor_state,
                since,
                is_expired: down_since.is_some(),
            });
            let is_drained = facts.availability == Availability::Drain && self.live_on(node).next().is_none();
            let is_frozen = facts.is_frozen;
            Some(NodeCondition {
                node: node.clone(),
                down_since,
                absence,
                availability: facts.availability,
                is_drain_forced: self.is_drain_forced(node),
                is_drained,
                is_frozen,
                spec_updated_by: facts.spec_updated_by.clone(),
                conflict: facts.agent.as_ref().and_then(|agent| conflict(agent, now)),
            })
        });
        (conditions.collect(), last)
    }
}

fn conflict(agent: &AgentFacts, now: Timestamp) -> Option<IdentityConflict> {
    let (refused, at) = agent.refused.clone()?;
    (now < later(at, CONFLICT_SECS)).then(|| IdentityConflict { current: agent.name.clone(), refused })
}
