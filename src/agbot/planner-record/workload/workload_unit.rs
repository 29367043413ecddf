//! Workload units: the parts of a workload that are counted and placed by themselves.
//!
//! Source: orchestration 1.3.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use serde::{Deserialize, Serialize};

use crate::facts::HaGroupFacts;

/// The part of a workload that a workload unit covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All nodes of the scope.
    All,
    /// The members of one HA group.
    Group(GroupId),
}

/// The id of a workload unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnitId {
    /// The workload.
    pub policy: PolicyId,
    /// Its part.
    pub part: Part,
}

impl UnitId {
    /// Returns the id of a workload's only unit.
    pub fn all(policy: PolicyId) -> Self {
        Self { policy, part: Part::All }
    }

    /// Returns the name that the API shows: `all`, or that of the group.
    pub fn name(&self) -> &str {
        match &self.part {
            Part::All => "all",
            Part::Group(group) => group.name(),
        }
    }
}

/// The nodes that belong to a workload, regardless of their properties.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NodeScope {
    /// All nodes that the policy selects.
    #[default]
    Eligible,
    /// These nodes, in this order.
    Nodes(Vec<NodeId>),
    /// The members of every HA group of the organization.
    EveryGroup,
    /// The members of these HA groups.
    Groups(Vec<GroupId>),
}

/// A workload unit with its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadUnit {
    /// Its id.
    pub id: UnitId,
    /// Its nodes in scope order.
    pub nodes: Vec<NodeId>,
}

/// Returns the workload units of a scope.
///
/// # Shape
/// In order of their names. `selected`: the nodes that the policy selects, used only for [`NodeScope::Eligible`]; of other
/// scopes the nodes are listed whether selected or not. A listed group that does not exist yields a workload unit without nodes.
pub fn workload_units(
    policy: &PolicyId,
    scope: &NodeScope,
    selected: &BTreeSet<NodeId>,
    groups: &BTreeMap<GroupId, HaGroupFacts>,
) -> Vec<WorkloadUnit> {
    let all = |nodes| vec![WorkloadUnit { id: UnitId::all(policy.clone()), nodes }];
    let of_group = |group: &GroupId| {
        let members = groups.get(group).into_iter().flat_map(|facts| &facts.members);
        let id = UnitId { policy: policy.clone(), part: Part::Group(group.clone()) };
        WorkloadUnit { id, nodes: members.cloned().collect() }
    };
    match scope {
        NodeScope::Eligible => all(selected.iter().cloned().collect()),
        NodeScope::Nodes(nodes) => all(nodes.clone()),
        NodeScope::EveryGroup => {
            groups.keys().filter(|group| group.org() == policy.org()).map(of_group).collect()
        }
        NodeScope::Groups(listed) => {
            listed.iter().collect::<BTreeSet<_>>().into_iter().map(of_group).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new("o", name)
    }

    fn units_of(scope: &NodeScope) -> Vec<(String, Vec<NodeId>)> {
        let group = HaGroupFacts::new(GroupId::new("o", "g1"), [node("n2"), node("n1")]);
        let groups = BTreeMap::from([(group.id.clone(), group)]);
        let selected = BTreeSet::from([node("n3"), node("n1")]);
        workload_units(&PolicyId::new("o", "w"), scope, &selected, &groups)
            .into_iter()
            .map(|found| (found.id.name().to_owned(), found.nodes))
            .collect()
    }

    #[test]
    fn scope_of_selected_nodes_is_one_workload_unit_by_id() {
        assert_eq!(units_of(&NodeScope::Eligible), [("all".into(), vec![node("n1"), node("n3")])]);
    }

    #[test]
    fn scope_of_nodes_keeps_their_order() {
        let scope = NodeScope::Nodes(vec![node("n9"), node("n1")]);
        assert_eq!(units_of(&scope), [("all".into(), vec![node("n9"), node("n1")])]);
    }

    #[test]
    fn scope_of_groups_has_a_workload_unit_for_each_even_if_it_does_not_exist() {
        let scope = NodeScope::Groups(vec![GroupId::new("o", "g2"), GroupId::new("o", "g1")]);
        let expected = [("g1".into(), vec![node("n1"), node("n2")]), ("g2".into(), vec![])];
        assert_eq!(units_of(&scope), expected);
    }

    /// E3-S4.
    #[test]
    fn scope_of_every_group_holds_no_node_outside_of_groups() {
        assert_eq!(units_of(&NodeScope::EveryGroup), [("g1".into(), vec![node("n1"), node("n2")])]);
    }
}
