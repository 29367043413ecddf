//! Plans of writes that a second person approves: what the person reads, and a token that must still hold when the write is carried out.

use std::sync::Arc;

use evenkeel_agbot::Context;
use evenkeel_api::{OrgPath, Refusal};
use evenkeel_ids::PolicyId;
use evenkeel_planner_record::workload::RolloutAction;
use evenkeel_status::present_state::{PresentState, present_state, token_of};
use evenkeel_wire::agbot::action::ActionRequest;
use evenkeel_wire::agbot::plan::{DependencyWrite, PlanResponse};
use evenkeel_wire::exchange::deployment_policy::PostDeploymentPolicy;
use evenkeel_wire::exchange::plan_approval::{ApprovalPlan, ApprovalWrite};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::action_request;
use super::actions::Kind;
use super::caller::missing_policy;
use super::freshness;
use super::path::PolicyPath;
use super::permission::{PlannedPolicy, RightTo, right};
use super::pipeline::AgbotRequest;
use super::plan;
use super::plan_stops;
use crate::shown::SeenNodes;
use crate::shown::workload_shape::Shape;

/// Lines of a plan, at most.
const MOST_LINES: usize = 200;

/// Plans a write with the rights of the caller.
///
/// # Errors
/// 400 for a write that cannot be read, 403 and 404 as for its plan.
pub(super) async fn plan_write(
    request: &AgbotRequest,
    org: &str,
    write: &ApprovalWrite,
) -> Result<ApprovalPlan, Refusal> {
    match write {
        ApprovalWrite::DeploymentPolicy { policy, document } => {
            of_document(request, (org, policy), document).await
        }
        ApprovalWrite::DeploymentPolicyRemoval { policy } => {
            let about = "every instance is stopped, and the policy is removed";
            of_present(request, (org, policy), write, about).await
        }
        ApprovalWrite::PolicyAction { policy, action, request: options } => {
            Kind::from_name(action)?;
            let options = read_action(options)?;
            let about = format!("{action}{} is carried out", scope(&options));
            of_present(request, (org, policy), write, &about).await
        }
        ApprovalWrite::RolloutAction { policy, action, .. } => {
            read_rollout_action(action)?;
            let about = format!("{action} is carried out on its rollouts");
            of_present(request, (org, policy), write, &about).await
        }
        ApprovalWrite::Settings { settings } => of_settings(request, org, settings).await,
    }
}

/// Reads target and options of an action.
///
/// # Errors
/// 400 naming the member and the rule.
pub(super) fn read_action(options: &Map<String, Value>) -> Result<ActionRequest, Refusal> {
    action_request::of_body(Value::Object(options.clone()))
        .map_err(|error| Refusal::invalid_input(format!("request: {error}")))
}

/// Reads the name of an action on rollouts.
///
/// # Errors
/// 400 for another name.
pub(super) fn read_rollout_action(action: &str) -> Result<RolloutAction, Refusal> {
    RolloutAction::from_name(action).ok_or_else(|| {
        Refusal::invalid_input("the action must be one of pause, resume, abort, rollback and retry")
    })
}

/// Returns the target of an action in words.
fn scope(options: &ActionRequest) -> String {
    let ActionRequest { workload_unit, node, destination, force, .. } = options;
    let mut text = String::new();
    for (word, name) in [(" in unit ", workload_unit), (" on node ", node)] {
        text.extend(name.iter().flat_map(|name| [word, name.as_str()]));
    }
    if let Some(nodes) = destination.as_ref().filter(|nodes| !nodes.is_empty()) {
        text.push_str(" to ");
        text.push_str(&nodes.join(", "));
    }
    if *force == Some(true) {
        text.push_str(", by force,");
    }
    text
}

async fn planned_policy(
    request: &AgbotRequest,
    (org, policy): (&str, &str),
) -> Result<PlannedPolicy, Refusal> {
    let path = PolicyPath { org: org.to_owned(), policy: policy.to_owned() };
    let found = <right::PolicyPlan as RightTo<PolicyPath>>::check(request, &path).await?;
    let id = PolicyId::new(org, policy);
    freshness::follow_recent_write(&request.context, &id, found.policy.as_ref()).await;
    Ok(found)
}

async fn of_document(
    request: &AgbotRequest,
    (org, policy): (&str, &str),
    document: &Map<String, Value>,
) -> Result<ApprovalPlan, Refusal> {
    let document = Value::Object(document.clone());
    // The shape is that of a write.
    serde_json::from_value::<PostDeploymentPolicy>(document.clone()).map_err(|error| {
        Refusal::invalid_input(format!("document: it is not a deployment policy: {error}"))
    })?;
    let found = planned_policy(request, (org, policy)).await?;
    let basis = found.policy.as_ref().map(|stored| stored.last_updated.clone());
    let id = PolicyId::new(org, policy);
    let planned = plan::plan_policy(&request.context, id, found, Some(document)).await?;
    let (lines, others) = bounded(lines_of(&planned));
    Ok(ApprovalPlan { summary: planned.totals(), token: planned.token, lines, others, basis })
}

/// Returns the plan of a write of a policy, line by line.
fn lines_of(plan: &PlanResponse) -> Vec<String> {
    let is_alone = plan.workload_units.len() == 1;
    let mut lines = Vec::new();
    for unit in &plan.workload_units {
        if !is_alone {
            lines.push(unit.name.clone());
        }
        lines.extend(unit.changes.iter().map(ToString::to_string));
        lines.extend(unit.blocked.iter().map(ToString::to_string));
        lines.extend(unit.unplaced.iter().map(|text| format!("! {text}")));
    }
    lines.extend(plan.warnings.iter().map(|text| format!("! {text}")));
    if !plan.complete {
        lines.push("and more changes of this kind".to_owned());
    }
    lines
}

/// Plans a write that is about what the policy runs now.
async fn of_present(
    request: &AgbotRequest,
    (org, policy): (&str, &str),
    write: &ApprovalWrite,
    about: &str,
) -> Result<ApprovalPlan, Refusal> {
    let found = planned_policy(request, (org, policy)).await?;
    let stored = found.policy.ok_or_else(|| missing_policy(org, policy))?;
    let id = PolicyId::new(org, policy);
    let (model, now) = (request.context.model(), request.context.now());
    let state = present_state(&model, &id);
    let token = state.token(&format!("{} {}", json!(write), stored.last_updated));
    let (lines, others) = bounded(present_lines(&state, &Shape { policy: &id, seen: &found.seen, now }));
    let summary = format!("{about}; now: {}", state.summary);
    Ok(ApprovalPlan { token, summary, lines, others, basis: Some(stored.last_updated) })
}

fn present_lines(state: &PresentState, shape: &Shape<'_>) -> Vec<String> {
    let rollouts = state.rollouts.iter().map(|(group, text)| format!("rollout through {group}: {text}"));
    let instances = state.instances.iter().map(|instance| {
        let node = shape.node(&instance.node);
        match &instance.slot {
            Some(slot) => format!("slot {} on {node}: {}", shape.slot(slot), instance.text),
            None => format!("{node}: {}", instance.text),
        }
    });
    rollouts.chain(instances).collect()
}

async fn of_settings(
    request: &AgbotRequest,
    org: &str,
    settings: &Map<String, Value>,
) -> Result<ApprovalPlan, Refusal> {
    let context: &Arc<Context> = &request.context;
    let path = OrgPath { org: org.to_owned() };
    let written: SeenNodes = <right::StopsPlan as RightTo<OrgPath>>::check(request, &path).await?;
    let before = context.model().org_settings(org).without_author();
    let write = DependencyWrite::Settings { settings: settings.clone() };
    let after = before
        .patched(Value::Object(settings.clone()))
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, format!("settings: {error}")))?;
    let stops = plan_stops::planned_stops(context.clone(), &written, org, write).await?;
    let (old, new) = (before.document(), after.document());
    let names = settings.keys();
    let mut lines: Vec<String> =
        names.map(|name| format!("{name}: {} becomes {}", old[name], new[name])).collect();
    lines.extend(stops.policies.iter().map(|one| {
        format!("- stops at most {} of {} instances of {}", one.stopped, one.instances, one.policy)
    }));
    let token = token_of(&format!("settings {org} {old} {}\n{}", json!(settings), lines.join("\n")));
    let stopped: u64 = stops.policies.iter().map(|one| one.stopped).sum();
    let summary = format!("{} settings change; at most {stopped} instances stop", settings.len());
    let (lines, others) = bounded(lines);
    Ok(ApprovalPlan { token, summary, lines, others, basis: None })
}

/// Returns the first lines and the number of the others.
fn bounded(mut lines: Vec<String>) -> (Vec<String>, u64) {
    let others = lines.len().saturating_sub(MOST_LINES) as u64;
    lines.truncate(MOST_LINES);
    (lines, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_is_bounded_and_counts_the_lines_that_are_left_out() {
        let lines = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!((bounded(lines(3)).0.len(), bounded(lines(3)).1), (3, 0));
        assert_eq!((bounded(lines(100_000)).0.len(), bounded(lines(100_000)).1), (MOST_LINES, 99_800));
    }

    #[test]
    fn action_is_described_with_its_target() {
        let options = json!({"unit": "all", "node": "n1", "destination": ["n2", "n3"], "force": true});
        let read = read_action(options.as_object().expect("an object")).expect("options");
        assert_eq!(scope(&read), " in unit all on node n1 to n2, n3, by force,");
        let refused = read_action(json!({"nodes": "n"}).as_object().expect("an object"));
        assert!(refused.is_err_and(|refusal| refusal.message().starts_with("request: nodes")));
    }
}
