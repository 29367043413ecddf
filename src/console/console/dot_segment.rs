//! Addresses with a segment `.` or `..`.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use percent_encoding::percent_decode_str;

use crate::page;

/// Responds that there is no such page: no object has such a name, and the API would be asked at an address that others resolve.
pub(crate) async fn refuse(request: Request, next: Next) -> Response {
    if has_dot_segment(request.uri().path()) { page::missing().await } else { next.run(request).await }
}

/// Returns whether a path has a segment that stands for a directory, encoded or not.
fn has_dot_segment(path: &str) -> bool {
    path.split('/').any(|segment| {
        let decoded: Vec<u8> = percent_decode_str(segment).collect();
        matches!(decoded.as_slice(), b"." | b"..")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded_first() {
        for path in ["/console/orgs/%2E%2E", "/console/orgs/%2e./now", "/console/./orgs", "/console/orgs/.."]
        {
            assert!(has_dot_segment(path), "{path}");
        }
        for path in
            ["/console/orgs/a..b", "/console/orgs/...", "/console/assets/console.css", "/console/orgs/%252E"]
        {
            assert!(!has_dot_segment(path), "{path}");
        }
    }
}
