//! Search for nodes that a pattern may select.
//!
//! Source: exchange-api 7.2.

use std::sync::Arc;

use evenkeel_access::{Permission, right};
use evenkeel_api::SearchResult;
use evenkeel_exchange_store::resource_key::ResourceKey;
use evenkeel_exchange_store::search::{self, FoundNodeRow, PatternSearch};
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::search::{PatternSearchRequest, PatternSearchResponse};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{exact_arch, searched_orgs, shape};
use crate::extract::Body;
use crate::operation::row::post;
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::{ApiError, Exchange};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post(
            "/orgs/{organization}/patterns/{pattern}/search",
            "search_nodes_by_pattern",
            search_nodes_by_pattern,
        )
        .alias("/orgs/{organization}/deployment/patterns/{pattern}/search")
        .doc(super::TAG, "Finds nodes that a pattern may select")
        .unaudited("it only reads")
        .success("the nodes")
        .empty("no node fits"),
    ]
}

/// The part of a pattern's service that a search needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PatternService {
    service_url: String,
    service_orgid: String,
}

async fn search_nodes_by_pattern(
    op: Op<ResourcePath>,
    _: Permission<right::NodesSearch>,
    Body(request): Body<PatternSearchRequest>,
) -> Result<SearchResult<PatternSearchResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: pattern }, ..
    } = op;
    let service_url = request.service_url.unwrap_or_default();
    let seconds = request.seconds_stale.unwrap_or_default();
    if seconds < 0 {
        return Err(ApiError::invalid_input("secondsStale must not be negative"));
    }
    let seen_after = (seconds > 0)
        .then(|| exchange.now().saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or_default());
    if seen_after.is_some() {
        exchange.flush_heartbeats().await?;
    }
    let services = exchange
        .database()
        .read(async |connection| search::find_pattern_services(connection, &org, &pattern).await)
        .await?
        .ok_or_else(|| {
            ApiError::invalid_input(format!("invalid input: pattern '{org}/{pattern}' not found"))
        })?;
    let services: Vec<PatternService> = serde_json::from_str(services.get())
        .map_err(|error| ApiError::internal(format!("services of pattern {org}/{pattern}: {error}")))?;
    if !services.iter().any(|service| is_meant(service, &service_url)) {
        return Err(ApiError::invalid_input(format!(
            "service '{service_url}' does not occur in pattern '{org}/{pattern}'"
        )));
    }
    let wanted = Arc::new(Wanted {
        exchange: exchange.clone(),
        orgs: searched_orgs(&caller, &org, request.node_orgids),
        owner: caller.visible_owner(),
        pattern: format!("{org}/{pattern}"),
        arch: request.arch.unwrap_or_default(),
        service_url,
        seen_after,
    });
    pages::list(r#"{"nodes":["#, r#"],"lastIndex":0}"#, move |after| page(wanted.clone(), after)).await
}

/// Selection of nodes.
struct Wanted {
    exchange: Exchange,
    orgs: Vec<String>,
    owner: Option<UserId>,
    pattern: String,
    arch: String,
    service_url: String,
    seen_after: Option<Timestamp>,
}

async fn page(wanted: Arc<Wanted>, after: Option<ResourceKey>) -> Result<Page<ResourceKey>, ApiError> {
    let search = PatternSearch {
        orgs: &wanted.orgs,
        owner: wanted.owner.as_ref(),
        pattern: &wanted.pattern,
        arch: exact_arch(&wanted.arch),
        service_url: &wanted.service_url,
        seen_after: wanted.seen_after,
    };
    let rows = wanted
        .exchange
        .database()
        .read(async |connection| {
            search::list_for_pattern(connection, search, after.as_ref(), PAGE_ROWS).await
        })
        .await?;
    let key = |row: &FoundNodeRow| ResourceKey { org: row.org.clone(), id: row.node.clone() };
    Ok(Page::array(rows, PAGE_ROWS, key, shape)?)
}

/// The service may be named with or without its organization.
fn is_meant(service: &PatternService, wanted: &str) -> bool {
    wanted == service.service_url
        || wanted
            .strip_prefix(service.service_orgid.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|url| url == service.service_url)
}
