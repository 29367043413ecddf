//! Plan of a write of a deployment policy, computed without acting.
//!
//! The decisions run on a copy of the model, outside of its lock and one request at a time, so that they hold up no real decision.
//! Source: orchestration D3.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use evenkeel_agbot::{Context, WrittenPolicy};
use evenkeel_api::{BodyKind, Content, Input, Refusal};
use evenkeel_client::ClientError;
use evenkeel_domain::orchestration::Orchestration;
use evenkeel_domain::orchestration::supported::supported_orchestration;
use evenkeel_domain::review;
use evenkeel_explain::preview::{Preview, PreviewedUnit, preview};
use evenkeel_ids::PolicyId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::report::Blocked;
use evenkeel_planner_record::workload::{Cause, Step};
use evenkeel_reconcile::reconcile::{ExpectedChange, ExpectedKind};
use evenkeel_wire::agbot::plan::{
    PlanResponse, PlannedAction, PlannedBlock, PlannedChange, PlannedWorkloadUnit,
};
use evenkeel_wire::exchange::deployment_policy::{DeploymentPolicyResponse, PostDeploymentPolicy};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::path::PolicyPath;
use super::permission::{Permission, PlannedPolicy, right};
use super::pipeline::{AgbotRequest, Op, Sent};
use super::planned_write::{self, PlannedWrite};
use super::turns::turn;
use crate::shown::hidden;
use crate::shown::workload_shape::Shape;

/// The policy to plan; none plans the policy as it is stored.
pub(super) struct PolicyToPlan(Option<Value>);

impl Input<AgbotRequest> for PolicyToPlan {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(sent: Sent) -> Result<PolicyToPlan, Refusal> {
        if sent.body.is_empty() {
            return Ok(PolicyToPlan(None));
        }
        let noun = "a deployment policy";
        // The shape is that of a write; what is planned is the document itself.
        sent.document::<PostDeploymentPolicy>(noun)?;
        sent.document(noun).map(|document| PolicyToPlan(Some(document)))
    }

    fn body() -> Content {
        Content::read::<PostDeploymentPolicy>()
    }
}

/// Returns what a write of the policy would do.
pub(super) async fn plan_deployment_policy(
    op: Op<PolicyPath>,
    permission: Permission<right::PolicyPlan>,
    PolicyToPlan(body): PolicyToPlan,
) -> Result<Json<PlanResponse>, Refusal> {
    let PolicyPath { org, policy } = &op.path;
    plan_policy(&op.context, PolicyId::new(org, policy), permission.into_proof(), body).await.map(Json)
}

/// Plans a write of a policy, or the stored one, for a caller who may read it.
///
/// # Errors
/// As the operation.
pub(super) async fn plan_policy(
    context: &Arc<Context>,
    policy: PolicyId,
    PlannedPolicy { policy: stored, seen }: PlannedPolicy,
    body: Option<Value>,
) -> Result<PlanResponse, Refusal> {
    let is_write = body.is_some();
    let before = stored.as_ref().and_then(|stored| stored.orchestration.clone());
    let document = document_of(&policy, body, stored)?;
    let orchestration = orchestration_of(&policy, &document)?;
    let findings = review::deployment_policy(&policy, &json!(document));
    if let Some(error) = findings.iter().find(|finding| is_write && finding.is_error()) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, error.to_string()));
    }
    let written = context.written_policy(&policy, &document).await.map_err(|error| unread(&error))?;
    let written = match written {
        WrittenPolicy::Readable(events) => events,
        WrittenPolicy::NotServed => {
            let text = format!("this agbot does not serve deployment policy {policy}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, text));
        }
        WrittenPolicy::Unreadable(error) => {
            let text = format!("deployment policy {policy} cannot be read: {error}");
            return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
        }
    };
    if is_write {
        let write = PlannedWrite { policy: &policy, before: before.as_ref(), document: &document };
        planned_write::check(&context.model(), &write, &written)?;
    }
    let now = context.now();
    let found = previewed(context.clone(), policy.clone(), written, orchestration).await?;
    let shape = Shape { policy: &policy, seen: &seen, now };
    let workload_units = found.workload_units.iter().map(|found| planned(found, &shape)).collect();
    Ok(PlanResponse {
        complete: found.workload_units.iter().all(|found| found.run.is_complete),
        workload_units,
        warnings: findings.iter().map(ToString::to_string).chain(found.warnings).collect(),
        token: found.token,
        policy,
    })
}

/// Returns the organizations whose nodes a policy concerns, or would if it existed.
///
/// # Errors
/// 503 when the exchange does not respond.
pub(super) async fn node_orgs(
    context: &Context,
    org: &str,
    policy: &str,
) -> Result<BTreeSet<String>, Refusal> {
    let served_entries = context.served_entries().await.map_err(|error| unread(&error))?;
    let node_orgs = served_entries.node_orgs_of(org, policy);
    Ok(node_orgs.iter().map(ToString::to_string).chain([org.to_owned()]).collect())
}

/// Returns the document to plan: the one of the request, or the stored one.
fn document_of(
    policy: &PolicyId,
    body: Option<Value>,
    stored: Option<DeploymentPolicyResponse>,
) -> Result<DeploymentPolicyResponse, Refusal> {
    match body {
        Some(body) => serde_json::from_value(body).map_err(|error| {
            Refusal::new(StatusCode::BAD_REQUEST, format!("the body is not a deployment policy: {error}"))
        }),
        None => stored.ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, format!("deployment policy {policy} does not exist"))
        }),
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
    let org = policy.org().to_string();
    on_model_clone(context, &org, move |model, now| preview(model, &policy, &written, &orchestration, now))
        .await
}

/// Computes something about an organization from a copy of the model.
///
/// # Errors
/// 429 when too many requests about the organization wait; 503 when the agbot is stopping.
pub(super) async fn on_model_clone<T: Send + 'static>(
    context: Arc<Context>,
    org: &str,
    compute: impl FnOnce(Model, Timestamp) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let ending = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the agbot is stopping");
    let turn = turn(org).await?;
    // It goes on, with its turn, when the client no longer waits.
    let computed = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let (model, now) = (context.model().clone(), context.now());
        compute(model, now)
    });
    computed.await.map_err(|_| ending())
}

/// A name in the policy that the exchange refuses is the caller's; everything else may pass.
fn unread(error: &ClientError) -> Refusal {
    if let ClientError::Status { status: 400, msg, .. } = error {
        return Refusal::new(StatusCode::BAD_REQUEST, format!("the policy names what cannot exist: {msg}"));
    }
    tracing::warn!(error = error as &dyn std::error::Error, "plan refused: the exchange cannot be read");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the exchange cannot be read now, try again")
}

/// Returns the planned changes of a workload unit, as far as the caller may see them.
fn planned(found: &PreviewedUnit, shape: &Shape<'_>) -> PlannedWorkloadUnit {
    let PreviewedUnit { id, instances, run, sequence } = found;
    let blocked = |(step, blocked): &(Step, Blocked)| PlannedBlock {
        slot: shape.slot(&step.slot),
        reason: hidden::reason(blocked.clone(), shape.seen).to_string(),
    };
    let elimination: BTreeMap<String, u64> = sequence
        .iter()
        .filter(|stage| stage.eliminated_count > 0)
        .map(|stage| (stage.constraint.name().to_owned(), stage.eliminated_count))
        .collect();
    PlannedWorkloadUnit {
        name: id.name().to_owned(),
        instances: *instances,
        changes: run.changes.iter().map(|expected| change(expected, &elimination, shape)).collect(),
        sequence: sequence.iter().map(|stage| shape.stage(stage)).collect(),
        blocked: run.blocked.iter().map(blocked).collect(),
        unplaced: run.unplaced.as_ref().map(|report| report.summary.clone()),
    }
}

fn change(
    expected: &ExpectedChange,
    elimination: &BTreeMap<String, u64>,
    shape: &Shape<'_>,
) -> PlannedChange {
    PlannedChange {
        action: match expected.kind {
            ExpectedKind::Create => PlannedAction::Create,
            ExpectedKind::Replace => PlannedAction::Replace,
            ExpectedKind::Move => PlannedAction::Move,
            ExpectedKind::Restart => PlannedAction::Restart,
            ExpectedKind::Stop => PlannedAction::Stop,
        },
        slot: shape.slot(&expected.slot),
        from: expected.from.as_ref().map(|node| shape.node(node)),
        to: expected.to.as_ref().map(|node| shape.node(node)),
        reason: reason(expected.cause.as_ref()).to_owned(),
        elimination: match expected.kind {
            ExpectedKind::Create | ExpectedKind::Move => elimination.clone(),
            ExpectedKind::Replace | ExpectedKind::Restart | ExpectedKind::Stop => BTreeMap::new(),
        },
    }
}

fn reason(cause: Option<&Cause>) -> &'static str {
    match cause {
        None => "the instance is no longer wanted",
        Some(Cause::User { .. }) => "a user requested it",
        Some(Cause::NodeLost) => "its node is down or deleted",
        Some(Cause::TaskFailed) => "it failed",
        Some(Cause::Incompatible) => "the policy no longer selects its node",
        Some(Cause::Drain) => "its node is being drained",
        Some(Cause::Update) => "another version is wanted",
        Some(Cause::Rollback) => "the earlier version is restored",
        Some(Cause::Return) => "it returns to the node that it left during an upgrade",
        Some(Cause::Rebalance) => "another node ranks better, or is in the preferred domain",
        Some(Cause::Cure) => "the placement excludes its node",
        Some(Cause::Health) => "its health policy recovers it",
        Some(Cause::NodeHealth) => "the health policy of the HA group recovers its node",
        Some(Cause::Withdrawn) => "instances are no longer wanted",
        Some(Cause::Scale) => "more instances are wanted",
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::NodeId;
    use evenkeel_planner_record::workload::Slot;
    use evenkeel_wire::agbot::orchestration::SlotName;

    use super::*;
    use crate::shown::SeenNodes;

    #[test]
    fn nodes_of_a_plan_are_written_as_in_the_status_and_hidden_from_those_who_may_not_read_them() {
        let node = |org, name| NodeId::new(org, name);
        let (mine, other, foreign) = (node("o", "mine"), node("o", "other"), node("p", "n1"));
        let (policy, removed) = (PolicyId::new("o", "web"), BTreeMap::from([("NodeState".to_owned(), 1)]));
        let shown = |slot, to: &NodeId, seen: &SeenNodes| {
            let (kind, cause) = (ExpectedKind::Move, Some(Cause::Drain));
            let expected =
                ExpectedChange { kind, slot, from: Some(mine.clone()), to: Some(to.clone()), cause };
            let shape = Shape { policy: &policy, seen, now: Timestamp::UNIX_EPOCH };
            change(&expected, &removed, &shape)
        };
        let own = SeenNodes::Only(BTreeSet::from([mine.clone()]));
        let hidden = shown(Slot::Number(2), &other, &own);
        assert_eq!((hidden.from.as_deref(), hidden.to.as_deref()), (Some("mine"), Some("?")));
        assert_eq!((hidden.slot, hidden.elimination), (SlotName::Number(2), removed.clone()));
        assert_eq!(shown(Slot::Node(other.clone()), &other, &own).slot, SlotName::Node("?".to_owned()));
        let whole = shown(Slot::Node(other.clone()), &foreign, &SeenNodes::All);
        assert_eq!((whole.slot, whole.to.as_deref()), (SlotName::Node("other".to_owned()), Some("p/n1")));
    }
}
