//! The way of a request to its handler: limits, credentials, the kinds of answer, headers of every answer.
//!
//! One function for all of it instead of layers around each route: a layer of the router costs every request several
//! copies of everything that lies below it, which was most of the price of an idle poll.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use evenkeel_api::Part;
use futures_util::FutureExt;
use http::{HeaderValue, Method, StatusCode, header};
use tower::Service;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::audit::request::{AuditedOperations, run};
use crate::endpoint::Endpoint;
use crate::openapi::Served;
use crate::routes::{self, negotiation::Accepted};
use crate::{ApiError, Exchange, auth};

/// Everything of the API is below this path.
const BASE: &str = evenkeel_api::PREFIX;

impl Exchange {
    /// The router of the exchange: everything under `/v1`, and the document forms of HA groups also without it.
    pub fn router(&self) -> Router {
        self.router_beside(&[])
    }

    /// The same, with a document that also describes what the listener serves beside the exchange.
    pub fn router_beside(&self, others: &[fn() -> Part]) -> Router {
        let served = Served::beside(others);
        let endpoints = routes::all();
        let open = endpoints.iter().filter(|endpoint| endpoint.is_public);
        let guard = Arc::new(Guard {
            exchange: self.clone(),
            open: open.flat_map(|endpoint| endpoint.paths.clone()).collect(),
            body_limit: DefaultBodyLimit::max(self.settings().max_body_bytes),
        });
        let audit = Audit { exchange: self.clone(), operations: AuditedOperations::of(&endpoints).into() };
        let mount = |base: &str, router, endpoint: &Endpoint| {
            endpoint.mount(base, router, |methods| match (endpoint.is_audited(), endpoint.is_public) {
                (true, _) => methods.route_layer(middleware::from_fn_with_state(audit.clone(), audited)),
                // Among the open routes are those that answer the document.
                (false, true) => methods.layer(Extension(served.clone())),
                (false, false) => methods,
            })
        };
        let api = endpoints.iter().fold(Router::new(), |router, endpoint| mount(BASE, router, endpoint));
        let short = endpoints.iter().filter(|endpoint| endpoint.is_at_root());
        let short = short.fold(Router::new(), |router, endpoint| mount("", router, endpoint));
        let short = short.layer(middleware::from_fn_with_state(guard.clone(), guarded));
        let documents = SwaggerUi::new("/docs").config(Config::from("/v1/api-docs/swagger.json"));
        let front = Front {
            guard,
            api: api.fallback(unrecognized_route).with_state(self.clone()),
            rest: short.merge(documents).fallback(outside_of_the_api).with_state(self.clone()),
        };
        Router::new().fallback(answer).with_state(Arc::new(front))
    }
}

/// What answers requests.
struct Front {
    guard: Arc<Guard>,
    /// Everything below [`BASE`], behind the guard.
    api: Router,
    /// Everything else.
    rest: Router,
}

async fn answer(State(front): State<Arc<Front>>, request: Request) -> Response {
    let front = front.as_ref();
    around(request, |request: Request| async move {
        let below_base = request.uri().path().strip_prefix(BASE);
        if below_base.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            front.guard.pass(request, |request| called(&front.api, request)).await
        } else {
            called(&front.rest, request).await
        }
    })
    .await
}

async fn called(router: &Router, request: Request) -> Response {
    // A router is always ready.
    let Ok(response) = router.clone().call(request).await;
    response
}

async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    guard.pass(request, |request| next.run(request)).await
}

/// What writes need for their audit records.
#[derive(Clone)]
struct Audit {
    exchange: Exchange,
    operations: Arc<AuditedOperations>,
}

/// Around the routes of writes only, because only they know what they are about.
async fn audited(State(audit): State<Audit>, request: Request, next: Next) -> Response {
    run(&audit.exchange, &audit.operations, request, next).await
}

/// What every request of the API passes.
struct Guard {
    exchange: Exchange,
    /// Paths below [`BASE`] that anybody may read.
    open: BTreeSet<&'static str>,
    body_limit: DefaultBodyLimit,
}

impl Guard {
    /// Lets reads of open routes through, and everything else with good credentials only.
    async fn pass<Fut>(&self, mut request: Request, run: impl FnOnce(Request) -> Fut) -> Response
    where
        Fut: Future<Output = Response>,
    {
        self.body_limit.apply(&mut request);
        let accepted = match Accepted::of(&request) {
            Ok(accepted) => accepted,
            Err(refusal) => return refusal.into_response(),
        };
        let passed = match auth::count(&self.exchange, &request) {
            Ok(()) if self.is_open(&request) => Ok(()),
            Ok(()) => auth::authenticate(&self.exchange, &mut request).await,
            Err(error) => Err(error),
        };
        if let Err(error) = passed {
            return error.into_response();
        }
        accepted.check(run(request).await)
    }

    fn is_open(&self, request: &Request) -> bool {
        let path = request.uri().path();
        matches!(*request.method(), Method::GET | Method::HEAD)
            && self.open.contains(path.strip_prefix(BASE).unwrap_or(path))
    }
}

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
async fn around<Fut>(request: Request, run: impl FnOnce(Request) -> Fut) -> Response
where
    Fut: Future<Output = Response>,
{
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_preflight = request.method() == Method::OPTIONS && origin.is_some();
    let is_head = request.method() == Method::HEAD;
    let mut response = if is_preflight {
        preflight()
    } else {
        match AssertUnwindSafe(run(request)).catch_unwind().await {
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
