//! Middleware of every listener: the address of the client, the limit for it, the rules for cross-site
//! requests of browsers, and the headers of every response.

mod cross_origin;
mod headers;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Request, StatusCode, header};
use serde_json::json;

pub use cross_origin::{AllowedOrigins, NoOrigin};
use cross_origin::{Verdict, judge};
pub use headers::{NoTransportSecurity, TransportSecurity};

use crate::body::{BodyBudget, HeldBody, ResponseMemory};
use crate::limit::{AddressLimit, Rate, TrustedProxies};

/// Settings of a [`Middleware`].
#[derive(Clone, Debug)]
pub struct MiddlewareSettings {
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: TrustedProxies,
    /// Requests from one client prefix.
    pub address_rate: Rate,
    /// Origins of pages that may use the API from browsers.
    pub origins: AllowedOrigins,
    /// The header that keeps browsers on TLS.
    pub transport_security: TransportSecurity,
    /// Maximum number of bytes of large request bodies in memory at the same time; one client may use a quarter of them.
    pub body_memory: usize,
    /// Bytes of large parts of responses that clients have not read yet; one client may hold a quarter of them.
    pub response_memory: usize,
}

impl Default for MiddlewareSettings {
    fn default() -> Self {
        Self {
            trusted_proxies: TrustedProxies::default(),
            address_rate: Rate::UNLIMITED,
            origins: AllowedOrigins::default(),
            transport_security: TransportSecurity::default(),
            body_memory: 64 * 1024 * 1024,
            response_memory: 1024 * 1024 * 1024,
        }
    }
}

impl MiddlewareSettings {
    /// Returns the bytes of large request bodies that one client may have in memory.
    #[must_use]
    pub fn body_memory_per_client(&self) -> usize {
        self.body_memory / 4
    }
}

/// The middleware of all listeners of a process; clones share its counts.
#[derive(Clone, Debug)]
pub struct Middleware(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: MiddlewareSettings,
    addresses: AddressLimit,
    bodies: Arc<BodyBudget>,
    responses: Arc<BodyBudget>,
}

/// The other end of a request's connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address, also behind trusted proxies.
    pub address: IpAddr,
    has_logged_in: Arc<AtomicBool>,
}

impl Client {
    /// A client at an address, on a connection of its own.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self { address, has_logged_in: Arc::default() }
    }

    /// Records that a request of the connection had valid credentials. Before that, the connection is closed sooner when it is idle.
    pub fn note_login(&self) {
        // It is almost always set already, and a write would invalidate the cache line on other processors.
        if !self.has_logged_in.load(Ordering::Relaxed) {
            self.has_logged_in.store(true, Ordering::Relaxed);
        }
    }
}

/// A request that may pass to its handler, with what its response needs.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) client: Client,
    /// The origin that may read the response.
    reader: Option<HeaderValue>,
}

impl Default for Middleware {
    fn default() -> Self {
        Self::new(MiddlewareSettings::default())
    }
}

impl Middleware {
    /// Creates the middleware of a process.
    #[must_use]
    pub fn new(settings: MiddlewareSettings) -> Self {
        let addresses = AddressLimit::new(settings.address_rate);
        let bodies = Arc::new(BodyBudget::new(settings.body_memory, settings.body_memory_per_client()));
        let responses = Arc::new(BodyBudget::new(settings.response_memory, settings.response_memory / 4));
        Self(Arc::new(Inner { settings, addresses, bodies, responses }))
    }

    /// Begins to count the body of a request.
    pub(crate) fn hold_body(&self, client: &Client) -> HeldBody {
        HeldBody::new(self.0.bodies.clone(), client.address)
    }

    /// Begins to count the response to a request.
    pub(crate) fn response_memory(&self, client: &Client) -> ResponseMemory {
        ResponseMemory::new(self.0.responses.clone(), client.address)
    }

    /// Decides whether a request may pass to its handler.
    ///
    /// # Errors
    /// The response to a preflight, 429 above the rate limit of its address, 403 if a browser sends it from another site.
    // The response is boxed, because most requests have none and would otherwise need its size.
    pub(crate) fn admit<B>(
        &self,
        request: &Request<B>,
        peer: SocketAddr,
        has_logged_in: &Arc<AtomicBool>,
    ) -> Result<Admitted, Box<Response>> {
        let Inner { settings, addresses, .. } = &*self.0;
        let address = settings.trusted_proxies.client_behind(peer, request.headers());
        let refuse = |response: Response| Err(Box::new(self.finish(None, response)));
        if let Err(wait) = addresses.count(address) {
            return refuse(too_many(wait));
        }
        let reader = match judge(request, &settings.origins) {
            Verdict::Ordinary => None,
            Verdict::Allowed(origin) => Some(origin),
            Verdict::Preflight(origin) => {
                return Err(Box::new(self.finish(Some(&origin), cross_origin::preflight())));
            }
            Verdict::Refused => return refuse(from_another_site()),
        };
        let client = Client { address, has_logged_in: has_logged_in.clone() };
        Ok(Admitted { client, reader })
    }

    /// Completes the response to an admitted request.
    pub(crate) fn finish(&self, reader: Option<&HeaderValue>, mut response: Response) -> Response {
        let settings = &self.0.settings;
        headers::insert(&mut response, &settings.transport_security);
        settings.origins.insert_headers(response.headers_mut(), reader);
        response
    }
}

impl Admitted {
    /// Completes the response.
    pub(crate) fn finish(&self, middleware: &Middleware, response: Response) -> Response {
        middleware.finish(self.reader.as_ref(), response)
    }
}

fn too_many(wait: u64) -> Response {
    let msg = "too many requests from your address, try again later";
    let body = Json(json!({"code": "too busy", "msg": msg}));
    let wait = HeaderValue::from(wait);
    (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, wait)], body).into_response()
}

/// The response to a request for whose body there was no memory.
pub(crate) fn no_memory() -> Response {
    let msg = "too many large requests are received at the same time, try again later";
    let wait = [(header::RETRY_AFTER, HeaderValue::from(1))];
    (StatusCode::SERVICE_UNAVAILABLE, wait, Json(json!({"code": "too busy", "msg": msg}))).into_response()
}

/// The response in place of one that finds no memory.
pub(crate) fn unread_responses() -> Response {
    let msg = "too many large responses to your address are not read yet, try again later";
    let wait = [(header::RETRY_AFTER, HeaderValue::from(1))];
    (StatusCode::SERVICE_UNAVAILABLE, wait, Json(json!({"code": "too busy", "msg": msg}))).into_response()
}

fn from_another_site() -> Response {
    let msg = "a page of another site sent this request, which browsers may do only from the origins in cors-origins";
    (StatusCode::FORBIDDEN, Json(json!({"code": "access-denied", "msg": msg}))).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn admit(middleware: &Middleware, peer: &str, headers: &[(&str, &str)]) -> Result<Admitted, u16> {
        let mut request =
            Request::builder().method("POST").uri("/v1/orgs/o/changes").header("host", "hub:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let peer = SocketAddr::new(peer.parse().expect("an address"), 1);
        middleware.admit(&request, peer, &Arc::default()).map_err(|response| response.status().as_u16())
    }

    #[test]
    fn requests_are_counted_by_the_address_behind_trusted_proxies() {
        let settings = MiddlewareSettings {
            trusted_proxies: "10.0.0.0/8".parse().expect("a network"),
            address_rate: Rate { per_second: 1.0 / 3600.0, burst: 1 },
            ..MiddlewareSettings::default()
        };
        let middleware = Middleware::new(settings);
        let forwarded = [("x-forwarded-for", "192.0.2.1")];
        assert_eq!(
            admit(&middleware, "10.0.0.1", &forwarded).expect("the first").client.address.to_string(),
            "192.0.2.1"
        );
        assert_eq!(admit(&middleware, "10.0.0.2", &forwarded).expect_err("the second"), 429);
        assert_eq!(admit(&middleware, "192.0.2.1", &[]).expect_err("the third"), 429);
        let forged = [("x-forwarded-for", "198.51.100.1")];
        assert_eq!(
            admit(&middleware, "192.0.2.1", &forged).expect_err("a header of its own changes nothing"),
            429
        );
    }

    #[test]
    fn refusals_have_the_headers_of_every_response() {
        let middleware = Middleware::default();
        let request = Request::builder()
            .method("DELETE")
            .header("host", "hub:8080")
            .header("origin", "https://evil.example")
            .body(Body::empty())
            .expect("a request");
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let refused =
            middleware.admit(&request, peer, &Arc::default()).expect_err("it comes from another site");
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        assert_eq!(refused.headers()["x-content-type-options"], "nosniff");
        assert!(!refused.headers().contains_key("access-control-allow-origin"));
    }
}
