//! Cycles among the parents, and among the children, of the policies of one organization.
//!
//! Two policies may name each other, one as a parent and the other as a child; only cycles within one of the two relations can
//! never be satisfied. Source: orchestration 1.2, A8.7.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use evenkeel_ids::PolicyId;

use super::Orchestration;

/// The relation that has a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Workloads that must be up before this one starts.
    Parents,
    /// Workloads that must be down before this one stops.
    Children,
}

/// A cycle of policies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("orchestration.{relation} has the cycle {}", names(policies))]
pub struct Cycle {
    /// The relation.
    pub relation: Relation,
    /// The policies in the order of the relation; the first and the last are the same.
    pub policies: Vec<PolicyId>,
}

impl fmt::Display for Relation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Parents => "parents",
            Self::Children => "children",
        })
    }
}

fn names(policies: &[PolicyId]) -> String {
    policies.iter().map(PolicyId::name).collect::<Vec<_>>().join(", ")
}

/// Finds a cycle through one policy; missing policies have no relations.
///
/// The time is linear in the number of references that can be reached from the policy; nothing recurses.
///
/// # Shape
/// The shortest cycle, the first in the order of the ids if there are several.
///
/// # Source
/// Orchestration 1.2, A8.7.
pub fn find_cycle(policy: &PolicyId, policies: &BTreeMap<PolicyId, Orchestration>) -> Option<Cycle> {
    [Relation::Parents, Relation::Children].into_iter().find_map(|relation| {
        let next = |policy: &PolicyId| match (policies.get(policy), relation) {
            (None, _) => BTreeSet::new(),
            (Some(one), Relation::Parents) => one.parent_policies(policy),
            (Some(one), Relation::Children) => one.child_policies(policy),
        };
        shortest_cycle(policy, next).map(|policies| Cycle { relation, policies })
    })
}

/// Searches breadth-first from the policy until it is reached again.
fn shortest_cycle(
    policy: &PolicyId,
    next: impl Fn(&PolicyId) -> BTreeSet<PolicyId>,
) -> Option<Vec<PolicyId>> {
    let mut came_from: BTreeMap<PolicyId, PolicyId> = BTreeMap::new();
    let mut layer = vec![policy.clone()];
    while !layer.is_empty() {
        let mut following = Vec::new();
        for one in layer {
            for named in next(&one) {
                if named == *policy {
                    return Some(path_to(one, &came_from, policy));
                }
                if !came_from.contains_key(&named) {
                    came_from.insert(named.clone(), one.clone());
                    following.push(named);
                }
            }
        }
        layer = following;
    }
    None
}

/// Returns the path from the policy to `last` and back.
fn path_to(last: PolicyId, came_from: &BTreeMap<PolicyId, PolicyId>, policy: &PolicyId) -> Vec<PolicyId> {
    let mut path = vec![policy.clone()];
    let mut one = Some(&last);
    while let Some(current) = one.filter(|current| *current != policy) {
        path.push(current.clone());
        one = came_from.get(current);
    }
    path.push(policy.clone());
    path.reverse();
    path
}
