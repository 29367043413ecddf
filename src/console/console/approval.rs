//! Approvals of writes by a second person, where an organization requires them.

use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_wire::exchange::plan_approval::{ApprovalWrite, RequestPlanApproval};

use crate::address::address_of;
use crate::failure::Failure;
use crate::reads::ROOT_ORG;
use crate::session::Reader;

/// Returns whether writes of the reader in an organization need the approval of a second person: those of the root organization never do.
pub(crate) async fn is_needed(reader: &Reader, org: &str) -> Result<bool, Failure> {
    Ok(reader.session.org != ROOT_ORG && reader.client.requires_plan_approval(org).await?)
}

/// Requests the approval of a write, and leads to the page of the request.
pub(crate) async fn request(
    reader: &Reader,
    org: &str,
    write: ApprovalWrite,
    reason: &str,
) -> Result<Response, Failure> {
    let body = RequestPlanApproval { write, reason: reason.to_owned(), expires_seconds: None };
    let created = reader.client.request_plan_approval(org, &body).await?;
    let page = address_of(org, &["approvals", &created.id]);
    Ok(Redirect::to(&page).into_response())
}
