//! The errors that a node reports.
//!
//! Source: exchange-api 4.4.1.
use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::document_bytes::REPORT_SHARE;
use evenkeel_exchange_store::node_part::{self, JsonRow};
use evenkeel_wire::exchange::node_part::{NodeErrorsResponse, PutNodeErrors};
use evenkeel_wire::exchange::time::wire_time;

use super::{json, missing_node};
use crate::ApiError;
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::node_change;
use crate::operation::row::{delete, get, put};
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};
use crate::routes::document_bytes::SizeBefore;

const TAG: &str = "node error";
const PATH: &str = "/orgs/{organization}/nodes/{node}/errors";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(PATH, "get_node_errors", get_errors)
            .doc(TAG, "Returns the errors of a node")
            .success("the errors"),
        put(PATH, "replace_node_errors", replace_errors)
            .doc(TAG, "Replaces the errors of a node")
            .audit(Subject::NodeError)
            .success("replaced"),
        delete(PATH, "delete_node_errors", delete_errors)
            .doc(TAG, "Removes the errors of a node")
            .audit(Subject::NodeError)
            .success("removed"),
    ]
}

async fn get_errors(
    op: Op<ResourcePath>,
    _: Permission<right::NodeRead>,
) -> Result<Json<NodeErrorsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    let row = exchange
        .database()
        .read(async |connection| node_part::find_errors(connection, &org, &id).await)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(Json(NodeErrorsResponse { errors: row.value, last_updated: wire_time(row.updated_at) }))
}

async fn replace_errors(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
    Body(request): Body<PutNodeErrors>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    let row = JsonRow { value: json(&request.errors)?, updated_at: exchange.now() };
    op.write(&permission, "node_errors.replace", async |mut tx| {
        let size = SizeBefore::of_node(&mut tx, (row.value.get().len(), REPORT_SHARE), org, id).await?;
        node_part::upsert_errors(&mut tx, org, id, &row)
            .await
            .map_err(|error| ApiError::from(error).explain("node_error_node_fk", || missing_node(org, id)))?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([node_change(org, id, "nodeerrors", "created/modified")])
    })
    .await?;
    Ok(created("node errors added or updated"))
}

async fn delete_errors(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "node_errors.delete", async |mut tx| {
        if !node_part::delete_errors(&mut tx, org, id).await? {
            return Err(ApiError::not_found(format!("errors of node '{org}/{id}' not found")));
        }
        tx.finish([node_change(org, id, "nodeerrors", "deleted")])
    })
    .await?;
    Ok(NoContent)
}
