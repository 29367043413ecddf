//! The address of a client whose request an agbot makes with the client's credentials.
//!
//! Such requests come from the agbot's address. Limits and records need that of the client, which nobody else may choose: it is believed
//! inside the process, and from an agbot of the hub's organization that proves itself by its own credentials.

use std::net::IpAddr;

use evenkeel_access::{Caller, Role};
use evenkeel_http_server::middleware::Client;
use evenkeel_wire::exchange::forwarded::FORWARDED_BY;
use http::{HeaderMap, HeaderValue};

use super::basic::read_login;
use crate::{ApiError, Exchange};

/// Returns the address that counts for a request with the header `value`.
///
/// # Errors
/// 429 when the client asks too often, 503 when the store does not respond.
pub(super) async fn address(
    exchange: &Exchange,
    headers: &HeaderMap,
    value: &HeaderValue,
    client: Option<&Client>,
) -> Result<Option<IpAddr>, ApiError> {
    let named =
        value.to_str().ok().and_then(|text| text.parse::<IpAddr>().ok()).map(|named| named.to_canonical());
    // Inside the process the listener has counted the request.
    let Some(client) = client else { return Ok(named) };
    let own = Some(client.address);
    let (Some(named), Some(proof)) = (named, headers.get(FORWARDED_BY)) else { return Ok(own) };
    if !is_from_trusted_agbot(exchange, proof, own).await? {
        return Ok(own);
    }
    exchange.limiter().count_forwarded(named)?;
    Ok(Some(named))
}

/// Checks the credentials of an agbot, as a login from its own address.
async fn is_from_trusted_agbot(
    exchange: &Exchange,
    proof: &HeaderValue,
    address: Option<IpAddr>,
) -> Result<bool, ApiError> {
    let Ok(login) = read_login(proof) else { return Ok(false) };
    match exchange.credentials().identify(login, address, exchange.limiter()).await {
        Ok(caller) => Ok(may_forward(&caller)),
        Err(error) if error.is_unauthorized() || matches!(error, ApiError::TooMany { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn may_forward(caller: &Caller) -> bool {
    caller.role == Role::Agbot
}
