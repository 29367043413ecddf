//! Approvals of plans by a second person.
//!
//! [`gate`] is the one check of a write that an organization has approved: the writes of deployment policies and settings ask it in their
//! transaction, and the record of an action before the agbot carries it out. [`rights`] decides who may approve. Source:
//! docs/adr/0031-a-second-person-approves-a-plan.md.

mod decide;
pub(in crate::routes) mod gate;
mod read;
mod request;
mod rights;

use evenkeel_exchange_store::change::Change;
use evenkeel_exchange_store::plan_approval::{PlanApprovalRow, StoredPlanApproval};
use evenkeel_wire::exchange::forwarded::FORWARDED_BY;
use evenkeel_wire::exchange::plan_approval::{ApprovalPlan, ApprovalWrite, PlanApproval};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::ApiError;
use crate::feed::visibility::PLAN_APPROVAL;
use crate::operation::Operation;
use crate::operation::row::{get, post};

const TAG: &str = "plan approval";
const ALL: &str = "/orgs/{organization}/approvals";
const ONE: &str = "/orgs/{organization}/approvals/{approval}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_plan_approvals", read::list_plan_approvals)
            .doc(TAG, "Lists requests that a second person approves a plan, newest first; ordinary users see their own")
            .success("the requests"),
        get(ONE, "get_plan_approval", read::get_plan_approval)
            .doc(TAG, "Returns a request with its write, its plan, and whether the caller may approve it")
            .success("the request")
            .response::<ApiResponse>(404, "there is none"),
        post(ALL, "create_plan_approval", request::create_plan_approval)
            .doc(TAG, "Adds a request that an approved agbot has planned for the caller, a user who may do the write")
            .success("the request")
            .response::<ApiResponse>(409, "too many requests of the caller or the organization are open")
            .header(FORWARDED_BY, "Credentials of the agbot, in the form of `Authorization`.", "Basic b3JnL2FnYm90OnRva2Vu"),
        post("/orgs/{organization}/approvals/{approval}/approve", "approve_plan", decide::approve_plan)
            .doc(TAG, "Approves a plan: another user than the requester, who may do the write")
            .success("the request")
            .response::<ApiResponse>(409, "it is not pending, or the token is that of another plan"),
        post("/orgs/{organization}/approvals/{approval}/reject", "reject_plan", decide::reject_plan)
            .doc(TAG, "Rejects a plan, or withdraws its approval before it is used: another user than the requester, who may do the write")
            .success("the request")
            .response::<ApiResponse>(409, "it is neither pending nor approved"),
        post("/orgs/{organization}/approvals/{approval}/cancel", "cancel_plan_approval", decide::cancel_plan_approval)
            .doc(TAG, "Cancels a request: the requester, and administrators of the organization")
            .success("the request")
            .response::<ApiResponse>(409, "it is neither pending nor approved"),
        post("/orgs/{organization}/approvals/{approval}/use", "use_plan_approval", decide::use_plan_approval)
            .doc(TAG, "Uses an approval up, before an approved agbot carries its action out for the caller")
            .success("the request")
            .response::<ApiResponse>(409, "it is not approved, or its plan no longer holds")
            .header(FORWARDED_BY, "Credentials of the agbot, in the form of `Authorization`.", "Basic b3JnL2FnYm90OnRva2Vu"),
    ]
}

/// Returns the state of a request at an instant.
fn state_at(row: &PlanApprovalRow, now: Timestamp) -> &str {
    let is_open = matches!(row.state.as_str(), "pending" | "approved");
    if is_open && row.expires_at <= now { "expired" } else { &row.state }
}

/// Returns a request as it is shown in a list.
fn shown(org: &str, row: PlanApprovalRow, now: Timestamp) -> PlanApproval {
    let account = |name: String| format!("{org}/{name}");
    PlanApproval {
        state: state_at(&row, now).to_owned(),
        id: row.id.to_string(),
        requester: account(row.requester),
        kind: row.kind,
        policy: row.policy,
        title: row.title,
        reason: row.reason,
        created_at: wire_time(row.created_at),
        expires_at: wire_time(row.expires_at),
        decided_by: row.decided_by.map(account),
        decided_at: row.decided_at.map(wire_time),
        decision: row.decision,
        used_by: row.used_by.map(account),
        used_at: row.used_at.map(wire_time),
        ..PlanApproval::default()
    }
}

/// Returns a request with its write and its plan.
fn shown_whole(org: &str, stored: StoredPlanApproval, now: Timestamp) -> Result<PlanApproval, ApiError> {
    let StoredPlanApproval { row, request, plan } = stored;
    let (write, plan) = (write_of(request)?, stored_part::<ApprovalPlan>(plan)?);
    Ok(PlanApproval { write: Some(write), plan: Some(plan), ..shown(org, row, now) })
}

/// Returns the write of a stored request.
fn write_of(request: Value) -> Result<ApprovalWrite, ApiError> {
    stored_part(request)
}

fn stored_part<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|error| {
        ApiError::internal(format!("a stored request for an approval cannot be read: {error}"))
    })
}

/// Reads the id of a request in a path; one that is no id belongs to no request.
fn read_id(org: &str, id: &str) -> Result<Uuid, ApiError> {
    id.parse().map_err(|_| absent(org, id))
}

/// Returns the row of the feed about a request.
fn change(org: &str, id: Uuid, operation: &'static str) -> Change {
    Change {
        org: org.to_owned(),
        id: id.to_string(),
        category: "policy",
        resource: PLAN_APPROVAL,
        operation,
        is_public: false,
    }
}

fn absent(org: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("organization '{org}' has no request for an approval with the id '{id}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_requests_expire_and_those_that_are_over_stay() {
        let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
        let state = |state: &str, now: &str| {
            let row = PlanApprovalRow {
                id: Uuid::nil(),
                requester: "ann".to_owned(),
                kind: "settings".to_owned(),
                policy: None,
                title: String::new(),
                token: String::new(),
                basis: None,
                reason: String::new(),
                state: state.to_owned(),
                created_at: at("2026-03-01T08:00:00Z"),
                expires_at: at("2026-03-02T08:00:00Z"),
                decided_by: None,
                decided_at: None,
                decision: None,
                used_by: None,
                used_at: None,
            };
            state_at(&row, at(now)).to_owned()
        };
        for open in ["pending", "approved"] {
            assert_eq!(state(open, "2026-03-02T07:59:59Z"), open);
            assert_eq!(state(open, "2026-03-02T08:00:00Z"), "expired");
        }
        for closed in ["rejected", "canceled", "used"] {
            assert_eq!(state(closed, "2026-03-05T08:00:00Z"), closed);
        }
    }
}
