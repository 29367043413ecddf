//! How long lists are read and answered: see [`evenkeel_api::Page`].

use axum::response::Response;
use evenkeel_api::Frame;
pub(super) use evenkeel_api::Page;
use http::StatusCode;

use crate::ApiError;

/// Rows that one statement reads.
pub(super) const PAGE_ROWS: i64 = 1_000;

/// The same for resources that may be as large as a request body.
pub(super) const LARGE_PAGE_ROWS: i64 = 100;

/// Answers a list between `open` and `close`: with the given status, or 404 when it is empty.
///
/// # Errors
/// Those of the first page; a later one breaks the answer off, which clients see as a failed transfer.
pub(super) async fn answer<K, L, F>(
    status: StatusCode,
    open: &'static str,
    close: &'static str,
    load: L,
) -> Result<Response, ApiError>
where
    K: Send + 'static,
    L: Fn(Option<K>) -> F + Send + 'static,
    F: Future<Output = Result<Page<K>, ApiError>> + Send + 'static,
{
    Frame { status, empty: StatusCode::NOT_FOUND, open: open.to_owned(), close }.answer(load).await
}
