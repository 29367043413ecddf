//! Inert policies: they select nothing because one of their constraints is invalid.
//!
//! The exchange stores them, as the reference does; here they are detected, logged once, listed among the reasons and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_domain::policy::ConstraintList;
use evenkeel_ids::NmpId;
use evenkeel_planner::event::Event;
use serde::Serialize;
use serde_json::Value;

/// The kind of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// A deployment policy.
    Deployment,
    /// The policy of a node.
    Node,
    /// The policy of a service.
    Service,
    /// A node management policy.
    Management,
}

impl PolicyKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Deployment, Self::Node, Self::Service, Self::Management];
}

impl PolicyKind {
    /// Returns its name in labels and records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::Node => "node",
            Self::Service => "service",
            Self::Management => "management",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} policy", self.word())
    }
}

/// A policy that selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InertPolicy {
    /// Its kind.
    pub kind: PolicyKind,
    /// Its id, `org/name`; for a node or service policy that of its owner.
    pub id: String,
    /// The error of each invalid constraint.
    pub errors: Vec<String>,
}

/// The inert policies of all organizations that the agbot serves.
#[derive(Debug, Default)]
pub struct InertPolicies(Mutex<BTreeMap<(PolicyKind, String), Vec<String>>>);

impl InertPolicies {
    /// Updates the list with events about policies.
    pub fn apply(&self, events: &[Event]) {
        for event in events {
            match event {
                Event::DeploymentPolicyChanged { policy } => {
                    self.set(PolicyKind::Deployment, policy.id.as_str(), &policy.policy.constraints);
                }
                Event::DeploymentPolicyRemoved { policy } => {
                    self.remove(PolicyKind::Deployment, policy.as_str());
                }
                Event::ServicePolicyChanged { service, policy: Some(policy) } => {
                    self.set(PolicyKind::Service, service.as_str(), &policy.policy.constraints);
                }
                Event::ServicePolicyChanged { service, policy: None } | Event::ServiceRemoved { service } => {
                    self.remove(PolicyKind::Service, service.as_str());
                }
                // A node policy has more constraints than those of the event: see `set_node_policy`.
                Event::NodePolicyChanged { node, policy: None } | Event::NodeRemoved { node } => {
                    self.remove(PolicyKind::Node, node.as_str());
                }
                Event::NmpRemoved { nmp } => self.remove(PolicyKind::Management, nmp.as_str()),
                _ => {}
            }
        }
    }

    /// Records whether a policy with these constraints is inert.
    pub fn set(&self, kind: PolicyKind, id: &str, constraints: &ConstraintList) {
        self.set_errors(kind, id, constraints.errors().iter().map(ToString::to_string).collect());
    }

    /// Records whether a node policy, as the exchange holds it, is inert on one of its levels.
    pub fn set_node_policy(&self, node: &str, document: &Value) {
        let levels = ["/constraints", "/deployment/constraints", "/management/constraints"];
        let errors = levels.into_iter().flat_map(|pointer| {
            let texts = document.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
            let list: ConstraintList = texts.filter_map(Value::as_str).collect();
            let field = pointer[1..].replace('/', ".");
            list.errors().into_iter().map(move |error| format!("{field}: {error}"))
        });
        self.set_errors(PolicyKind::Node, node, errors.collect());
    }

    fn set_errors(&self, kind: PolicyKind, id: &str, errors: Vec<String>) {
        if errors.is_empty() {
            return self.remove(kind, id);
        }
        let text = errors.join("; ");
        let known = self.lock().insert((kind, id.to_owned()), errors.clone());
        if known.is_none_or(|known| known != errors) {
            tracing::warn!(policy.id = id, "{kind} `{id}` selects nothing: {text}");
        }
    }

    /// Removes the management policies of an organization that are not among `ids`.
    pub fn retain_management(&self, org: &str, ids: &BTreeSet<NmpId>) {
        self.lock().retain(|(kind, id), _| {
            let id = NmpId::from_text(id);
            *kind != PolicyKind::Management || id.org() != org || ids.contains(&id)
        });
    }

    /// Returns the inert policies of an organization, by kind and id.
    pub fn of_org(&self, org: &str) -> Vec<InertPolicy> {
        let is_of_org = |id: &str| id.split_once('/').is_some_and(|(one, _)| one == org);
        let inert = self.lock();
        let found = inert.iter().filter(|((_, id), _)| is_of_org(id));
        found
            .map(|((kind, id), errors)| InertPolicy { kind: *kind, id: id.clone(), errors: errors.clone() })
            .collect()
    }

    /// Returns the number of inert policies of a kind.
    pub fn count(&self, kind: PolicyKind) -> usize {
        self.lock().keys().filter(|(one, _)| *one == kind).count()
    }

    fn remove(&self, kind: PolicyKind, id: &str) {
        self.lock().remove(&(kind, id.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(PolicyKind, String), Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ConstraintList {
        ConstraintList::from_iter([text])
    }

    #[test]
    fn policy_is_inert_until_its_constraints_can_be_read() {
        let inert = InertPolicies::default();
        inert.set(PolicyKind::Management, "o/m", &list("camera = = true"));
        inert.set(PolicyKind::Service, "p/s", &list("camera =="));
        assert_eq!(inert.of_org("o")[0].id, "o/m");
        assert!(inert.of_org("o")[0].errors[0].contains("character 10"));
        assert_eq!((inert.count(PolicyKind::Management), inert.count(PolicyKind::Node)), (1, 0));
        inert.set(PolicyKind::Service, "p/s", &list("camera == true"));
        assert!(inert.of_org("p").is_empty());
        inert.set_node_policy("p/n", &serde_json::json!({"management": {"constraints": ["a =="]}}));
        assert!(inert.of_org("p")[0].errors[0].starts_with("management.constraints: constraint 0"));
        inert.set_node_policy("p/n", &serde_json::json!({"constraints": []}));
        inert.retain_management("p", &BTreeSet::new());
        assert_eq!(inert.of_org("o").len(), 1, "another organization's policies stay");
        inert.retain_management("o", &BTreeSet::new());
        assert!(inert.of_org("o").is_empty());
    }
}
