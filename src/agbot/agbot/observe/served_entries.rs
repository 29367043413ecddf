//! The entries that the agbot serves: policies and patterns, each for the nodes of certain organizations.
//!
//! Source: agbot 1.2.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_client::ClientError;
use evenkeel_ids::OrgId;
use evenkeel_wire::exchange::agbot::{ServedPattern, ServedPolicy};

use crate::context::Context;

/// The organization whose services, patterns and policies are for the nodes of every organization.
pub const SHARED_ORG: &str = "IBM";

/// Organization → name or `*` → node organizations.
pub(super) type Entries = BTreeMap<String, BTreeMap<String, BTreeSet<OrgId>>>;

/// The served policies and patterns with the organizations of their nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedEntries {
    own_org: String,
    pub(super) policies: Entries,
    pub(super) patterns: Entries,
}

impl ServedEntries {
    /// Returns the organizations whose changes matter.
    #[must_use]
    pub fn orgs(&self) -> BTreeSet<String> {
        let mut orgs: BTreeSet<String> = self.all_node_orgs().map(OrgId::to_string).collect();
        orgs.extend(self.policies.keys().chain(self.patterns.keys()).cloned());
        orgs.insert(self.own_org.clone());
        orgs
    }

    fn all_node_orgs(&self) -> impl Iterator<Item = &OrgId> {
        self.policies.values().chain(self.patterns.values()).flat_map(BTreeMap::values).flatten()
    }

    /// Returns the organizations whose nodes are served.
    #[must_use]
    pub fn node_orgs(&self) -> BTreeSet<OrgId> {
        self.all_node_orgs().cloned().collect()
    }

    /// Returns the organizations whose deployment policies are served.
    pub fn policy_orgs(&self) -> impl Iterator<Item = &String> {
        self.policies.keys()
    }

    /// Returns the organizations whose patterns are served.
    pub fn pattern_orgs(&self) -> impl Iterator<Item = &String> {
        self.patterns.keys()
    }

    /// Returns whether nodes of the organization are served.
    #[must_use]
    pub fn serves_nodes_of(&self, org: &str) -> bool {
        self.all_node_orgs().any(|one| one.as_str() == org)
    }

    /// Returns the organizations whose nodes a policy is served for; empty when it is not served.
    #[must_use]
    pub fn node_orgs_of(&self, org: &str, policy: &str) -> BTreeSet<OrgId> {
        found(&self.policies, org, policy)
    }

    /// Returns the organizations whose nodes the policies and patterns of an organization are served for.
    #[must_use]
    pub fn node_orgs_of_org(&self, org: &str) -> BTreeSet<OrgId> {
        let names = [self.policies.get(org), self.patterns.get(org)].into_iter().flatten();
        names.flat_map(BTreeMap::values).flatten().cloned().collect()
    }

    /// Returns the organizations whose nodes a pattern is served for; empty when it is not served.
    #[must_use]
    pub fn node_orgs_of_pattern(&self, org: &str, pattern: &str) -> BTreeSet<OrgId> {
        found(&self.patterns, org, pattern)
    }

    /// Returns whether the creation or deletion of an organization changes what is to be read.
    #[must_use]
    pub fn is_affected_by_org(&self, org: &str, operation: &str) -> bool {
        matches!(operation, "deleted" | "created") && self.orgs().contains(org)
    }

    fn add(&mut self, entry: ServedPolicy) {
        put(&mut self.policies, entry.business_pol_orgid, entry.business_pol, entry.node_orgid);
    }

    fn add_pattern(&mut self, entry: ServedPattern) {
        put(&mut self.patterns, entry.pattern_orgid, entry.pattern, entry.node_orgid);
    }
}

fn found(entries: &Entries, org: &str, name: &str) -> BTreeSet<OrgId> {
    let Some(names) = entries.get(org) else { return BTreeSet::new() };
    [names.get("*"), names.get(name)].into_iter().flatten().flatten().cloned().collect()
}

fn put(entries: &mut Entries, org: String, name: String, node_org: String) {
    let Ok(node_org) = (if node_org.is_empty() { &org } else { &node_org }).parse() else { return };
    entries.entry(org).or_default().entry(name).or_default().insert(node_org);
}

impl Context {
    /// Reads the served entries of this agbot from the exchange.
    ///
    /// # Errors
    /// When the exchange does not respond.
    pub async fn served_entries(&self) -> Result<ServedEntries, ClientError> {
        let (org, id) = (&self.settings.org, &self.settings.id);
        let mut served_entries = ServedEntries { own_org: org.clone(), ..ServedEntries::default() };
        for entry in self.client.list_served_policies(org, id, false).await?.into_values() {
            served_entries.add(entry);
        }
        for entry in self.client.list_served_patterns(org, id, false).await?.into_values() {
            served_entries.add_pattern(entry);
        }
        Ok(served_entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orgs(names: &[&str]) -> BTreeSet<OrgId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn entry(org: &str, policy: &str, node_org: &str) -> ServedPolicy {
        ServedPolicy {
            business_pol_orgid: org.into(),
            business_pol: policy.into(),
            node_orgid: node_org.into(),
            ..ServedPolicy::default()
        }
    }

    #[test]
    fn star_serves_every_policy_of_its_organization() {
        let mut served_entries = ServedEntries { own_org: "hub".into(), ..ServedEntries::default() };
        served_entries.add(entry("a", "*", ""));
        served_entries.add(entry("a", "p", "b"));
        assert_eq!(served_entries.node_orgs_of("a", "q"), orgs(&["a"]));
        assert_eq!(served_entries.node_orgs_of("a", "p"), orgs(&["a", "b"]));
        assert!(served_entries.node_orgs_of("b", "p").is_empty());
        assert!(served_entries.serves_nodes_of("b") && !served_entries.serves_nodes_of("hub"));
        assert_eq!(served_entries.orgs().len(), 3);
    }

    #[test]
    fn patterns_are_served_apart_from_policies_of_the_same_name() {
        let mut served_entries = ServedEntries { own_org: "hub".into(), ..ServedEntries::default() };
        served_entries.add_pattern(ServedPattern {
            pattern_orgid: "a".into(),
            pattern: "p".into(),
            node_orgid: "c".into(),
            ..ServedPattern::default()
        });
        assert_eq!(served_entries.node_orgs_of_pattern("a", "p"), orgs(&["c"]));
        assert!(
            served_entries.node_orgs_of("a", "p").is_empty()
                && served_entries.node_orgs_of_pattern("a", "q").is_empty()
        );
        assert!(served_entries.serves_nodes_of("c") && !served_entries.serves_nodes_of("a"));
        assert!(served_entries.orgs().contains("a"));
    }
}
