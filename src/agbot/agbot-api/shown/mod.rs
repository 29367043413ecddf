//! What the agbot shows of its model, and to whom: the forms on the wire, without what a caller may not read.

pub(crate) mod blocked_upgrades;
pub(crate) mod common;
pub(crate) mod hidden;
pub(crate) mod history;
mod rollout_detail;
pub(crate) mod shape;
pub(crate) mod workload_shape;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::NodeId;
use evenkeel_planner_model::model::{Model, NodeSet};

/// The nodes of an organization that a caller may read.
pub(crate) enum SeenNodes {
    /// Every node: administrators of the organization and agbots.
    All,
    /// Only these: a user's own nodes, a node itself.
    Only(BTreeSet<NodeId>),
    /// Those of each organization by itself, of others none.
    PerOrg(BTreeMap<String, SeenNodes>),
}

impl SeenNodes {
    /// Returns true if the caller may read the node.
    pub(crate) fn shows(&self, node: &NodeId) -> bool {
        match self {
            Self::All => true,
            Self::Only(nodes) => nodes.contains(node),
            Self::PerOrg(orgs) => orgs.get(node.org()).is_some_and(|seen| seen.shows(node)),
        }
    }

    /// Returns whether the caller may read every node.
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// The nodes as a set of the model; `None` means all.
    pub(crate) fn set(&self, model: &Model) -> Option<NodeSet> {
        match self {
            Self::All => None,
            Self::Only(nodes) => Some(model.set_of_nodes(nodes)),
            Self::PerOrg(orgs) => {
                let of_org = |(org, seen): (&String, &SeenNodes)| {
                    seen.set(model).unwrap_or_else(|| model.set_of_org(org))
                };
                Some(orgs.iter().map(of_org).reduce(|all, one| all.or(&one)).unwrap_or_default())
            }
        }
    }

    /// The ids of an organization to ask the database for; `None` means all.
    pub(crate) fn ids_in(&self, org: &str) -> Option<Vec<NodeId>> {
        match self {
            Self::PerOrg(orgs) => orgs.get(org).map_or(Some(Vec::new()), SeenNodes::ids),
            Self::All | Self::Only(_) => self.ids(),
        }
    }

    /// The ids to ask the database for; `None` means all.
    pub(crate) fn ids(&self) -> Option<Vec<NodeId>> {
        match self {
            Self::All => None,
            Self::Only(nodes) => Some(nodes.iter().cloned().collect()),
            Self::PerOrg(orgs) => Some(orgs.values().filter_map(SeenNodes::ids).flatten().collect()),
        }
    }
}
