//! Long lists, sent page by page: memory does not grow with the fleet, and no connection to the database waits for a slow client.
use std::error::Error;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value;

use crate::response::Listing;

/// An element of a list that cannot be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("a response cannot be written as JSON: {0}")]
pub struct PageError(pub(crate) serde_json::Error);

/// Elements of a list as JSON, and where the next page begins.
pub struct Page<K> {
    pub(crate) json: Vec<u8>,
    pub(crate) elements: Vec<Element>,
    pub(crate) next: Option<K>,
}

/// Position of an element in the JSON of its page, without the comma before it.
pub(crate) struct Element {
    pub(crate) start: usize,
    /// Begin of the value; the same as the start in an array.
    pub(crate) value: usize,
    pub(crate) end: usize,
    /// The value that filters read instead.
    pub(crate) subject: Option<Value>,
    /// The key, unless it is a member of the value.
    pub(crate) key: Option<String>,
}

impl<K> Default for Page<K> {
    fn default() -> Page<K> {
        Page::new()
    }
}

impl<K> Page<K> {
    /// An empty page.
    pub fn new() -> Page<K> {
        Page { json: Vec::new(), elements: Vec::new(), next: None }
    }

    /// A page whose elements the database has written, with commas between them, and where the next one begins.
    #[must_use]
    pub fn written(json: String, next: Option<K>) -> Page<K> {
        Page { json: json.into_bytes(), elements: Vec::new(), next }
    }

    /// A page of an array: an element for each row; as many rows as the `limit` are followed by the page after the `key` of the last.
    ///
    /// # Errors
    /// For an element that cannot be written as JSON.
    pub fn array<R, T: Serialize>(
        rows: Vec<R>,
        limit: i64,
        key: impl FnOnce(&R) -> K,
        element: impl Fn(R) -> T,
    ) -> Result<Page<K>, PageError> {
        let mut page = Page::after(&rows, limit, key);
        rows.into_iter().try_for_each(|row| page.push(&element(row)))?;
        Ok(page)
    }

    /// A page of an object: a member for each row, otherwise as [`Page::array`].
    ///
    /// # Errors
    /// For a value that cannot be written as JSON.
    pub fn object<R, N: AsRef<str>, T: Serialize>(
        rows: Vec<R>,
        limit: i64,
        key: impl FnOnce(&R) -> K,
        member: impl FnMut(R) -> (N, T),
    ) -> Result<Page<K>, PageError> {
        let mut page = Page::after(&rows, limit, key);
        for (name, value) in rows.into_iter().map(member) {
            page.insert(name.as_ref(), &value)?;
        }
        Ok(page)
    }

    /// An empty page that is followed by the one after these rows, unless they are fewer than the `limit`. They are more than that when rows
    /// with the last key are read as a whole.
    pub fn after<R>(rows: &[R], limit: i64, key: impl FnOnce(&R) -> K) -> Page<K> {
        let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= limit);
        Page { next: rows.last().filter(|_| is_full).map(key), ..Page::new() }
    }

    /// Adds an element of an array.
    ///
    /// # Errors
    /// For a value that cannot be written as JSON.
    pub fn push<T: Serialize>(&mut self, element: &T) -> Result<(), PageError> {
        let start = self.begin();
        self.finish(start, start, element)
    }

    /// Adds a member of an object.
    ///
    /// # Errors
    /// For a value that cannot be written as JSON.
    pub fn insert<T: Serialize>(&mut self, name: &str, value: &T) -> Result<(), PageError> {
        let start = self.begin();
        serde_json::to_writer(&mut self.json, name).map_err(PageError)?;
        self.json.push(b':');
        self.finish(start, self.json.len(), value)
    }

    fn begin(&mut self) -> usize {
        if !self.json.is_empty() {
            self.json.push(b',');
        }
        self.json.len()
    }

    fn finish<T: Serialize>(&mut self, start: usize, value: usize, written: &T) -> Result<(), PageError> {
        serde_json::to_writer(&mut self.json, written).map_err(PageError)?;
        self.elements.push(Element { start, value, end: self.json.len(), subject: None, key: None });
        Ok(())
    }

    /// Sets what filters read instead of the last element, for elements that do not show all that can be filtered.
    pub fn set_subject(&mut self, subject: Value) {
        if let Some(last) = self.elements.last_mut() {
            last.subject = Some(subject);
        }
    }

    /// Sets the key of the last element, for elements without a member that is their key.
    pub fn set_key(&mut self, key: String) {
        if let Some(last) = self.elements.last_mut() {
            last.key = Some(key);
        }
    }

    /// Sets the position at which the next page begins.
    pub fn follow(&mut self, next: Option<K>) {
        self.next = next;
    }
}

impl<T, const FOUND: u16, const EMPTY: u16> Listing<T, FOUND, EMPTY> {
    /// A list between `open` and `close` whose pages are loaded one after the other, the first from `None`.
    ///
    /// # Errors
    /// Those of the first page; a later one breaks the response off, which clients see as a failed transfer.
    pub async fn paged<K, L, F, E>(open: impl Into<String>, close: &'static str, load: L) -> Result<Self, E>
    where
        K: Send + 'static,
        L: Fn(Option<K>) -> F + Send + 'static,
        F: Future<Output = Result<Page<K>, E>> + Send + 'static,
        E: Error + Send + Sync + 'static,
    {
        let mut first = load(None).await?;
        // A page may hold nothing though more follow, when its rows are filtered.
        while first.json.is_empty() && first.next.is_some() {
            first = load(first.next.take()).await?;
        }
        let more = first.next.map(|next| pages_from(load, next).boxed());
        let status = Self::status(first.json.is_empty());
        Ok(Self::sent(response(status, open.into(), close, first.json, more)))
    }
}

/// The elements of a page as JSON.
type PageJson = Result<Vec<u8>, Box<dyn Error + Send + Sync>>;

fn pages_from<K, L, F, E>(load: L, next: K) -> impl Stream<Item = PageJson> + Send
where
    K: Send + 'static,
    L: Fn(Option<K>) -> F + Send + 'static,
    F: Future<Output = Result<Page<K>, E>> + Send + 'static,
    E: Error + Send + Sync + 'static,
{
    stream::unfold((Some(next), load), |(next, load)| async move {
        match load(Some(next?)).await {
            Ok(page) => Some((Ok(page.json), (page.next, load))),
            Err(error) => Some((Err(error.into()), (None, load))),
        }
    })
}

// Apart from what is generic, so that it is compiled once.
fn response(
    status: StatusCode,
    open: String,
    close: &'static str,
    mut first: Vec<u8>,
    more: Option<BoxStream<'static, PageJson>>,
) -> Response {
    let mut start = open.into_bytes();
    start.reserve_exact(first.len() + close.len());
    start.append(&mut first);
    let body = match more {
        None => {
            start.extend_from_slice(close.as_bytes());
            Body::from(start)
        }
        Some(pages) => {
            let start = stream::iter([Ok(Bytes::from(start))]);
            let close = stream::iter([Ok(Bytes::from_static(close.as_bytes()))]);
            Body::from_stream(start.chain(pages.map(later_page)).chain(close))
        }
    };
    let mut response = (status, body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A page behind another one. The server breaks the response off at an error, so that nothing follows it.
fn later_page(page: PageJson) -> Result<Bytes, std::io::Error> {
    match page {
        Ok(json) if json.is_empty() => Ok(Bytes::new()),
        Ok(json) => Ok([&b","[..], &json].concat().into()),
        Err(error) => {
            tracing::warn!(error = &*error as &dyn Error, "a list broke off");
            Err(std::io::Error::other("the list broke off"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use serde_json::json;

    use super::*;
    use crate::response::{List, WholeList};

    async fn text(response: Response) -> String {
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("body");
        String::from_utf8(bytes.to_vec()).expect("UTF-8")
    }

    #[expect(clippy::unused_async, reason = "it stands for a query")]
    async fn numbers(after: Option<u32>, to: u32) -> Result<Page<u32>, io::Error> {
        let rows: Vec<u32> = (after.map_or(0, |last| last + 1)..to).take(2).collect();
        Page::object(rows, 2, |number| *number, |number| (format!("n{number}"), number))
            .map_err(io::Error::other)
    }

    #[tokio::test]
    async fn pages_of_any_number_make_one_object() {
        for (to, status, expected) in [
            (0, StatusCode::NOT_FOUND, r#"{"a":{},"lastIndex":0}"#),
            (1, StatusCode::OK, r#"{"a":{"n0":0},"lastIndex":0}"#),
            (3, StatusCode::OK, r#"{"a":{"n0":0,"n1":1,"n2":2},"lastIndex":0}"#),
            (4, StatusCode::OK, r#"{"a":{"n0":0,"n1":1,"n2":2,"n3":3},"lastIndex":0}"#),
            (5, StatusCode::OK, r#"{"a":{"n0":0,"n1":1,"n2":2,"n3":3,"n4":4},"lastIndex":0}"#),
        ] {
            let load = move |after| numbers(after, to);
            let list = List::<Value>::paged(r#"{"a":{"#, r#"},"lastIndex":0}"#, load).await;
            let response = list.expect("pages").into_response();
            assert_eq!(response.status(), status);
            assert_eq!(text(response).await, expected);
        }
    }

    #[tokio::test]
    async fn page_with_more_rows_than_its_limit_is_followed() {
        let load = |after: Option<u32>| async move {
            let rows = if after.is_none() { vec![0, 1, 1] } else { vec![2] };
            Page::array(rows, 2, |number| *number, |number| number).map_err(io::Error::other)
        };
        let list = WholeList::<Value>::paged("[", "]", load).await;
        assert_eq!(text(list.expect("pages").into_response()).await, "[0,1,1,2]");
    }

    #[tokio::test]
    async fn error_of_a_later_page_ends_the_response() {
        let load = |after: Option<u32>| async move {
            match after {
                None => numbers(None, 9).await,
                Some(_) => Err(io::Error::other("gone")),
            }
        };
        let response = List::<Value>::paged("{", "}", load).await.expect("first page").into_response();
        assert!(axum::body::to_bytes(response.into_body(), usize::MAX).await.is_err());
    }

    #[tokio::test]
    async fn pages_and_empty_pages_make_one_array() {
        for count in [0_u64, 1, 2, 3, 7] {
            let load = move |from: Option<u64>| async move {
                let from = from.unwrap_or_default();
                // Every other page holds nothing.
                let mut page = Page::new();
                if from.is_multiple_of(2) && from < count {
                    page.push(&from).map_err(io::Error::other)?;
                }
                page.follow((from + 1 < count).then_some(from + 1));
                Ok::<_, io::Error>(page)
            };
            let list = WholeList::<Value>::paged("{\"a\":[", "]}", load).await;
            let response = list.expect("first page").into_response();
            assert_eq!(response.status(), StatusCode::OK);
            let expected: Vec<u64> = (0..count).filter(|number| number % 2 == 0).collect();
            let received: Value = serde_json::from_str(&text(response).await).expect("JSON");
            assert_eq!(received, json!({"a": expected}));
        }
    }
}
