//! Searches for people: nodes with errors, nodes that run a service. Plain users find only their own nodes.
//!
//! Source: exchange contract 7.4.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use evenkeel_access::Access;
use evenkeel_store::exchange::facts::FactKind;
use evenkeel_store::exchange::node_health::{self, ErrorsRow};
use evenkeel_wire::exchange::search::{
    AllNodeErrors, ErrorsOfNode, NodesWithErrors, NodesWithService, ServiceSearchRequest,
};
use evenkeel_wire::exchange::time::wire_time;
use http::Method;

use crate::endpoint::{Endpoint, endpoint};
use crate::extract::{Body, CurrentCaller, Path};
use crate::routes::node::visible_owner;
use crate::routes::shape::{found, searched};
use crate::{ApiError, Exchange};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(
            Method::POST,
            "/orgs/{organization}/search/nodes/error",
            "search_nodes_with_errors",
            post(search_nodes_with_errors),
        )
        .doc(super::TAG, "Finds nodes that report errors")
        .answer::<NodesWithErrors>(201, "the nodes")
        .answer::<NodesWithErrors>(404, "no node reports errors"),
        endpoint(
            Method::GET,
            "/orgs/{organization}/search/nodes/error/all",
            "list_errors_of_nodes",
            get(list_errors_of_nodes),
        )
        .doc(super::TAG, "Lists the errors of all nodes")
        .answer::<AllNodeErrors>(200, "the errors"),
        endpoint(
            Method::POST,
            "/orgs/{organization}/search/nodes/service",
            "search_nodes_by_service",
            post(search_nodes_by_service),
        )
        .doc(super::TAG, "Finds nodes that run a service")
        .body::<ServiceSearchRequest>()
        .answer::<NodesWithService>(201, "the nodes")
        .answer::<NodesWithService>(404, "no node runs it"),
    ]
}

async fn search_nodes_with_errors(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
) -> Result<Response, ApiError> {
    let rows = with_errors(&exchange, &caller, &org).await?;
    let nodes: Vec<String> = rows.into_iter().map(|row| format!("{}/{}", row.org, row.node)).collect();
    Ok(searched(nodes.is_empty(), NodesWithErrors { nodes }))
}

async fn list_errors_of_nodes(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
) -> Result<Response, ApiError> {
    let rows = with_errors(&exchange, &caller, &org).await?;
    let node_errors = rows
        .into_iter()
        .map(|row| ErrorsOfNode {
            node_id: format!("{}/{}", row.org, row.node),
            error: row.errors,
            last_updated: wire_time(row.updated_at),
        })
        .collect();
    Ok(found(AllNodeErrors { node_errors }))
}

async fn with_errors(exchange: &Exchange, caller: &CurrentCaller, org: &str) -> Result<Vec<ErrorsRow>, ApiError> {
    exchange.authorize(caller, Access::NodesRead, FactKind::Node, org, None).await?;
    let mut connection = exchange.database().acquire().await?;
    Ok(node_health::list_with_errors(&mut connection, org, visible_owner(caller).as_ref()).await?)
}

async fn search_nodes_by_service(
    State(exchange): State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
    Body(request): Body<ServiceSearchRequest>,
) -> Result<Response, ApiError> {
    exchange.authorize(&caller, Access::NodesRead, FactKind::Node, &org, None).await?;
    let pattern = format!(
        "%|{}/{}_{}_{}|%",
        request.orgid, request.service_url, request.service_version, request.service_arch
    );
    let mut connection = exchange.database().acquire().await?;
    let rows = node_health::list_running(&mut connection, &org, &pattern, visible_owner(&caller).as_ref()).await?;
    let nodes: Vec<(String, Option<String>)> = rows
        .into_iter()
        .map(|(node, stored)| {
            let seen_at = exchange.heartbeats().latest_node(&org, &node, stored);
            (format!("{org}/{node}"), seen_at.map(wire_time))
        })
        .collect();
    Ok(searched(nodes.is_empty(), NodesWithService { nodes }))
}
