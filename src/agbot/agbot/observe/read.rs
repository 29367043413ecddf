//! Reads resources of the exchange as events for the planner.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_client::ClientError;
use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_domain::review;
use evenkeel_ids::{GroupId, NmpId, NodeId, PatternId, PolicyId, ServiceId, ServiceKey, TaskId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::departure::Departure;
use evenkeel_planner_record::facts::{DeploymentPolicyFacts, NmpStatusFacts};
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::deployment_policy::DeploymentPolicyResponse;
use evenkeel_wire::exchange::management_policy::ManagementPolicyResponse;
use evenkeel_wire::exchange::node::{DepartingNode, NodeParts};
use evenkeel_wire::exchange::node_part::NodeStatusResponse;
use evenkeel_wire::exchange::pattern::PatternResponse;
use evenkeel_wire::exchange::service::ServiceResponse;
use serde_json::Value;

use super::served_entries::ServedEntries;
use super::services::Services;
use super::{facts, full, statistics};
use crate::context::{Context, EngineHandle};
use crate::inert::PolicyKind;

/// Reads the settings of an organization for its workloads.
///
/// # Errors
/// When the exchange does not respond. Settings that cannot be read are logged, and those known before
/// continue to apply.
pub async fn org_settings(context: &Context, org: &str) -> Result<Vec<Event>, ClientError> {
    let document = context.client.org_orchestration(org).await?;
    let settings = match document.map(|document| OrgSettings::read(document.as_value().clone())) {
        None => OrgSettings::default(),
        Some(Ok(settings)) => settings,
        Some(Err(error)) => {
            tracing::error!(org, %error, "the settings of the organization cannot be read: the previous settings stay in force");
            return Ok(Vec::new());
        }
    };
    let Ok(org) = org.parse() else { return Ok(Vec::new()) };
    Ok(vec![Event::OrgSettingsChanged { org, settings: Box::new(settings) }])
}

pub(super) fn note_management_policy(engine: &EngineHandle, id: &NmpId, policy: &ManagementPolicyResponse) {
    let document = serde_json::to_value(policy).unwrap_or_default();
    let findings = review::properties("properties", &document);
    engine.inert.set_errors(PolicyKind::Management, id.as_str(), policy.errors());
    engine.inert.set_findings(PolicyKind::Management, id.as_str(), &findings);
}

/// Reads one management policy: whether it is inert, or was deleted.
///
/// # Errors
/// When the exchange does not respond.
pub async fn management_policy(context: &Context, id: &NmpId) -> Result<Vec<Event>, ClientError> {
    let Some(policy) = context.client.management_policy(id.org(), id.name()).await? else {
        return Ok(vec![Event::NmpRemoved { nmp: id.clone() }]);
    };
    note_management_policy(context, id, &policy);
    Ok(Vec::new())
}

/// Names what can never work in a deployment policy.
pub(super) fn review_policy(engine: &EngineHandle, id: &PolicyId, policy: &DeploymentPolicyResponse) {
    let document = serde_json::to_value(policy).unwrap_or_default();
    let findings = review::deployment_policy(id, &document);
    engine.inert.set_findings(PolicyKind::Deployment, id.as_str(), &findings);
}

/// Names what can never work in a pattern.
pub(super) fn review_pattern(engine: &EngineHandle, id: &PatternId, pattern: &PatternResponse) {
    let document = serde_json::to_value(pattern).unwrap_or_default();
    engine.inert.set_findings(PolicyKind::Pattern, id.as_str(), &review::pattern(&document));
}

/// Names a document that cannot be read. Its last known contents stay in force, so that nothing is stopped.
pub(super) fn note_unreadable(engine: &EngineHandle, kind: PolicyKind, id: &str, error: String) {
    engine.inert.set_errors(kind, id, vec![error]);
}

pub(super) fn policy_changed(facts: DeploymentPolicyFacts) -> Event {
    Event::DeploymentPolicyChanged { policy: Box::new(facts) }
}

pub(super) fn pattern_facts(
    served_entries: &ServedEntries,
    org: &str,
    name: &str,
    document: &PatternResponse,
) -> Result<Vec<DeploymentPolicyFacts>, String> {
    let node_orgs = served_entries.node_orgs_of_pattern(org, name);
    if node_orgs.is_empty() { Ok(Vec::new()) } else { facts::pattern(org, name, document, &node_orgs) }
}

/// Reads one pattern, and its services when they are new.
///
/// # Errors
/// When the exchange does not respond.
pub async fn pattern(
    context: &Context,
    served_entries: &ServedEntries,
    org: &str,
    name: &str,
) -> Result<Vec<Event>, ClientError> {
    let id = PatternId::new(org, name);
    let facts = match context.client.pattern(org, name).await? {
        None => Vec::new(),
        Some(document) => match pattern_facts(served_entries, org, name, &document) {
            Ok(facts) => {
                review_pattern(context, &id, &document);
                facts
            }
            Err(error) => {
                note_unreadable(context, PolicyKind::Pattern, id.as_str(), error);
                return Ok(Vec::new());
            }
        },
    };
    if facts.is_empty() {
        context.inert.remove(PolicyKind::Pattern, id.as_str());
    }
    let known = context.model().policies_of_pattern(&id);
    let is_gone = |id: &&PolicyId| facts.iter().all(|one| one.id != **id);
    let mut events: Vec<Event> = known
        .iter()
        .filter(is_gone)
        .map(|policy| Event::DeploymentPolicyRemoved { policy: policy.clone() })
        .collect();
    let keys = facts.iter().map(|one| one.service.clone()).collect();
    events.extend(new_services(context, keys).await?);
    events.extend(facts.into_iter().map(policy_changed));
    Ok(events)
}

/// A deployment policy as if the exchange had it: the result of [`Context::written_policy`].
#[derive(Debug)]
pub enum WrittenPolicy {
    /// With its services, as the events that would follow the write.
    Readable(Vec<Event>),
    /// The agbot does not serve it.
    NotServed,
    /// It cannot be read, with the reason in words.
    Unreadable(String),
}

impl Context {
    /// Returns a deployment policy as if the exchange had it, so that its write can be planned.
    ///
    /// # Errors
    /// When the exchange does not respond.
    pub async fn written_policy(
        &self,
        id: &PolicyId,
        document: &DeploymentPolicyResponse,
    ) -> Result<WrittenPolicy, ClientError> {
        let served_entries = self.served_entries().await?;
        let facts = match policy_facts(&served_entries, id, document) {
            None => return Ok(WrittenPolicy::NotServed),
            Some(Err(error)) => return Ok(WrittenPolicy::Unreadable(error)),
            Some(Ok(facts)) => facts,
        };
        // The write will rank by them, too.
        let mut events = statistics_for([&facts], self).await?;
        let mut services = Services::seen_from(id.org());
        services.read(self, BTreeSet::from([facts.service.clone()])).await?;
        events.extend(services.take_events());
        let last_updated = facts.last_updated.or_else(|| Some(self.now()));
        events.push(policy_changed(DeploymentPolicyFacts { last_updated, ..facts }));
        Ok(WrittenPolicy::Readable(events))
    }
}

pub(super) fn policy_facts(
    served_entries: &ServedEntries,
    id: &PolicyId,
    policy: &DeploymentPolicyResponse,
) -> Option<Result<DeploymentPolicyFacts, String>> {
    let node_orgs = served_entries.node_orgs_of(id.org(), id.name());
    (!node_orgs.is_empty()).then(|| facts::deployment_policy(id, policy, node_orgs))
}

/// Reads services with what they require.
async fn new_services(context: &Context, keys: BTreeSet<ServiceKey>) -> Result<Vec<Event>, ClientError> {
    let mut services = Services::default();
    services.read(context, keys).await?;
    Ok(services.take_events())
}

pub(super) async fn service_events(
    context: &Context,
    id: &ServiceId,
    service: ServiceResponse,
) -> Result<Vec<Event>, ClientError> {
    let policy = context.client.service_policy(id.org(), id.name()).await?;
    let policy = policy.as_ref().map(RawJson::as_value).map(facts::service_policy).map(Box::new);
    Ok(vec![
        Event::ServiceChanged { service: Box::new(facts::service(id, service)) },
        Event::ServicePolicyChanged { service: id.clone(), policy },
    ])
}

/// Reads one node.
///
/// # Errors
/// When the exchange does not respond.
pub async fn node(context: &Context, id: &NodeId) -> Result<Vec<Event>, ClientError> {
    Ok(match context.client.node(id).await? {
        Some(node) => {
            let is_new = context.model().node(id).is_none();
            let mut events = vec![Event::NodeChanged { node: Box::new(facts::node(id, node)) }];
            if is_new {
                events.extend(node_policy(context, id).await?);
                events.extend(status(context, id).await?);
            }
            events
        }
        // Instances that may still run there are recorded before the node disappears.
        None => {
            let mut events = departures(context, id.org()).await?;
            events.push(Event::NodeRemoved { node: id.clone() });
            events
        }
    })
}

/// Reads which deleted nodes of an organization have not confirmed their end.
pub(super) async fn departures(context: &Context, org: &str) -> Result<Vec<Event>, ClientError> {
    let found = context.client.list_departures(org).await?;
    let departure = |(node, one): (NodeId, DepartingNode)| {
        let (deleted_at, seen_at) = (facts::instant(&one.deleted)?, facts::instant(&one.last_heartbeat)?);
        let leases = one.leases.iter().map(|(task, secs)| (TaskId::from_text(task), *secs)).collect();
        Some((node, Departure { deleted_at, seen_at, leases }))
    };
    let nodes = found.into_iter().filter_map(departure).collect();
    let Ok(org) = org.parse() else { return Ok(Vec::new()) };
    Ok(vec![Event::DeparturesRead { org, nodes }])
}

/// Returns the policy and the status that came with a node.
pub(super) fn parts(context: &Context, id: &NodeId, parts: NodeParts) -> [Event; 2] {
    let policy = parts.policy.map(|policy| serde_json::to_value(policy).unwrap_or_default());
    [policy_of_node(context, id, policy.as_ref()), status_of_node(context, id, parts.status.as_ref())]
}

/// Reads the policy of one node.
///
/// # Errors
/// When the exchange does not respond.
pub async fn node_policy(context: &Context, id: &NodeId) -> Result<Vec<Event>, ClientError> {
    let found = context.client.node_policy(id).await?;
    Ok(vec![policy_of_node(context, id, found.as_ref().map(RawJson::as_value))])
}

fn policy_of_node(context: &Context, id: &NodeId, document: Option<&Value>) -> Event {
    let policy = document.map(|document| {
        let read = facts::node_policy(document);
        context.inert.set_node_policy(id.as_str(), document, &read);
        Box::new(read)
    });
    Event::NodePolicyChanged { node: id.clone(), policy }
}

/// Reads the status of one node.
///
/// # Errors
/// When the exchange does not respond.
pub async fn status(context: &Context, id: &NodeId) -> Result<Vec<Event>, ClientError> {
    let found = context.client.node_status(id).await?;
    Ok(vec![status_of_node(context, id, found.as_ref())])
}

fn status_of_node(context: &Context, id: &NodeId, found: Option<&NodeStatusResponse>) -> Event {
    let (status, errors) = match found.map(facts::status).transpose() {
        Ok(status) => (status.map(Box::new), Vec::new()),
        Err(error) => (None, vec![error.to_string()]),
    };
    context.inert.set_errors(PolicyKind::NodeStatus, id.as_str(), errors);
    Event::NodeStatusChanged { node: id.clone(), status }
}

/// Reads the agreements that the exchange has for a node.
///
/// # Errors
/// When the exchange does not respond.
pub async fn node_agreements(context: &Context, id: &NodeId) -> Result<Vec<Event>, ClientError> {
    let read_at = context.now();
    let agreements = context.client.list_node_agreements(id).await?.into_keys().collect();
    Ok(vec![Event::NodeAgreementsRead { node: id.clone(), agreements, read_at }])
}

/// Reads the management statuses of a node.
///
/// # Errors
/// When the exchange does not respond.
pub async fn management_statuses(context: &Context, id: &NodeId) -> Result<Vec<Event>, ClientError> {
    let statuses = context.client.list_management_statuses(id).await?;
    let mut words: BTreeMap<NmpId, Option<String>> = statuses
        .into_iter()
        .map(|(nmp, status)| Ok((nmp, Some(status.agent_upgrade_policy_status()?.status))))
        .collect::<Result<_, ClientError>>()?;
    // The planner needs to know when the status of a claim's holder is gone.
    for nmp in context.model().nmps_claimed_by(id) {
        words.entry(nmp).or_insert(None);
    }
    Ok(words
        .into_iter()
        .map(|(nmp, status)| Event::NmpStatusChanged {
            status: Box::new(NmpStatusFacts { node: id.clone(), nmp, status }),
        })
        .collect())
}

/// Reads one HA group.
///
/// # Errors
/// When the exchange does not respond.
pub async fn ha_group(context: &Context, id: &GroupId) -> Result<Vec<Event>, ClientError> {
    Ok(vec![match context.client.ha_group(id.org(), id.name()).await? {
        Some(group) => Event::HaGroupChanged { group: Box::new(facts::ha_group(id.org(), group)) },
        None => Event::HaGroupRemoved { group: id.clone() },
    }])
}

/// Reads one deployment policy, and its services when they are new.
///
/// # Errors
/// When the exchange does not respond.
pub async fn deployment_policy(
    context: &Context,
    served_entries: &ServedEntries,
    id: &PolicyId,
) -> Result<Vec<Event>, ClientError> {
    let policy = context.client.deployment_policy(id.org(), id.name()).await?;
    if let Some(policy) = &policy {
        review_policy(context, id, policy);
    }
    let facts = match policy.and_then(|policy| policy_facts(served_entries, id, &policy)) {
        None => return Ok(vec![Event::DeploymentPolicyRemoved { policy: id.clone() }]),
        Some(Err(error)) => {
            note_unreadable(context, PolicyKind::Deployment, id.as_str(), error);
            return Ok(Vec::new());
        }
        Some(Ok(facts)) => facts,
    };
    let mut events = statistics_for([&facts], context).await?;
    let keys = BTreeSet::from([facts.service.clone()]);
    events.extend(new_services(context, keys).await?);
    events.push(policy_changed(facts));
    Ok(events)
}

/// Reads the statistics that policies rank nodes by, and the engines that they examine, before the first decision about them.
async fn statistics_for(
    policies: impl IntoIterator<Item = &DeploymentPolicyFacts>,
    context: &Context,
) -> Result<Vec<Event>, ClientError> {
    statistics::all(context, full::orgs_of_statistics(policies)).await
}

/// Reads one service with its policy, when it belongs to a service that is known.
///
/// # Errors
/// When the exchange does not respond.
pub async fn service(context: &Context, org: &str, id: &str) -> Result<Vec<Event>, ClientError> {
    let service_id = ServiceId::new(org, id);
    match context.client.service(org, id).await? {
        Some(service) => service_events(context, &service_id, service).await,
        None => Ok(vec![Event::ServiceRemoved { service: service_id }]),
    }
}
