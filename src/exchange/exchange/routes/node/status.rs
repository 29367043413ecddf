//! The status that a node reports.
//!
//! Source: exchange-api 4.4.1.
use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_api::NoContent;
use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_exchange_store::document_bytes::REPORT_SHARE;
use evenkeel_exchange_store::ha_group;
use evenkeel_exchange_store::node_part::{self, NodeStatusRow};
use evenkeel_wire::exchange::node_part::{NodeStatusResponse, PutNodeStatus, RunningService};
use evenkeel_wire::exchange::time::wire_time;

use super::{json, missing_node};
use crate::error::{Created, created};
use crate::extract::Body;
use crate::feed::row::node_change;
use crate::operation::row::{delete, get, put};
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};
use crate::routes::document_bytes::SizeBefore;
use crate::{ApiError, Exchange};

const TAG: &str = "node status";
const PATH: &str = "/orgs/{organization}/nodes/{node}/status";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(PATH, "get_node_status", get_status)
            .doc(TAG, "Returns the status of a node")
            .success("the status"),
        put(PATH, "replace_node_status", replace_status)
            .doc(TAG, "Replaces the status of a node")
            .audit(Subject::NodeStatus)
            .success("replaced"),
        delete(PATH, "delete_node_status", delete_status)
            .doc(TAG, "Removes the status of a node")
            .audit(Subject::NodeStatus)
            .success("removed"),
    ]
}

async fn get_status(
    op: Op<ResourcePath>,
    _: Permission<right::NodeRead>,
) -> Result<Json<NodeStatusResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = op;
    let row = exchange
        .database()
        .read(async |connection| node_part::find_status(connection, &org, &id).await)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(Json(response(row)))
}

/// Returns the status as it is shown.
pub(super) fn response(row: NodeStatusRow) -> NodeStatusResponse {
    NodeStatusResponse {
        connectivity: row.connectivity,
        services: row.services,
        running_services: row.running_services,
        failures: Some(row.failures).filter(|failures| failures.get() != "[]"),
        last_updated: wire_time(row.updated_at),
    }
}

async fn replace_status(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
    Body(request): Body<PutNodeStatus>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    let row = NodeStatusRow {
        connectivity: json(&request.connectivity.unwrap_or_default())?,
        services: json(&request.services)?,
        running_services: running_services(&request.services),
        failures: json(&request.failures)?,
        updated_at: exchange.now(),
    };
    op.write(&permission, "node_status.replace", async |mut tx| {
        let size = SizeBefore::of_node(&mut tx, (row.bytes(), REPORT_SHARE), org, id).await?;
        node_part::upsert_status(&mut tx, org, id, &row).await.map_err(|error| {
            ApiError::from(error).explain("node_status_node_fk", || missing_node(org, id))
        })?;
        size.require_room(&mut tx, &exchange.settings(), org, id).await?;
        tx.finish([node_change(org, id, "nodestatus", "created/modified")])
    })
    .await?;
    if exchange.conversations().is_active(org, id, exchange.now()) {
        Box::pin(expect_messages_to_peers(exchange, org, id)).await?;
    }
    Ok(created("status added or update"))
}

/// The text in which searches look for a service: `|org/url_version_arch|…|`.
fn running_services(services: &[RunningService]) -> String {
    let mut text = "|".to_owned();
    for service in services {
        let part = |value: &Option<String>| value.clone().unwrap_or_default();
        text.push_str(&format!(
            "{}/{}_{}_{}|",
            part(&service.orgid),
            part(&service.service_url),
            part(&service.version),
            part(&service.arch)
        ));
    }
    text
}

/// Parks the next polls of the other members of the node's HA group.
async fn expect_messages_to_peers(exchange: &Exchange, org: &str, id: &str) -> Result<(), ApiError> {
    let nodes = [id.to_owned()];
    let peers = exchange.database().read(async |connection| {
        let membership = ha_group::list_memberships(connection, org, &nodes).await?;
        let Some(membership) = membership.first() else { return Ok(Vec::new()) };
        ha_group::list_members(connection, org, &membership.ha_group).await
    });
    let mut peers = peers.await?;
    peers.retain(|peer| peer != id);
    exchange.conversations().expect(org, peers, exchange.now());
    Ok(())
}

async fn delete_status(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let Op { path: ResourcePath { org, id }, .. } = &op;
    op.write(&permission, "node_status.delete", async |mut tx| {
        if !node_part::delete_status(&mut tx, org, id).await? {
            return Err(ApiError::not_found(format!("status of node '{org}/{id}' not found")));
        }
        tx.finish([node_change(org, id, "nodestatus", "deleted")])
    })
    .await?;
    Ok(NoContent)
}
