//! Heartbeats of a node, with what it reports about itself.

use evenkeel_access::{Permission, Role, right};
use evenkeel_exchange_store::node;
use evenkeel_wire::exchange::node_report::PutNodeReport;

use super::missing_node;
use super::report::record;
use crate::error::{Created, created};
use crate::extract::{OptionalBody, OptionalShape};
use crate::operation::authorize::authorized;
use crate::operation::row::post;
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};
use crate::{ApiError, Exchange};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post("/orgs/{organization}/nodes/{node}/heartbeat", "heartbeat_node", heartbeat_node)
            .doc(super::TAG, "Records a heartbeat of a node, and its report about itself if there is a body")
            .unaudited(
                "a heartbeat: kept in memory and written in batches, nothing is decided by a single one",
            )
            .fast()
            .success("taken"),
    ]
}

impl OptionalShape for PutNodeReport {
    const MEMBERS: &'static [&'static str] = Self::MEMBERS;
}

pub(crate) async fn heartbeat_node(
    op: Op<ResourcePath>,
    _: Permission<right::NodeWrite>,
    OptionalBody(report): OptionalBody<PutNodeReport>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    // A node that calls for itself exists: the poll of a whole fleet must not cost a query each.
    let is_itself = caller.role == Role::Node;
    if !is_itself && !Box::pin(exists(exchange, org, id)).await? {
        return Err(missing_node(org, id));
    }
    if let Some(report) = report {
        // Large: it must not make the path of every heartbeat large, too.
        Box::pin(record_with_heartbeat(&op, report)).await?;
    }
    exchange.heartbeats().touch_node(org, id, exchange.now()).await?;
    Ok(created("node updated"))
}

/// The owner of a node may send a heartbeat, but only the node itself knows its state.
async fn record_with_heartbeat(op: &Op<ResourcePath>, report: Box<PutNodeReport>) -> Result<(), ApiError> {
    let permission = authorized(op).await?;
    record(op, &permission, *report).await
}

async fn exists(exchange: &Exchange, org: &str, id: &str) -> Result<bool, ApiError> {
    Ok(exchange.database().read(async |connection| node::has_node(connection, org, id).await).await?)
}
