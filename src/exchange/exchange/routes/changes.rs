//! The change feed: polls, parked polls, the event stream, the last number, removal for tests.
//!
//! Source: exchange-api 5; design 3.3.
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::sse::{Event, KeepAlive, Sse};
use evenkeel_access::{Caller, Permission, Role, right};
use evenkeel_api::{Created, NoContent, Refusal};
use evenkeel_exchange_store::change::{self, SequencedChange};
use evenkeel_wire::exchange::changes::{
    ChangedResource, ChangesRequest, ChangesResponse, CleanupRequest, MaxChangeId, NumberedAt,
};
use evenkeel_wire::exchange::time::wire_time;
use futures_util::Stream;
use http::HeaderMap;
use http::request::Parts;
use jiff::{SignedDuration, Timestamp};

use crate::auth::PresentedLogin;
use crate::extract::{Body, Parameters};
use crate::feed::Selection;
use crate::feed::visibility::View;
use crate::notice::forget_changes;
use crate::operation::row::{delete, get, post};
use crate::operation::{ExchangeRequest, Op, Operation, OrgPath};
use crate::{API_VERSION, ApiError, Exchange};

const TAG: &str = "changes";
const MAX_RECORDS: i64 = 10_000;
/// Longest time a poll may be parked.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Reads from an instant start a little earlier (contract 5.1).
const OVERLAP: SignedDuration = SignedDuration::from_secs(10);

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    vec![
        post("/orgs/{organization}/changes", "poll_changes", poll_changes)
            .doc(TAG, "Returns the changes since a sequence number; `Prefer: wait=N` waits up to N seconds for a change")
            .unaudited("it only reads")
            .fast()
            .header("Prefer", "`wait=N`: seconds to wait for a change, at most 60.", "wait=30")
            .success("what changed"),
        get("/orgs/{organization}/changes/stream", "stream_changes", stream_changes)
            .header("Last-Event-ID", "Number of the last change seen; without it only new changes are sent.", "42")
            .doc(TAG, "Sends changes as server-sent events, from the number in `Last-Event-ID` on")
            .success("one event for each change"),
        delete("/orgs/{organization}/changes/cleanup", "delete_changes", delete_changes)
            .doc(TAG, "Removes changes of an organization (for tests)")
            .success("removed"),
        get("/changes/maxchangeid", "get_max_change_id", get_max_change_id)
            .doc(TAG, "Returns the latest sequence number of the feed")
            .success("the number"),
    ]
}

pub(crate) async fn poll_changes(
    op: Op<OrgPath, WantedWait>,
    _: Permission<right::OrgRead>,
    Body(request): Body<ChangesRequest>,
) -> Result<Created<ChangesResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, login, .. },
        path: OrgPath { org },
        parameters: WantedWait(timeout),
    } = op;
    if request.max_records < 0 {
        return Err(ApiError::invalid_input("maxRecords must not be negative"));
    }
    touch(&exchange, &caller).await?;
    let limit = usize::try_from(request.max_records.min(MAX_RECORDS)).unwrap_or_default();
    let from = first_number(&exchange, &request).await?;
    let orgs = request.org_list.unwrap_or_default();
    let view = View { caller: &caller, org: &org, orgs: &orgs, knows_extensions: request.extensions };
    let mut selection = exchange.feed().select(from, limit, |change| view.shows(change)).await?;
    let timeout = match caller.role {
        Role::Node if timeout.is_zero() => {
            exchange.conversations().expected_wait(&caller.org, &caller.id, || exchange.now())
        }
        _ => timeout,
    };
    if selection.changes.is_empty() && limit > 0 && !timeout.is_zero() {
        // Large: it must not make the path of every poll large, too.
        let wait = parked(&exchange, (&login, &view), (from, limit), selection.last, timeout);
        selection = Box::pin(wait).await?;
    }
    Ok(Created(response(selection, limit)))
}

/// Waits for changes after `seen` that the caller sees, until the timeout or the withdrawal of the login.
async fn parked(
    exchange: &Exchange,
    (login, view): (&PresentedLogin, &View<'_>),
    (from, limit): (i64, usize),
    seen: i64,
    timeout: Duration,
) -> Result<Selection, ApiError> {
    let until = tokio::time::Instant::now() + timeout;
    let mut selection = Selection { changes: Vec::new(), last: seen };
    while selection.changes.is_empty()
        && tokio::time::Instant::now() < until
        && !exchange.feed().is_draining()
    {
        // After the changes were read: a withdrawal that this does not see has a later number, with which the wait ends at once.
        exchange.confirm(login, view.caller).await?;
        let left = until - tokio::time::Instant::now();
        exchange.feed().park(view.caller, view.org, selection.last, left).await;
        let next = from.max(selection.last + 1);
        selection = exchange.feed().select(next, limit, |change| view.shows(change)).await?;
    }
    // The changes may be those of another tenant by now.
    exchange.confirm(login, view.caller).await?;
    Ok(selection)
}

/// A poll of a node or agbot counts as a heartbeat.
async fn touch(exchange: &Exchange, caller: &Caller) -> Result<(), ApiError> {
    match caller.role {
        Role::Node => exchange.heartbeats().touch_node(&caller.org, &caller.id, exchange.now()).await?,
        Role::Agbot | Role::UnapprovedAgbot => {
            exchange.heartbeats().touch_agbot(&caller.org, &caller.id, exchange.now());
        }
        _ => {}
    }
    Ok(())
}

async fn first_number(exchange: &Exchange, request: &ChangesRequest) -> Result<i64, ApiError> {
    let parse = |text: &String| {
        parse_instant(text).ok_or_else(|| {
            ApiError::invalid_input("lastUpdated must be an ISO 8601 date and time with its zone")
        })
    };
    let since: Option<Timestamp> = request.last_updated.as_ref().map(parse).transpose()?;
    if request.change_id > 0 {
        return Ok(request.change_id);
    }
    let Some(instant) = since else { return Ok(1) };
    let from = instant.saturating_sub(OVERLAP).unwrap_or(instant);
    Ok(Box::pin(exchange.feed().first_since(from)).await?)
}

fn parse_instant(text: &str) -> Option<Timestamp> {
    text.strip_suffix("[UTC]").unwrap_or(text).parse().ok()
}

/// Time for which the client would wait for something to happen: `Prefer: wait=N`.
pub(crate) struct WantedWait(Duration);

impl WantedWait {
    /// Reads the headers of a request.
    pub(crate) fn of(headers: &HeaderMap) -> WantedWait {
        let preferences = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
        let seconds = preferences
            .flat_map(|value| value.split(','))
            .find_map(|preference| preference.trim().strip_prefix("wait=")?.parse().ok());
        WantedWait(seconds.map_or(Duration::ZERO, |seconds| Duration::from_secs(seconds).min(MAX_WAIT)))
    }
}

impl Parameters for WantedWait {
    fn read(request: &Parts) -> Result<Self, Refusal> {
        Ok(WantedWait::of(&request.headers))
    }
}

/// The sequence number of the last change that a reader of the stream has seen.
pub(crate) struct LastEventId(Option<i64>);

impl Parameters for LastEventId {
    fn read(request: &Parts) -> Result<Self, Refusal> {
        let seen = request.headers.get("last-event-id").and_then(|value| value.to_str().ok());
        Ok(LastEventId(seen.and_then(|value| value.parse().ok())))
    }
}

/// Groups changes by resource; the operation is that of the latest change.
fn response(selection: Selection, limit: usize) -> ChangesResponse {
    let hit_max_records = limit > 0 && selection.changes.len() == limit;
    let most_recent_change_id = match selection.changes.last() {
        Some(newest) if hit_max_records => newest.change_id,
        _ => selection.last,
    };
    let mut changes: Vec<ChangedResource> = Vec::new();
    let mut positions = std::collections::HashMap::new();
    for change in &selection.changes {
        let key = (change.org.as_str(), change.id.as_str(), change.resource.as_str());
        let position = *positions.entry(key).or_insert_with(|| {
            changes.push(changed_resource(change));
            changes.len() - 1
        });
        let resource: &mut ChangedResource = &mut changes[position];
        resource.operation.clone_from(&change.operation);
        resource.resource_changes.push(numbered_at(change));
    }
    ChangesResponse {
        changes,
        most_recent_change_id,
        hit_max_records,
        exchange_version: API_VERSION.to_owned(),
    }
}

fn changed_resource(change: &SequencedChange) -> ChangedResource {
    ChangedResource {
        org_id: change.org.clone(),
        resource: change.resource.clone(),
        id: change.id.clone(),
        operation: change.operation.clone(),
        resource_changes: Vec::new(),
    }
}

fn numbered_at(change: &SequencedChange) -> NumberedAt {
    NumberedAt { change_id: change.change_id, last_updated: wire_time(change.changed_at) }
}

async fn stream_changes(
    op: Op<OrgPath, LastEventId>,
    _: Permission<right::OrgRead>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, login, .. },
        path: OrgPath { org },
        parameters: LastEventId(seen),
    } = op;
    let from = seen.map_or(exchange.feed().last() + 1, |seen: i64| seen.saturating_add(1));
    let start = StreamState { exchange, caller, login, org, next: from, waiting: Vec::new().into_iter() };
    Ok(Sse::new(futures_util::stream::unfold(start, next_event)).keep_alive(KeepAlive::default()))
}

struct StreamState {
    exchange: Exchange,
    caller: Arc<Caller>,
    login: Arc<PresentedLogin>,
    org: String,
    next: i64,
    waiting: std::vec::IntoIter<Arc<SequencedChange>>,
}

async fn next_event(mut state: StreamState) -> Option<(Result<Event, Infallible>, StreamState)> {
    loop {
        if let Some(change) = state.waiting.next() {
            let mut resource = changed_resource(&change);
            resource.resource_changes.push(numbered_at(&change));
            let event = Event::default()
                .id(change.change_id.to_string())
                .event("change")
                .json_data(&resource)
                .ok()?;
            return Some((Ok(event), state));
        }
        let selection = next_page(&state).await.inspect_err(|error| ended(&state, error)).ok()?;
        state.next = match selection.changes.last() {
            Some(newest) if selection.changes.len() == 1_000 => newest.change_id + 1,
            _ => selection.last + 1,
        };
        if selection.changes.is_empty() {
            if state.exchange.feed().is_draining() {
                return None;
            }
            // It ends when the login is withdrawn, too.
            state
                .exchange
                .feed()
                .park(&state.caller, &state.org, selection.last, Duration::from_secs(15))
                .await;
        }
        state.waiting = selection.changes.into_iter();
    }
}

/// Selects the next changes of a stream. Credentials that were withdrawn end the stream here: before the heartbeat, and before changes are
/// shown that may be those of another tenant.
async fn next_page(state: &StreamState) -> Result<Selection, ApiError> {
    let StreamState { exchange, caller, login, org, next, .. } = state;
    exchange.confirm(login, caller).await?;
    touch(exchange, caller).await?;
    let view = View { caller, org, orgs: &[], knows_extensions: false };
    let selection = exchange.feed().select(*next, 1_000, |change| view.shows(change)).await?;
    exchange.confirm(login, caller).await?;
    Ok(selection)
}

/// The client opens another stream where this one ended.
fn ended(state: &StreamState, error: &ApiError) {
    if error.is_unauthorized() {
        tracing::info!(caller.id = %*state.caller, "change stream ended: its login was withdrawn");
        return;
    }
    let error: &(dyn std::error::Error + 'static) = error;
    tracing::warn!(caller.id = %*state.caller, error, "change stream ended by an error");
}

async fn delete_changes(
    op: Op<OrgPath>,
    permission: Permission<right::AdminAction>,
    Body(request): Body<CleanupRequest>,
) -> Result<NoContent, ApiError> {
    let Op { path: OrgPath { org }, .. } = &op;
    let removed = op
        .write(&permission, "change.delete_of_org", async |mut tx| {
            let removed = change::delete_of_org(&mut tx, org, &request.resources).await?;
            tx.finish_with([forget_changes()], removed)
        })
        .await?;
    if removed == 0 {
        return Err(ApiError::not_found(format!("no changes of organization '{org}' found")));
    }
    Ok(NoContent)
}

async fn get_max_change_id(op: Op, _: Permission<right::MaxChangeId>) -> Result<Json<MaxChangeId>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, .. } = op;
    Ok(Json(MaxChangeId { max_change_id: exchange.feed().last() }))
}
