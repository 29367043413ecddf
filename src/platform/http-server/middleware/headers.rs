//! Headers of every response, and those of pages.

use std::str::FromStr;

use axum::response::Response;
use http::{HeaderName, HeaderValue, header};
use thiserror::Error;

/// Two years, like the reference, but for this host only, because the hub must not decide for other hosts of the domain.
const USUAL: &str = "max-age=63072000";
const XSS_PROTECTION: &str = "1; mode=block";

/// Pages load nothing from other hosts, run only scripts from files, and are not shown in frames.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                           font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const REFERRER_POLICY: HeaderName = HeaderName::from_static("referrer-policy");

/// The value of `Strict-Transport-Security`; `None` for no header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportSecurity(Option<HeaderValue>);

/// A text that is not a value of the header.
#[derive(Debug, Error)]
#[error("'{0}' is neither off nor a value like \"max-age=63072000; includeSubDomains\"")]
pub struct NoTransportSecurity(String);

impl Default for TransportSecurity {
    fn default() -> Self {
        Self(Some(HeaderValue::from_static(USUAL)))
    }
}

impl FromStr for TransportSecurity {
    type Err = NoTransportSecurity;

    /// `off`, or the value.
    fn from_str(text: &str) -> Result<Self, NoTransportSecurity> {
        if text == "off" {
            return Ok(Self(None));
        }
        let wrong = || NoTransportSecurity(text.to_owned());
        let mut has_age = false;
        for part in text.split(';').map(|part| part.trim().to_ascii_lowercase()) {
            match part.strip_prefix("max-age=") {
                Some(age) if !has_age && age.parse::<u64>().is_ok() => has_age = true,
                None if part == "includesubdomains" || part == "preload" => {}
                _ => return Err(wrong()),
            }
        }
        let value = HeaderValue::from_str(text).map_err(|_| wrong())?;
        if has_age { Ok(Self(Some(value))) } else { Err(wrong()) }
    }
}

/// Inserts the headers of every response, and those of pages if the response is one.
pub(super) fn insert(response: &mut Response, transport_security: &TransportSecurity) {
    let is_page = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| is_page(kind.as_bytes()));
    let headers = response.headers_mut();
    if let Some(value) = &transport_security.0 {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, value.clone());
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_XSS_PROTECTION, HeaderValue::from_static(XSS_PROTECTION));
    if is_page {
        headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(PAGE_POLICY));
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    }
}

/// Returns whether a browser may show a response of this type as a page or execute it: all types except data, which
/// `nosniff` prevents from being treated as a page.
fn is_page(content_type: &[u8]) -> bool {
    !content_type.starts_with(b"application/json")
}

#[cfg(test)]
mod tests {
    use axum::response::{Html, IntoResponse};

    use super::*;

    fn headers(response: impl IntoResponse) -> http::HeaderMap {
        let mut response = response.into_response();
        insert(&mut response, &TransportSecurity::default());
        response.headers().clone()
    }

    #[test]
    fn pages_are_confined_and_shown_in_no_frame() {
        let page = headers(Html("<p>"));
        let policy = page["content-security-policy"].to_str().expect("ASCII");
        for rule in ["default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'"]
        {
            assert!(policy.contains(rule), "{policy}");
        }
        assert_eq!(page["x-frame-options"], "DENY");
        assert_eq!(page["x-content-type-options"], "nosniff");
        for kind in ["text/plain; charset=utf-8", "image/svg+xml", "application/javascript"] {
            let other = headers(([(header::CONTENT_TYPE, kind)], "x"));
            assert!(other.contains_key("content-security-policy"), "{kind}");
        }
    }

    #[test]
    fn data_has_no_more_headers_than_it_needs() {
        let data = headers(([(header::CONTENT_TYPE, "application/json")], "{}"));
        assert!(!data.contains_key("content-security-policy"));
        assert_eq!(data["x-content-type-options"], "nosniff");
    }

    #[test]
    fn transport_security_covers_this_host_alone_unless_it_is_set() {
        assert_eq!(headers("x")["strict-transport-security"], USUAL);
        let set = "max-age=60; includeSubDomains; preload";
        assert_eq!(set.parse::<TransportSecurity>().expect("valid").0.expect("a value"), set);
        assert_eq!("off".parse::<TransportSecurity>().expect("valid"), TransportSecurity(None));
        for wrong in ["", "on", "max-age=x", "includeSubDomains", "max-age=1; max-age=2", "max-age=1; other"]
        {
            assert!(wrong.parse::<TransportSecurity>().is_err(), "{wrong}");
        }
    }
}
