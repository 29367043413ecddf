//! Policies and patterns that other agbots of the exchange are configured to serve; this agbot leaves them alone.
//!
//! Source: agbot 1.2.

use std::collections::BTreeMap;

use evenkeel_ids::AgbotId;
use serde::{Deserialize, Serialize};

use crate::facts::DeploymentPolicyFacts;

/// Matches every policy or pattern of an organization.
const EVERY: &str = "*";

/// Organization → name or `*` → organization of the nodes → agbot.
type Entries = BTreeMap<String, BTreeMap<String, BTreeMap<String, AgbotId>>>;

/// The served policies and patterns of other agbots.
///
/// # Shape
/// If several agbots have the same entry, the first in order of their ids wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherAgbots {
    policies: Entries,
    patterns: Entries,
}

impl OtherAgbots {
    /// Adds a served policy of an agbot; `name` may be `*`.
    pub fn add_policy(&mut self, agbot: &AgbotId, org: &str, name: &str, node_org: &str) {
        add(&mut self.policies, agbot, [org, name, node_org]);
    }

    /// Adds a served pattern of an agbot; `name` may be `*`.
    pub fn add_pattern(&mut self, agbot: &AgbotId, org: &str, name: &str, node_org: &str) {
        add(&mut self.patterns, agbot, [org, name, node_org]);
    }

    /// Adds the entries of some agbots.
    pub fn extend(&mut self, others: &Self, is_wanted: impl Fn(&AgbotId) -> bool) {
        for (own, entries) in [(&mut self.policies, &others.policies), (&mut self.patterns, &others.patterns)]
        {
            for (org, names) in entries {
                for (name, nodes) in names {
                    for (node_org, agbot) in nodes.iter().filter(|(_, agbot)| is_wanted(agbot)) {
                        add(own, agbot, [org, name, node_org]);
                    }
                }
            }
        }
    }

    /// Returns whether no other agbot serves anything.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.patterns.is_empty()
    }

    /// Returns the agbot that serves a policy, or a pattern's service, for nodes of an organization.
    pub fn server_of(&self, policy: &DeploymentPolicyFacts, node_org: &str) -> Option<&AgbotId> {
        match &policy.pattern {
            Some(pattern) => find(&self.patterns, [pattern.org(), pattern.name(), node_org]),
            None => find(&self.policies, [policy.id.org(), policy.id.name(), node_org]),
        }
    }

    /// Returns every entry, in order: what, for nodes of which organization, and the agbot.
    pub fn entries(&self) -> impl Iterator<Item = ServedElsewhere<'_>> {
        let policies = flatten(&self.policies).map(|entry| (false, entry));
        let patterns = flatten(&self.patterns).map(|entry| (true, entry));
        policies.chain(patterns).map(|(is_pattern, [org, name, node_org, agbot])| ServedElsewhere {
            is_pattern,
            org,
            name,
            node_org,
            agbot,
        })
    }
}

/// One entry of [`OtherAgbots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedElsewhere<'a> {
    /// True for a pattern, false for a deployment policy.
    pub is_pattern: bool,
    /// Organization of the policy or pattern.
    pub org: &'a str,
    /// Its name, or `*`.
    pub name: &'a str,
    /// Organization of the nodes.
    pub node_org: &'a str,
    /// The agbot, as `org/id`.
    pub agbot: &'a str,
}

fn add(entries: &mut Entries, agbot: &AgbotId, [org, name, node_org]: [&str; 3]) {
    let nodes = entries.entry(org.to_owned()).or_default().entry(name.to_owned()).or_default();
    let known = nodes.entry(node_org.to_owned()).or_insert_with(|| agbot.clone());
    if agbot < known {
        *known = agbot.clone();
    }
}

fn find<'a>(entries: &'a Entries, [org, name, node_org]: [&str; 3]) -> Option<&'a AgbotId> {
    let names = entries.get(org)?;
    [name, EVERY].into_iter().find_map(|name| names.get(name)?.get(node_org))
}

fn flatten(entries: &Entries) -> impl Iterator<Item = [&str; 4]> {
    entries.iter().flat_map(|(org, names)| {
        names.iter().flat_map(move |(name, nodes)| {
            nodes.iter().map(move |(node_org, agbot)| [org.as_str(), name, node_org, agbot.as_str()])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(others: &OtherAgbots) -> Vec<(&str, &str)> {
        others.entries().map(|entry| (entry.name, entry.agbot)).collect()
    }

    #[test]
    fn entry_covers_its_policy_for_nodes_of_its_organization_only() {
        let mut others = OtherAgbots::default();
        assert!(others.is_empty());
        others.add_policy(&AgbotId::new("o", "b"), "o", "p", "o");
        others.add_policy(&AgbotId::new("o", "a"), "o", "p", "o");
        others.add_pattern(&AgbotId::new("o", "c"), "o", "*", "n");
        assert_eq!(names(&others), [("p", "o/a"), ("*", "o/c")]);
        assert_eq!(find(&others.policies, ["o", "p", "o"]), Some(&AgbotId::new("o", "a")));
        assert_eq!(find(&others.policies, ["o", "q", "o"]), None);
        assert_eq!(find(&others.policies, ["o", "p", "n"]), None);
        assert_eq!(find(&others.patterns, ["o", "any", "n"]), Some(&AgbotId::new("o", "c")));
    }
}
