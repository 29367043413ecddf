//! Signs of life of the nodes of a pattern, or of those that follow policies.
//!
//! Source: exchange contract 7.3.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use evenkeel_access::{Access, Caller};
use evenkeel_store::exchange::facts::FactKind;
use evenkeel_store::exchange::node_health::{HealthRow, list_health};
use evenkeel_wire::exchange::search::{AgreementHealth, NodeHealth, NodeHealthAnswer, NodeHealthRequest};
use evenkeel_wire::exchange::time::wire_time;
use http::Method;
use jiff::Timestamp;

use super::searched_orgs;
use crate::endpoint::{Endpoint, endpoint};
use crate::extract::{Body, CurrentCaller, Path};
use crate::routes::shape::searched;
use crate::{ApiError, Exchange};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(
            Method::POST,
            "/orgs/{organization}/patterns/{pattern}/nodehealth",
            "search_pattern_node_health",
            post(pattern_health),
        )
        .alias("/orgs/{organization}/deployment/patterns/{pattern}/nodehealth")
        .doc(super::TAG, "Answers signs of life of the nodes of a pattern")
        .body::<NodeHealthRequest>()
        .answer::<NodeHealthAnswer>(201, "the nodes")
        .answer::<NodeHealthAnswer>(404, "no node fits"),
        endpoint(Method::POST, "/orgs/{organization}/search/nodehealth", "search_node_health", post(policy_health))
            .doc(super::TAG, "Answers signs of life of the nodes that follow policies")
            .body::<NodeHealthRequest>()
            .answer::<NodeHealthAnswer>(201, "the nodes")
            .answer::<NodeHealthAnswer>(404, "no node fits"),
    ]
}

async fn pattern_health(
    state: State<Exchange>,
    caller: CurrentCaller,
    Path((org, pattern)): Path<(String, String)>,
    Body(request): Body<NodeHealthRequest>,
) -> Result<Response, ApiError> {
    answer(&state, &caller, &org, &format!("{org}/{pattern}"), request.node_orgids, &request.last_time).await
}

async fn policy_health(
    state: State<Exchange>,
    caller: CurrentCaller,
    Path(org): Path<String>,
    Body(request): Body<NodeHealthRequest>,
) -> Result<Response, ApiError> {
    answer(&state, &caller, &org, "", None, &request.last_time).await
}

async fn answer(
    exchange: &Exchange,
    caller: &Caller,
    org: &str,
    pattern: &str,
    node_orgs: Option<Vec<String>>,
    last_time: &str,
) -> Result<Response, ApiError> {
    exchange.authorize(caller, Access::NodesSearch, FactKind::Node, org, None).await?;
    exchange.heartbeats().flush().await?;
    let orgs = searched_orgs(caller, org, node_orgs);
    let rows = list_health(&mut *exchange.database().acquire().await?, &orgs, pattern).await?;
    let mut nodes: BTreeMap<String, NodeHealth> = BTreeMap::new();
    for row in rows {
        if is_since(row.seen_at, last_time) {
            add(&mut nodes, row);
        }
    }
    Ok(searched(nodes.is_empty(), NodeHealthAnswer { nodes }))
}

fn add(nodes: &mut BTreeMap<String, NodeHealth>, row: HealthRow) {
    let node = nodes.entry(format!("{}/{}", row.org, row.node)).or_insert_with(|| NodeHealth {
        last_heartbeat: wire_time(row.seen_at),
        agreements: BTreeMap::new(),
    });
    if let Some((agreement, updated_at)) = row.agreement {
        node.agreements.insert(agreement, AgreementHealth { last_updated: wire_time(updated_at) });
    }
}

/// Whether an instant is not before a given one; a text that is no instant is compared as text, as the reference does.
fn is_since(at: Timestamp, text: &str) -> bool {
    match text.strip_suffix("[UTC]").unwrap_or(text).parse::<Timestamp>() {
        Ok(since) => at >= since,
        Err(_) => wire_time(at).as_str() >= text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_compared_as_instants_and_anything_else_as_text() {
        let at = Timestamp::new(1_700_000_000, 500_000_000).expect("in range");
        for (text, is_after) in [
            ("", true),
            ("2023-11-14T22:13:20Z", true),
            ("2023-11-14T22:13:20.400Z[UTC]", true),
            ("2023-11-14T22:13:20.500Z[UTC]", true),
            ("2023-11-14T22:13:21Z", false),
            ("zzz", false),
        ] {
            assert_eq!(is_since(at, text), is_after, "{text}");
        }
    }
}
