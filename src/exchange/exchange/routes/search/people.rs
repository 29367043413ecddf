//! Searches by users: nodes with errors, nodes that run a service. Plain users find only their own nodes.
//!
//! Source: exchange-api 7.4.

use std::sync::Arc;

use evenkeel_access::{Permission, right};
use evenkeel_api::{SearchResult, WholeList};
use evenkeel_exchange_store::node_health::{self, ErrorsRow};
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::search::{
    AllNodeErrors, ErrorsOfNode, NodesWithErrors, NodesWithService, ServiceSearchRequest,
};
use evenkeel_wire::exchange::time::wire_time;
use serde::Serialize;

use crate::extract::Body;
use crate::operation::row::{get, post};
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post("/orgs/{organization}/search/nodes/error", "search_nodes_with_errors", search_nodes_with_errors)
            .doc(super::TAG, "Finds nodes that report errors")
            .unaudited("it only reads")
            .success("the nodes")
            .empty("no node reports errors"),
        get("/orgs/{organization}/search/nodes/error/all", "list_errors_of_nodes", list_errors_of_nodes)
            .doc(super::TAG, "Lists the errors of all nodes")
            .success("the errors"),
        post("/orgs/{organization}/search/nodes/service", "search_nodes_by_service", search_nodes_by_service)
            .doc(super::TAG, "Finds nodes that run a service")
            .unaudited("it only reads")
            .success("the nodes")
            .empty("no node runs it"),
    ]
}

async fn search_nodes_with_errors(
    op: Op<OrgPath>,
    _: Permission<right::NodesRead>,
) -> Result<SearchResult<NodesWithErrors>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = op;
    let wanted = Arc::new((org, caller.visible_owner()));
    pages::list(r#"{"nodes":["#, "]}", move |after: Option<String>| {
        let (exchange, wanted) = (exchange.clone(), wanted.clone());
        async move { errors_page(&exchange, &wanted, after, |row| format!("{}/{}", row.org, row.node)).await }
    })
    .await
}

async fn list_errors_of_nodes(
    op: Op<OrgPath>,
    _: Permission<right::NodesRead>,
) -> Result<WholeList<AllNodeErrors>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = op;
    let wanted = Arc::new((org, caller.visible_owner()));
    pages::list(r#"{"nodeErrors":["#, "]}", move |after: Option<String>| {
        let (exchange, wanted) = (exchange.clone(), wanted.clone());
        async move { errors_page(&exchange, &wanted, after, errors_of_node).await }
    })
    .await
}

fn errors_of_node(row: ErrorsRow) -> ErrorsOfNode {
    ErrorsOfNode {
        node_id: format!("{}/{}", row.org, row.node),
        error: row.errors,
        last_updated: wire_time(row.updated_at),
    }
}

async fn errors_page<T: Serialize>(
    exchange: &Exchange,
    (org, owner): &(String, Option<UserId>),
    after: Option<String>,
    shape: impl Fn(ErrorsRow) -> T,
) -> Result<Page<String>, ApiError> {
    let rows = exchange
        .database()
        .read(async |connection| {
            node_health::list_with_errors(connection, org, owner.as_ref(), after.as_deref(), PAGE_ROWS).await
        })
        .await?;
    Ok(Page::array(rows, PAGE_ROWS, |row| row.node.clone(), shape)?)
}

async fn search_nodes_by_service(
    op: Op<OrgPath>,
    _: Permission<right::NodesRead>,
    Body(request): Body<ServiceSearchRequest>,
) -> Result<SearchResult<NodesWithService>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = op;
    let pattern = format!(
        "%|{}/{}_{}_{}|%",
        request.orgid, request.service_url, request.service_version, request.service_arch
    );
    let wanted = Arc::new(Running { owner: caller.visible_owner(), org, pattern });
    pages::list(r#"{"nodes":["#, "]}", move |after: Option<String>| {
        running_page(exchange.clone(), wanted.clone(), after)
    })
    .await
}

/// Scope of the search for a service, and its notation in a status.
struct Running {
    org: String,
    owner: Option<UserId>,
    pattern: String,
}

async fn running_page(
    exchange: Exchange,
    wanted: Arc<Running>,
    after: Option<String>,
) -> Result<Page<String>, ApiError> {
    let Running { org, owner, pattern } = &*wanted;
    let rows = exchange
        .database()
        .read(async |connection| {
            node_health::list_running(connection, org, pattern, owner.as_ref(), after.as_deref(), PAGE_ROWS)
                .await
        })
        .await?;
    let seen = |(node, stored): (String, _)| {
        let seen_at = exchange.heartbeats().latest_node(org, &node, stored);
        (format!("{org}/{node}"), seen_at.map(wire_time))
    };
    Ok(Page::array(rows, PAGE_ROWS, |(node, _)| node.clone(), seen)?)
}
