//! Inert documents: policies, patterns, services and inputs that have no effect because something in them cannot be read.
//!
//! The exchange stores them, as the reference does; here they are detected, logged once, listed among the reasons and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_domain::policy::ConstraintList;
use evenkeel_domain::review::Finding;
use evenkeel_ids::{NodeId, ServiceId};
use evenkeel_placement::matching::{node_input_errors, policy_errors, service_errors, service_policy_errors};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::facts::{DeploymentPolicyFacts, NodePolicyFacts};
use serde::Serialize;
use serde_json::Value;

/// The kind of a document.
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
    /// A pattern.
    Pattern,
    /// A service.
    ServiceDefinition,
    /// The values that a node gives to variables of services.
    NodeInput,
    /// The status that a node reports.
    NodeStatus,
}

impl PolicyKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Deployment,
        Self::Node,
        Self::Service,
        Self::Management,
        Self::Pattern,
        Self::ServiceDefinition,
        Self::NodeInput,
        Self::NodeStatus,
    ];

    /// Returns whether the id is that of a node.
    #[must_use]
    pub fn is_of_node(self) -> bool {
        matches!(self, Self::Node | Self::NodeInput | Self::NodeStatus)
    }

    fn effect(self) -> &'static str {
        match self {
            Self::Deployment | Self::Node | Self::Service | Self::Management => "selects nothing",
            Self::Pattern | Self::ServiceDefinition => "is not deployed",
            Self::NodeInput | Self::NodeStatus => "cannot be used",
        }
    }

    /// Returns its name in labels and records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::Node => "node",
            Self::Service => "service",
            Self::Management => "management",
            Self::Pattern => "pattern",
            Self::ServiceDefinition => "service-definition",
            Self::NodeInput => "node-input",
            Self::NodeStatus => "node-status",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deployment | Self::Node | Self::Service | Self::Management => {
                write!(formatter, "{} policy", self.word())
            }
            Self::Pattern => formatter.write_str("pattern"),
            Self::ServiceDefinition => formatter.write_str("service"),
            Self::NodeInput => formatter.write_str("user input of node"),
            Self::NodeStatus => formatter.write_str("status of node"),
        }
    }
}

/// A document without effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InertPolicy {
    /// Its kind.
    pub kind: PolicyKind,
    /// Its id, `org/name`; for what belongs to a node or service that of its owner.
    pub id: String,
    /// The error of each member and each constraint.
    pub errors: Vec<String>,
}

/// Texts about documents, by kind and id.
type Texts = BTreeMap<(PolicyKind, String), Vec<String>>;

/// The inert documents of all organizations that the agbot serves, and what can never work in the others.
#[derive(Debug, Default)]
pub struct InertPolicies {
    inert: Mutex<Texts>,
    findings: Mutex<Texts>,
}

impl InertPolicies {
    /// Updates the list with events about documents.
    pub fn apply(&self, events: &[Event]) {
        for event in events {
            match event {
                Event::DeploymentPolicyChanged { policy } => self.set_policy(policy),
                Event::DeploymentPolicyRemoved { policy } => {
                    self.remove(PolicyKind::Deployment, policy.as_str());
                }
                Event::ServicePolicyChanged { service, policy: Some(policy) } => {
                    self.set_errors(PolicyKind::Service, service.as_str(), service_policy_errors(policy));
                }
                Event::ServicePolicyChanged { service, policy: None } => {
                    self.remove(PolicyKind::Service, service.as_str());
                }
                Event::ServiceChanged { service } => {
                    let errors = service_errors(service);
                    self.set_errors(PolicyKind::ServiceDefinition, service.id.as_str(), errors);
                }
                Event::ServiceRemoved { service } => self.remove_service(service),
                Event::NodeChanged { node } => {
                    self.set_errors(PolicyKind::NodeInput, node.id.as_str(), node_input_errors(node));
                }
                // A node policy has more constraints than those of the event: see `set_node_policy`.
                Event::NodePolicyChanged { node, policy: None } => {
                    self.remove(PolicyKind::Node, node.as_str());
                }
                Event::NodeRemoved { node } => self.remove_node(node),
                Event::NmpRemoved { nmp } => self.remove(PolicyKind::Management, nmp.as_str()),
                _ => {}
            }
        }
    }

    fn set_policy(&self, policy: &DeploymentPolicyFacts) {
        let (kind, id) = match &policy.pattern {
            None => (PolicyKind::Deployment, policy.id.as_str()),
            // All services of a pattern have its inputs and bindings.
            Some(pattern) => (PolicyKind::Pattern, pattern.as_str()),
        };
        self.set_errors(kind, id, policy_errors(policy));
    }

    fn remove_service(&self, service: &ServiceId) {
        for kind in [PolicyKind::Service, PolicyKind::ServiceDefinition] {
            self.remove(kind, service.as_str());
        }
    }

    fn remove_node(&self, node: &NodeId) {
        for kind in PolicyKind::ALL.into_iter().filter(|kind| kind.is_of_node()) {
            self.remove(kind, node.as_str());
        }
    }

    /// Records whether a node policy, as the exchange holds it and as it was read, is inert on one of its levels.
    pub fn set_node_policy(&self, node: &str, document: &Value, read: &NodePolicyFacts) {
        let levels = ["/constraints", "/deployment/constraints", "/management/constraints"];
        let errors = levels.into_iter().flat_map(|pointer| {
            let texts = document.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
            let list: ConstraintList = texts.filter_map(Value::as_str).collect();
            let field = pointer[1..].replace('/', ".");
            list.errors().into_iter().map(move |error| format!("{field}: {error}"))
        });
        self.set_errors(PolicyKind::Node, node, read.unreadable.iter().cloned().chain(errors).collect());
    }

    /// Records what cannot be read of a document; nothing means that it has an effect.
    pub fn set_errors(&self, kind: PolicyKind, id: &str, errors: Vec<String>) {
        if errors.is_empty() {
            return self.forget_errors(kind, id);
        }
        let text = errors.join("; ");
        let known = self.lock().insert((kind, id.to_owned()), errors.clone());
        if known.is_none_or(|known| known != errors) {
            tracing::warn!(policy.id = id, "{kind} `{id}` {}: {text}", kind.effect());
        }
    }

    /// Records what can never work, or is probably not meant, in a document that has an effect.
    pub fn set_findings(&self, kind: PolicyKind, id: &str, findings: &[Finding]) {
        let key = (kind, id.to_owned());
        if findings.is_empty() {
            self.findings().remove(&key);
            return;
        }
        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let known = self.findings().insert(key, texts.clone());
        if known.is_none_or(|known| known != texts) {
            tracing::warn!(policy.id = id, "{kind} `{id}`: {}", texts.join("; "));
        }
    }

    /// Returns the documents of an organization in which something can never work, by kind and id.
    pub fn findings_of_org(&self, org: &str) -> Vec<InertPolicy> {
        listed(&self.findings(), org)
    }

    /// Removes the documents of a kind and an organization that are not among `ids`.
    pub fn retain(&self, kind: PolicyKind, org: &str, ids: &BTreeSet<String>) {
        for mut texts in [self.lock(), self.findings()] {
            texts.retain(|(one, id), _| *one != kind || !is_of_org(id, org) || ids.contains(id));
        }
    }

    /// Returns what cannot be read of a document.
    pub fn errors_of(&self, kind: PolicyKind, id: &str) -> Vec<String> {
        self.lock().get(&(kind, id.to_owned())).cloned().unwrap_or_default()
    }

    /// Returns the inert documents of an organization, by kind and id.
    pub fn of_org(&self, org: &str) -> Vec<InertPolicy> {
        listed(&self.lock(), org)
    }

    /// Returns the number of inert documents of a kind.
    pub fn count(&self, kind: PolicyKind) -> usize {
        self.lock().keys().filter(|(one, _)| *one == kind).count()
    }

    /// Forgets a document that is gone.
    pub fn remove(&self, kind: PolicyKind, id: &str) {
        self.forget_errors(kind, id);
        self.findings().remove(&(kind, id.to_owned()));
    }

    fn forget_errors(&self, kind: PolicyKind, id: &str) {
        self.lock().remove(&(kind, id.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, Texts> {
        self.inert.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn findings(&self) -> MutexGuard<'_, Texts> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listed(texts: &Texts, org: &str) -> Vec<InertPolicy> {
    let found = texts.iter().filter(|((_, id), _)| is_of_org(id, org));
    let document = |((kind, id), errors): (&(PolicyKind, String), &Vec<String>)| InertPolicy {
        kind: *kind,
        id: id.clone(),
        errors: errors.clone(),
    };
    found.map(document).collect()
}

fn is_of_org(id: &str, org: &str) -> bool {
    id.split_once('/').is_some_and(|(one, _)| one == org)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::facts;

    fn errors(text: &str) -> Vec<String> {
        ConstraintList::from_iter([text]).errors().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn findings_stand_beside_errors_and_go_with_the_document() {
        let inert = InertPolicies::default();
        let document = serde_json::json!({"properties": [{"name": "a"}]});
        let findings = evenkeel_domain::review::node_policy(&document);
        inert.set_findings(PolicyKind::Deployment, "o/p", &findings);
        inert.set_errors(PolicyKind::Deployment, "o/p", errors("a == b"));
        assert_eq!((inert.findings_of_org("o").len(), inert.of_org("o").len()), (1, 0));
        inert.remove(PolicyKind::Deployment, "o/p");
        assert!(inert.findings_of_org("o").is_empty());
    }

    #[test]
    fn policy_is_inert_until_its_constraints_can_be_read() {
        let inert = InertPolicies::default();
        inert.set_errors(PolicyKind::Management, "o/m", errors("camera = = true"));
        inert.set_errors(PolicyKind::Service, "p/s", errors("camera =="));
        assert_eq!(inert.of_org("o")[0].id, "o/m");
        assert!(inert.of_org("o")[0].errors[0].contains("character 10"));
        assert_eq!((inert.count(PolicyKind::Management), inert.count(PolicyKind::Node)), (1, 0));
        inert.set_errors(PolicyKind::Service, "p/s", errors("camera == true"));
        assert!(inert.of_org("p").is_empty());
        let set_node_policy = |document: Value| {
            inert.set_node_policy("p/n", &document, &facts::node_policy(&document));
        };
        set_node_policy(serde_json::json!({"management": {"constraints": ["a =="]}}));
        assert!(inert.of_org("p")[0].errors[0].starts_with("management.constraints: constraint 0"));
        set_node_policy(serde_json::json!({"properties": [{"name": "a"}]}));
        assert!(inert.of_org("p")[0].errors[0].starts_with("property \"a\" needs"));
        set_node_policy(serde_json::json!({"constraints": []}));
        inert.retain(PolicyKind::Management, "p", &BTreeSet::new());
        assert_eq!(inert.of_org("o").len(), 1, "another organization's policies stay");
        inert.retain(PolicyKind::Management, "o", &BTreeSet::new());
        assert!(inert.of_org("o").is_empty());
    }
}
