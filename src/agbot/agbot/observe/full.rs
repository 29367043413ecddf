//! Reads whole organizations: all of them at the start and periodically, single ones after they could not be read.
//!
//! An organization that cannot be read does not keep the others from being read. Its last known state stays in force; before the first
//! complete read there is none, and nothing is decided about what belongs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use evenkeel_client::ClientError;
use evenkeel_ids::{GroupId, NodeId, OrgId, PolicyId, ServiceKey};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::facts::{DeploymentPolicyFacts, PolicyOrchestration};
use evenkeel_wire::exchange::node::NodeResponse;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::served_entries::ServedEntries;
use super::services::Services;
use super::{facts, read, statistics};
use crate::context::{Context, EngineHandle};
use crate::inert::PolicyKind;

/// Concurrent requests about the nodes of an organization.
const PARALLEL: usize = 16;
/// Nodes of one request.
const PAGE: u16 = 500;

/// Reads everything that is served; deleted objects become events as well.
///
/// # Errors
/// When the exchange does not respond; then no event is returned.
pub async fn everything(
    context: &Context,
    served_entries: &ServedEntries,
) -> Result<Vec<Event>, ClientError> {
    let orgs = served_orgs(served_entries);
    context.reading.unread.retain(&orgs);
    organizations(context, served_entries, &orgs, true).await
}

/// Reads the organizations again that could not be read and are due; nothing when there are none.
///
/// # Errors
/// When the exchange does not respond; then no event is returned.
pub async fn unread(context: &Context, served_entries: &ServedEntries) -> Result<Vec<Event>, ClientError> {
    let due = context.reading.unread.due(Instant::now());
    if due.is_empty() {
        return Ok(Vec::new());
    }
    organizations(context, served_entries, &due, false).await
}

/// Records that an organization, or one of its objects, could not be read.
///
/// # Errors
/// When the exchange does not respond at all, or refuses every request of this agbot.
pub(super) async fn note_failed(context: &Context, org: &str, error: ClientError) -> Result<(), ClientError> {
    context.client.max_change_id().await?;
    context.reading.unread.note_failed(org, &error, Instant::now());
    Ok(())
}

fn served_orgs(served_entries: &ServedEntries) -> BTreeSet<String> {
    let mut orgs: BTreeSet<String> = served_entries.node_orgs().iter().map(OrgId::to_string).collect();
    orgs.extend(served_entries.policy_orgs().chain(served_entries.pattern_orgs()).cloned());
    orgs
}

async fn organizations(
    context: &Context,
    served_entries: &ServedEntries,
    orgs: &BTreeSet<String>,
    is_everything: bool,
) -> Result<Vec<Event>, ClientError> {
    let unknown_before = unknown(context, served_entries);
    let mut reading = Reading { context, served_entries, services: Services::default() };
    let (mut found, mut events, mut read) = (Found::default(), Vec::new(), BTreeSet::new());
    for org in orgs {
        match reading.organization(org).await {
            Ok(mut of_org) => {
                context.reading.unread.note_read(org);
                found.append(&mut of_org.found);
                events.append(&mut of_org.events);
                read.insert(org.clone());
            }
            Err(error) => note_failed(context, org, error).await?,
        }
        // Also those of an organization that failed: others may require the same.
        events.append(&mut reading.services.take_events());
    }
    let statistics = statistics_of(context, &events).await;
    events.extend(statistics);
    let mut all = vec![orgs_read(context, served_entries)];
    let unknown_now = unknown(context, served_entries);
    if *context.model().unread_orgs() != unknown_before {
        all.push(Event::OrgsUnread { orgs: unknown_before.clone() });
    }
    let is_known =
        |org: &str| if is_everything { !context.reading.unread.contains(org) } else { read.contains(org) };
    all.extend(gone(context, &found, is_known));
    if is_everything && read.len() == orgs.len() {
        all.extend(gone_services(context, &reading.services));
    }
    all.append(&mut events);
    // Only when all objects of an organization are known, anything is decided about them.
    if unknown_now != unknown_before {
        all.push(Event::OrgsUnread { orgs: unknown_now });
    }
    Ok(all)
}

fn orgs_read(context: &Context, served_entries: &ServedEntries) -> Event {
    let mut orgs = served_entries.node_orgs();
    orgs.retain(|org| !context.reading.unread.is_unknown(org.as_str()));
    Event::OrgsRead { orgs }
}

/// Returns the organizations that were never read completely.
fn unknown(context: &Context, served_entries: &ServedEntries) -> BTreeSet<OrgId> {
    let orgs = served_orgs(served_entries).into_iter().filter(|org| context.reading.unread.is_unknown(org));
    orgs.filter_map(|org| org.parse().ok()).collect()
}

/// Reads the statistics that policies rank nodes by, before the first decision about them.
async fn statistics_of(context: &Context, events: &[Event]) -> Vec<Event> {
    let policies = events.iter().filter_map(|event| match event {
        Event::DeploymentPolicyChanged { policy } => Some(policy.as_ref()),
        _ => None,
    });
    let mut found = Vec::new();
    for org in orgs_of_statistics(policies) {
        match statistics::all(context, [org.clone()]).await {
            Ok(events) => found.extend(events),
            Err(error) => tracing::warn!(
                %org,
                error = &error as &dyn std::error::Error,
                "the statistics of the nodes of `{org}` cannot be read: its nodes are ranked as if they had none"
            ),
        }
    }
    found
}

/// Returns the organizations of the nodes that policies rank by statistics, or whose engines they examine.
pub(super) fn orgs_of_statistics<'a>(
    policies: impl IntoIterator<Item = &'a DeploymentPolicyFacts>,
) -> BTreeSet<OrgId> {
    let reads = |one: &PolicyOrchestration| one.ranks_by_statistics() || one.examines_machines();
    let reading = policies.into_iter().filter(|facts| reads(&facts.orchestration));
    reading.flat_map(|facts| facts.node_orgs.iter().cloned()).collect()
}

/// Objects that the exchange has.
#[derive(Default)]
struct Found {
    nodes: BTreeSet<NodeId>,
    groups: BTreeSet<GroupId>,
    policies: BTreeSet<PolicyId>,
}

impl Found {
    fn append(&mut self, other: &mut Self) {
        self.nodes.append(&mut other.nodes);
        self.groups.append(&mut other.groups);
        self.policies.append(&mut other.policies);
    }
}

/// Returns the removal events of objects that the model has and the exchange has not.
fn gone(engine: &EngineHandle, found: &Found, is_read: impl Fn(&str) -> bool) -> Vec<Event> {
    let known = engine.model().known();
    let nodes = known.nodes.into_iter().filter(|id| is_read(id.org()) && !found.nodes.contains(id));
    let groups = known.groups.into_iter().filter(|id| is_read(id.org()) && !found.groups.contains(id));
    let policies = known.policies.into_iter().filter(|id| is_read(id.org()) && !found.policies.contains(id));
    let nodes = nodes.map(|node| Event::NodeRemoved { node });
    let groups = groups.map(|group| Event::HaGroupRemoved { group });
    let policies = policies.map(|policy| Event::DeploymentPolicyRemoved { policy });
    nodes.chain(groups).chain(policies).collect()
}

fn gone_services(engine: &EngineHandle, services: &Services) -> Vec<Event> {
    let known = engine.model().known().services;
    let gone = known.into_iter().filter(|id| !services.has(id));
    gone.map(|service| Event::ServiceRemoved { service }).collect()
}

/// The events and objects read from one organization.
#[derive(Default)]
struct OfOrg {
    found: Found,
    events: Vec<Event>,
    /// Services that its policies and patterns deploy.
    keys: BTreeSet<ServiceKey>,
}

impl OfOrg {
    fn add_policy(&mut self, facts: DeploymentPolicyFacts) {
        self.keys.insert(facts.service.clone());
        self.found.policies.insert(facts.id.clone());
        self.events.push(read::policy_changed(facts));
    }
}

struct Reading<'a> {
    context: &'a Context,
    served_entries: &'a ServedEntries,
    services: Services,
}

impl Reading<'_> {
    async fn organization(&mut self, org: &str) -> Result<OfOrg, ClientError> {
        let mut of_org = OfOrg::default();
        let has_nodes = self.served_entries.serves_nodes_of(org);
        let has_policies = self.served_entries.policy_orgs().any(|one| one == org);
        // An agbot may not read every organization whose patterns it serves; their settings do not matter.
        if has_nodes || has_policies {
            of_org.events.extend(read::org_settings(self.context, org).await?);
        }
        if has_nodes {
            of_org.events.extend(read::departures(self.context, org).await?);
            self.groups(org, &mut of_org).await?;
            self.nodes(org, &mut of_org).await?;
            self.management_policies(org).await?;
        }
        if has_policies {
            self.policies(org, &mut of_org).await?;
        }
        if self.served_entries.pattern_orgs().any(|one| one == org) {
            self.patterns(org, &mut of_org).await?;
        }
        self.services.read(self.context, std::mem::take(&mut of_org.keys)).await?;
        Ok(of_org)
    }

    /// Checks for inert management policies; nodes execute the valid ones themselves.
    async fn management_policies(&self, org: &str) -> Result<(), ClientError> {
        let policies = self.context.client.list_management_policies(org).await?;
        for (id, policy) in &policies {
            read::note_management_policy(self.context, id, policy);
        }
        let ids = policies.into_keys().map(|id| id.to_string()).collect();
        self.context.inert.retain(PolicyKind::Management, org, &ids);
        Ok(())
    }

    async fn groups(&self, org: &str, of_org: &mut OfOrg) -> Result<(), ClientError> {
        for group in self.context.client.list_ha_groups(org).await? {
            let facts = facts::ha_group(org, group);
            of_org.found.groups.insert(facts.id.clone());
            of_org.events.push(Event::HaGroupChanged { group: Box::new(facts) });
        }
        Ok(())
    }

    async fn nodes(&self, org: &str, of_org: &mut OfOrg) -> Result<(), ClientError> {
        let mut after = None;
        loop {
            let (nodes, next) = self.context.client.nodes_with_parts(org, after, PAGE).await?;
            self.page_of_nodes(nodes, of_org).await?;
            match next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn page_of_nodes(
        &self,
        nodes: BTreeMap<NodeId, NodeResponse>,
        of_org: &mut OfOrg,
    ) -> Result<(), ClientError> {
        let context = self.context;
        let mut without_parts = Vec::new();
        for (id, mut node) in nodes {
            let parts = node.parts.take();
            of_org.events.push(Event::NodeChanged { node: Box::new(facts::node(&id, node)) });
            of_org.found.nodes.insert(id.clone());
            match parts {
                Some(parts) => of_org.events.extend(read::parts(context, &id, parts)),
                None => without_parts.push(id),
            }
        }
        // An exchange of another kind shows them one by one.
        let read: Vec<Vec<Event>> = stream::iter(without_parts)
            .map(|id| async move {
                let mut events = read::node_policy(context, &id).await?;
                events.extend(read::status(context, &id).await?);
                Ok::<_, ClientError>(events)
            })
            .buffered(PARALLEL)
            .try_collect()
            .await?;
        of_org.events.extend(read.into_iter().flatten());
        Ok(())
    }

    async fn policies(&self, org: &str, of_org: &mut OfOrg) -> Result<(), ClientError> {
        let mut listed = BTreeSet::new();
        for (id, policy) in self.context.client.list_deployment_policies(org).await? {
            read::review_policy(self.context, &id, &policy);
            match read::policy_facts(self.served_entries, &id, &policy) {
                None => continue,
                Some(Ok(facts)) => of_org.add_policy(facts),
                Some(Err(error)) => {
                    read::note_unreadable(self.context, PolicyKind::Deployment, id.as_str(), error);
                    of_org.found.policies.insert(id.clone());
                }
            }
            listed.insert(id.to_string());
        }
        self.context.inert.retain(PolicyKind::Deployment, org, &listed);
        Ok(())
    }

    async fn patterns(&self, org: &str, of_org: &mut OfOrg) -> Result<(), ClientError> {
        let mut listed = BTreeSet::new();
        for (id, document) in self.context.client.list_patterns(org).await? {
            read::review_pattern(self.context, &id, &document);
            match read::pattern_facts(self.served_entries, org, id.name(), &document) {
                Ok(services) => {
                    if services.is_empty() {
                        continue;
                    }
                    services.into_iter().for_each(|facts| of_org.add_policy(facts));
                }
                Err(error) => {
                    read::note_unreadable(self.context, PolicyKind::Pattern, id.as_str(), error);
                    of_org.found.policies.extend(self.context.model().policies_of_pattern(&id));
                }
            }
            listed.insert(id.to_string());
        }
        self.context.inert.retain(PolicyKind::Pattern, org, &listed);
        Ok(())
    }
}
