//! Signs of life of a node.

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use evenkeel_access::{Access, Role};
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::node;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use super::missing_node;
use crate::endpoint::{Endpoint, endpoint};
use crate::error::created;
use crate::extract::{CurrentCaller, Path};
use crate::{ApiError, Exchange};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(
            Method::POST,
            "/orgs/{organization}/nodes/{node}/heartbeat",
            "heartbeat_node",
            post(heartbeat_node),
        )
        .doc(super::TAG, "Records a heartbeat of a node")
        .unaudited("a heartbeat: kept in memory and written in batches, nothing is decided by a single one")
        .answer::<ApiResponse>(201, "taken"),
    ]
}

pub(crate) async fn heartbeat_node(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    // A node that calls for itself exists: the poll of a whole fleet must not cost a query each.
    let is_itself = caller.role == Role::Node;
    if !is_itself && !Box::pin(exists(&exchange, &org, &id)).await? {
        return Err(missing_node(&org, &id));
    }
    exchange.heartbeats().touch_node(&org, &id, exchange.now()).await?;
    Ok(created("node updated"))
}

async fn exists(exchange: &Exchange, org: &str, id: &str) -> Result<bool, ApiError> {
    Ok(node::has_node(&mut *exchange.database().acquire().await?, org, id).await?)
}
