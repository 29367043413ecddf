//! Removing a node.

use axum::extract::State;
use axum::response::Response;
use evenkeel_access::Access;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::node;

use super::node_change;
use crate::extract::{CurrentCaller, Path};
use crate::notice::forget_login;
use crate::routes::shape::no_content;
use crate::{ApiError, Exchange};

/// Removes a node; agreements, messages, policy, status and group membership go with it.
pub(super) async fn delete_node(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    exchange
        .write("node.delete", async |mut tx| {
            if !node::delete_node(&mut tx, &org, &id).await? {
                return Err(ApiError::not_found(format!("node '{org}/{id}' not found")));
            }
            tx.finish([node_change(&org, &id, "node", "deleted"), forget_login(&org, &id)])
        })
        .await?;
    Ok(no_content())
}
