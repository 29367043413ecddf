//! Plan of a write of something that deployment policies depend on: the instances that it stops.
//!
//! Source: orchestration D3.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use evenkeel_agbot::{Context, facts};
use evenkeel_api::{BodyKind, Content, Input, OrgPath, Refusal};
use evenkeel_domain::policy::property::builtin::is_node_property;
use evenkeel_explain::preview::{StoppedInstances, instances_on, stopped_instances};
use evenkeel_ids::{GroupId, NodeId, OrgId, PolicyId};
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::facts::{Availability, HaGroupFacts, NodeFacts, NodePolicyFacts};
use evenkeel_planner_record::node_record::NodeRecord;
use evenkeel_wire::agbot::plan::{DependencyWrite, MOST_NODES, PlannedStops, PlannedStopsResponse};
use evenkeel_wire::exchange::node_tag::NodeTag;
use http::StatusCode;
use serde_json::{Map, Value};

use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, Sent};
use super::plan::on_model_clone;
use crate::shown::SeenNodes;

/// The write to plan.
pub(super) struct WriteToPlan(DependencyWrite);

impl Input<AgbotRequest> for WriteToPlan {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(sent: Sent) -> Result<WriteToPlan, Refusal> {
        sent.document("a write to plan").map(WriteToPlan)
    }

    fn body() -> Content {
        Content::read::<DependencyWrite>()
    }
}

/// Returns the instances that a write would stop, of the organization's deployment policies.
pub(super) async fn plan_stops(
    op: Op<OrgPath>,
    permission: Permission<right::StopsPlan>,
    WriteToPlan(write): WriteToPlan,
) -> Result<Json<PlannedStopsResponse>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    planned_stops(context, &permission.into_proof(), &org, write).await.map(Json)
}

/// Returns the instances that a write would stop, for a caller who may write these nodes of the organization.
///
/// # Errors
/// As the operation.
pub(super) async fn planned_stops(
    context: Arc<Context>,
    written_nodes: &SeenNodes,
    org: &str,
    write: DependencyWrite,
) -> Result<PlannedStopsResponse, Refusal> {
    let (written, selected) = events(&context.model(), written_nodes, org, write)?;
    // Services of patterns are no deployment policies, and who sees those of other organizations is decided there.
    let of = org.to_owned();
    let is_meant = move |policy: &PolicyId| policy.org() == of && policy.pattern().is_none();
    let compute = move |model: Model, now| {
        let on_nodes = selected.map(|nodes| instances_on(&model, &nodes, &is_meant));
        (stopped_instances(model, &written, is_meant, now), on_nodes)
    };
    let (found, on_nodes) = on_model_clone(context, org, compute).await?;
    Ok(PlannedStopsResponse { policies: policies(found, on_nodes) })
}

/// Returns the policies that lose instances, and those that have some on the nodes of a write of several.
fn policies(
    found: Vec<StoppedInstances>,
    on_nodes: Option<BTreeMap<PolicyId, (u64, u64)>>,
) -> Vec<PlannedStops> {
    let has_nodes = on_nodes.is_some();
    let mut on_nodes = on_nodes.unwrap_or_default();
    let stopped = found.into_iter().map(|one| PlannedStops {
        selected: has_nodes.then(|| on_nodes.remove(&one.policy).map_or(0, |(here, _)| here)),
        policy: one.policy,
        instances: one.instances,
        stopped: one.stopped,
    });
    let mut policies: Vec<PlannedStops> = stopped.collect();
    let others = on_nodes.into_iter().map(|(policy, (here, instances))| PlannedStops {
        policy,
        instances,
        stopped: 0,
        selected: Some(here),
    });
    policies.extend(others);
    policies
}

/// Returns the write as the events that follow it, and the nodes of a write of several.
///
/// # Errors
/// 400 for an invalid write, 403 and 404 for one that the exchange would refuse to the caller: plans show nothing about nodes and groups of
/// others.
fn events(
    model: &Model,
    written: &SeenNodes,
    org: &str,
    write: DependencyWrite,
) -> Result<(Vec<Event>, Option<BTreeSet<NodeId>>), Refusal> {
    let known = |node: &str| {
        let id = NodeId::new(org, node);
        model.node(&id).filter(|_| written.shows(&id)).ok_or_else(|| no_node(&id))
    };
    let event = match write {
        DependencyWrite::Nodes { nodes, availability, property } => {
            let change = NodesChange::read(availability.as_deref(), property)?;
            let nodes: BTreeSet<NodeId> = nodes.iter().map(|node| NodeId::new(org, node)).collect();
            let events = change.events(model, written, &nodes)?;
            return Ok((events, Some(nodes)));
        }
        DependencyWrite::NodePolicy { node, policy } => node_policy_event(known(&node)?, policy)?,
        DependencyWrite::UserInput { node, user_input } => {
            let mut node = known(&node)?.facts.clone();
            node.user_input = user_input.into_iter().map(Value::Object).collect();
            Event::NodeChanged { node: Box::new(node) }
        }
        DependencyWrite::HaGroup { group, members } => {
            ha_group_event(model, written, GroupId::new(org, &group), members)?
        }
        DependencyWrite::Settings { settings } => settings_event(model, written, org, settings)?,
    };
    Ok((vec![event], None))
}

/// A change of several nodes.
struct NodesChange {
    availability: Option<Availability>,
    property: Option<NodeTag>,
}

impl NodesChange {
    fn read(availability: Option<&str>, property: Option<NodeTag>) -> Result<Self, Refusal> {
        let known = availability.map(Availability::from_word);
        if known == Some(None) {
            let words = Availability::NAMES.join(", ");
            return Err(invalid(format!("availability must be one of {words}")));
        }
        if let Some(property) = &property {
            property.check().map_err(|rule| invalid(format!("property: {rule}")))?;
        }
        Ok(Self { availability: known.flatten(), property })
    }

    /// Returns the events that follow the change.
    ///
    /// # Errors
    /// 400 for no node or too many, 404 for one that the caller may not change.
    fn events(
        &self,
        model: &Model,
        written: &SeenNodes,
        nodes: &BTreeSet<NodeId>,
    ) -> Result<Vec<Event>, Refusal> {
        if nodes.is_empty() || nodes.len() > MOST_NODES {
            return Err(invalid(format!("nodes must name 1 to {MOST_NODES} nodes")));
        }
        let mut events = Vec::new();
        for node in nodes {
            let record = model.node(node).filter(|_| written.shows(node)).ok_or_else(|| no_node(node))?;
            if let Some(availability) = self.availability {
                let facts = NodeFacts { availability, ..record.facts.clone() };
                events.push(Event::NodeChanged { node: Box::new(facts) });
            }
            if let Some(NodeTag { name, value }) = &self.property {
                let policy = Box::new(record.policy_with(name, value.clone()));
                events.push(Event::NodePolicyChanged { node: node.clone(), policy: Some(policy) });
            }
        }
        Ok(events)
    }
}

/// Returns the replacement or the removal of the policy of a node.
fn node_policy_event(record: &NodeRecord, policy: Option<Map<String, Value>>) -> Result<Event, Refusal> {
    let mut facts = match policy {
        Some(policy) => facts::node_policy(&Value::Object(policy)),
        None => NodePolicyFacts::default(),
    };
    if let Some(error) = &facts.unreadable {
        return Err(invalid(format!("policy: {error}")));
    }
    // Its agent writes them again at once.
    for property in record.properties().into_iter().flat_map(|before| before.iter()) {
        if is_node_property(&property.name) && !facts.policy.properties.has(&property.name) {
            let added = facts.policy.properties.add(property.clone());
            added.map_err(|error| invalid(error.to_string()))?;
        }
    }
    Ok(Event::NodePolicyChanged { node: record.facts.id.clone(), policy: Some(Box::new(facts)) })
}

/// Returns the change of the settings of an organization, by an administrator.
fn settings_event(
    model: &Model,
    written: &SeenNodes,
    org: &str,
    settings: Map<String, Value>,
) -> Result<Event, Refusal> {
    if !written.is_all() {
        let message = format!("an administrator of organization '{org}' is needed");
        return Err(Refusal::new(StatusCode::FORBIDDEN, message));
    }
    let patched = model.org_settings(org).clone().patched(Value::Object(settings));
    let settings = Box::new(patched.map_err(|error| invalid(error.to_string()))?);
    let org: OrgId = org.parse().map_err(|_| invalid(format!("'{org}' is no organization")))?;
    Ok(Event::OrgSettingsChanged { org, settings })
}

fn invalid(rule: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, rule)
}

fn no_node(id: &NodeId) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("this agbot serves no node {id}"))
}

/// Returns the change of a group, or its removal: by callers who may change every node in it, before and after.
fn ha_group_event(
    model: &Model,
    written: &SeenNodes,
    id: GroupId,
    members: Option<Vec<String>>,
) -> Result<Event, Refusal> {
    let before = model.group(&id);
    if before.is_some_and(|group| group.members.iter().any(|member| !written.shows(member))) {
        let message = format!("the owner of all nodes of HA group '{id}' or an administrator is needed");
        return Err(Refusal::new(StatusCode::FORBIDDEN, message));
    }
    let Some(members) = members else { return Ok(Event::HaGroupRemoved { group: id }) };
    let members: BTreeSet<NodeId> = members.iter().map(|member| NodeId::new(id.org(), member)).collect();
    if let Some(other) = members.iter().find(|member| !written.shows(member)) {
        return Err(no_node(other));
    }
    let group = match before.cloned() {
        Some(known) => HaGroupFacts { members, ..known },
        None => HaGroupFacts::new(id, members),
    };
    Ok(Event::HaGroupChanged { group: Box::new(group) })
}
