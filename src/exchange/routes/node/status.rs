//! The status that a node reports.
//!
//! Source: exchange contract 4.4.1.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{delete, get, put};
use evenkeel_access::Access;
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::ha_group;
use evenkeel_exchange_store::node_part::{self, NodeStatusRow};
use evenkeel_wire::exchange::node_part::{NodeStatusAnswer, PutNodeStatus, RunningService};
use evenkeel_wire::exchange::time::wire_time;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use super::{json, missing_node, node_change};
use crate::endpoint::{Content, Endpoint, endpoint};
use crate::error::created;
use crate::extract::{Body, CurrentCaller, Path};
use crate::routes::shape::{found, no_content};
use crate::{ApiError, Exchange};

const TAG: &str = "node status";
const PATH: &str = "/orgs/{organization}/nodes/{node}/status";

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, PATH, "get_node_status", get(get_status))
            .doc(TAG, "Answers the status of a node")
            .answer::<NodeStatusAnswer>(200, "the status"),
        endpoint(Method::PUT, PATH, "replace_node_status", put(replace_status))
            .doc(TAG, "Replaces the status of a node")
            .body::<PutNodeStatus>()
            .answer::<ApiResponse>(201, "replaced"),
        endpoint(Method::DELETE, PATH, "delete_node_status", delete(delete_status))
            .doc(TAG, "Removes the status of a node")
            .answer_with(204, "removed", Content::None),
    ]
}

async fn get_status(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeRead, FactKind::Node, &org, Some(&id)).await?;
    let row = node_part::find_status(&mut *exchange.database().acquire().await?, &org, &id)
        .await?
        .ok_or_else(|| ApiError::not_found("not found"))?;
    Ok(found(NodeStatusAnswer {
        connectivity: row.connectivity,
        services: row.services,
        running_services: row.running_services,
        failures: Some(row.failures).filter(|failures| failures.get() != "[]"),
        last_updated: wire_time(row.updated_at),
    }))
}

async fn replace_status(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
    request: Body<PutNodeStatus>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    let request = request.read()?;
    let row = NodeStatusRow {
        connectivity: json(&request.connectivity.unwrap_or_default())?,
        services: json(&request.services)?,
        running_services: running_services(&request.services),
        failures: json(&request.failures)?,
        updated_at: exchange.now(),
    };
    exchange
        .write("node_status.replace", async |mut tx| {
            node_part::upsert_status(&mut tx, &org, &id, &row).await.map_err(|error| {
                ApiError::from(error).explain("node_status_node_fk", || missing_node(&org, &id))
            })?;
            tx.finish([node_change(&org, &id, "nodestatus", "created/modified")])
        })
        .await?;
    if exchange.conversations().is_active(&org, &id, exchange.now()) {
        Box::pin(expect_messages_to_peers(&exchange, &org, &id)).await?;
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
    let mut connection = exchange.database().acquire().await?;
    let membership = ha_group::list_memberships(&mut connection, org, &[id.to_owned()]).await?;
    let Some(membership) = membership.first() else { return Ok(()) };
    let mut peers = ha_group::list_members(&mut connection, org, &membership.ha_group).await?;
    connection.release();
    peers.retain(|peer| peer != id);
    exchange.conversations().expect(org, peers, exchange.now());
    Ok(())
}

async fn delete_status(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path((org, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodeWrite, FactKind::Node, &org, Some(&id)).await?;
    exchange
        .write("node_status.delete", async |mut tx| {
            if !node_part::delete_status(&mut tx, &org, &id).await? {
                return Err(ApiError::not_found(format!("status of node '{org}/{id}' not found")));
            }
            tx.finish([node_change(&org, &id, "nodestatus", "deleted")])
        })
        .await?;
    Ok(no_content())
}
