//! Long lists, sent page by page: memory does not grow with the fleet, and no connection to the database waits for a slow client.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::ApiError;

/// Rows that one statement reads.
pub(super) const PAGE_ROWS: i64 = 1_000;

/// The same for resources that may be as large as a request body.
pub(super) const LARGE_PAGE_ROWS: i64 = 100;

/// Elements of a list as JSON, and where the next page begins.
pub(super) struct Page<K> {
    json: Vec<u8>,
    next: Option<K>,
}

impl<K> Page<K> {
    /// An empty page.
    pub(super) fn new() -> Page<K> {
        Page { json: Vec::new(), next: None }
    }

    /// Adds an element of an array.
    ///
    /// # Errors
    /// 500 for a value that is no JSON.
    pub(super) fn push<T: Serialize>(&mut self, element: &T) -> Result<(), ApiError> {
        if !self.json.is_empty() {
            self.json.push(b',');
        }
        serde_json::to_writer(&mut self.json, element).map_err(not_json)
    }

    /// Adds a member of an object.
    ///
    /// # Errors
    /// 500 for a value that is no JSON.
    pub(super) fn insert<T: Serialize>(&mut self, name: &str, value: &T) -> Result<(), ApiError> {
        self.push(&name)?;
        self.json.push(b':');
        serde_json::to_writer(&mut self.json, value).map_err(not_json)
    }

    /// Nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// Tells where the next page begins.
    pub(super) fn follow(&mut self, next: Option<K>) {
        self.next = next;
    }
}

fn not_json(error: serde_json::Error) -> ApiError {
    ApiError::internal(format!("an answer could not be written as JSON: {error}"))
}

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
    let mut first = load(None).await?;
    // A page may hold nothing though more follow, when its rows are filtered here.
    while first.is_empty() && first.next.is_some() {
        first = load(first.next.take()).await?;
    }
    let status = if first.is_empty() { StatusCode::NOT_FOUND } else { status };
    let mut start = open.as_bytes().to_vec();
    start.append(&mut first.json);
    let body = match first.next {
        None => {
            start.extend_from_slice(close.as_bytes());
            Body::from(start)
        }
        Some(next) => {
            let start = stream::iter([Ok(Bytes::from(start))]);
            Body::from_stream(start.chain(rest(close, load, next)))
        }
    };
    let mut response = (status, body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

enum Place<K> {
    Page(K),
    Close,
    End,
}

fn rest<K, L, F>(
    close: &'static str,
    load: L,
    next: K,
) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> + Send
where
    K: Send + 'static,
    L: Fn(Option<K>) -> F + Send + 'static,
    F: Future<Output = Result<Page<K>, ApiError>> + Send + 'static,
{
    stream::unfold((Place::Page(next), load), move |(place, load)| async move {
        match place {
            Place::Page(key) => match load(Some(key)).await {
                Ok(page) => {
                    let mut json = Vec::with_capacity(page.json.len() + 1);
                    if !page.json.is_empty() {
                        json.push(b',');
                        json.extend_from_slice(&page.json);
                    }
                    let place = page.next.map_or(Place::Close, Place::Page);
                    Some((Ok(Bytes::from(json)), (place, load)))
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a list broke off");
                    Some((Err(std::io::Error::other("the list broke off")), (Place::End, load)))
                }
            },
            Place::Close => Some((Ok(Bytes::from_static(close.as_bytes())), (Place::End, load))),
            Place::End => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(response: Response) -> String {
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("body");
        String::from_utf8(bytes.to_vec()).expect("UTF-8")
    }

    async fn numbers(from: Option<u32>, to: u32) -> Result<Page<u32>, ApiError> {
        let from = from.unwrap_or_default();
        let mut page = Page::new();
        for number in (from..to).take(2) {
            page.insert(&format!("n{number}"), &number)?;
        }
        page.follow((from + 2 < to).then_some(from + 2));
        Ok(page)
    }

    #[tokio::test]
    async fn pages_of_any_number_make_one_object() {
        for (to, status, expected) in [
            (0, StatusCode::NOT_FOUND, r#"{"a":{},"lastIndex":0}"#),
            (1, StatusCode::OK, r#"{"a":{"n0":0},"lastIndex":0}"#),
            (3, StatusCode::OK, r#"{"a":{"n0":0,"n1":1,"n2":2},"lastIndex":0}"#),
            (5, StatusCode::OK, r#"{"a":{"n0":0,"n1":1,"n2":2,"n3":3,"n4":4},"lastIndex":0}"#),
        ] {
            let response =
                answer(StatusCode::OK, r#"{"a":{"#, r#"},"lastIndex":0}"#, move |from| numbers(from, to))
                    .await
                    .expect("pages");
            assert_eq!(response.status(), status);
            assert_eq!(text(response).await, expected);
        }
    }

    #[tokio::test]
    async fn error_of_a_later_page_breaks_the_answer_off() {
        let load = |from: Option<u32>| async move {
            match from {
                None => numbers(None, 9).await,
                Some(_) => Err(ApiError::internal("gone")),
            }
        };
        let response = answer(StatusCode::OK, "{", "}", load).await.expect("first page");
        assert!(axum::body::to_bytes(response.into_body(), usize::MAX).await.is_err());
    }
}
