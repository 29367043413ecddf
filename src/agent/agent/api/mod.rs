//! The local API, used by the command line to inspect and control the agent (agbot 5.7). It has no authentication and
//! belongs on a loopback address; it never returns the node's token.

mod agreement;
mod event_log;
pub(crate) mod listen;
mod maintenance;
mod management;
mod node;
mod service;
mod service_log;
mod trust;
mod user_input;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use evenkeel_wire::agent::refusal::RefusalResponse;
use evenkeel_wire::agent::status::{AgentStatus, Attributes, Configuration, WorkerStatus, WorkersStatus};
use tokio::sync::oneshot;

use crate::{
    AgentSettings,
    drivers::Driver,
    hub::Hub,
    journal::Journal,
    machine::Machine,
    order::{Ended, Handle, Order},
};

/// Oldest exchange version that agents of this contract support.
const REQUIRED_EXCHANGE: &str = "2.124.0";
/// Preferred exchange version.
const PREFERRED_EXCHANGE: &str = "2.126.1";

/// The state shared by the handlers.
#[derive(Clone)]
pub(crate) struct Api {
    pub handle: Handle,
    pub settings: Arc<AgentSettings>,
    pub machine: Arc<Machine>,
    pub driver: Arc<dyn Driver>,
}

/// A response other than success.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The input is invalid.
    Input(String, &'static str),
    /// The object does not exist.
    NotFound(String),
    /// The agent is in another state.
    Conflict(String),
    /// The node must be registered first.
    NotRegistered,
    /// A temporary failure.
    Unavailable(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let explained = |status: StatusCode, error: String, input: &str| {
            (status, Json(RefusalResponse { error, input: input.to_owned() })).into_response()
        };
        match self {
            Self::Input(error, input) => explained(StatusCode::BAD_REQUEST, error, input),
            Self::NotFound(error) => explained(StatusCode::NOT_FOUND, error, ""),
            Self::Conflict(text) => (StatusCode::CONFLICT, text).into_response(),
            Self::NotRegistered => {
                let text = "the node must be registered first".to_owned();
                explained(StatusCode::FAILED_DEPENDENCY, text, "registration")
            }
            Self::Unavailable(text) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        }
    }
}

impl From<Ended> for Refusal {
    fn from(error: Ended) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Api {
    /// Returns a copy of the journal.
    async fn journal(&self) -> Result<Journal, Refusal> {
        Ok(self.handle.with(|journal| journal.clone()).await?)
    }

    /// Returns the hub, when the node is registered.
    async fn hub(&self) -> Result<Arc<Hub>, Refusal> {
        let (give, take) = oneshot::channel();
        self.handle.order(Order::Hub(give)).await?;
        if let Some(hub) = take.await.map_err(|_| Ended)? {
            return Ok(hub);
        }
        let superseded = self.handle.with(|journal| journal.superseded.clone()).await?;
        Err(superseded.map_or(Refusal::NotRegistered, Refusal::Unavailable))
    }
}

/// Returns all routes of the local API.
pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/status/workers", get(workers))
        .route("/attribute", get(|| async { Json(Attributes::default()) }))
        .merge(node::routes())
        .merge(agreement::routes())
        .merge(event_log::routes())
        .merge(service::routes())
        .merge(service_log::routes())
        .merge(maintenance::routes())
        .merge(management::routes())
        .merge(trust::routes())
        .layer(middleware::map_request(as_json))
        .with_state(api)
}

/// Treats every body as JSON: the reference's command line sends some without a content type. Handlers that read another
/// format ignore it.
async fn as_json(mut request: Request) -> Request {
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}

async fn status(State(api): State<Api>) -> Result<Json<AgentStatus>, Refusal> {
    let exchange_version = match api.hub().await {
        Ok(hub) => hub.exchange.exchange_version().await.unwrap_or_default(),
        Err(_) => String::new(),
    };
    let configuration = Configuration {
        exchange_api: format!("{}/v1/", api.settings.hub_root()),
        exchange_version,
        required_minimum_exchange_version: REQUIRED_EXCHANGE.to_owned(),
        preferred_exchange_version: PREFERRED_EXCHANGE.to_owned(),
        architecture: api.machine.arch.to_owned(),
        horizon_version: api.settings.software_version.clone(),
        ..Configuration::default()
    };
    let superseded = api.handle.with(|journal| journal.superseded.clone()).await?;
    Ok(Json(AgentStatus { configuration, live_health: None, superseded }))
}

async fn workers(State(api): State<Api>) -> Result<Json<WorkersStatus>, Refusal> {
    let is_joined = api.handle.with(|journal| journal.state.is_joined).await?;
    let worker = |(name, is_running): (&str, bool)| {
        let status = if is_running { "initialized" } else { "waiting" };
        let worker =
            WorkerStatus { name: name.to_owned(), status: status.to_owned(), ..WorkerStatus::default() };
        (name.to_owned(), worker)
    };
    let all = [
        ("Agreement", is_joined),
        ("ChangesWorker", is_joined),
        ("Container", true),
        ("NodeManagement", is_joined),
    ];
    Ok(Json(WorkersStatus { workers: all.into_iter().map(worker).collect(), ..WorkersStatus::default() }))
}
