//! Responses that carry pages and assets.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::compression::decompress;

/// Everything comes from the listener itself, and nothing stands inside a page that would have to be trusted there.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'self'; frame-ancestors 'none'",
);
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Time for which a client may keep a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Under this address there is never another content.
    Immutable,
    /// Until the next request, which may find that nothing has changed.
    Revalidate,
}

/// A body that the program contains, compressed.
#[derive(Clone, Debug)]
pub struct StoredBody {
    pub content_type: &'static str,
    /// Changes with the content; letters and digits.
    pub etag: Cow<'static, str>,
    pub gzip: Bytes,
}

impl StoredBody {
    /// Returns the response to a request with these headers: the body in an encoding that the client reads, or none if the client
    /// has it.
    #[must_use]
    pub fn respond(&self, request: &HeaderMap, cache: Cache) -> Response<Bytes> {
        // Weak, because the same tag stands for both encodings.
        let etag = format!("W/\"{}\"", self.etag);
        let is_known = lists(request, header::IF_NONE_MATCH, |one| one == etag || one == "*");
        let mut response = if is_known {
            status(StatusCode::NOT_MODIFIED)
        } else if accepts_gzip(request) {
            let mut response = Response::new(self.gzip.clone());
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        } else {
            Response::new(Bytes::from(decompress(&self.gzip)))
        };
        let headers = response.headers_mut();
        let kept = match cache {
            Cache::Immutable => "public, max-age=31536000, immutable",
            Cache::Revalidate => "no-cache",
        };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
        headers.insert(header::ETAG, HeaderValue::try_from(etag).expect("tags are letters and digits"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if self.content_type.starts_with("text/html") {
            headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        }
        response
    }
}

/// Returns the response with a page that was made for one request.
#[must_use]
pub fn page(code: StatusCode, html: String) -> Response<Bytes> {
    let mut response = status(code);
    *response.body_mut() = Bytes::from(html);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HTML);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// Returns a permanent redirection to an address of this listener.
#[must_use]
pub fn redirect(address: &str) -> Response<Bytes> {
    let mut response = status(StatusCode::PERMANENT_REDIRECT);
    let location = HeaderValue::try_from(address).expect("addresses of pages are ASCII");
    response.headers_mut().insert(header::LOCATION, location);
    response
}

fn status(code: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = code;
    response
}

/// Returns true if a member of a header that is a list matches.
fn lists(request: &HeaderMap, name: header::HeaderName, matches: impl Fn(&str) -> bool) -> bool {
    let values = request.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|member| matches(member.trim()))
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    lists(request, header::ACCEPT_ENCODING, |member| {
        let (coding, weight) = member.split_once(';').unwrap_or((member, "q=1"));
        let weight: f32 = weight.trim().trim_start_matches("q=").parse().unwrap_or(0.0);
        matches!(coding.trim(), "gzip" | "*") && weight > 0.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::compress;

    const TEXT: &str = "<p>Text</p>";

    fn stored() -> StoredBody {
        let gzip = Bytes::from(compress(TEXT.as_bytes()));
        StoredBody { content_type: "text/html; charset=utf-8", etag: "abc".into(), gzip }
    }

    fn respond(name: header::HeaderName, value: &'static str) -> Response<Bytes> {
        let request = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        stored().respond(&request, Cache::Revalidate)
    }

    #[test]
    fn encoding_is_one_that_the_client_reads() {
        for accepted in ["gzip", "br, gzip", "gzip;q=0.5", "*"] {
            let response = respond(header::ACCEPT_ENCODING, accepted);
            assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip", "{accepted}");
            assert_eq!(decompress(response.body()), TEXT.as_bytes());
        }
        for refused in ["", "br", "gzip;q=0", "identity"] {
            let response = respond(header::ACCEPT_ENCODING, refused);
            assert!(!response.headers().contains_key(header::CONTENT_ENCODING), "{refused}");
            assert_eq!(response.body(), TEXT);
        }
    }

    #[test]
    fn client_that_has_the_body_gets_none() {
        for known in ["W/\"abc\"", "\"x\", W/\"abc\"", "*"] {
            let response = respond(header::IF_NONE_MATCH, known);
            assert_eq!((response.status(), response.body().len()), (StatusCode::NOT_MODIFIED, 0), "{known}");
        }
        let response = respond(header::IF_NONE_MATCH, "W/\"abd\"");
        assert_eq!((response.status(), response.body().len()), (StatusCode::OK, TEXT.len()));
        assert_eq!(response.headers()[header::ETAG], "W/\"abc\"");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-cache");
        assert_eq!(response.headers()[header::VARY], "Accept, Accept-Encoding");
    }

    #[test]
    fn assets_are_kept_forever() {
        let response = stored().respond(&HeaderMap::new(), Cache::Immutable);
        assert_eq!(response.headers()[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
    }

    #[test]
    fn pages_are_confined_to_files_of_the_listener() {
        for response in
            [stored().respond(&HeaderMap::new(), Cache::Revalidate), page(StatusCode::OK, TEXT.to_owned())]
        {
            let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("ASCII");
            assert!(!policy.contains("unsafe"), "{policy}");
            for rule in
                ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
            {
                assert!(policy.split("; ").any(|one| one == rule), "{rule}: {policy}");
            }
        }
    }
}
