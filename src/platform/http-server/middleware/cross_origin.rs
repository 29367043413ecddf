//! Requests that browsers send from pages of other origins.
//!
//! Such requests have the privileges of the browser's user: access from behind a firewall, and stored credentials.
//! Therefore they are refused unless their origin is listed, apart from links that a user follows. Other programs do
//! not send these headers.

use std::str::FromStr;

use axum::response::{IntoResponse, Response};
use evenkeel_runtime::browser::{FETCH_SITE, is_from_other_origin, without_usual_port};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use thiserror::Error;

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Methods of the API.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
/// Headers of requests that the API reads.
const REQUEST_HEADERS: &str =
    "Authorization, Content-Type, Accept, Prefer, If-None-Match, X-Organization, X-Reason, X-Request-Id";
/// Headers of responses that a page may read.
const RESPONSE_HEADERS: &str = "Retry-After, Warning, X-Request-Id";
/// Seconds that a browser may keep the response to a preflight.
const PREFLIGHT_AGE: &str = "1800";

/// Origins of pages that may use the API from browsers; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedOrigins(Vec<HeaderValue>);

/// A text that names no origin.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("'{0}' is not an origin like https://console.example.com or http://localhost:3000")]
pub struct NoOrigin(String);

impl FromStr for AllowedOrigins {
    type Err = NoOrigin;

    /// Parses origins, separated by commas. Wildcards and `null` are not origins.
    fn from_str(text: &str) -> Result<Self, NoOrigin> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| origin(part).ok_or_else(|| NoOrigin(part.to_owned())))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl AllowedOrigins {
    fn contains(&self, origin: &HeaderValue) -> bool {
        self.0.iter().any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
    }

    /// Allows the page at `reader` to read the response, and prevents caches from serving it to other pages.
    /// Credentials that a browser adds by itself are never allowed.
    pub(super) fn insert_headers(&self, headers: &mut HeaderMap, reader: Option<&HeaderValue>) {
        if self.0.is_empty() {
            return;
        }
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = reader {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
        }
    }
}

/// Parses an origin as browsers write it: scheme, host, and the port unless it is the default of the scheme.
fn origin(text: &str) -> Option<HeaderValue> {
    let text = text.to_ascii_lowercase();
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))?;
    let authority = Authority::from_str(rest).ok()?;
    let is_host =
        authority.host().bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte));
    if !is_host || authority.host().is_empty() || rest.contains('@') || (rest.ends_with(':')) {
        return None;
    }
    HeaderValue::try_from(format!("{scheme}://{}", without_usual_port(scheme, rest))).ok()
}

/// The decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request does not come from a page of another origin, or only follows a link.
    Ordinary,
    /// It comes from a listed origin.
    Allowed(HeaderValue),
    /// A preflight request for a listed origin.
    Preflight(HeaderValue),
    /// It comes from a page of another origin.
    Refused,
}

/// Classifies a request by the headers that only browsers set.
pub(super) fn judge<B>(request: &Request<B>, allowed: &AllowedOrigins) -> Verdict {
    let headers = request.headers();
    let origin = headers.get(header::ORIGIN);
    let site = headers.get(FETCH_SITE);
    if origin.is_none() && site.is_none() {
        return Verdict::Ordinary;
    }
    let is_preflight =
        request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if let Some(origin) = origin.filter(|origin| allowed.contains(origin)) {
        return if is_preflight {
            Verdict::Preflight(origin.clone())
        } else {
            Verdict::Allowed(origin.clone())
        };
    }
    if !is_from_other_origin(request) {
        return Verdict::Ordinary;
    }
    match *request.method() {
        // Without the headers of a preflight's response, the browser does not send the actual request.
        Method::OPTIONS => Verdict::Ordinary,
        Method::GET | Method::HEAD if site.is_none() || is_navigation(headers) => Verdict::Ordinary,
        _ => Verdict::Refused,
    }
}

fn is_navigation(headers: &HeaderMap) -> bool {
    headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate")
}

/// The response to a preflight of a listed origin, apart from the origin itself.
pub(super) fn preflight() -> Response {
    (
        StatusCode::NO_CONTENT,
        [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE),
        ],
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "https://console.example";

    fn verdict(method: &str, headers: &[(&str, &str)]) -> Verdict {
        let mut request =
            Request::builder().method(method).uri("/v1/orgs").header("host", "hub.example:8443");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let allowed = format!("{LISTED}, http://localhost:3000").parse().expect("origins");
        judge(&request.body(()).expect("a request"), &allowed)
    }

    #[test]
    fn origins_are_read_as_browsers_write_them() {
        let read = |text: &str| text.parse::<AllowedOrigins>();
        assert_eq!(read(""), Ok(AllowedOrigins::default()));
        assert_eq!(read("HTTPS://Console.Example:443"), read(LISTED));
        assert_eq!(read("http://[::1]:80"), read("http://[::1]"));
        for wrong in [
            "*",
            "null",
            "console.example",
            "https://",
            "https://*.example",
            "https://a.example/",
            "https://u@a.example",
            "ftp://a.example",
            "https://a.example:",
            "https://a b",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn programs_that_are_no_browsers_are_let_through() {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            assert_eq!(verdict(method, &[]), Verdict::Ordinary, "{method}");
        }
    }

    #[test]
    fn pages_of_the_hub_itself_are_let_through() {
        let own = ("origin", "https://hub.example:8443");
        assert_eq!(verdict("DELETE", &[own]), Verdict::Ordinary);
        assert_eq!(verdict("DELETE", &[own, ("sec-fetch-site", "same-origin")]), Verdict::Ordinary);
        // A proxy may change the host.
        let outside = ("origin", "https://outside.example");
        assert_eq!(verdict("DELETE", &[outside, ("sec-fetch-site", "same-origin")]), Verdict::Ordinary);
        assert_eq!(verdict("GET", &[("sec-fetch-site", "none")]), Verdict::Ordinary);
    }

    #[test]
    fn pages_of_other_origins_are_refused_unless_a_link_is_followed() {
        for origin in
            ["https://evil.example", "null", "https://hub.example", "http://hub.example:8443.evil.example"]
        {
            for method in ["POST", "PUT", "PATCH", "DELETE"] {
                assert_eq!(verdict(method, &[("origin", origin)]), Verdict::Refused, "{method} {origin}");
            }
        }
        for site in ["cross-site", "same-site", "anything"] {
            let site = ("sec-fetch-site", site);
            assert_eq!(verdict("POST", &[site]), Verdict::Refused);
            assert_eq!(verdict("POST", &[site, ("sec-fetch-mode", "navigate")]), Verdict::Refused, "a form");
            assert_eq!(verdict("GET", &[site, ("sec-fetch-mode", "no-cors")]), Verdict::Refused, "an image");
            assert_eq!(verdict("GET", &[site, ("sec-fetch-mode", "navigate")]), Verdict::Ordinary, "a link");
        }
    }

    #[test]
    fn listed_origins_are_let_through_and_get_their_preflights() {
        let origin = ("origin", LISTED);
        let value = || HeaderValue::from_static(LISTED);
        assert_eq!(verdict("DELETE", &[origin, ("sec-fetch-site", "cross-site")]), Verdict::Allowed(value()));
        let asked = ("access-control-request-method", "DELETE");
        assert_eq!(verdict("OPTIONS", &[origin, asked]), Verdict::Preflight(value()));
        assert_eq!(verdict("OPTIONS", &[("origin", "https://evil.example"), asked]), Verdict::Ordinary);
    }

    #[test]
    fn headers_never_allow_credentials_and_are_absent_without_a_list() {
        let (mut with, mut without) = (HeaderMap::new(), HeaderMap::new());
        let origins: AllowedOrigins = LISTED.parse().expect("an origin");
        origins.insert_headers(&mut with, Some(&HeaderValue::from_static(LISTED)));
        assert_eq!(
            (&with["access-control-allow-origin"], &with["vary"]),
            (&HeaderValue::from_static(LISTED), &HeaderValue::from_static("Origin"))
        );
        assert!(!with.contains_key("access-control-allow-credentials"));
        AllowedOrigins::default().insert_headers(&mut without, None);
        assert!(without.is_empty());
    }
}
