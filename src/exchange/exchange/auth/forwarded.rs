//! Requests that an agbot makes with the credentials of its caller.
//!
//! They come from the agbot's address. Limits and records need the address of the caller, which must not be
//! forged: it is trusted inside the process, and from an approved agbot that authenticates with its own
//! credentials. An agbot of an organization is trusted for that organization, one of the hub for all.

use std::net::IpAddr;
use std::sync::Arc;

use evenkeel_access::{Caller, MULTI_TENANT_ORG, Role};
use evenkeel_http_server::middleware::Client;
use evenkeel_wire::exchange::forwarded::{CLIENT_ADDRESS, FORWARDED_BY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use super::basic::{parse_login, read_login};
use crate::{ApiError, Exchange};

/// An approved agbot that makes a request for its caller.
#[derive(Debug, Clone)]
pub(crate) struct ActingAgbot(Arc<Caller>);

impl ActingAgbot {
    /// Returns whether the agbot is believed about an organization.
    pub(crate) fn is_of(&self, org: &str) -> bool {
        self.0.org == org || self.0.org == MULTI_TENANT_ORG
    }
}

/// Returns true if a request carries a client address or the agbot that forwarded it.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(CLIENT_ADDRESS) || headers.contains_key(FORWARDED_BY)
}

/// Returns the address that counts for a request, and the agbot that makes it.
///
/// # Errors
/// 429 when the client asks too often, 503 when the store does not respond.
pub(super) async fn examine(
    exchange: &Exchange,
    headers: &HeaderMap,
    client: Option<&Client>,
) -> Result<(Option<IpAddr>, Option<ActingAgbot>), ApiError> {
    let own = client.map(|client| client.address);
    let agbot = match headers.get(FORWARDED_BY) {
        Some(proof) => acting_agbot(exchange, proof, own).await?,
        None => None,
    };
    let named = headers.get(CLIENT_ADDRESS).and_then(address);
    // Inside the process the listener has counted the request.
    let Some(named) = named.filter(|_| own.is_some()) else { return Ok((named.or(own), agbot)) };
    let org = parse_login(headers).ok();
    let org = org.as_ref().map_or(MULTI_TENANT_ORG, |login| login.org());
    if !agbot.as_ref().is_some_and(|agbot| agbot.is_of(org)) {
        return Ok((own, agbot));
    }
    exchange.limiter().count_forwarded(named)?;
    Ok((Some(named), agbot))
}

/// Returns whether a request was made by an agbot for its caller.
pub(crate) fn is_by_agbot(request: &Parts) -> bool {
    request.extensions.get::<ActingAgbot>().is_some()
}

/// Identifies the agbot that forwarded a request again, after its body has arrived.
///
/// # Errors
/// 503 when the store does not respond.
pub(crate) async fn confirm_agbot(exchange: &Exchange, request: &mut Parts) -> Result<(), ApiError> {
    if request.extensions.remove::<ActingAgbot>().is_none() {
        return Ok(());
    }
    let Some(proof) = request.headers.get(FORWARDED_BY) else { return Ok(()) };
    let address = request.extensions.get::<Client>().map(|client| client.address);
    if let Some(agbot) = acting_agbot(exchange, proof, address).await? {
        request.extensions.insert(agbot);
    }
    Ok(())
}

fn address(value: &HeaderValue) -> Option<IpAddr> {
    value.to_str().ok()?.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Checks the credentials of an agbot, as a login from its own address.
async fn acting_agbot(
    exchange: &Exchange,
    proof: &HeaderValue,
    address: Option<IpAddr>,
) -> Result<Option<ActingAgbot>, ApiError> {
    let Ok(login) = read_login(proof) else { return Ok(None) };
    match exchange.credentials().identify(login, address, exchange.limiter()).await {
        Ok(caller) => Ok((caller.role == Role::Agbot).then_some(ActingAgbot(caller))),
        Err(error) if error.is_unauthorized() || error.is_too_many() => Ok(None),
        Err(error) => Err(error),
    }
}
