//! What a request below `/v1` must pass before its route: limits first, then credentials.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use evenkeel_access::Caller;
use http::HeaderMap;

use super::basic::parse_login;
use super::bearer;
use crate::{ApiError, Exchange};

/// Counts a request of anybody.
///
/// # Errors
/// 429 when there were too many from its address.
pub(crate) fn count(exchange: &Exchange, request: &Request) -> Result<(), ApiError> {
    let address = exchange.settings().trusted_proxies.client(request.extensions(), request.headers());
    exchange.limiter().count_address(address)
}

/// Authenticates the caller and puts it into the request's extensions.
///
/// # Errors
/// 401 for credentials that are absent, garbled or wrong, 429 when the caller asks too often, 503 when the store does not answer.
pub(crate) async fn authenticate(exchange: &Exchange, request: &mut Request) -> Result<(), ApiError> {
    let address = exchange.settings().trusted_proxies.client(request.extensions(), request.headers());
    let caller = identify(exchange, request.headers(), address).await?;
    exchange.limiter().count_caller(&caller, address)?;
    request.extensions_mut().insert(caller);
    Ok(())
}

async fn identify(
    exchange: &Exchange,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Arc<Caller>, ApiError> {
    exchange.feed().current().await?;
    match (exchange.bearer_logins(), bearer::token(headers)) {
        (Some(logins), Some(token)) => Box::pin(logins.identify(exchange, &token, address)).await,
        _ => exchange.credentials().identify(parse_login(headers)?, address, exchange.limiter()).await,
    }
}
