//! Reading requests for approvals.

use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_exchange_store::plan_approval::{self, PlanApprovalFilter};
use evenkeel_wire::exchange::plan_approval::{PlanApproval, PlanApprovalsQuery, PlanApprovalsResponse};
use uuid::Uuid;

use super::{absent, read_id, rights, shown, shown_whole, state_at, write_of};
use crate::ApiError;
use crate::extract::Query;
use crate::operation::{ExchangeRequest, Op, OrgPath, ResourcePath};

const USUAL_LIMIT: i64 = 50;
const MOST_LISTED: i64 = 100;
const STATES: [&str; 6] = ["pending", "approved", "rejected", "canceled", "used", "expired"];

pub(super) async fn list_plan_approvals(
    op: Op<OrgPath, Query<PlanApprovalsQuery>>,
    _: Permission<right::PlanApprovalsRead>,
) -> Result<Json<PlanApprovalsResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: OrgPath { org },
        parameters: Query(query),
    } = op;
    let state = query.state.as_deref();
    if let Some(state) = state.filter(|state| !STATES.contains(state)) {
        let states = STATES.join(", ");
        return Err(ApiError::invalid_input(format!("state: '{state}' is none of {states}")));
    }
    let limit = query.limit.unwrap_or(USUAL_LIMIT);
    if !(1..=MOST_LISTED).contains(&limit) {
        return Err(ApiError::invalid_input(format!("limit: {limit} is not from 1 to {MOST_LISTED}")));
    }
    let after = query.after.as_deref().map(str::parse::<Uuid>);
    let after =
        after.transpose().map_err(|_| ApiError::invalid_input("after: it is not the id of a request"))?;
    let (now, own) = (exchange.now(), caller.visible_owner());
    let requester = own.as_ref().map(evenkeel_ids::UserId::name);
    let filter = PlanApprovalFilter { org: &org, state, requester, after, now, limit: limit + 1 };
    let mut rows =
        exchange.database().read(async |connection| plan_approval::list(connection, filter).await).await?;
    let is_more = rows.len() as i64 > limit;
    rows.truncate(usize::try_from(limit).unwrap_or_default());
    let next = rows.last().filter(|_| is_more).map(|row| row.id.to_string());
    let approvals = rows.into_iter().map(|row| shown(&org, row, now)).collect();
    Ok(Json(PlanApprovalsResponse { approvals, next }))
}

pub(super) async fn get_plan_approval(
    op: Op<ResourcePath>,
    _: Permission<right::PlanApprovalsRead>,
) -> Result<Json<PlanApproval>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = op;
    let (uuid, now) = (read_id(&org, &id)?, exchange.now());
    let mut connection = exchange.database().begin().await?;
    let stored = plan_approval::find(&mut connection, &org, uuid).await?.ok_or_else(|| absent(&org, &id))?;
    let write = write_of(stored.request.clone())?;
    let objection = match state_at(&stored.row, now) {
        "pending" | "approved" => {
            let may =
                rights::require_second_person(&mut connection, &caller, (&org, &stored.row), &write).await;
            may.err()
        }
        state => Some(ApiError::access_denied(format!("it is {state}"))),
    };
    let objection = match objection {
        Some(ApiError::Refused(refusal)) => Some(refusal.message().to_owned()),
        Some(error) => return Err(error),
        None => None,
    };
    // Ordinary users read their own requests, and those that they may decide about.
    let is_own = caller.visible_owner().is_none_or(|own| own.name() == stored.row.requester);
    if !is_own && objection.is_some() {
        return Err(absent(&org, &id));
    }
    Ok(Json(PlanApproval { objection, ..shown_whole(&org, stored, now)? }))
}
