//! Requests for approvals.

use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_exchange_store::plan_approval::{self, NewPlanApproval};
use evenkeel_wire::exchange::plan_approval::{
    APPROVAL_EXPIRES_SECS, ApprovalWrite, PlanApproval, PostPlanApproval, RequestPlanApproval, needs_approval,
};
use jiff::SignedDuration;
use serde_json::json;
use uuid::Uuid;

use super::gate::GivenApproval;
use super::{absent, change, rights, shown_whole};
use crate::ApiError;
use crate::extract::Body;
use crate::operation::{ExchangeRequest, Op, OrgPath};
use crate::routes::shape::require_length;

/// Longest reason, in characters.
const LONGEST_REASON: usize = 1_000;
/// Longest write with its plan, in bytes of JSON.
const MAX_REQUEST: usize = 256 * 1_024;
const EXPIRES_SECS: std::ops::RangeInclusive<u64> = 60..=604_800;
/// Open requests of an organization.
const MOST_OPEN: i64 = 200;
/// Open requests of one user.
const MOST_OPEN_OF_USER: i64 = 50;
/// Requests of an organization that are over and kept.
const MOST_CLOSED: i64 = 500;

pub(super) async fn create_plan_approval(
    op: Op<OrgPath, GivenApproval>,
    permission: Permission<right::PlanApprovalWrite>,
    Body(PostPlanApproval { request, plan }): Body<PostPlanApproval>,
) -> Result<Json<PlanApproval>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, parameters: given } =
        &op;
    given.require_agbot(org)?;
    rights::require_member(caller, org)?;
    let expires_secs = check(&request)?;
    let (document, now) = (json!(request.write), exchange.now());
    let expires_at = i64::try_from(expires_secs)
        .ok()
        .and_then(|secs| now.checked_add(SignedDuration::from_secs(secs)).ok());
    let new = NewPlanApproval {
        org: org.clone(),
        id: Uuid::now_v7(),
        requester: caller.id.clone(),
        kind: request.write.kind().to_owned(),
        policy: request.write.policy().map(str::to_owned),
        title: request.write.title(),
        token: plan.token.clone(),
        basis: plan.basis.clone(),
        plan: json!(plan),
        request: document,
        reason: request.reason.trim().to_owned(),
        created_at: now,
        expires_at: expires_at.unwrap_or(now),
    };
    require_length(
        "write and plan",
        new.request.to_string().len() + new.plan.to_string().len(),
        MAX_REQUEST,
    )?;
    let stored = op
        .write(&permission, "plan_approval.create", async |mut tx| {
            rights::require_right(&mut tx, caller, org, &request.write).await?;
            let open = plan_approval::lock_open_counts(&mut tx, org, &caller.id, now).await?;
            for (count, most, whose) in [
                (open.of_requester, MOST_OPEN_OF_USER, format!("user '{caller}'")),
                (open.of_org, MOST_OPEN, format!("organization '{org}'")),
            ] {
                if count >= most {
                    return Err(ApiError::state_conflict(format!(
                        "{whose} has {count} open requests for approvals, which is the limit: cancel or apply some"
                    )));
                }
            }
            plan_approval::insert(&mut tx, &new).await?;
            plan_approval::delete_surplus(&mut tx, org, now, MOST_CLOSED).await?;
            let stored = plan_approval::find(&mut tx, org, new.id).await?;
            let stored = stored.ok_or_else(|| absent(org, &new.id.to_string()))?;
            tx.finish_with([change(org, new.id, "created")], stored)
        })
        .await?;
    Ok(Json(shown_whole(org, stored, now)?))
}

/// Checks a request and returns the seconds after which it expires.
fn check(request: &RequestPlanApproval) -> Result<u64, ApiError> {
    check_reason("reason", &request.reason, 1)?;
    let secs = request.expires_seconds.unwrap_or(APPROVAL_EXPIRES_SECS);
    if !EXPIRES_SECS.contains(&secs) {
        let (least, most) = (EXPIRES_SECS.start(), EXPIRES_SECS.end());
        return Err(ApiError::invalid_input(format!("expiresSeconds: {secs} is not from {least} to {most}")));
    }
    match &request.write {
        ApprovalWrite::PolicyAction { action, .. } | ApprovalWrite::RolloutAction { action, .. }
            if !needs_approval(action) =>
        {
            Err(ApiError::invalid_input(format!("action: {action} needs no approval")))
        }
        _ => Ok(secs),
    }
}

/// Refuses a reason that is too short or too long, or that has control characters.
pub(super) fn check_reason(field: &str, reason: &str, least: usize) -> Result<(), ApiError> {
    let reason = reason.trim();
    if reason.chars().any(char::is_control) {
        return Err(ApiError::invalid_input(format!("{field}: it must have printable characters only")));
    }
    let count = reason.chars().count();
    if (least..=LONGEST_REASON).contains(&count) {
        return Ok(());
    }
    Err(ApiError::invalid_input(format!(
        "{field}: it has {count} characters, and must have {least} to {LONGEST_REASON}"
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn refusal(value: Value) -> String {
        let request: RequestPlanApproval = serde_json::from_value(value).expect("a request");
        check(&request).map_or_else(|error| error.to_string(), |secs| secs.to_string())
    }

    #[test]
    fn requests_have_a_reason_and_a_bounded_end() {
        let request = |reason: &str, secs: Option<u64>, action: &str| {
            let write = json!({"kind": "policyAction", "policy": "p", "action": action});
            refusal(json!({"write": write, "reason": reason, "expiresSeconds": secs}))
        };
        assert_eq!(request("ticket 7", None, "restart"), "86400");
        assert_eq!(request("ticket 7", Some(60), "restart"), "60");
        for (found, expected) in [
            (request(" ", None, "restart"), "reason: it has 0 characters"),
            (request(&"x".repeat(1_001), None, "restart"), "reason: it has 1001 characters"),
            (request("a\u{0}b", None, "restart"), "reason: it must have printable characters only"),
            (request("r", Some(59), "restart"), "expiresSeconds: 59 is not from 60 to 604800"),
            (request("r", Some(u64::MAX), "restart"), "expiresSeconds: 18446744073709551615 is not"),
            (request("r", None, "freeze"), "action: freeze needs no approval"),
        ] {
            assert!(found.contains(expected), "{found}");
        }
    }
}
