//! What a write of a deployment policy would do, computed without acting.
//!
//! The decisions run on a copy of the model, outside of its lock and one request at a time, so that they hold up no real decision.
//! Source: orchestration D3.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use evenkeel_api::Content;
use evenkeel_client::ClientError;
use evenkeel_domain::orchestration::Orchestration;
use evenkeel_domain::orchestration::supported::supported_orchestration;
use evenkeel_ids::PolicyId;
use evenkeel_planner::change::Cause;
use evenkeel_planner::event::Event;
use evenkeel_planner::preview::{Preview, preview};
use evenkeel_planner::reconcile::{DryRun, ExpectedChange, ExpectedKind};
use evenkeel_planner::workload::UnitId;
use evenkeel_wire::agbot::plan::{
    PlanResponse, PlannedAction, PlannedBlock, PlannedChange, PlannedWorkloadUnit,
};
use evenkeel_wire::exchange::deployment_policy::{DeploymentPolicyResponse, PostDeploymentPolicy};
use http::StatusCode;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::permission::{Permission, right};
use super::pipeline::{Input, Op, PolicyPath, Refusal, read_body};
use crate::context::Context;
use crate::observe::read;

/// One copy of the model exists at a time.
static PREVIEWS: Semaphore = Semaphore::const_new(1);

/// The policy to plan; none plans the policy as it is stored.
pub(super) struct PolicyToPlan(Option<Value>);

impl Input for PolicyToPlan {
    async fn read(request: Request) -> Result<PolicyToPlan, Refusal> {
        let body = read_body(request).await?;
        if body.is_empty() {
            return Ok(PolicyToPlan(None));
        }
        let refused = |error: serde_json::Error| {
            Refusal::new(StatusCode::BAD_REQUEST, format!("the body is no deployment policy: {error}"))
        };
        // The shape is that of a write; what is planned is the document itself.
        serde_json::from_slice::<PostDeploymentPolicy>(&body).map_err(refused)?;
        serde_json::from_slice(&body).map(|document| PolicyToPlan(Some(document))).map_err(refused)
    }

    fn body() -> Content {
        Content::read::<PostDeploymentPolicy>()
    }
}

/// Returns what a write of the policy would do.
pub(super) async fn plan_deployment_policy(
    op: Op<PolicyPath>,
    _: Permission<right::OrgAdminister>,
    PolicyToPlan(body): PolicyToPlan,
) -> Result<Json<PlanResponse>, Refusal> {
    let Op { context, path: PolicyPath { organization: org, policy } } = op;
    let policy = PolicyId::new(&org, &policy);
    let document = document_of(&context, &policy, body).await?;
    let orchestration = orchestration_of(&policy, &document)?;
    let written = read::written_policy(&context, &policy, &document).await.map_err(|error| unread(&error))?;
    let Some(written) = written else {
        let text = format!("this agbot does not serve deployment policy {policy}");
        return Err(Refusal::new(StatusCode::NOT_FOUND, text));
    };
    let found = previewed(context, policy.clone(), written, orchestration).await?;
    Ok(Json(PlanResponse {
        policy,
        complete: found.workload_units.iter().all(|(_, run)| run.is_complete),
        workload_units: found.workload_units.into_iter().map(planned).collect(),
        token: found.token,
    }))
}

/// Returns the document to plan: the one of the request, or the one of the exchange.
async fn document_of(
    context: &Context,
    policy: &PolicyId,
    body: Option<Value>,
) -> Result<DeploymentPolicyResponse, Refusal> {
    match body {
        Some(body) => serde_json::from_value(body).map_err(|error| {
            Refusal::new(StatusCode::BAD_REQUEST, format!("the body is no deployment policy: {error}"))
        }),
        None => {
            let found = context.client.deployment_policy(policy.org(), policy.name()).await;
            found.map_err(|error| unread(&error))?.ok_or_else(|| {
                Refusal::new(StatusCode::NOT_FOUND, format!("deployment policy {policy} does not exist"))
            })
        }
    }
}

fn orchestration_of(
    policy: &PolicyId,
    document: &DeploymentPolicyResponse,
) -> Result<Orchestration, Refusal> {
    let Some(settings) = &document.orchestration else { return Ok(Orchestration::default()) };
    supported_orchestration(policy, settings.clone())
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))
}

async fn previewed(
    context: Arc<Context>,
    policy: PolicyId,
    written: Vec<Event>,
    orchestration: Orchestration,
) -> Result<Preview, Refusal> {
    let ending = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the agbot is stopping");
    let permit = PREVIEWS.acquire().await.map_err(|_| ending())?;
    let computed = tokio::task::spawn_blocking(move || {
        let (model, now) = (context.model().clone(), context.now());
        preview(model, &policy, &written, &orchestration, now)
    });
    let found = computed.await.map_err(|_| ending());
    drop(permit);
    found
}

/// A name in the policy that the exchange refuses is the caller's; everything else may pass.
fn unread(error: &ClientError) -> Refusal {
    if let ClientError::Status { status: 400, msg, .. } = error {
        return Refusal::new(StatusCode::BAD_REQUEST, format!("the policy names what cannot exist: {msg}"));
    }
    tracing::warn!(error = error as &dyn std::error::Error, "plan refused: the exchange cannot be read");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the exchange cannot be read now, try again")
}

fn planned((unit_id, run): (UnitId, DryRun)) -> PlannedWorkloadUnit {
    let blocked = |(step, blocked): &(evenkeel_planner::change::Step, evenkeel_planner::report::Blocked)| {
        PlannedBlock { slot: step.slot.to_string(), reason: blocked.to_string() }
    };
    PlannedWorkloadUnit {
        name: unit_id.name().to_owned(),
        changes: run.changes.into_iter().map(change).collect(),
        blocked: run.blocked.iter().map(blocked).collect(),
        unplaced: run.unplaced.map(|report| report.summary),
    }
}

fn change(expected: ExpectedChange) -> PlannedChange {
    PlannedChange {
        action: match expected.kind {
            ExpectedKind::Create => PlannedAction::Create,
            ExpectedKind::Replace => PlannedAction::Replace,
            ExpectedKind::Move => PlannedAction::Move,
            ExpectedKind::Restart => PlannedAction::Restart,
            ExpectedKind::Stop => PlannedAction::Stop,
        },
        slot: expected.slot.to_string(),
        from: expected.from,
        to: expected.to,
        reason: reason(expected.cause).to_owned(),
    }
}

fn reason(cause: Option<Cause>) -> &'static str {
    match cause {
        None => "the instance is not wanted any more",
        Some(Cause::User { .. }) => "a user requested it",
        Some(Cause::NodeLost) => "its node is down or deleted",
        Some(Cause::TaskFailed) => "it failed",
        Some(Cause::Incompatible) => "the policy does not select its node any more",
        Some(Cause::Drain) => "its node is being drained",
        Some(Cause::Update) => "another version is wanted",
        Some(Cause::Rollback) => "the earlier version is wanted back",
        Some(Cause::Return) => "it returns to the node that it left during an upgrade",
        Some(Cause::Rebalance) => "another node ranks better, or is in the preferred domain",
        Some(Cause::Cure) => "the placement does not want it on its node",
        Some(Cause::Health) => "its health policy recovers it",
        Some(Cause::NodeHealth) => "the health policy of the HA group recovers its node",
        Some(Cause::Withdrawn) => "no instance is wanted any more",
        Some(Cause::Scale) => "more instances are wanted",
    }
}
