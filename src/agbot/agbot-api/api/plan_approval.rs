//! Approvals of plans by a second person: the agbot plans what is requested, and carries out what was approved if the plan still holds.
//!
//! The exchange keeps the requests and decides who may approve and use them; it is called with the credentials of the caller.

use axum::Json;
use evenkeel_agbot::approvals::{ApprovalStep, approval_event};
use evenkeel_agbot::{AgbotError, Context};
use evenkeel_agbot_store::approval as approvals;
use evenkeel_api::{BodyKind, Content, Input, OrgPath, Refusal};
use evenkeel_client::{Client, ClientError};
use evenkeel_ids::{OrgId, PolicyId};
use evenkeel_store::retry;
use evenkeel_wire::exchange::plan_approval::{
    APPROVAL_REQUIRED, AppliedPlanApproval, ApprovalPlan, ApprovalWrite, PlanApproval, PostPlanApproval,
    RequestPlanApproval,
};
use http::StatusCode;

use super::actions;
use super::administer;
use super::approved_plan::{plan_write, read_action, read_rollout_action};
use super::caller::{as_caller, may_operate, may_operate_rollouts};
use super::path::ApprovalPath;
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, Sent};

/// Characters of the reason that the revision of an approved write takes over.
const LONGEST_REASON: usize = 900;
/// Lines of the difference of two plans, at most.
const MOST_DIFFERENCES: usize = 5;

/// The request.
pub(super) struct WriteToApprove(RequestPlanApproval);

impl Input<AgbotRequest> for WriteToApprove {
    const KIND: BodyKind = BodyKind::Raw;

    fn read(sent: Sent) -> Result<WriteToApprove, Refusal> {
        sent.document("a request for an approval").map(WriteToApprove)
    }

    fn body() -> Content {
        Content::read::<RequestPlanApproval>()
    }
}

/// Plans a write and requests its approval.
pub(super) async fn request_plan_approval(
    op: Op<OrgPath>,
    _: Permission<right::PlanApprovalWrite>,
    WriteToApprove(request): WriteToApprove,
) -> Result<Json<PlanApproval>, Refusal> {
    let org = &op.path.org;
    let plan = plan_write(&op.request, org, &request.write).await?;
    let client = as_caller(&op.context, &op.headers)?;
    let body = PostPlanApproval { request, plan };
    let created = client.create_plan_approval(org, &body).await.map_err(passed_on)?;
    Ok(Json(created))
}

/// Carries out an approved write, if its plan still holds.
pub(super) async fn apply_plan_approval(
    op: Op<ApprovalPath>,
    _: Permission<right::PlanApprovalWrite>,
) -> Result<Json<AppliedPlanApproval>, Refusal> {
    let ApprovalPath { org, approval: id } = &op.path;
    let client = as_caller(&op.context, &op.headers)?;
    let found = client.plan_approval(org, id).await.map_err(passed_on)?;
    let approval = found.ok_or_else(|| {
        let text = format!("organization '{org}' has no request for an approval with the id '{id}'");
        Refusal::new(StatusCode::NOT_FOUND, text)
    })?;
    if approval.state != "approved" {
        let text = format!("request {id} cannot be applied: it is {}", approval.state);
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    }
    let (Some(write), Some(planned)) = (&approval.write, &approval.plan) else {
        return Err(Refusal::internal(format!("request {id} has no write")));
    };
    let now = plan_write(&op.request, org, write).await?;
    if now.token != planned.token {
        let caller = super::caller::claimed_name(&op.headers);
        record_stale(&op.context, org, &approval, &caller).await;
        return Err(Refusal::new(StatusCode::CONFLICT, difference(id, planned, &now)));
    }
    Ok(Json(carry_out(&op, &client, &approval, write).await?))
}

/// Carries a write out with the credentials of the caller.
async fn carry_out(
    op: &Op<ApprovalPath>,
    client: &Client,
    approval: &PlanApproval,
    write: &ApprovalWrite,
) -> Result<AppliedPlanApproval, Refusal> {
    let ApprovalPath { org, approval: id } = &op.path;
    let (context, headers) = (&op.context, &op.headers);
    let token = approval.plan.as_ref().map(|plan| plan.token.as_str()).unwrap_or_default();
    let mut applied = AppliedPlanApproval {
        code: "ok".to_owned(),
        msg: format!("approval {id} applied: {}", write.title()),
        ..AppliedPlanApproval::default()
    };
    match write {
        ApprovalWrite::PolicyAction { policy, action, request } => {
            let (actor, stored) = may_operate(context, headers, org, policy).await?;
            let request = read_action(request)?;
            client.use_plan_approval(org, id, token).await.map_err(passed_on)?;
            let target = (PolicyId::new(org, policy), action.as_str());
            let accepted = actions::act(context, (actor, &stored), target, &request).await?;
            applied.action_id = Some(accepted.action_id);
        }
        ApprovalWrite::RolloutAction { policy, action, group } => {
            let actor = may_operate_rollouts(context, headers, (org, policy)).await?;
            let action = read_rollout_action(action)?;
            client.use_plan_approval(org, id, token).await.map_err(passed_on)?;
            let changed = administer::act(context, &actor, (org, policy), (action, group.as_deref())).await?;
            applied.refused = changed.refused;
        }
        ApprovalWrite::DeploymentPolicy { .. }
        | ApprovalWrite::DeploymentPolicyRemoval { .. }
        | ApprovalWrite::Settings { .. } => {
            let given: String = approval.reason.chars().take(LONGEST_REASON).collect();
            let reason = format!("approval {id}: {given}");
            let is_new = approval.plan.as_ref().is_some_and(|plan| plan.basis.is_none());
            client.write_approved(org, id, (write, is_new), &reason).await.map_err(passed_on)?;
        }
    }
    Ok(applied)
}

/// Returns how a plan differs from the approved one.
fn difference(id: &str, approved: &ApprovalPlan, now: &ApprovalPlan) -> String {
    let only_in = |one: &ApprovalPlan, other: &ApprovalPlan| {
        let lines = one.lines.iter().filter(|line| !other.lines.contains(line));
        lines.take(MOST_DIFFERENCES).cloned().collect::<Vec<_>>().join("; ")
    };
    let (gone, new) = (only_in(approved, now), only_in(now, approved));
    let mut text = format!("what approval {id} is about has changed since its plan was made: ");
    text.push_str(&match (gone.is_empty(), new.is_empty()) {
        (true, true) if approved.summary == now.summary => {
            "the state that it affects is another one".to_owned()
        }
        (true, true) => format!("the plan was '{}' and is '{}' now", approved.summary, now.summary),
        (false, true) => format!("no longer planned: {gone}"),
        (true, false) => format!("planned now: {new}"),
        (false, false) => format!("no longer planned: {gone}; planned now: {new}"),
    });
    text.push_str("; plan again with hzn approval request");
    text
}

/// Refusals of the exchange are those of the caller.
fn passed_on(error: ClientError) -> Refusal {
    match error {
        ClientError::Status { status: 429, msg, retry_after, .. } => {
            Refusal::too_many(retry_after.unwrap_or(1), msg)
        }
        ClientError::Status { status, code, msg, .. } if (400..500).contains(&status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
            match code.as_str() {
                APPROVAL_REQUIRED => Refusal::coded(status, APPROVAL_REQUIRED, msg),
                _ => Refusal::new(status, msg),
            }
        }
        error => {
            tracing::warn!(error = &error as &dyn std::error::Error, "an approval was not carried out");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the exchange does not respond now, try again")
        }
    }
}

/// Records that an approved plan no longer holds, which only this agbot knows.
async fn record_stale(context: &Context, org: &str, approval: &PlanApproval, actor: &str) {
    let Ok(org) = org.parse::<OrgId>() else { return };
    let event = approval_event(&org, approval, ApprovalStep::Stale, (Some(actor), context.now()));
    let written = retry("approval.insert_event", || async {
        let mut tx = context.database.begin().await?;
        approvals::insert_event(&mut tx, &event).await?;
        tx.commit().await?;
        Ok::<_, AgbotError>(())
    });
    if let Err(error) = written.await {
        // The refusal is what the caller needs.
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            approval.id,
            "a plan that no longer holds has no event"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(summary: &str, lines: &[&str]) -> ApprovalPlan {
        ApprovalPlan {
            summary: summary.to_owned(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            ..ApprovalPlan::default()
        }
    }

    #[test]
    fn difference_names_what_is_no_longer_planned_and_what_is_planned_now() {
        let approved = plan("1 to stop", &["- stop slot 1", "- stop slot 2"]);
        let text = |now: &ApprovalPlan| difference("7", &approved, now);
        let found = text(&plan("1 to stop", &["- stop slot 1", "- stop slot 3"]));
        assert!(
            found.contains("no longer planned: - stop slot 2; planned now: - stop slot 3; plan again"),
            "{found}"
        );
        assert!(text(&approved).contains("the state that it affects is another one"));
        let many: Vec<String> = (0..100).map(|number| format!("+ create slot {number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(text(&plan("100 to create", &many)).len() < 500);
    }
}
