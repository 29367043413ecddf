//! Heartbeats of the nodes of a pattern, or of those that follow policies.
//!
//! Source: exchange-api 7.3.

use std::sync::Arc;

use evenkeel_access::{Caller, Permission, right};
use evenkeel_api::SearchResult;
use evenkeel_exchange_store::node_health::{HealthRow, list_health};
use evenkeel_exchange_store::resource_key::ResourceKey;
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::search::{AgreementHealth, NodeHealth, NodeHealthRequest, NodeHealthResponse};
use evenkeel_wire::exchange::time::wire_time;
use jiff::Timestamp;

use super::searched_orgs;
use crate::extract::Body;
use crate::operation::row::post;
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath, ResourcePath};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post(
            "/orgs/{organization}/patterns/{pattern}/nodehealth",
            "search_pattern_node_health",
            pattern_health,
        )
        .alias("/orgs/{organization}/deployment/patterns/{pattern}/nodehealth")
        .doc(super::TAG, "Returns the heartbeats of the nodes of a pattern")
        .unaudited("it only reads")
        .success("the nodes")
        .empty("no node fits"),
        post("/orgs/{organization}/search/nodehealth", "search_node_health", policy_health)
            .doc(super::TAG, "Returns the heartbeats of the nodes that use policies")
            .unaudited("it only reads")
            .success("the nodes")
            .empty("no node fits"),
    ]
}

async fn pattern_health(
    op: Op<ResourcePath>,
    _: Permission<right::NodesSearch>,
    Body(request): Body<NodeHealthRequest>,
) -> Result<SearchResult<NodeHealthResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: pattern }, ..
    } = op;
    response(&exchange, &caller, &org, &format!("{org}/{pattern}"), request.node_orgids, &request.last_time)
        .await
}

async fn policy_health(
    op: Op<OrgPath>,
    _: Permission<right::NodesSearch>,
    Body(request): Body<NodeHealthRequest>,
) -> Result<SearchResult<NodeHealthResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: OrgPath { org }, .. } = op;
    response(&exchange, &caller, &org, "", None, &request.last_time).await
}

async fn response(
    exchange: &Exchange,
    caller: &Caller,
    org: &str,
    pattern: &str,
    node_orgs: Option<Vec<String>>,
    last_time: &str,
) -> Result<SearchResult<NodeHealthResponse>, ApiError> {
    exchange.flush_heartbeats().await?;
    let wanted = Arc::new(Wanted {
        exchange: exchange.clone(),
        orgs: searched_orgs(caller, org, node_orgs),
        owner: caller.visible_owner(),
        pattern: pattern.to_owned(),
        last_time: last_time.to_owned(),
    });
    pages::list(r#"{"nodes":{"#, "}}", move |after| page(wanted.clone(), after)).await
}

/// Selection of nodes.
struct Wanted {
    exchange: Exchange,
    orgs: Vec<String>,
    owner: Option<UserId>,
    pattern: String,
    last_time: String,
}

async fn page(wanted: Arc<Wanted>, after: Option<ResourceKey>) -> Result<Page<ResourceKey>, ApiError> {
    let Wanted { exchange, orgs, owner, pattern, .. } = &*wanted;
    let nodes = (orgs.as_slice(), owner.as_ref());
    let rows = exchange
        .database()
        .read(async |connection| list_health(connection, nodes, pattern, after.as_ref(), PAGE_ROWS).await)
        .await?;
    let last = rows.last().map(|row| ResourceKey { org: row.org.clone(), id: row.node.clone() });
    let (mut page, mut count) = (Page::new(), 0);
    for rows in rows.chunk_by(|left, right| left.org == right.org && left.node == right.node) {
        count += 1;
        if let Some(first) = rows.first().filter(|row| is_since(row.seen_at, &wanted.last_time)) {
            page.insert(&format!("{}/{}", first.org, first.node), &health(first, rows))?;
        }
    }
    page.follow(last.filter(|_| count == PAGE_ROWS));
    Ok(page)
}

fn health(node: &HealthRow, rows: &[HealthRow]) -> NodeHealth {
    NodeHealth {
        last_heartbeat: wire_time(node.seen_at),
        agreements: rows
            .iter()
            .filter_map(|row| row.agreement.clone())
            .map(|(agreement, at)| (agreement, AgreementHealth { last_updated: wire_time(at) }))
            .collect(),
    }
}

/// Returns true if an instant is not before a given one; text that is not an instant is compared as text,
/// like in the reference.
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
