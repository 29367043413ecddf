//! Credentials, which a request below `/v1` must have before it gets to its route.

use std::net::IpAddr;
use std::sync::Arc;

use evenkeel_access::Caller;
use http::HeaderMap;

use super::basic::parse_login;
use super::bearer;
use crate::{ApiError, Exchange};

/// Who asks, from an address.
///
/// # Errors
/// 401 for credentials that are absent, garbled or wrong, 429 when the caller asks too often, 503 when the store does not answer.
pub(crate) async fn authenticate(
    exchange: &Exchange,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Arc<Caller>, ApiError> {
    let caller = identify(exchange, headers, address).await?;
    exchange.limiter().count_caller(&caller, address)?;
    Ok(caller)
}

/// Who confirms that everything has stopped on its own node, which was deleted while its agent was alive.
pub(crate) async fn authenticate_departed(
    exchange: &Exchange,
    (headers, path): (&HeaderMap, &str),
    address: Option<IpAddr>,
) -> Option<Arc<Caller>> {
    let login = parse_login(headers).ok()?;
    let own = format!("/orgs/{}/orchestration/departures/{}", login.org(), login.id());
    if !path.ends_with(&own) {
        return None;
    }
    exchange.credentials().identify_departed(&login, address, exchange.limiter()).await.ok().flatten()
}

async fn identify(
    exchange: &Exchange,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Arc<Caller>, ApiError> {
    exchange.feed().current().await?;
    if let Some(logins) = exchange.bearer_logins()
        && let Some(token) = bearer::token(headers)
    {
        return Box::pin(logins.identify(exchange, &token, address)).await;
    }
    exchange.credentials().identify(parse_login(headers)?, address, exchange.limiter()).await
}
