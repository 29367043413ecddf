//! Signs of life of a node.

use evenkeel_access::{Permission, Role, right};
use evenkeel_exchange_store::node;

use super::missing_node;
use crate::error::{Created, created};
use crate::operation::row::post;
use crate::operation::{Op, Operation, ResourcePath};
use crate::{ApiError, Exchange};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post("/orgs/{organization}/nodes/{node}/heartbeat", "heartbeat_node", heartbeat_node)
            .doc(super::TAG, "Records a heartbeat of a node")
            .unaudited(
                "a heartbeat: kept in memory and written in batches, nothing is decided by a single one",
            )
            .fast()
            .success("taken"),
    ]
}

pub(crate) async fn heartbeat_node(
    op: Op<ResourcePath>,
    _: Permission<right::NodeWrite>,
) -> Result<Created, ApiError> {
    let Op { exchange, caller, path: ResourcePath { org, id }, .. } = op;
    // A node that calls for itself exists: the poll of a whole fleet must not cost a query each.
    let is_itself = caller.role == Role::Node;
    if !is_itself && !Box::pin(exists(&exchange, &org, &id)).await? {
        return Err(missing_node(&org, &id));
    }
    exchange.heartbeats().touch_node(&org, &id, exchange.now()).await?;
    Ok(created("node updated"))
}

async fn exists(exchange: &Exchange, org: &str, id: &str) -> Result<bool, ApiError> {
    Ok(exchange.database().read(async |connection| node::has_node(connection, org, id).await).await?)
}
