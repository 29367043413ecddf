//! Limits on failed logins at an agbot whose exchange is elsewhere, and the address of the client in what it asks that exchange.
//!
//! Inside `up` the exchange of the same process counts failed logins by the client's address. An agbot on its own may ask an exchange
//! that sees only the agbot's address, or that counts nothing, so it counts as well.

use std::net::IpAddr;
use std::time::Instant;

use evenkeel_http_server::limit::{
    Buckets, CAPACITY, FailedLogins, LoginFailure, LoginLimits, Rate, client_prefix, nanoseconds_since,
};
use evenkeel_http_server::middleware;
use evenkeel_wire::exchange::forwarded::{CLIENT_ADDRESS, FORWARDED_BY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::caller::claimed_name;
use super::pipeline::Refusal;

const ADDRESS: HeaderName = HeaderName::from_static(CLIENT_ADDRESS);

/// Time for which credentials that were good are tried although others from the same address fail, as the
/// rate of a bucket with one token: a day.
const PROVEN: Rate = Rate { per_second: 1.0 / 86_400.0, burst: 1 };

/// Counts and limits failed logins.
#[derive(Debug)]
pub struct LoginGuard {
    begun: Instant,
    limits: LoginLimits,
    failed: FailedLogins,
    /// Recently accepted credentials, as hashes under a random key.
    proven: Buckets,
}

impl LoginGuard {
    /// Limits failed logins; `failed` counts and logs them.
    #[must_use]
    pub fn new(limits: LoginLimits, failed: FailedLogins) -> Self {
        Self { begun: Instant::now(), limits, failed, proven: Buckets::new(CAPACITY) }
    }

    /// Returns the counts of failed logins.
    #[must_use]
    pub fn failed(&self) -> &FailedLogins {
        &self.failed
    }

    /// Checks that the credentials of a request may be tried.
    ///
    /// # Errors
    /// 429 when too many failed from the client's address.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some((prefix, value)) = attempt(headers) else { return Ok(()) };
        let now = nanoseconds_since(self.begun);
        let is_proven = self.proven.peek(&value.as_bytes(), PROVEN, now).is_err();
        let name = claimed_name(headers);
        match self.limits.check(prefix, &name) {
            Err(wait) if !is_proven => {
                self.failed.note(LoginFailure::Limited, Some(prefix), &name);
                Err(Refusal::Limited("too many failed logins, try again later".to_owned(), wait))
            }
            _ => Ok(()),
        }
    }

    /// Counts the outcome of a request.
    pub(super) fn note<T>(&self, headers: &HeaderMap, outcome: Result<&T, &Refusal>) {
        let Some((prefix, value)) = attempt(headers) else { return };
        match outcome {
            Ok(_) => {
                let now = nanoseconds_since(self.begun);
                // Credentials that were good before are good already.
                let _ = self.proven.take(&value.as_bytes(), PROVEN, now);
            }
            Err(Refusal::Message(StatusCode::UNAUTHORIZED, _)) => {
                let name = claimed_name(headers);
                self.limits.count(prefix, &name, &value.as_bytes());
                self.failed.note(LoginFailure::Refused, Some(prefix), &name);
            }
            Err(_) => {}
        }
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
        guard.note(&headers("192.0.2.1", "good"), Ok(&()));
        for secret in ["wrong", "also wrong"] {
            assert!(guard.check(&headers("192.0.2.1", secret)).is_ok());
            guard.note::<()>(&headers("192.0.2.1", secret), Err(&unauthorized()));
        }
        assert!(matches!(guard.check(&headers("192.0.2.1", "third")), Err(Refusal::Limited(_, 1..))));
        assert!(guard.check(&headers("192.0.2.1", "good")).is_ok());
        assert!(guard.check(&headers("192.0.2.2", "third")).is_ok());
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
