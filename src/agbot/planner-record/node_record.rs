//! The model's record of one node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use evenkeel_domain::policy::{
    ConstraintList, ExternalPolicy, Property, PropertyList, constraint::Expression,
};
use evenkeel_ids::{AgreementId, TaskId};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    facts::{NodeFacts, NodePolicyFacts, NodeStatusFacts},
    statistics::{EngineReport, NodeMachine},
    time::is_ahead,
    workload::{ReportedHealth, TaskReport},
};

/// The parsed deployment policy of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodePolicy {
    /// Properties as constraints see them: the group property is the hub's, regardless of the policy.
    properties: PropertyList,
    constraints: ConstraintList,
    tree: Result<Expression, String>,
    pub(crate) last_updated: Option<Timestamp>,
}

/// The agreements that the exchange had of a node.
///
/// The change feed shows agbots what is removed from the list and not what is added: it may be incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedAgreements {
    /// Their ids.
    pub ids: BTreeSet<AgreementId>,
    /// When the read began.
    pub read_at: Timestamp,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRecord {
    /// The node itself.
    pub facts: NodeFacts,
    /// Its status; none when it never reported one, which is "unknown" and never "nothing runs".
    pub status: Option<NodeStatusFacts>,
    /// Agreements the exchange has of it; none when not read.
    pub agreements: Option<ListedAgreements>,
    /// Its last report about each of its tasks.
    pub tasks: BTreeMap<TaskId, TaskReport>,
    /// Health of its tasks, as the node reported it.
    pub health: BTreeMap<TaskId, ReportedHealth>,
    /// State of the container engine that the node reported; none before the first report.
    pub engine: Option<EngineReport>,
    /// The address by which other nodes reach it; none when it never reported one.
    pub address: Option<Arc<str>>,
    pub(crate) policy: Option<NodePolicy>,
    /// Its last heartbeat as the exchange has it, by the exchange's clock.
    pub stored_heartbeat: Option<Timestamp>,
    /// When it reported its status, by the same clock.
    pub(crate) stored_status_at: Option<Timestamp>,
    /// When it was alive again after it had been down: earlier reports are no longer believed.
    pub back_at: Option<Timestamp>,
    /// True if its status was read while another agbot looked after the node: until it is read again, it does
    /// not prove that an instance has stopped.
    pub awaits_status: bool,
    group: Option<String>,
}

impl NodeRecord {
    /// Returns its policy with another value of a property, or without the property.
    #[must_use]
    pub fn policy_with(&self, name: &str, value: Option<Value>) -> NodePolicyFacts {
        let of_others = self.properties().into_iter().flat_map(|found| found.iter());
        let kept = of_others.filter(|property| property.name != name).cloned();
        let set = value.map(|value| Property::new(name, value));
        let constraints = self.policy.as_ref().map(|policy| policy.constraints.clone()).unwrap_or_default();
        let policy = ExternalPolicy { properties: set.into_iter().chain(kept).collect(), constraints };
        NodePolicyFacts { policy, ..NodePolicyFacts::default() }
    }

    /// Creates the record of a node of which only the facts are known.
    pub fn new(facts: NodeFacts, group: Option<&str>) -> Self {
        Self {
            stored_heartbeat: facts.last_heartbeat,
            stored_status_at: None,
            facts,
            status: None,
            agreements: None,
            tasks: BTreeMap::new(),
            health: BTreeMap::new(),
            engine: None,
            address: None,
            policy: None,
            back_at: None,
            awaits_status: false,
            group: group.map(str::to_owned),
        }
    }

    /// Takes over a status that was read. One from before the clock was set back is as old as it was found to be then.
    pub fn set_status(&mut self, status: Option<&NodeStatusFacts>, now: Timestamp) {
        let stored = status.and_then(|status| status.reported_at);
        let known = self.status.as_ref().and_then(|known| known.reported_at);
        let known = known.filter(|_| self.stored_status_at == stored).or(Some(Timestamp::UNIX_EPOCH));
        self.status = status.cloned();
        if let Some(status) = self.status.as_mut().filter(|_| stored.is_some_and(|at| is_ahead(at, now))) {
            status.reported_at = known;
        }
        self.stored_status_at = stored;
        self.awaits_status = false;
    }

    /// Returns whether a status that was read is news: it differs from the known one, or that one was awaited.
    pub fn is_news(&self, status: Option<&NodeStatusFacts>) -> bool {
        self.awaits_status || self.status.as_ref() != status
    }

    /// Returns a record of the node in another group.
    pub fn with_group(&self, group: Option<&str>) -> Self {
        let mut record = self.clone();
        record.set_group(group);
        record
    }

    /// Takes over what the node reported of its machine.
    pub fn set_machine(&mut self, machine: &NodeMachine) {
        self.engine = machine.engine.or(self.engine);
        if machine.address.is_some() {
            self.address.clone_from(&machine.address);
        }
    }

    /// Takes over the group of the node, which its properties show.
    pub fn set_group(&mut self, group: Option<&str>) {
        self.group = group.map(str::to_owned);
        if let Some(policy) = &mut self.policy {
            policy.properties.set_ha_group(group);
        }
    }

    /// Takes over the deployment policy of the node, with its constraints parsed.
    pub fn set_policy(&mut self, facts: Option<&NodePolicyFacts>) {
        self.policy = facts.map(|facts| {
            let mut properties = facts.policy.properties.clone();
            // Membership comes from the group resource alone.
            properties.set_ha_group(self.group.as_deref());
            NodePolicy {
                properties,
                constraints: facts.policy.constraints.clone(),
                tree: match &facts.unreadable {
                    Some(error) => Err(error.clone()),
                    None => facts.policy.constraints.parse_own().map_err(|error| error.to_string()),
                },
                last_updated: facts.last_updated,
            }
        });
    }

    /// Returns the agreements that the node reports, in its status or in its list in the exchange.
    pub fn reported(&self) -> impl Iterator<Item = &AgreementId> {
        let services = self.status.iter().flat_map(|status| &status.services);
        let running = services.filter_map(|service| service.agreement.as_ref());
        running.chain(self.agreements.iter().flat_map(|listed| &listed.ids))
    }

    /// Returns whether the node reports an agreement.
    pub fn reports(&self, agreement: &AgreementId) -> bool {
        self.reported().any(|reported| reported == agreement)
    }

    /// Returns the name of the node's group, without the organization.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Returns the properties that constraints see (those of the deployment policy and the group's), if it has a policy.
    pub fn properties(&self) -> Option<&PropertyList> {
        self.policy.as_ref().map(|policy| &policy.properties)
    }

    /// Returns the node's constraints on policies, as written, if it has a policy.
    pub fn constraints(&self) -> Option<&ConstraintList> {
        self.policy.as_ref().map(|policy| &policy.constraints)
    }

    /// Returns what the constraints mean.
    ///
    /// # Errors
    /// The error.
    pub fn constraint_tree(&self) -> Option<Result<&Expression, &str>> {
        self.policy.as_ref().map(|policy| policy.tree.as_ref().map_err(String::as_str))
    }
}
