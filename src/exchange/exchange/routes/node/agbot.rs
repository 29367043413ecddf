//! The agbots that may make agreements with a node: its agent accepts proposals from no others.

use axum::Json;
use evenkeel_access::{MULTI_TENANT_ORG, Permission, right};
use evenkeel_exchange_store::agbot_approval;
use evenkeel_ids::{AgbotId, NodeId};
use evenkeel_wire::exchange::agbot_approval::NodeAgbotsResponse;

use crate::ApiError;
use crate::operation::row::get;
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};

/// Maximum number of agbots in the list.
const MOST_AGBOTS: i64 = 1_000;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/orgs/{organization}/nodes/{node}/agbots", "list_node_agbots", list_agbots)
            .doc("node", "Lists the agbots that may make agreements with a node")
            .success("the agbots"),
    ]
}

async fn list_agbots(
    op: Op<ResourcePath>,
    _: Permission<right::NodeRead>,
) -> Result<Json<NodeAgbotsResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    let node = NodeId::new(&org, &id);
    let agbots = exchange
        .database()
        .read(async |connection| {
            agbot_approval::list_for_node(connection, &node, MULTI_TENANT_ORG, MOST_AGBOTS).await
        })
        .await?;
    Ok(Json(NodeAgbotsResponse { agbots: agbots.iter().map(AgbotId::to_string).collect() }))
}
