//! Requests at the [guard](LoginGuard) of failed logins, and the address of the client in what the agbot asks the exchange.

use std::net::IpAddr;

use evenkeel_api::Refusal;
use evenkeel_http_server::limit::client_prefix;
use evenkeel_http_server::middleware;
use evenkeel_wire::exchange::forwarded::{CLIENT_ADDRESS, FORWARDED_BY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::caller::claimed_name;
use super::login_guard::LoginGuard;

const ADDRESS: HeaderName = HeaderName::from_static(CLIENT_ADDRESS);

/// Checks that the credentials of a request may be tried.
///
/// # Errors
/// 429 when too many failed from the client's address.
pub(super) fn check(guard: &LoginGuard, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some((prefix, credentials)) = attempt(headers) else { return Ok(()) };
    let checked = guard.check(prefix, &claimed_name(headers), credentials.as_bytes());
    checked.map_err(|wait| Refusal::too_many(wait, "too many failed logins, try again later"))
}

/// Counts the outcome of a request.
pub(super) fn count<T>(guard: &LoginGuard, headers: &HeaderMap, outcome: Result<&T, &Refusal>) {
    let Some((prefix, credentials)) = attempt(headers) else { return };
    match outcome {
        Ok(_) => guard.count_accepted(credentials.as_bytes()),
        Err(refusal) if refusal.is_unauthorized() => {
            guard.count_refused(prefix, &claimed_name(headers), credentials.as_bytes());
        }
        Err(_) => {}
    }
}

/// Returns the prefix of the client and its credentials.
fn attempt(headers: &HeaderMap) -> Option<(IpAddr, &HeaderValue)> {
    let address = headers.get(ADDRESS)?.to_str().ok()?.parse().ok()?;
    Some((client_prefix(address), headers.get(header::AUTHORIZATION)?))
}

/// Puts the address of the client into the headers of a request, in place of what the client sent under that name.
pub(super) fn insert_address(parts: &mut Parts) {
    parts.headers.remove(FORWARDED_BY);
    parts.headers.remove(ADDRESS);
    let client = parts.extensions.get::<middleware::Client>();
    let address = client.and_then(|client| HeaderValue::try_from(client.address.to_string()).ok());
    if let Some(address) = address {
        parts.headers.insert(ADDRESS, address);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_http_server::limit::{FailedLogins, LoginLimits, Rate};
    use http::StatusCode;

    use super::*;

    fn headers(address: &str, secret: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ADDRESS, address.parse().expect("a value"));
        headers.insert(header::AUTHORIZATION, secret.parse().expect("a value"));
        headers
    }

    fn unauthorized() -> Refusal {
        Refusal::new(StatusCode::UNAUTHORIZED, "no")
    }

    #[test]
    fn failures_stop_logins_that_are_not_proven() {
        let never = Rate { per_second: 1.0 / 3600.0, burst: 2 };
        let guard = LoginGuard::new(LoginLimits::new(never, Rate::UNLIMITED), FailedLogins::default());
        count(&guard, &headers("192.0.2.1", "good"), Ok(&()));
        for secret in ["wrong", "also wrong"] {
            assert!(check(&guard, &headers("192.0.2.1", secret)).is_ok());
            count::<()>(&guard, &headers("192.0.2.1", secret), Err(&unauthorized()));
        }
        let third = check(&guard, &headers("192.0.2.1", "third"));
        assert!(matches!(third, Err(Refusal::TooMany { retry_after: 1.., .. })));
        assert!(check(&guard, &headers("192.0.2.1", "good")).is_ok());
        assert!(check(&guard, &headers("192.0.2.2", "third")).is_ok());
    }

    #[test]
    fn client_cannot_name_its_own_address() {
        let forged = headers("198.51.100.1", "x");
        let mut request = http::Request::new(());
        *request.headers_mut() = forged;
        request.headers_mut().insert(FORWARDED_BY, HeaderValue::from_static("Basic x"));
        request.extensions_mut().insert(middleware::Client::at(IpAddr::from([192, 0, 2, 1])));
        let (mut parts, ()) = request.into_parts();
        insert_address(&mut parts);
        assert_eq!(parts.headers[ADDRESS], "192.0.2.1");
        assert!(!parts.headers.contains_key(FORWARDED_BY));
        parts.extensions.clear();
        insert_address(&mut parts);
        assert!(!parts.headers.contains_key(ADDRESS));
    }
}
