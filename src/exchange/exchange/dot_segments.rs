//! Dot segments of paths, resolved before anything is routed or judged by its path.
//!
//! Source: RFC 3986 (5.2.4, which the reference follows for every request).

use axum::extract::Request;
use http::Uri;
use http::uri::PathAndQuery;

/// Rewrites the target of a request whose path has dot segments. Requests without them, nearly all, are left alone.
pub(crate) fn resolve_dot_segments(request: &mut Request) {
    let Some(path) = resolved(request.uri().path()) else { return };
    let target = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = request.uri().clone().into_parts();
    let Ok(target) = PathAndQuery::try_from(target) else { return };
    parts.path_and_query = Some(target);
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// Returns the path without dot segments; `None` when it has none.
fn resolved(path: &str) -> Option<String> {
    let segments = path.strip_prefix('/')?.split('/');
    if !segments.clone().any(|segment| dots(segment) > 0) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_in_directory = false;
    for segment in segments {
        ends_in_directory = dots(segment) > 0;
        match dots(segment) {
            0 => kept.push(segment),
            1 => {}
            _ => {
                kept.pop();
            }
        }
    }
    if ends_in_directory {
        kept.push("");
    }
    Some(format!("/{}", kept.join("/")))
}

/// Returns how many dots, encoded or not, make up a segment: 1 or 2, or 0 for every other segment.
fn dots(segment: &str) -> usize {
    let mut rest = segment;
    let mut count = 0;
    while !rest.is_empty() {
        let Some(after) = rest.strip_prefix('.').or_else(|| encoded_dot(rest)) else { return 0 };
        (rest, count) = (after, count + 1);
        if count > 2 {
            return 0;
        }
    }
    count
}

fn encoded_dot(text: &str) -> Option<&str> {
    let start = text.get(..3)?;
    start.eq_ignore_ascii_case("%2e").then(|| &text[3..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_resolved() {
        for (path, expected) in [
            ("/v1/orgs/o/nodes/../agbots", "/v1/orgs/o/agbots"),
            ("/v1/./orgs", "/v1/orgs"),
            ("/v1/orgs/%2e%2E/orgs/o", "/v1/orgs/o"),
            ("/v1/orgs/.%2e/orgs/o", "/v1/orgs/o"),
            ("/v1/orgs/o/nodes/.", "/v1/orgs/o/nodes/"),
            ("/v1/orgs/o/nodes/..", "/v1/orgs/o/"),
            ("/../../v1/orgs", "/v1/orgs"),
            ("/..", "/"),
        ] {
            assert_eq!(resolved(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn other_paths_stay_as_they_are() {
        for path in
            ["/v1/orgs/o/nodes/.n", "/v1/orgs/o/nodes/...", "/v1//orgs", "/", "*", "/v1/a.b/%2ex", "/v1/ä"]
        {
            assert_eq!(resolved(path), None, "{path}");
        }
    }
}
