//! The newest placement of each pair, and since when it has waited: what an agbot shows of the pairs that it decides about.
//!
//! A placement is the result of a decision. It is replaced by that of the next decision about the pair, and dropped with its node or policy.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::{event::Event, model::Model};
use evenkeel_planner_record::report::{Blocked, Placement};
use jiff::Timestamp;

use crate::explain::explain;

type Pair = (NodeId, PolicyId);

/// Returns a placement as it is shown.
///
/// The reason why a pair has no instance is recomputed: nothing decides again about a pair that the index rules out, or that another agbot
/// decides about.
pub fn shown(model: &Model, (node, policy): &Pair, placement: Placement, now: Timestamp) -> Placement {
    match placement {
        Placement::NotPlaced { .. } => explain(model, node, policy, now).placement,
        Placement::Placed { .. } | Placement::Waiting { .. } | Placement::Acting { .. } => placement,
    }
}

/// The newest placements.
#[derive(Debug, Clone, Default)]
pub struct Placements {
    newest: BTreeMap<Pair, Placement>,
    /// The rule that a pair waits for, and since when.
    waiting_since: BTreeMap<Pair, (&'static str, Timestamp)>,
}

impl Placements {
    /// Records the placements of a decision.
    pub fn note(&mut self, newer: impl IntoIterator<Item = (Pair, Placement)>, now: Timestamp) {
        for (pair, placement) in newer {
            match &placement {
                Placement::Waiting { blocked, .. } => {
                    let rule = blocked.upgrade_rule();
                    let known = self.waiting_since.entry(pair.clone()).or_insert((rule, now));
                    if known.0 != rule {
                        *known = (rule, now);
                    }
                }
                _ => {
                    self.waiting_since.remove(&pair);
                }
            }
            match &placement {
                Placement::NotPlaced { blocked: Blocked::NodeUnknown | Blocked::PolicyUnknown } => {
                    self.newest.remove(&pair);
                }
                _ => {
                    self.newest.insert(pair, placement);
                }
            }
        }
    }

    /// Drops the placements of a policy or node that is gone. Agreements of it that still end are planned, and recorded, after that.
    pub fn forget(&mut self, event: &Event) {
        let (gone_node, gone_policy) = match event {
            Event::DeploymentPolicyRemoved { policy } => (None, Some(policy)),
            Event::NodeRemoved { node } => (Some(node), None),
            _ => return,
        };
        let is_kept = |(node, policy): &Pair| Some(node) != gone_node && Some(policy) != gone_policy;
        self.newest.retain(|pair, _| is_kept(pair));
        self.waiting_since.retain(|pair, _| is_kept(pair));
    }

    /// Returns since when a pair has waited for the same rule; none when it does not wait.
    pub fn waiting_since(&self, node: &NodeId, policy: &PolicyId) -> Option<Timestamp> {
        self.waiting_since.get(&(node.clone(), policy.clone())).map(|(_, since)| *since)
    }

    /// Returns the nodes on which something waits.
    pub fn waiting_nodes(&self) -> BTreeSet<NodeId> {
        self.waiting_since.keys().map(|(node, _)| node.clone()).collect()
    }

    /// Returns all pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Pair, &Placement)> {
        self.newest.iter()
    }

    /// Returns the pairs of an organization's nodes after the given one, in order; none begins with the first.
    pub fn of_org<'p>(
        &'p self,
        org: &'p str,
        after: Option<&Pair>,
    ) -> impl Iterator<Item = (&'p Pair, &'p Placement)> {
        let start = match after {
            Some(pair) => Bound::Excluded(pair.clone()),
            None => Bound::Included((NodeId::new(org, ""), PolicyId::new("", ""))),
        };
        let found = self.newest.range((start, Bound::Unbounded));
        found.take_while(move |((node, _), _)| node.org() == org)
    }

    /// Returns the pairs of one node.
    pub fn of_node<'p>(&'p self, node: &'p NodeId) -> impl Iterator<Item = (&'p Pair, &'p Placement)> {
        let found = self.newest.range((node.clone(), PolicyId::from_text("/"))..);
        found.take_while(move |((of, _), _)| of == node)
    }
}
