//! Pages of long lists with their time limits: see [`evenkeel_api::Page`].

use evenkeel_api::Listing;
pub(super) use evenkeel_api::Page;

use crate::ApiError;

/// Rows that one statement reads.
pub(super) const PAGE_ROWS: i64 = 1_000;

/// The same for resources that may be as large as a request body.
pub(super) const LARGE_PAGE_ROWS: i64 = 100;

/// A list between `open` and `close`, sent page by page.
///
/// # Errors
/// Those of the first page; a later one breaks the response off, which clients see as a failed transfer.
pub(super) async fn list<K, L, F, T, const FOUND: u16, const EMPTY: u16>(
    open: &'static str,
    close: &'static str,
    load: L,
) -> Result<Listing<T, FOUND, EMPTY>, ApiError>
where
    K: Send + 'static,
    L: Fn(Option<K>) -> F + Send + 'static,
    F: Future<Output = Result<Page<K>, ApiError>> + Send + 'static,
{
    Listing::paged(open, close, load).await
}
