//! Credentials, which a request below `/v1` must have before it gets to its route.

use std::net::IpAddr;
use std::sync::Arc;

use evenkeel_access::Caller;
use evenkeel_http_server::limit::{LoginFailure, client_prefix};
use evenkeel_http_server::middleware::Client;
use http::HeaderMap;

use super::basic::{bad_credentials, parse_login, read_login};
use super::bearer;
use super::forwarded::{self, ActingAgbot};
use super::presented::PresentedLogin;
use crate::{ApiError, Exchange};

/// The address of the client that an authenticated request comes from, as limits and records have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) Option<IpAddr>);

/// Caller of a request, with its address and the agbot that forwarded it.
pub(crate) struct Authenticated {
    pub(crate) address: Option<IpAddr>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) login: Arc<PresentedLogin>,
    /// The agbot that makes the request for the caller, if it has proved itself.
    pub(crate) agbot: Option<ActingAgbot>,
}

/// Authenticates the caller and determines its address. `client` is the other end of the connection, unless
/// the request comes from inside the process.
///
/// # Errors
/// 401 for credentials that are absent, garbled or wrong, 409 for an agent that another one has superseded,
/// 429 when the caller sends too many requests, 503 when the store does not respond.
pub(crate) async fn authenticate(
    exchange: &Exchange,
    headers: &HeaderMap,
    client: Option<&Client>,
) -> Result<Authenticated, ApiError> {
    let (address, agbot) = match forwarded::is_forwarded(headers) {
        // Rare and large: it must not make the path of every request large, too.
        true => Box::pin(forwarded::examine(exchange, headers, client)).await?,
        false => (client.map(|client| client.address), None),
    };
    let login = Arc::new(PresentedLogin::of(exchange, headers, address));
    let caller = identify(exchange, &login).await?;
    exchange.limiter().count_caller(&caller, address)?;
    if let Some(client) = client {
        client.note_login();
    }
    exchange.note_run(&caller, headers).await?;
    Ok(Authenticated { address, caller, login, agbot })
}

/// Identifies the agent that confirms that everything has stopped on its own node, which was deleted while it was alive; none for anybody
/// else.
///
/// # Errors
/// 429 when the caller sends too many requests, 503 when the store does not respond.
pub(crate) async fn authenticate_departed(
    exchange: &Exchange,
    (headers, path): (&HeaderMap, &str),
    address: Option<IpAddr>,
) -> Result<Option<Arc<Caller>>, ApiError> {
    let Ok(login) = parse_login(headers) else { return Ok(None) };
    let own = format!("/orgs/{}/orchestration/departures/{}", login.org(), login.id());
    if !path.ends_with(&own) {
        return Ok(None);
    }
    exchange.credentials().identify_departed(&login, address, exchange.limiter()).await
}

/// Identifies the caller of presented credentials.
///
/// # Errors
/// 401 for credentials that are absent, garbled or wrong, 429 after too many of them, 503 when the store does not respond.
pub(super) async fn identify(exchange: &Exchange, login: &PresentedLogin) -> Result<Arc<Caller>, ApiError> {
    exchange.feed().current().await?;
    let (authorization, address) = (login.authorization().ok_or_else(bad_credentials)?, login.address());
    if let Some(logins) = exchange.bearer_logins()
        && let Some(token) = bearer::token(authorization, login.organization())
    {
        return Box::pin(logins.identify(exchange, &token, address)).await;
    }
    let login = read_login(authorization).inspect_err(|_| {
        exchange.failed_logins().record(LoginFailure::Malformed, address.map(client_prefix), "");
    })?;
    exchange.credentials().identify(login, address, exchange.limiter()).await
}
