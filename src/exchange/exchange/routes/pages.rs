//! Pages of long lists with their time limits: see [`evenkeel_api::Page`].

pub(super) use evenkeel_api::Page;
use evenkeel_api::{ListShape, Listing, PageSelection};

use super::page_query::{Cursor, Paging};
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

/// A list of an organization (none: of all) whose entries are members of an object, with their keys as names.
pub(super) const fn object(open: &'static str, rows: i64) -> ListShape<'static> {
    ListShape { open, close: r#"},"lastIndex":0}"#, key: "", rows }
}

/// A list whole, or the page of it that the request selects.
///
/// `org`: the organization to which all entries belong. `load` reads at most so many rows after a key; `count` counts the rows of the whole list,
/// up to a number.
///
/// # Errors
/// Those of the first page; a later one of a whole list breaks the response off. 400 for a key that is none of the list.
pub(super) async fn list_or_page<K, L, F, C, G, T, const FOUND: u16, const EMPTY: u16>(
    (shape, org): (ListShape<'static>, Option<&str>),
    Paging(selected): Paging,
    load: L,
    count: C,
) -> Result<Listing<T, FOUND, EMPTY>, ApiError>
where
    K: Cursor + Send + 'static,
    L: Fn(Option<K>, i64) -> F + Send + 'static,
    F: Future<Output = Result<Page<K>, ApiError>> + Send + 'static,
    C: FnOnce(i64) -> G + Send,
    G: Future<Output = Result<i64, ApiError>> + Send,
{
    let Some(selected) = selected else {
        return list(shape.open, shape.close, move |after| load(after, shape.rows)).await;
    };
    let from = selected.after.as_deref().map(|after| K::of_text(after, org)).transpose()?;
    let filter = selected.filter.map(|filter| -> evenkeel_api::ElementFilter {
        Box::new(move |key, entry| filter.selects(key, entry))
    });
    let selection = PageSelection { limit: selected.limit, filter, is_counted: selected.is_counted };
    Listing::selected(shape, selection, from, load, count).await
}
