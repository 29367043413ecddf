//! Search for nodes that a deployment policy may select: paged, with a position that the exchange remembers for each agbot.
//!
//! Source: exchange-api 7.1.

use std::sync::Arc;

use evenkeel_access::{Permission, right};
use evenkeel_api::SearchResult;
use evenkeel_exchange_store::search::{self, FoundNodeRow, PolicySearch, SessionKey, SessionRow};
use evenkeel_ids::UserId;
use evenkeel_wire::exchange::search::{PolicySearchRequest, PolicySearchResponse, SessionConflict};
use evenkeel_wire::exchange::time::wire_time;
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::{exact_arch, searched_orgs, shape};
use crate::extract::Body;
use crate::operation::row::post;
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};
use crate::routes::pages::{self, PAGE_ROWS, Page};
use crate::routes::shape::{MAX_TEXT, require_length};
use crate::transaction::WriteTx;
use crate::{ApiError, Exchange};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post(
            "/orgs/{organization}/business/policies/{policy}/search",
            "search_nodes_by_policy",
            search_nodes_by_policy,
        )
        .alias("/orgs/{organization}/deployment/policies/{policy}/search")
        .doc(super::TAG, "Finds nodes that a deployment policy may select")
        .unaudited("it reads, and notes only where the series of an agbot's searches stands")
        .success("the nodes")
        .empty("no node fits")
        .response::<SessionConflict>(409, "another series of searches is in progress"),
    ]
}

/// The part of a deployment policy's service that a search needs.
#[derive(Deserialize)]
struct PolicyService {
    name: String,
    org: String,
    #[serde(default)]
    arch: Option<String>,
}

async fn search_nodes_by_policy(
    op: Op<ResourcePath>,
    permission: Permission<right::NodesSearch>,
    Body(request): Body<PolicySearchRequest>,
) -> Result<SearchResult<PolicySearchResponse>, ApiError> {
    let Op { request: ExchangeRequest { caller, .. }, path: ResourcePath { org, id: policy }, .. } = &op;
    if request.changed_since < 0 || request.num_entries.is_some_and(|count| count < 0) {
        return Err(ApiError::invalid_input("bad input: changedSince and numEntries must not be negative"));
    }
    require_length("session", request.session.as_ref().map_or(0, String::len), MAX_TEXT)?;
    let orgs = searched_orgs(caller, org, request.node_orgids.clone());
    if request.num_entries.is_none() {
        return search_all(&op, &permission, orgs, request).await;
    }
    let response = op
        .write(&permission, "search.nodes_by_policy", async |mut tx| {
            let service = policy_service(&mut tx, org, policy).await?;
            // Only agbots page: each search of a user starts from the beginning.
            let key = SessionKey { org, policy, agbot_org: &caller.org, agbot: &caller.id };
            let stored = match caller.role {
                role if role.is_agbot() => search::lock_session(&mut tx, key).await?,
                _ => None,
            };
            let place = place(&request, stored.as_ref()).map_err(|running| conflict(key, running))?;
            let nodes = search::list_for_policy(
                &mut tx,
                PolicySearch {
                    orgs: &orgs,
                    owner: caller.visible_owner().as_ref(),
                    arch: exact_arch(service.arch.as_deref().unwrap_or_default()),
                    service_url: &format!("{}/{}", service.org, service.name),
                    since: place,
                    until: None,
                    after: None,
                    limit: request.num_entries,
                },
            )
            .await?;
            let step =
                advance(&request, stored.as_ref(), nodes.len(), nodes.last().map(|node| node.updated_at));
            if caller.role.is_agbot() {
                match &step.session {
                    Some(row) => search::upsert_session(&mut tx, key, row).await?,
                    None if stored.is_some() => search::delete_session(&mut tx, key).await?,
                    None => {}
                }
            }
            let nodes = nodes.into_iter().map(shape).collect();
            tx.finish_with([], PolicySearchResponse { nodes, offset_updated: step.has_moved })
        })
        .await?;
    Ok(SearchResult::of(response.nodes.is_empty(), response))
}

/// A search without pages: it ends the series of its agbot, and all nodes are sent as they are read.
async fn search_all(
    op: &Op<ResourcePath>,
    permission: &Permission<right::NodesSearch>,
    orgs: Vec<String>,
    request: PolicySearchRequest,
) -> Result<SearchResult<PolicySearchResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id: policy }, ..
    } = op;
    let key = SessionKey { org, policy, agbot_org: &caller.org, agbot: &caller.id };
    let (service, since) = op
        .write(permission, "search.all_nodes_by_policy", async |mut tx| {
            let service = policy_service(&mut tx, org, policy).await?;
            let stored = match caller.role {
                role if role.is_agbot() => search::lock_session(&mut tx, key).await?,
                _ => None,
            };
            let since = place(&request, stored.as_ref()).map_err(|running| conflict(key, running))?;
            if stored.is_some() {
                search::delete_session(&mut tx, key).await?;
            }
            tx.finish_with([], (service, since))
        })
        .await?;
    let wanted = Arc::new(Wanted {
        orgs,
        owner: caller.visible_owner(),
        arch: service.arch,
        service_url: format!("{}/{}", service.org, service.name),
        since,
        // A node that changes while the response is sent would be returned again later; the feed reports its
        // change.
        until: exchange.now(),
    });
    let exchange = exchange.clone();
    pages::list(r#"{"nodes":["#, r#"],"offsetUpdated":false}"#, move |after| {
        page(exchange.clone(), wanted.clone(), after)
    })
    .await
}

/// Nodes that a search without pages selects.
struct Wanted {
    orgs: Vec<String>,
    owner: Option<UserId>,
    arch: Option<String>,
    service_url: String,
    since: Option<Timestamp>,
    until: Timestamp,
}

/// End of a page: last change, organization, node.
type Place = (Timestamp, String, String);

async fn page(
    exchange: Exchange,
    wanted: Arc<Wanted>,
    after: Option<Place>,
) -> Result<Page<Place>, ApiError> {
    let search = PolicySearch {
        orgs: &wanted.orgs,
        owner: wanted.owner.as_ref(),
        arch: exact_arch(wanted.arch.as_deref().unwrap_or_default()),
        service_url: &wanted.service_url,
        since: wanted.since,
        until: Some(wanted.until),
        after: after.as_ref().map(|(at, org, node)| (*at, org.as_str(), node.as_str())),
        limit: Some(PAGE_ROWS),
    };
    let rows = exchange
        .database()
        .read(async |connection| search::list_for_policy(connection, search).await)
        .await?;
    let place = |row: &FoundNodeRow| (row.updated_at, row.org.clone(), row.node.clone());
    Ok(Page::array(rows, PAGE_ROWS, place, shape)?)
}

async fn policy_service(
    tx: &mut WriteTx<right::NodesSearch>,
    org: &str,
    policy: &str,
) -> Result<PolicyService, ApiError> {
    let service = search::find_policy_service(tx, org, policy).await?.ok_or_else(|| {
        ApiError::invalid_input(format!("invalid input: business policy '{org}/{policy}' not found"))
    })?;
    serde_json::from_str(service.get())
        .map_err(|error| ApiError::internal(format!("service of deployment policy {org}/{policy}: {error}")))
}

/// Position at which to continue; an error is the series that is in progress instead.
fn place<'s>(
    request: &PolicySearchRequest,
    stored: Option<&'s SessionRow>,
) -> Result<Option<Timestamp>, &'s SessionRow> {
    let is_same = match stored {
        Some(stored) => match (&stored.session, &request.session) {
            (Some(running), Some(wanted)) if running != wanted => return Err(stored),
            (running, wanted) => running == wanted,
        },
        None => false,
    };
    Ok(match stored.and_then(|stored| stored.since) {
        None if request.changed_since > 0 => Some(instant(request.changed_since)),
        Some(since) if is_same => Some(since),
        _ => None,
    })
}

fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

fn conflict(key: SessionKey<'_>, running: &SessionRow) -> ApiError {
    let body = SessionConflict {
        agbot: format!("{}/{}", key.agbot_org, key.agbot),
        offset: running.since.map(wire_time),
        session: running.session.clone().unwrap_or_default(),
    };
    ApiError::Body(StatusCode::CONFLICT, json!(body))
}

/// Effect of a search on its series.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    /// Current position of the series; `None` ends it.
    session: Option<SessionRow>,
    /// The series stands somewhere else than before.
    has_moved: bool,
}

/// Moves a series after a page of `count` nodes whose last one changed at `last`.
fn advance(
    request: &PolicySearchRequest,
    stored: Option<&SessionRow>,
    count: usize,
    last: Option<Timestamp>,
) -> Step {
    let Some(wanted_count) = request.num_entries else { return Step { session: None, has_moved: false } };
    let is_full = count > 0 && i64::try_from(count).is_ok_and(|count| count == wanted_count);
    let before = stored.and_then(|stored| stored.since);
    let running = stored.and_then(|stored| stored.session.as_deref());
    let place = match (last, before) {
        (Some(last), None) => Some(last),
        (Some(last), Some(before)) if before < last && is_full => Some(last),
        _ if running == request.session.as_deref() && is_full => before,
        _ => None,
    };
    let has_moved = place.is_some() && place != before;
    let session = match &request.session {
        Some(wanted) if is_full && running.is_none_or(|running| running == wanted) => {
            Some(SessionRow { since: place, session: Some(wanted.clone()) })
        }
        _ => None,
    };
    Step { session, has_moved }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(num_entries: Option<i64>, session: Option<&str>, changed_since: i64) -> PolicySearchRequest {
        PolicySearchRequest {
            changed_since,
            num_entries,
            session: session.map(str::to_owned),
            ..PolicySearchRequest::default()
        }
    }

    fn row(since: Option<i64>, session: Option<&str>) -> SessionRow {
        SessionRow { since: since.map(instant), session: session.map(str::to_owned) }
    }

    #[test]
    fn another_session_gets_the_running_one() {
        let stored = row(Some(5), Some("first"));
        assert_eq!(place(&request(Some(2), Some("second"), 0), Some(&stored)), Err(&stored));
    }

    #[test]
    fn search_starts_where_the_series_stands() {
        let stored = row(Some(5), Some("first"));
        assert_eq!(place(&request(Some(2), Some("first"), 3), Some(&stored)), Ok(Some(instant(5))));
        assert_eq!(place(&request(Some(2), None, 3), Some(&stored)), Ok(None));
        assert_eq!(place(&request(Some(2), Some("first"), 3), None), Ok(Some(instant(3))));
        assert_eq!(place(&request(None, None, 0), None), Ok(None));
    }

    #[test]
    fn full_page_moves_the_series_to_its_last_node() {
        let step = advance(&request(Some(2), Some("s"), 0), None, 2, Some(instant(7)));
        assert_eq!(step, Step { session: Some(row(Some(7), Some("s"))), has_moved: true });
        let stored = row(Some(7), Some("s"));
        let step = advance(&request(Some(2), Some("s"), 0), Some(&stored), 2, Some(instant(9)));
        assert_eq!(step, Step { session: Some(row(Some(9), Some("s"))), has_moved: true });
    }

    #[test]
    fn full_page_of_one_instant_keeps_the_series_where_it_is() {
        let stored = row(Some(7), Some("s"));
        let step = advance(&request(Some(2), Some("s"), 0), Some(&stored), 2, Some(instant(7)));
        assert_eq!(step, Step { session: Some(stored), has_moved: false });
    }

    #[test]
    fn partly_filled_page_ends_the_series() {
        let stored = row(Some(7), Some("s"));
        let step = advance(&request(Some(2), Some("s"), 0), Some(&stored), 1, Some(instant(9)));
        assert_eq!(step, Step { session: None, has_moved: false });
        let step = advance(&request(Some(50), None, 0), None, 1, Some(instant(9)));
        assert_eq!(step, Step { session: None, has_moved: true });
    }

    #[test]
    fn search_without_pages_has_no_series() {
        let step = advance(&request(None, Some("s"), 0), None, 1, Some(instant(9)));
        assert_eq!(step, Step { session: None, has_moved: false });
    }
}
