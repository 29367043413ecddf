//! The errors that a node reports.
//!
//! Source: exchange contract 4.4.1.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, put};
use evenkeel_access::Access;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::node_part::{self, JsonRow};
use evenkeel_wire::exchange::node_part::{NodeErrorsAnswer, PutNodeErrors};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use super::{json, missing_node, node_change};
use crate::endpoint::{Content, Endpoint, endpoint};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path};
use crate::routes::shape::{found, no_content};
use crate::{ApiError, Exchange};

const TAG: &str = "node error";
const PATH: &str = "/orgs/{organization}/nodes/{node}/errors";

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, PATH, "get_node_errors", get(get_errors))
            .doc(TAG, "Answers the errors of a node")
            .answer::<NodeErrorsAnswer>(200, "the errors"),
        endpoint(Method::PUT, PATH, "replace_node_errors", put(replace_errors))
            .doc(TAG, "Replaces the errors of a node")
            .body::<PutNodeErrors>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::DELETE, PATH, "delete_node_errors", delete(delete_errors))
            .doc(TAG, "Removes the errors of a node")
            .answer_with(204, "removed", Content::None),
    ]
}

async fn get_errors(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeRead, FactKind::Node, &org, Some(&id)).await?;
    let row = node_part::find_errors(&mut *exchange.database().acquire().await?, &org, &id)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(found(NodeErrorsAnswer { errors: row.value, last_updated: wire_time(row.updated_at) }))
}

async fn replace_errors(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    request: Body<PutNodeErrors>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    let request = request.read()?;
    let row = JsonRow { value: json(&request.errors)?, updated_at: exchange.now() };
    exchange
        .write("node_errors.replace", async |mut tx| {
            node_part::upsert_errors(&mut tx, &org, &id, &row).await.map_err(|error| {
                ApiError::from(error).explain("node_error_node_fk", || missing_node(&org, &id))
            })?;
            tx.finish([node_change(&org, &id, "nodeerrors", "created/modified")])
        })
        .await?;
    Ok(created("node errors added or updated"))
}

async fn delete_errors(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    exchange
        .write("node_errors.delete", async |mut tx| {
            if !node_part::delete_errors(&mut tx, &org, &id).await? {
                return Err(ApiError::not_found(format!("errors of node '{org}/{id}' not found")));
            }
            tx.finish([node_change(&org, &id, "nodeerrors", "deleted")])
        })
        .await?;
    Ok(no_content())
}
