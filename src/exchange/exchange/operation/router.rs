//! The router, and what every request passes before and after its operation: limits, credentials, media types, response headers.
//!
//! One function for all of it instead of layers around each route: a layer of the router costs every request several
//! copies of everything that lies below it, which was most of the price of an idle poll.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use evenkeel_api::{AuditedOperation, Run};
use evenkeel_http_server::middleware::Client;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tower::Service;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::document::ServedDocument;
use super::negotiation::{Accepted, Format};
use super::pipeline::{ExchangeRequest, routed};
use super::row::{Kind, Operation};
use crate::auth::{Authenticated, ClientAddress, PresentedLogin};
use crate::dot_segments::resolve_dot_segments;
use crate::request_times::Timer;
use crate::{ApiError, Exchange, auth};

/// Everything of the API is below this path.
const BASE: &str = evenkeel_api::PREFIX;

/// The whole API behind its guard.
pub(crate) struct HttpApi {
    guard: Arc<Guard>,
    /// Everything below [`BASE`], behind the guard.
    api: Router,
    /// Everything else.
    rest: Router,
}

impl HttpApi {
    /// The API of these operations.
    pub(crate) fn new(
        exchange: &Exchange,
        operations: &[Operation],
        document: &ServedDocument,
    ) -> Arc<HttpApi> {
        let open = operations.iter().filter(|operation| operation.is_public());
        let guard = Arc::new(Guard {
            exchange: exchange.clone(),
            open: open.flat_map(|operation| operation.paths.clone()).collect(),
        });
        let mount = |base: &str, router, operation: &Operation| {
            operation.mount(base, router, |_, carrier| match &carrier.0 {
                Kind::Typed(handler) => route(operation, handler.clone()),
                // The public routes include those that return the document. They accept only GET: all others
                // are unrecognized routes, behind the credentials.
                Kind::Public(methods) => MethodRouter::clone(methods)
                    .fallback(unrecognized_route)
                    .layer(Extension(document.clone())),
            })
        };
        let api = operations.iter().fold(Router::new(), |router, operation| mount(BASE, router, operation));
        let at_root = operations.iter().filter(|operation| operation.is_at_root());
        let at_root = at_root.fold(Router::new(), |router, operation| mount("", router, operation));
        let at_root = at_root.layer(middleware::from_fn_with_state(guard.clone(), guarded));
        let documents = SwaggerUi::new("/docs").config(Config::from("/v1/api-docs/swagger.json"));
        Arc::new(HttpApi {
            guard,
            api: api.fallback(unrecognized_route).with_state(exchange.clone()),
            rest: at_root.merge(documents).fallback(outside_of_the_api).with_state(exchange.clone()),
        })
    }

    /// Headers of every response of the API, and whatever is to be known of a request before its route.
    ///
    /// Source: exchange-api 1.1, 1.2.
    // No async function: that would keep the request twice, and what every request allocates would be too large for the allocator's fast way.
    pub(crate) fn respond(self: Arc<Self>, mut request: Request) -> impl Future<Output = Response> + Send {
        let is_head = request.method() == Method::HEAD;
        let challenge = self.guard.exchange.challenge();
        resolve_dot_segments(&mut request);
        let response = async move {
            let below_base = request.uri().path().strip_prefix(BASE);
            if !below_base.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                let Ok(response) = self.rest.clone().call(request).await;
                return response;
            }
            let times = self.guard.exchange.request_times();
            let _timer = Timer::start(times.of(below_base.unwrap_or_default()));
            match self.guard.admit(&mut request).await {
                Ok(accepted) => {
                    let Ok(response) = self.api.clone().call(request).await;
                    accepted.check(response)
                }
                Err(refusal) => refusal.into_response(),
            }
        };
        unpanicked(response).map(move |response| finished(response, is_head, challenge))
    }
}

/// The route of an operation behind the guard.
fn route(operation: &Operation, handler: Arc<dyn Run<ExchangeRequest>>) -> MethodRouter<Exchange> {
    let filter = MethodFilter::try_from(operation.method.clone()).unwrap_or(MethodFilter::GET);
    let audited = AuditedOperation::of(operation);
    on(filter, move |State(exchange): State<Exchange>, request: Request| {
        routed(handler.clone(), exchange, request, audited)
    })
}

/// The last line of defence against a panic.
pub(crate) fn unpanicked(response: impl Future<Output = Response>) -> impl Future<Output = Response> {
    AssertUnwindSafe(response).catch_unwind().map(|outcome| {
        outcome.unwrap_or_else(|_| ApiError::internal("internal error; see the server log").into_response())
    })
}

async fn guarded(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    match guard.admit(&mut request).await {
        Ok(accepted) => accepted.check(next.run(request).await),
        Err(refusal) => refusal.into_response(),
    }
}

/// Middleware that every request of the API passes.
struct Guard {
    exchange: Exchange,
    /// Paths below [`BASE`] that are readable without credentials.
    open: BTreeSet<&'static str>,
}

impl Guard {
    /// Accepts reads of open routes, and everything else only with valid credentials.
    async fn admit(&self, request: &mut Request) -> Result<Accepted, ApiError> {
        let accepted = Accepted::of(request)?;
        if !self.is_open(request) {
            let client = request.extensions().get::<Client>().cloned();
            let Authenticated { address, caller, login, agbot } =
                match auth::authenticate(&self.exchange, request.headers(), client.as_ref()).await {
                    // Rare and large: it must not make the path of every request large, too.
                    Err(refusal) if is_last_word(request) => {
                        let (headers, path) = (request.headers(), request.uri().path());
                        let address = client.map(|client| client.address);
                        let caller = auth::authenticate_departed(&self.exchange, (headers, path), address);
                        let caller = Box::pin(caller).await?.ok_or(refusal)?;
                        let login = Arc::new(PresentedLogin::of_departed(address));
                        Authenticated { address, caller, login, agbot: None }
                    }
                    known => known?,
                };
            request.extensions_mut().insert(ClientAddress(address));
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(login);
            if let Some(agbot) = agbot {
                request.extensions_mut().insert(agbot);
            }
        }
        Ok(accepted)
    }

    fn is_open(&self, request: &Request) -> bool {
        let path = request.uri().path();
        matches!(*request.method(), Method::GET | Method::HEAD)
            && self.open.contains(path.strip_prefix(BASE).unwrap_or(path))
    }
}

/// Returns whether a request may be the last word of an agent whose node was deleted.
fn is_last_word(request: &Request) -> bool {
    *request.method() == Method::DELETE && request.uri().path().contains("/orchestration/departures/")
}

async fn unrecognized_route(headers: HeaderMap) -> Response {
    match Format::of(&headers) {
        Some(Format::Html) => absent_page(),
        Some(Format::Json) | None => ApiError::not_found("unrecognized route").into_response(),
    }
}

async fn outside_of_the_api(headers: HeaderMap) -> Response {
    const MESSAGE: &str = "The requested resource could not be found.";
    match Format::of(&headers) {
        Some(Format::Html) => absent_page(),
        Some(Format::Json) => ApiError::not_found(MESSAGE).into_response(),
        None => (StatusCode::NOT_FOUND, MESSAGE).into_response(),
    }
}

/// 404 as a page for browsers.
fn absent_page() -> Response {
    const PAGE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Not found</title>\
        <h1>Not found</h1><p>There is no page under this address. <a href=\"/\">Start page</a>, \
        <a href=\"/docs/\">API document</a>.</p></html>\n";
    (StatusCode::NOT_FOUND, Html(PAGE)).into_response()
}

/// The response with what every response of the API carries; `challenge` names the kinds of credentials that are accepted. The middleware of
/// the listener adds what all responses carry.
pub(crate) fn finished(mut response: Response, is_head: bool, challenge: &'static str) -> Response {
    if is_head && response.status() != StatusCode::UNAUTHORIZED {
        response = (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")]).into_response();
    }
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response = method_not_allowed(&response);
    }
    let is_unauthenticated = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if is_unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    // The server writes it, too; as one more it would make this map grow with every response.
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("max-age=0, must-revalidate, no-cache, no-store"),
    );
    response
}

fn method_not_allowed(response: &Response) -> Response {
    let allowed =
        response.headers().get(header::ALLOW).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let methods: Vec<&str> =
        allowed.split(',').map(str::trim).filter(|method| !method.is_empty() && *method != "HEAD").collect();
    let text = format!("HTTP method not allowed, supported methods: {}", methods.join(", "));
    let mut response = (StatusCode::METHOD_NOT_ALLOWED, text).into_response();
    if let Ok(value) = HeaderValue::from_str(&methods.join(", ")) {
        response.headers_mut().insert(header::ALLOW, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_request_allocates_is_small() {
        fn size<F: Future>(_: impl Fn(Arc<HttpApi>, Request) -> F) -> usize {
            size_of::<F>()
        }
        let size = size(HttpApi::respond);
        assert!(size <= 1_024, "{size} bytes: above 1,032 glibc does not keep what was freed at hand");
    }
}
