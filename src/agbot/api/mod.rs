//! The agbot's own API: permission for agent upgrades, what it has agreed to, who holds claims, why (not), and
//! what administrators may do about rollouts and claims.
//!
//! Source: seed 004, "Agbot APIs"; agbot 3.3 and 4.1; orchestration E5.5.

mod administer;
mod caller;
mod hidden;
mod status;
mod stream;
mod upgrade;

use std::sync::{Arc, OnceLock};

use axum::Json;
use axum::Router;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use http::StatusCode;
use http::request::Parts;
use serde_json::json;

use crate::Agbot;
use crate::context::Context;

/// The API of an agbot that may still be on its way: until it is there, every answer is 503.
///
/// So a hub can answer for its exchange before its agbot has made its keys.
#[derive(Clone, Default)]
pub struct AgbotApi(Arc<OnceLock<Arc<Context>>>);

impl AgbotApi {
    /// From now on the agbot answers; a second one changes nothing.
    pub fn open(&self, agbot: &Agbot) {
        let _ = self.0.set(agbot.context.clone());
    }

    /// Whether the agbot is there and has read everything it serves at least once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.get().is_some_and(|context| context.is_loaded())
    }

    /// The routes: permission for agent upgrades, agreements, claims, reasons; with and without `/v1`.
    pub fn router(&self) -> Router {
        router(self.clone())
    }
}

/// The agbot, as an argument of a handler.
struct Running(Arc<Context>);

impl FromRequestParts<AgbotApi> for Running {
    type Rejection = Response;

    async fn from_request_parts(_: &mut Parts, api: &AgbotApi) -> Result<Self, Response> {
        let context = api.0.get().cloned();
        context
            .map(Running)
            .ok_or_else(|| answer(StatusCode::SERVICE_UNAVAILABLE, "the agbot is starting, try again"))
    }
}

fn router(api: AgbotApi) -> Router {
    let routes = || {
        Router::new()
            .route("/org/{org}/node/{node}/upgrade", post(upgrade::upgrade_node))
            .route("/org/{org}/hagroup/{group}/nodemanagement/{node}/{nmp}", post(upgrade::manage_node))
            .route(
                "/orgs/{org}/hagroups/{group}/upgrades",
                get(status::list_upgrades).delete(administer::free_group),
            )
            .route("/orgs/{org}/hagroups/{group}/upgrades/{node}", delete(administer::free_member))
            .route("/orgs/{org}/agbot/rollouts/{policy}/{action}", post(administer::act_on_rollouts))
            .route("/orgs/{org}/agbot/agreements", get(status::list_agreements))
            .route("/orgs/{org}/agbot/reasons", get(status::list_reasons))
            .route("/orgs/{org}/agbot/rollouts", get(status::list_rollouts))
            .route("/orgs/{org}/agbot/events", get(status::list_events))
            .route("/agbot/status", get(status::status))
    };
    Router::new().merge(routes()).nest("/v1", routes()).with_state(api)
}

/// An answer with the API's body: `code` repeats the status as text.
fn answer(status: StatusCode, message: impl Into<String>) -> Response {
    (status, Json(json!({"code": status.as_u16().to_string(), "msg": message.into()}))).into_response()
}
