//! `/node/maintenance`: the operator announces maintenance of the node (orchestration A10).

use axum::{Json, Router, extract::State, routing::get};
use evenkeel_wire::agent::maintenance::{MaintenanceResponse, PutMaintenance};
use evenkeel_wire::exchange::node_report::NodeMonitorState;

use super::{Api, Refusal};
use crate::{clock, journal::Maintenance, order::Order, workers};

/// Longest maintenance, in seconds: 31 days.
const LONGEST_SECS: u64 = 31 * 86_400;

pub(super) fn routes() -> Router<Api> {
    Router::new().route("/node/maintenance", get(show).put(begin).delete(end))
}

async fn show(State(api): State<Api>) -> Result<Json<MaintenanceResponse>, Refusal> {
    Ok(Json(shown(api.journal().await?.maintenance)))
}

async fn begin(
    State(api): State<Api>,
    Json(request): Json<PutMaintenance>,
) -> Result<Json<MaintenanceResponse>, Refusal> {
    if let Some(secs) = request.for_seconds.filter(|secs| !(1..=LONGEST_SECS).contains(secs)) {
        let error = format!("forSeconds must be an integer from 1 to {LONGEST_SECS}, not {secs}");
        return Err(Refusal::Input(error, "forSeconds"));
    }
    let until = request.for_seconds.map(|secs| clock::now_secs().saturating_add(secs));
    change(&api, Some(Maintenance { until, is_upgrade: request.upgrade })).await
}

async fn end(State(api): State<Api>) -> Result<Json<MaintenanceResponse>, Refusal> {
    change(&api, None).await
}

/// Reports the change first, so that no user relies on an announcement that the hub has not received.
async fn change(api: &Api, maintenance: Option<Maintenance>) -> Result<Json<MaintenanceResponse>, Refusal> {
    let hub = api.hub().await?;
    let state = maintenance.map_or(NodeMonitorState::Idle, Maintenance::monitor_state);
    workers::report_monitor_state(&hub, state).await.map_err(|error| {
        let change = if maintenance.is_some() { "was not begun" } else { "continues" };
        Refusal::Unavailable(format!("the maintenance {change}: the hub did not accept the report: {error}"))
    })?;
    api.handle.with(move |journal| journal.maintenance = maintenance).await?;
    api.handle.order(Order::Announce).await?;
    Ok(Json(shown(maintenance)))
}

fn shown(maintenance: Option<Maintenance>) -> MaintenanceResponse {
    let going_on = maintenance.filter(|one| !one.is_over(clock::now_secs()));
    MaintenanceResponse {
        is_on: going_on.is_some(),
        upgrade: going_on.is_some_and(|one| one.is_upgrade),
        until: going_on.and_then(|one| one.until),
    }
}
