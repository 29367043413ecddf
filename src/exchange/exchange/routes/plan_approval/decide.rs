//! Decisions about requests for approvals, and their use by actions.

use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_exchange_store::plan_approval::{self, PlanApprovalRow, PlanDecision, StoredPlanApproval};
use evenkeel_wire::exchange::plan_approval::{DecidePlanApproval, PlanApproval, UsePlanApproval};

use super::gate::{GatedRequest, GatedWrite, GivenApproval};
use super::request::check_reason;
use super::{absent, change, read_id, rights, shown_whole, state_at, write_of};
use crate::ApiError;
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, ResourcePath};
use crate::transaction::WriteTx;

type Write = Permission<right::PlanApprovalWrite>;

/// A decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Approve,
    Reject,
    Cancel,
}

impl Verdict {
    fn state(self) -> &'static str {
        match self {
            Verdict::Approve => "approved",
            Verdict::Reject => "rejected",
            Verdict::Cancel => "canceled",
        }
    }

    /// Returns whether it may follow a state.
    fn follows(self, state: &str) -> bool {
        match self {
            Verdict::Approve => state == "pending",
            Verdict::Reject | Verdict::Cancel => matches!(state, "pending" | "approved"),
        }
    }
}

pub(super) async fn approve_plan(
    op: Op<ResourcePath>,
    permission: Write,
    Body(request): Body<DecidePlanApproval>,
) -> Result<Json<PlanApproval>, ApiError> {
    decide(&op, &permission, Verdict::Approve, &request).await
}

pub(super) async fn reject_plan(
    op: Op<ResourcePath>,
    permission: Write,
    Body(request): Body<DecidePlanApproval>,
) -> Result<Json<PlanApproval>, ApiError> {
    decide(&op, &permission, Verdict::Reject, &request).await
}

pub(super) async fn cancel_plan_approval(
    op: Op<ResourcePath>,
    permission: Write,
    Body(request): Body<DecidePlanApproval>,
) -> Result<Json<PlanApproval>, ApiError> {
    decide(&op, &permission, Verdict::Cancel, &request).await
}

async fn decide(
    op: &Op<ResourcePath>,
    permission: &Write,
    verdict: Verdict,
    request: &DecidePlanApproval,
) -> Result<Json<PlanApproval>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = op;
    rights::require_member(caller, org)?;
    check_reason("reason", &request.reason, 0)?;
    let (uuid, now) = (read_id(org, id)?, exchange.now());
    let stored = op
        .write(permission, "plan_approval.decide", async |mut tx| {
            let stored = plan_approval::lock(&mut tx, org, uuid).await?.ok_or_else(|| absent(org, id))?;
            require_verdict(&mut tx, op, verdict, &stored).await?;
            require_state(&stored.row, verdict, state_at(&stored.row, now), request.token.as_deref())?;
            let (state, reason) = (verdict.state(), request.reason.trim());
            let decision = PlanDecision { state, by: &caller.id, reason, at: now };
            plan_approval::decide(&mut tx, org, uuid, decision).await?;
            let stored = plan_approval::find(&mut tx, org, uuid).await?.ok_or_else(|| absent(org, id))?;
            tx.finish_with([change(org, uuid, "modified")], stored)
        })
        .await?;
    Ok(Json(shown_whole(org, stored, now)?))
}

/// Requires the right to a verdict.
async fn require_verdict(
    tx: &mut WriteTx<right::PlanApprovalWrite>,
    op: &Op<ResourcePath>,
    verdict: Verdict,
    stored: &StoredPlanApproval,
) -> Result<(), ApiError> {
    let (caller, org) = (&op.caller, op.path.org.as_str());
    if verdict == Verdict::Cancel {
        if caller.id == stored.row.requester || caller.is_admin_of(org) {
            return Ok(());
        }
        return Err(ApiError::access_denied(format!(
            "a request is canceled by its requester or an administrator of organization '{org}': '{caller}' is neither"
        )));
    }
    let write = write_of(stored.request.clone())?;
    rights::require_second_person(tx, caller, (org, &stored.row), &write).await
}

fn require_state(
    row: &PlanApprovalRow,
    verdict: Verdict,
    state: &str,
    token: Option<&str>,
) -> Result<(), ApiError> {
    if !verdict.follows(state) {
        let becomes = verdict.state();
        return Err(ApiError::state_conflict(format!(
            "request {} is {state}: it cannot be {becomes}",
            row.id
        )));
    }
    if token.is_some_and(|token| token != row.token) {
        return Err(ApiError::state_conflict(format!(
            "token: the plan of request {} has the token {}: read it again",
            row.id, row.token
        )));
    }
    Ok(())
}

pub(super) async fn use_plan_approval(
    op: Op<ResourcePath, GivenApproval>,
    permission: Write,
    Body(request): Body<UsePlanApproval>,
) -> Result<Json<PlanApproval>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: ResourcePath { org, id },
        parameters: given,
    } = &op;
    let (uuid, now) = (read_id(org, id)?, exchange.now());
    let given = given.named(id);
    let stored = op
        .write(&permission, "plan_approval.use", async |mut tx| {
            let gated = GatedRequest { exchange, caller, org };
            let used = given.require(&mut tx, &gated, &GatedWrite::Action { token: &request.token }).await?;
            let stored = plan_approval::find(&mut tx, org, uuid).await?.ok_or_else(|| absent(org, id))?;
            tx.finish_with(used, stored)
        })
        .await?;
    Ok(Json(shown_whole(org, stored, now)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_requests_are_decided_and_closed_ones_stay() {
        let following = |verdict: Verdict| {
            let states = ["pending", "approved", "rejected", "canceled", "used", "expired"];
            states.into_iter().filter(|state| verdict.follows(state)).collect::<Vec<_>>()
        };
        assert_eq!(following(Verdict::Approve), ["pending"]);
        for verdict in [Verdict::Reject, Verdict::Cancel] {
            assert_eq!(following(verdict), ["pending", "approved"]);
        }
    }
}
