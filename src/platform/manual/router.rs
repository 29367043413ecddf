//! Routes of the pages.

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, RawQuery};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use evenkeel_pages::{Cache, find_asset, page, redirect};
use evenkeel_runtime::health::Health;
use serde::Deserialize;

use crate::address::respond;
use crate::book::{COMPRESSED_INDEX, INDEX_HREF, OVERVIEW};
use crate::search::{search_page, unreadable_query};
use crate::start_page::{Home, get_home};

/// Returns `GET /`, the manual and the assets of all pages for a listener of a process with this role, which serves the API document or not.
pub fn router(health: &Health, role: &'static str, has_document: bool) -> Router {
    let home = Home { health: health.clone(), role, has_document };
    Router::new()
        .route("/", get(get_home))
        .route("/assets/{name}", get(get_asset))
        .route("/manual", get(get_overview))
        .route("/manual/", get(async || sent(redirect("/manual"))))
        .route("/manual/search", get(get_search))
        .route("/manual/{*path}", get(get_manual))
        .with_state(home)
}

#[derive(Deserialize)]
struct Search {
    #[serde(default)]
    q: String,
}

async fn get_overview(headers: HeaderMap) -> Response {
    sent(OVERVIEW.stored("text/html; charset=utf-8").respond(&headers, Cache::Revalidate))
}

async fn get_manual(Path(path): Path<String>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    match respond(&path, query.as_deref(), &headers) {
        Some(response) => sent(response),
        None => (StatusCode::NOT_FOUND, "The manual has no such page.\n").into_response(),
    }
}

async fn get_search(query: Result<Query<Search>, QueryRejection>) -> Response {
    let (status, html) = match query {
        Ok(Query(search)) => search_page(&search.q),
        Err(_) => unreadable_query(),
    };
    sent(page(status, html))
}

async fn get_asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let index = COMPRESSED_INDEX.stored("text/plain; charset=utf-8");
    let is_index = INDEX_HREF.strip_prefix("/assets/") == Some(name.as_str());
    match find_asset(&name).map(evenkeel_pages::Asset::body).or(is_index.then_some(&index)) {
        Some(body) => sent(body.respond(&headers, Cache::Immutable)),
        None => (StatusCode::NOT_FOUND, "There is no such asset.\n").into_response(),
    }
}

/// Returns a response of the crate `pages` as one of the server.
fn sent(response: axum::http::Response<bytes::Bytes>) -> Response {
    response.map(Body::from)
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, header};
    use evenkeel_pages::{SCRIPT, STYLE};
    use evenkeel_runtime::metrics::Metrics;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    use super::*;

    /// Bytes of style, script and index, compressed.
    const MOST_BYTES: usize = 80_000;

    async fn get(path: &str, encoding: &str) -> (Response<()>, Vec<u8>) {
        let health = Health::new("1.2.3", CancellationToken::new(), Metrics::default());
        let request = Request::get(path)
            .header(header::ACCEPT_ENCODING, encoding)
            .body(Body::empty())
            .expect("a request");
        let response = router(&health, "hub", true).oneshot(request).await.expect("a response");
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body").to_vec();
        (Response::from_parts(parts, ()), body)
    }

    #[tokio::test]
    async fn assets_are_small_compressed_and_kept_forever() {
        let mut bytes = 0;
        for href in [STYLE.href(), SCRIPT.href(), INDEX_HREF] {
            let (response, body) = get(href, "gzip").await;
            assert_eq!(response.status(), StatusCode::OK, "{href}");
            assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip", "{href}");
            assert!(
                response.headers()[header::CACHE_CONTROL].to_str().expect("ASCII").contains("immutable"),
                "{href}"
            );
            bytes += body.len();
            let (_, plain) = get(href, "identity").await;
            assert_eq!(evenkeel_pages::decompress(&body), plain, "{href}");
        }
        assert!(bytes < MOST_BYTES, "{bytes} bytes");
        assert_eq!(get("/assets/none.css", "gzip").await.0.status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn addresses_of_the_manual_respond() {
        for (path, status) in [
            ("/manual", 200),
            ("/manual/", 308),
            ("/manual/adr/README", 200),
            ("/manual/adr/README.md", 200),
            ("/manual/none", 404),
            ("/manual/search", 200),
            ("/manual/search?q=drain+node", 200),
            ("/manual/search?q=%ff&q=b", 400),
            ("/", 200),
        ] {
            assert_eq!(get(path, "identity").await.0.status().as_u16(), status, "{path}");
        }
        let long = format!("/manual/search?q={}", "x".repeat(201));
        assert_eq!(get(&long, "identity").await.0.status(), StatusCode::BAD_REQUEST);
    }
}
