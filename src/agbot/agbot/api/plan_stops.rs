//! Plan of a write of something that deployment policies depend on: the instances that it stops.
//!
//! Source: orchestration D3.

use std::collections::BTreeSet;

use axum::Json;
use evenkeel_api::{BodyKind, Content, Input, OrgPath, Refusal};
use evenkeel_domain::policy::property::builtin::is_node_property;
use evenkeel_ids::{GroupId, NodeId, OrgId, PolicyId};
use evenkeel_planner::event::Event;
use evenkeel_planner::facts::{HaGroupFacts, NodePolicyFacts};
use evenkeel_planner::model::Model;
use evenkeel_planner::preview::stopped_instances;
use evenkeel_wire::agbot::plan::{DependencyWrite, PlannedStops, PlannedStopsResponse};
use http::StatusCode;
use serde_json::Value;

use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, Sent};
use super::plan::on_model_clone;
use crate::observe::facts;
use crate::shown::SeenNodes;

/// The write to plan.
pub(super) struct WriteToPlan(DependencyWrite);

impl Input<AgbotRequest> for WriteToPlan {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(sent: Sent) -> Result<WriteToPlan, Refusal> {
        let write = serde_json::from_slice(&sent.body).map(WriteToPlan);
        write.map_err(|error| Refusal::invalid_input(format!("the body is not a write to plan: {error}")))
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
    let written = event(&context.model(), &permission.into_proof(), &org, write)?;
    // Services of patterns are no deployment policies, and who sees those of other organizations is decided there.
    let of = org.clone();
    let is_meant = move |policy: &PolicyId| policy.org() == of && policy.pattern().is_none();
    let compute = move |model, now| stopped_instances(model, &written, is_meant, now);
    let found = on_model_clone(context, &org, compute).await?;
    let policies = found.into_iter().map(|one| PlannedStops {
        policy: one.policy,
        instances: one.instances,
        stopped: one.stopped,
    });
    Ok(Json(PlannedStopsResponse { policies: policies.collect() }))
}

/// Returns the write as the event that follows it.
///
/// # Errors
/// 400 for an invalid write, 403 and 404 for one that the exchange would refuse to the caller: plans show nothing about nodes and groups of
/// others.
fn event(model: &Model, written: &SeenNodes, org: &str, write: DependencyWrite) -> Result<Event, Refusal> {
    let invalid = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
    let known = |node: &str| {
        let id = NodeId::new(org, node);
        let record = model.node(&id).filter(|_| written.shows(&id));
        record.ok_or_else(|| no_node(&id))
    };
    Ok(match write {
        DependencyWrite::NodePolicy { node, policy } => {
            let record = known(&node)?;
            let read = policy.map_or_else(
                || Ok(NodePolicyFacts::default()),
                |policy| {
                    let read = facts::node_policy(&Value::Object(policy));
                    read.unreadable.clone().map_or(Ok(read), |error| Err(invalid(format!("policy: {error}"))))
                },
            );
            let mut facts = read?;
            // Its agent writes them again at once.
            for property in record.properties().into_iter().flat_map(|before| before.iter()) {
                if is_node_property(&property.name) && !facts.policy.properties.has(&property.name) {
                    facts
                        .policy
                        .properties
                        .add(property.clone())
                        .map_err(|error| invalid(error.to_string()))?;
                }
            }
            Event::NodePolicyChanged { node: record.facts.id.clone(), policy: Some(Box::new(facts)) }
        }
        DependencyWrite::UserInput { node, user_input } => {
            let mut node = known(&node)?.facts.clone();
            node.user_input = user_input.into_iter().map(Value::Object).collect();
            Event::NodeChanged { node: Box::new(node) }
        }
        DependencyWrite::HaGroup { group, members } => {
            ha_group_event(model, written, GroupId::new(org, &group), members)?
        }
        DependencyWrite::Settings { .. } if !written.is_all() => {
            let message = format!("an administrator of organization '{org}' is needed");
            return Err(Refusal::new(StatusCode::FORBIDDEN, message));
        }
        DependencyWrite::Settings { settings } => {
            let patched = model.org_settings(org).clone().patched(Value::Object(settings));
            let settings = Box::new(patched.map_err(|error| invalid(error.to_string()))?);
            let org: OrgId = org.parse().map_err(|_| invalid(format!("'{org}' is no organization")))?;
            Event::OrgSettingsChanged { org, settings }
        }
    })
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
