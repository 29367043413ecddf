//! Content negotiation: media types that a client accepts.
//!
//! Source: exchange-api 1.1 ("Accept not satisfiable").

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use evenkeel_api::Refusal;
use http::{HeaderMap, Method, StatusCode, header};

use crate::ApiError;

const JSON: &str = "application/json";

/// Media types that a client accepts.
pub(crate) enum Accepted {
    /// Every media type.
    All,
    /// Anything but JSON: a read that ends with JSON gets 406 instead.
    NoJson,
}

impl Accepted {
    /// Reads the accepted media types of the request.
    ///
    /// # Errors
    /// 406 for writes whose response the client would not accept, before anything is done.
    pub(crate) fn of(request: &Request) -> Result<Accepted, ApiError> {
        let is_read = match *request.method() {
            Method::GET => true,
            Method::POST | Method::PUT | Method::PATCH => false,
            _ => return Ok(Accepted::All),
        };
        if takes(request.headers(), JSON) {
            return Ok(Accepted::All);
        }
        if is_read { Ok(Accepted::NoJson) } else { Err(not_acceptable()) }
    }

    /// Returns the response, or 406 in its place. Plain text is always returned, as the clients of keys and
    /// of the version expect.
    pub(crate) fn check(self, response: Response) -> Response {
        let is_json = || is_content(response.status()) && has_json(response.headers());
        if matches!(self, Accepted::NoJson) && is_json() {
            return not_acceptable().into_response();
        }
        response
    }
}

/// A format that a client asks for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// A page for a browser.
    Html,
}

impl Format {
    /// Returns the format with the greatest weight, the first among equal ones; `None` when neither is named.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Format> {
        let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut best = None;
        for range in accepted.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let essence = parts.next().unwrap_or_default();
            let format = if essence.eq_ignore_ascii_case(JSON) {
                Format::Json
            } else if essence.eq_ignore_ascii_case("text/html") {
                Format::Html
            } else {
                continue;
            };
            let weight = parts.find_map(weight).unwrap_or(1.0);
            if weight > best.map_or(0.0, |(_, weight)| weight) {
                best = Some((format, weight));
            }
        }
        best.map(|(format, _)| format)
    }
}

fn is_content(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_FOUND
}

fn has_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with(JSON))
}

/// Returns true if one of the media ranges contains the kind; a request without ranges accepts everything.
fn takes(headers: &HeaderMap, kind: &str) -> bool {
    let group = kind.split('/').next().unwrap_or_default();
    let accepted = headers.get_all(header::ACCEPT);
    let mut ranges =
        accepted.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).peekable();
    ranges.peek().is_none()
        || ranges.any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let essence = parts.next().unwrap_or_default();
            let is_refused = parts.any(is_zero_weight);
            let is_group = || essence.strip_suffix("/*").is_some_and(|one| one.eq_ignore_ascii_case(group));
            !is_refused && (essence.eq_ignore_ascii_case(kind) || essence == "*/*" || is_group())
        })
}

fn is_zero_weight(parameter: &str) -> bool {
    weight(parameter).is_some_and(|weight| weight <= 0.0)
}

fn weight(parameter: &str) -> Option<f32> {
    parameter.strip_prefix("q=")?.parse().ok()
}

fn not_acceptable() -> ApiError {
    let message = format!("Resource representation is only available with these types:\n{JSON}");
    Refusal::plain(StatusCode::NOT_ACCEPTABLE, message).into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn takes_json(accept: &str) -> bool {
        let value = HeaderValue::from_str(accept).expect("ascii");
        takes(&HeaderMap::from_iter([(header::ACCEPT, value)]), JSON)
    }

    #[test]
    fn ranges_and_weights_decide() {
        assert!(takes(&HeaderMap::new(), JSON));
        for accept in
            ["application/json", "text/html, */*;q=0.1", "application/*", "Application/JSON; charset=utf-8"]
        {
            assert!(takes_json(accept), "{accept}");
        }
        for accept in ["text/plain", "application/xml", "application/json;q=0", "text/*"] {
            assert!(!takes_json(accept), "{accept}");
        }
    }

    #[test]
    fn named_format_with_the_greatest_weight_is_sent() {
        let of = |accept: &str| {
            let value = HeaderValue::from_str(accept).expect("ascii");
            Format::of(&HeaderMap::from_iter([(header::ACCEPT, value)]))
        };
        assert_eq!(of("text/html,application/xhtml+xml,*/*;q=0.8"), Some(Format::Html));
        assert_eq!(of("application/json"), Some(Format::Json));
        assert_eq!(of("text/html;q=0.5, application/json"), Some(Format::Json));
        assert_eq!(of("application/json;q=0"), None);
        assert_eq!(of("*/*"), None);
        assert_eq!(Format::of(&HeaderMap::new()), None);
    }
}
