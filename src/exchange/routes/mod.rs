//! The table of all routes below `/v1`, and the router made from it.

pub mod administration;
pub mod agbot;
pub mod audit;
pub mod changes;
pub mod deployment_policy;
pub mod ha_group;
pub mod management_policy;
pub mod negotiation;
pub mod node;
pub mod organization;
pub mod pattern;
pub mod reference;
pub mod search;
pub mod service;
pub mod shape;
pub mod user;
pub mod utility;

mod mailbox;
mod pages;
mod signing_key;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::FutureExt;
use http::{HeaderValue, Method, StatusCode, header};

use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::auth::{Guarded, guard};
use crate::endpoint::Endpoint;
use crate::{ApiError, Exchange};

/// Every operation of the exchange.
#[must_use]
pub fn all() -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    endpoints.extend(utility::endpoints());
    endpoints.extend(administration::endpoints());
    endpoints.extend(audit::endpoints());
    endpoints.extend(changes::endpoints());
    endpoints.extend(node::endpoints());
    endpoints.extend(agbot::endpoints());
    endpoints.extend(search::endpoints());
    endpoints.extend(organization::endpoints());
    endpoints.extend(user::endpoints());
    endpoints.extend(ha_group::endpoints());
    endpoints.extend(service::endpoints());
    endpoints.extend(pattern::endpoints());
    endpoints.extend(deployment_policy::endpoints());
    endpoints.extend(management_policy::endpoints());
    endpoints
}

impl Exchange {
    /// The router of the exchange: everything under `/v1`, and the document forms of HA groups also without it.
    pub fn router(&self) -> Router {
        let endpoints = all();
        let guarded = Arc::new(Guarded::of(&endpoints));
        let short = endpoints.iter().filter(|endpoint| endpoint.paths[0].starts_with(SHORT_FORMS));
        let short = short.fold(Router::new(), |router, endpoint| endpoint.mount(router));
        let api = endpoints.iter().fold(Router::new(), |router, endpoint| endpoint.mount(router));
        let guard = middleware::from_fn_with_state((self.clone(), guarded), guard);
        let negotiate = middleware::from_fn(negotiation::negotiate);
        let limit = DefaultBodyLimit::max(self.settings().max_body_bytes);
        let root = any(unrecognized_route).layer(guard.clone());
        let api = api.fallback(unrecognized_route).layer(guard.clone()).layer(negotiate.clone()).layer(limit);
        Router::new()
            .nest("/v1", api)
            .route("/v1/", root)
            .merge(short.layer(guard).layer(negotiate).layer(limit))
            .merge(SwaggerUi::new("/docs").config(Config::from("/v1/api-docs/swagger.json")))
            .fallback(outside_of_the_api)
            .layer(middleware::from_fn(around))
            .with_state(self.clone())
    }
}

/// Start of the paths that are served without `/v1`, too.
const SHORT_FORMS: &str = "/org/";

async fn unrecognized_route() -> ApiError {
    ApiError::not_found("unrecognized route")
}

async fn outside_of_the_api() -> ApiError {
    ApiError::Plain {
        status: StatusCode::NOT_FOUND,
        message: "The requested resource could not be found.".to_owned(),
    }
}

/// Headers of every answer, cross-origin requests, and the last line of defence against a panic.
///
/// Source: exchange contract 1.1 and 1.2.
async fn around(request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_preflight = request.method() == Method::OPTIONS && origin.is_some();
    let is_head = request.method() == Method::HEAD;
    let mut response = if is_preflight {
        preflight()
    } else {
        match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(_) => ApiError::internal("the exchange failed; its log tells why").into_response(),
        }
    };
    if is_head && response.status() != StatusCode::UNAUTHORIZED {
        response = (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")]).into_response();
    }
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response = method_not_allowed(&response);
    }
    let headers = response.headers_mut();
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("max-age=0, must-revalidate, no-cache, no-store"),
    );
    headers.insert(
        header::STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=63072000; includeSubDomains; preload"),
    );
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_XSS_PROTECTION, HeaderValue::from_static("1; mode=block"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    response
}

fn preflight() -> Response {
    (
        StatusCode::OK,
        [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE, OPTIONS"),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, Accept, Prefer"),
            (header::ACCESS_CONTROL_MAX_AGE, "1800"),
        ],
    )
        .into_response()
}

fn method_not_allowed(response: &Response) -> Response {
    let allowed =
        response.headers().get(header::ALLOW).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let methods: Vec<&str> =
        allowed.split(',').map(str::trim).filter(|method| !method.is_empty() && *method != "HEAD").collect();
    let text = format!("HTTP method not allowed, supported methods: {}", methods.join(", "));
    let mut answer = (StatusCode::METHOD_NOT_ALLOWED, text).into_response();
    if let Ok(value) = HeaderValue::from_str(&methods.join(", ")) {
        answer.headers_mut().insert(header::ALLOW, value);
    }
    answer
}
