//! The routes of the reference's secrets manager, which this hub has not.
//!
//! Its command line takes a 404 for an empty list and shows that as success; 503 is the response of an agbot
//! without a secrets manager.
//! Source: agbot 4.2.

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;

/// Body of the response to every request for a secret: a JSON string, as the reference's command line shows
/// it.
const NO_SECRETS: &str = "\"this hub has no secrets manager: services get their secrets from variables (userInput) or from files of the node\"";

/// Returns the routes below `prefix`, for every method: that of a list is none of HTTP.
pub fn routes<S: Clone + Send + Sync + 'static>(prefix: &str) -> Router<S> {
    ["secrets", "secrets/", "secrets/{*name}", "allsecrets"]
        .into_iter()
        .fold(Router::new(), |router, path| {
            router.route(&format!("{prefix}/org/{{organization}}/{path}"), any(refuse))
        })
}

async fn refuse() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [("content-type", "application/json")], NO_SECRETS).into_response()
}
