//! Middleware around every route below `/v1`: limits first, then credentials, then routing.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel_access::Caller;
use http::{HeaderMap, Method};

use super::basic::parse_login;
use super::bearer;
use crate::audit::request::{AuditedOperations, run};
use crate::endpoint::Endpoint;
use crate::{ApiError, Exchange};

/// What the middleware knows of the routes.
pub(crate) struct Guarded {
    /// Paths that are read without credentials.
    open: BTreeSet<&'static str>,
    audited: AuditedOperations,
}

impl Guarded {
    pub(crate) fn of(endpoints: &[Endpoint]) -> Guarded {
        let open = endpoints.iter().filter(|endpoint| endpoint.is_public);
        Guarded {
            open: open.flat_map(|endpoint| endpoint.paths.clone()).collect(),
            audited: AuditedOperations::of(endpoints),
        }
    }
}

/// Lets reads of open routes through, and everything else with good credentials only; puts the caller into the request's extensions.
pub(crate) async fn guard(
    State((exchange, guarded)): State<(Exchange, Arc<Guarded>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let address = exchange.settings().trusted_proxies.client(request.extensions(), request.headers());
    let limiter = exchange.limiter();
    if let Err(error) = limiter.count_address(address) {
        return error.into_response();
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read && guarded.open.contains(request.uri().path()) {
        return next.run(request).await;
    }
    let caller = match identify(&exchange, request.headers(), address).await {
        Ok(caller) => caller,
        Err(error) => return error.into_response(),
    };
    if let Err(error) = limiter.count_caller(&caller, address) {
        return error.into_response();
    }
    request.extensions_mut().insert(caller.clone());
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    run(&exchange, &guarded.audited, request, caller, address, next).await
}

async fn identify(
    exchange: &Exchange,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Arc<Caller>, ApiError> {
    exchange.feed().current().await?;
    match (exchange.bearer_logins(), bearer::token(headers)) {
        (Some(logins), Some(token)) => logins.identify(exchange, &token, address).await,
        _ => exchange.credentials().identify(parse_login(headers)?, address, exchange.limiter()).await,
    }
}
