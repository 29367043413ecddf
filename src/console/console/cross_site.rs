//! Refuses requests that pages of other sites send.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, header};

/// Lets a request through unless it changes something and comes from a page of another site.
///
/// The cookie is not sent with such requests either (`SameSite=Strict`); a browser that does not know that sends at least `Origin`.
pub(crate) async fn refuse(request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read || is_own(request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "requests of other sites are refused\n").into_response()
}

/// Returns whether a request comes from a page of this site.
fn is_own(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site")) {
        return matches!(site, "same-origin" | "none");
    }
    let host = text(header::HOST);
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, origin)| Some(origin) == host)
}

/// Returns whether a link was followed on a page of this site, or typed. A browser that does not say so is believed.
pub(crate) fn is_followed_here(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    site.is_none_or(|site| matches!(site, "same-origin" | "none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn only_pages_of_this_site_change_anything() {
        for (pairs, is_accepted) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site"), ("host", "h"), ("origin", "http://h")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("host", "hub:8080"), ("origin", "http://hub:8080")], true),
            (&[("host", "hub:8080"), ("origin", "http://hub:8081")], false),
            (&[("host", "hub:8080"), ("origin", "null")], false),
            (&[("host", "hub:8080")], false),
        ] {
            assert_eq!(is_own(&headers(pairs)), is_accepted, "{pairs:?}");
        }
    }

    #[test]
    fn links_of_other_sites_begin_nothing() {
        for (site, is_followed) in [
            (Some("same-origin"), true),
            (Some("none"), true),
            (None, true),
            (Some("cross-site"), false),
            (Some("same-site"), false),
        ] {
            let pairs: Vec<_> = site.map(|site| ("sec-fetch-site", site)).into_iter().collect();
            assert_eq!(is_followed_here(&headers(&pairs)), is_followed, "{site:?}");
        }
    }
}
