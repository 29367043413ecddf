//! Sets of nodes by what is known of them beside the properties of their policies: for queries of people, nothing here decides.

use std::collections::BTreeMap;

use evenkeel_ids::ServiceKey;
use evenkeel_planner_record::{
    facts::{NodeFacts, NodeType},
    node_record::NodeRecord,
};
use roaring::RoaringBitmap;

/// Kind of what nodes may have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// A property of the node's policy.
    Property,
    /// Architecture.
    Arch,
    /// Version of the agent.
    AgentVersion,
    /// Device or edge cluster.
    NodeType,
    /// HA group.
    HaGroup,
    /// Fault domain, or one that contains it.
    FaultDomain,
    /// Upgrade domain.
    UpgradeDomain,
    /// Pattern.
    Pattern,
    /// Version of a service that it has an agreement about.
    Service,
}

impl Attribute {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Property => "property",
            Self::Arch => "arch",
            Self::AgentVersion => "agent-version",
            Self::NodeType => "node-type",
            Self::HaGroup => "ha-group",
            Self::FaultDomain => "fault-domain",
            Self::UpgradeDomain => "upgrade-domain",
            Self::Pattern => "pattern",
            Self::Service => "service",
        }
    }
}

/// Sets of nodes, by value.
///
/// # Shape
/// A set that became empty is removed.
#[derive(Debug, Clone, Default)]
pub(super) struct AttributeSets {
    values: BTreeMap<Attribute, BTreeMap<Box<str>, RoaringBitmap>>,
    services: BTreeMap<ServiceKey, BTreeMap<Box<str>, RoaringBitmap>>,
    orgs: BTreeMap<Box<str>, RoaringBitmap>,
}

/// Returns whether a node has other attributes than before.
pub(super) fn has_other_attributes(before: &NodeFacts, after: &NodeFacts) -> bool {
    before.node_type != after.node_type
        || before.arch != after.arch
        || before.agent_version != after.agent_version
        || before.fault_domain != after.fault_domain
        || before.upgrade_domain != after.upgrade_domain
        || before.pattern != after.pattern
}

/// Returns the attributes of a node, apart from its properties and services.
pub(super) fn attributes_of(record: &NodeRecord) -> Vec<(Attribute, String)> {
    let facts = &record.facts;
    let node_type = match facts.node_type {
        NodeType::Device => "device",
        NodeType::Cluster => "cluster",
    };
    let mut found = vec![
        (Attribute::Arch, facts.arch.clone()),
        (Attribute::AgentVersion, facts.agent_version.clone()),
        (Attribute::NodeType, node_type.to_owned()),
        (Attribute::HaGroup, record.group().unwrap_or_default().to_owned()),
        (Attribute::UpgradeDomain, facts.upgrade_domain.as_deref().unwrap_or_default().to_owned()),
        (Attribute::Pattern, facts.pattern.as_ref().map(ToString::to_string).unwrap_or_default()),
    ];
    let domain = facts.fault_domain.as_deref().unwrap_or_default();
    found.extend(with_enclosing(domain).map(|domain| (Attribute::FaultDomain, domain.to_owned())));
    found.retain(|(_, value)| !value.is_empty());
    found
}

/// Returns a fault domain and those that contain it: `fd:/dc/rack` and `fd:/dc`.
fn with_enclosing(domain: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(domain);
    let enclosing = std::iter::from_fn(move || {
        let domain = next?;
        next = domain.rsplit_once('/').map(|(parent, _)| parent);
        Some(domain)
    });
    enclosing.filter(|domain| !domain.is_empty() && !domain.ends_with(':'))
}

impl AttributeSets {
    pub fn insert(&mut self, number: u32, record: &NodeRecord) {
        self.orgs.entry(record.facts.id.org().into()).or_default().insert(number);
        for (attribute, value) in attributes_of(record) {
            self.values.entry(attribute).or_default().entry(value.into()).or_default().insert(number);
        }
    }

    pub fn remove(&mut self, number: u32, record: &NodeRecord) {
        remove_from(&mut self.orgs, record.facts.id.org(), number);
        for (attribute, value) in attributes_of(record) {
            self.values.entry(attribute).and_modify(|sets| remove_from(sets, &value, number));
        }
    }

    /// Replaces the versions of services that a node has agreements about.
    pub fn replace_services(
        &mut self,
        number: u32,
        before: &[(ServiceKey, String)],
        after: &[(ServiceKey, String)],
    ) {
        for (service, version) in before.iter().filter(|one| !after.contains(one)) {
            let Some(sets) = self.services.get_mut(service) else { continue };
            remove_from(sets, version, number);
            if sets.is_empty() {
                self.services.remove(service);
            }
        }
        for (service, version) in after.iter().filter(|one| !before.contains(one)) {
            let sets = self.services.entry(service.clone()).or_default();
            sets.entry(version.as_str().into()).or_default().insert(number);
        }
    }

    /// Returns the nodes of an organization.
    pub fn of_org(&self, org: &str) -> RoaringBitmap {
        self.orgs.get(org).cloned().unwrap_or_default()
    }

    /// Returns each attribute with its name and its sets by value.
    pub fn lists(&self) -> impl Iterator<Item = (Attribute, &str, &BTreeMap<Box<str>, RoaringBitmap>)> {
        let of_values = self.values.iter().map(|(attribute, sets)| (*attribute, "", sets));
        let of_services =
            self.services.iter().map(|(service, sets)| (Attribute::Service, service.as_str(), sets));
        of_values.chain(of_services)
    }
}

fn remove_from(sets: &mut BTreeMap<Box<str>, RoaringBitmap>, value: &str, number: u32) {
    if let Some(set) = sets.get_mut(value) {
        set.remove(number);
        if set.is_empty() {
            sets.remove(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_domain_lies_in_those_that_contain_it() {
        let found: Vec<&str> = with_enclosing("fd:/dc/rack").collect();
        assert_eq!(found, ["fd:/dc/rack", "fd:/dc"]);
        assert_eq!(with_enclosing("").count(), 0);
        assert_eq!(with_enclosing("rack").collect::<Vec<_>>(), ["rack"]);
    }
}
