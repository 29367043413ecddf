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

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use http::StatusCode;
use serde_json::json;

use crate::context::Context;

/// The routes, with and without `/v1`.
pub(crate) fn router(context: Arc<Context>) -> Router {
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
    Router::new().merge(routes()).nest("/v1", routes()).with_state(context)
}

/// An answer with the API's body: `code` repeats the status as text.
fn answer(status: StatusCode, message: impl Into<String>) -> Response {
    (status, Json(json!({"code": status.as_u16().to_string(), "msg": message.into()}))).into_response()
}
