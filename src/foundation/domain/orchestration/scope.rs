//! The nodes to choose from.

use evenkeel_ids::{GroupId, NodeId};
use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// Most nodes, groups or references in a list.
pub(super) const MAX_NAMES: usize = 1_000;

/// The nodes to choose from, besides properties and constraints.
///
/// # Source
/// Orchestration 1.3.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum Scope {
    /// Every node that the policy selects.
    #[default]
    Eligible,
    /// These nodes, in this order.
    Nodes {
        /// Ids; without an organization in that of the policy.
        nodes: Vec<String>,
    },
    /// The members of these HA groups, each group a unit of its own.
    HaGroups {
        /// Names; without an organization in that of the policy. `*` alone is every group.
        #[serde(rename = "haGroups")]
        ha_groups: Vec<String>,
    },
}

/// Matches every HA group in the list of a scope.
pub(super) const EVERY_GROUP: &str = "*";

impl Scope {
    /// Returns the listed nodes of a policy in that organization; none when the scope lists no nodes.
    pub fn node_ids(&self, org: &str) -> Option<Vec<NodeId>> {
        let Self::Nodes { nodes } = self else { return None };
        Some(nodes.iter().map(|name| NodeId::from_text(&qualified(org, name))).collect())
    }

    /// Returns the listed groups of a policy in that organization; none for other scopes and for every group.
    pub fn group_ids(&self, org: &str) -> Option<Vec<GroupId>> {
        let Self::HaGroups { ha_groups } = self else { return None };
        let is_every = ha_groups.iter().any(|name| name == EVERY_GROUP);
        let groups = || ha_groups.iter().map(|name| GroupId::from_text(&qualified(org, name))).collect();
        (!is_every).then(groups)
    }
}

pub(super) fn qualified(org: &str, name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{org}/{name}") }
}
// Not derived, because the type may be left out in the first variant.
impl PartialSchema for Scope {
    fn schema() -> RefOr<Schema> {
        let kind = |name: &str| ObjectBuilder::new().schema_type(Type::String).enum_values(Some([name]));
        let groups = ArrayBuilder::new()
            .items(ObjectBuilder::new().schema_type(Type::String))
            .min_items(Some(1))
            .max_items(Some(MAX_NAMES))
            .description(Some(
                "Names of the groups, `org/name` outside the organization of the policy; `*` alone is every group.",
            ));
        let eligible = ObjectBuilder::new()
            .property("type", kind("eligible"))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .description(Some("On every node that the policy selects."));
        let names = ArrayBuilder::new()
            .items(ObjectBuilder::new().schema_type(Type::String))
            .min_items(Some(1))
            .max_items(Some(MAX_NAMES))
            .unique_items(true)
            .description(Some(
                "Names of the nodes, `org/name` outside the organization of the policy, in the order of preference.",
            ));
        let nodes = ObjectBuilder::new()
            .property("type", kind("nodes"))
            .required("type")
            .property("nodes", names)
            .required("nodes")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .description(Some("On these nodes only."));
        let members = ObjectBuilder::new()
            .property("type", kind("hagroups"))
            .required("type")
            .property("haGroups", groups)
            .required("haGroups")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .description(Some("On members of these HA groups only."));
        OneOfBuilder::new()
            .item(eligible)
            .item(nodes)
            .item(members)
            .description(Some("Nodes on which the service may run, besides properties and constraints."))
            .into()
    }
}

impl ToSchema for Scope {}
