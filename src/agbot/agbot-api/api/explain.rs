//! Explanation of the placement of a deployment policy's instances.
//!
//! Source: orchestration D3.

use axum::Json;
use evenkeel_api::Refusal;
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_explain::explain::explain_part;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::workload::UnitId;
use evenkeel_status::status::{Question, parts_of, removal_of};
use evenkeel_wire::agbot::orchestration::{ExplainQuery, PlacementExplanation};
use http::StatusCode;

use super::freshness::follow_recent_write;
use super::orchestration::{node_of, unknown_part, unreadable};
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::path::PolicyPath;
use super::permission::{Permission, ReadPolicy, right};
use super::pipeline::{AgbotRequest, Op};
use super::turns::turn;
use crate::shown::workload_shape::{Shape, time};

impl NamedQuery for ExplainQuery {
    const KNOWN: Members = known(&["unit", "node", "purpose", "all"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let purpose = parameters.text("purpose")?;
        if purpose.as_deref().is_some_and(|purpose| purpose != "start") {
            return Err(parameters.broken("purpose", "must be start"));
        }
        let (workload_unit, node) = (parameters.text("unit")?, parameters.text("node")?);
        Ok(Self { workload_unit, node, purpose, all: parameters.boolean("all")? })
    }
}

/// Explains a workload unit, or one of its nodes.
pub(super) async fn explain_policy(
    op: Op<PolicyPath>,
    permission: Permission<right::PolicyRead>,
    Named(query): Named<ExplainQuery>,
) -> Result<Json<PlacementExplanation>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: PolicyPath { org, policy: name }, .. } = op;
    let ReadPolicy { policy: stored, seen } = permission.into_proof();
    let policy = PolicyId::new(&org, &name);
    follow_recent_write(&context, &policy, stored.as_ref()).await;
    let node = query.node.as_deref().map(|node| node_of(&org, node));
    let missing = |node: &NodeId| {
        let text = format!("node: {node} does not belong to the deployment policy {policy}");
        Refusal::new(StatusCode::NOT_FOUND, text)
    };
    if let Some(node) = node.as_ref().filter(|node| !seen.shows(node)) {
        return Err(missing(node));
    }
    // An explanation evaluates every node: many at a time would leave no processor to the decisions.
    let _turn = turn(&org).await?;
    let (model, now) = (context.model(), context.now());
    let part = match (&query.workload_unit, &node) {
        (Some(name), _) => part_named(&model, &policy, name)?,
        (None, Some(node)) => part_with(&model, &policy, node),
        (None, None) => only_part(&model, &policy)?,
    };
    let shape = Shape { policy: &policy, seen: &seen, now };
    let is_complete = query.all.unwrap_or(false);
    let question = Question { part: &part, node: node.as_ref(), is_complete, now };
    match (explain_part(&model, question), &node) {
        (Some(found), _) => {
            let mut shown = shape.explanation(part.name(), &found, node.as_ref());
            if let Some(warning) = unreadable(&context, &policy) {
                shown.summary = format!("{}; {warning}", shown.summary);
            }
            Ok(Json(shown))
        }
        (None, Some(node)) => Err(missing(node)),
        (None, None) if model.policy(&policy).is_some() => Err(unknown_part(&policy, part.name())),
        (None, None) => {
            let summary = match removal_of(&model, &policy).filter(|_| stored.is_none()) {
                Some(removal) => shape.removal_text(removal),
                None => unreadable(&context, &policy).unwrap_or_else(|| {
                    "the agbot does not serve the policy, or has not read it yet".to_owned()
                }),
            };
            Ok(Json(PlacementExplanation {
                workload_unit: part.name().to_owned(),
                purpose: "start".to_owned(),
                evaluated_at: time(now),
                summary,
                ..PlacementExplanation::default()
            }))
        }
    }
}

fn part_named(model: &Model, policy: &PolicyId, name: &str) -> Result<UnitId, Refusal> {
    let found = parts_of(model, policy).into_iter().find(|part| part.name() == name);
    found.ok_or_else(|| unknown_part(policy, name))
}

/// Returns the workload unit that a node belongs to; that of all nodes if there is none.
fn part_with(model: &Model, policy: &PolicyId, node: &NodeId) -> UnitId {
    let mut all = model.workload_units_of(policy);
    let found = all.find(|(_, unit)| unit.table.number(node).is_some());
    found.map_or_else(|| UnitId::all(policy.clone()), |(id, _)| id.clone())
}

fn only_part(model: &Model, policy: &PolicyId) -> Result<UnitId, Refusal> {
    let mut all = parts_of(model, policy);
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Ok(UnitId::all(policy.clone())),
        (Some(last), false) => {
            let names: Vec<&str> = all.iter().map(UnitId::name).chain([last.name()]).collect();
            let text = format!("unit must name one of {}", names.join(", "));
            Err(Refusal::new(StatusCode::BAD_REQUEST, text))
        }
    }
}
