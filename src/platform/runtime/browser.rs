//! Detection of requests that browsers send from pages of other origins, by the headers that only browsers set.

use http::uri::Authority;
use http::{HeaderName, HeaderValue, Request, header};

/// The header in which a browser states where a request comes from. Scripts cannot set it.
pub const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns whether a browser sends the request from a page of another origin.
pub fn is_from_other_origin<B>(request: &Request<B>) -> bool {
    match request.headers().get(FETCH_SITE).map(HeaderValue::as_bytes) {
        // Behind a proxy that changes `Host` it is the only evidence.
        Some(b"same-origin" | b"none") => false,
        Some(_) => true,
        None => request.headers().get(header::ORIGIN).is_some_and(|origin| !is_of_host(origin, request)),
    }
}

/// Returns whether an origin is that of the host which the request is for.
fn is_of_host<B>(origin: &HeaderValue, request: &Request<B>) -> bool {
    let parts = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    parts.is_some_and(|(scheme, authority)| {
        let host = without_usual_port(scheme, host(request));
        without_usual_port(scheme, authority).eq_ignore_ascii_case(host)
    })
}

/// Returns the host that a request is for, with the port if one is named; empty when there is none.
pub fn host<B>(request: &Request<B>) -> &str {
    let named = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    named.or_else(|| request.uri().authority().map(Authority::as_str)).unwrap_or_default()
}

/// Returns host and port without the port that browsers leave out.
#[must_use]
pub fn without_usual_port<'t>(scheme: &str, authority: &'t str) -> &'t str {
    let usual = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(usual).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_other(headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        is_from_other_origin(&request.body(()).expect("a request"))
    }

    #[test]
    fn only_browsers_send_from_another_origin() {
        let host = ("host", "hub.example:8443");
        assert!(!is_other(&[host]));
        assert!(!is_other(&[host, ("origin", "https://hub.example:8443")]));
        assert!(!is_other(&[("host", "hub.example"), ("origin", "https://hub.example:443")]));
        for origin in ["null", "https://hub.example", "https://evil.example", "hub.example:8443"] {
            assert!(is_other(&[host, ("origin", origin)]), "{origin}");
        }
        // The site that a browser states takes precedence over a host that a proxy may have changed.
        let other = ("origin", "https://outside.example");
        assert!(!is_other(&[host, other, ("sec-fetch-site", "same-origin")]));
        assert!(!is_other(&[host, ("sec-fetch-site", "none")]));
        for site in ["cross-site", "same-site", "SAME-ORIGIN", ""] {
            assert!(is_other(&[host, ("sec-fetch-site", site)]), "{site}");
        }
    }

    #[test]
    fn requests_without_a_host_header_name_the_host_in_their_target() {
        let request = Request::builder().uri("http://127.0.0.1:8510/node").body(()).expect("a request");
        assert_eq!(super::host(&request), "127.0.0.1:8510");
    }
}
