//! Whether a client takes what the exchange would answer.
//!
//! Source: exchange contract 1.1, "Accept not satisfiable".

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::ApiError;

const JSON: &str = "application/json";

/// Answers 406 to who takes none of our kinds of answer: to writes before anything is done, to reads in place of the answer.
pub async fn negotiate(request: Request, next: Next) -> Response {
    let accepted: Vec<HeaderValue> = request.headers().get_all(header::ACCEPT).iter().cloned().collect();
    match *request.method() {
        Method::GET => {
            let response = next.run(request).await;
            // Texts go to everybody, as the clients of keys and of the version expect.
            let is_json = is_content(response.status()) && has_json(response.headers());
            if is_json && !takes(&accepted, JSON) { not_acceptable() } else { response }
        }
        Method::POST | Method::PUT | Method::PATCH if !takes(&accepted, JSON) => not_acceptable(),
        _ => next.run(request).await,
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

/// Whether one of the media ranges holds the kind; no range at all takes everything.
fn takes(accepted: &[HeaderValue], kind: &str) -> bool {
    let group = kind.split('/').next().unwrap_or_default();
    let mut ranges =
        accepted.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).peekable();
    ranges.peek().is_none()
        || ranges.any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
            let is_refused = parts.any(is_zero_weight);
            !is_refused && (essence == kind || essence == "*/*" || essence.strip_suffix("/*") == Some(group))
        })
}

fn is_zero_weight(parameter: &str) -> bool {
    parameter
        .strip_prefix("q=")
        .and_then(|weight| weight.parse::<f32>().ok())
        .is_some_and(|weight| weight <= 0.0)
}

fn not_acceptable() -> Response {
    ApiError::Plain {
        status: StatusCode::NOT_ACCEPTABLE,
        message: format!("Resource representation is only available with these types:\n{JSON}"),
    }
    .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes_json(accept: &str) -> bool {
        takes(&[HeaderValue::from_str(accept).expect("ascii")], JSON)
    }

    #[test]
    fn ranges_and_weights_decide() {
        assert!(takes(&[], JSON));
        for accept in
            ["application/json", "text/html, */*;q=0.1", "application/*", "Application/JSON; charset=utf-8"]
        {
            assert!(takes_json(accept), "{accept}");
        }
        for accept in ["text/plain", "application/xml", "application/json;q=0", "text/*"] {
            assert!(!takes_json(accept), "{accept}");
        }
    }
}
