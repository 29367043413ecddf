//! Long answers, sent piece by piece: memory does not grow with the fleet.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use evenkeel_store::StoreError;
use futures_util::{StreamExt, stream};
use http::header;
use serde_json::Value;

/// Elements of one page.
pub(super) const PAGE: usize = 500;

/// Some elements, and where the next page begins.
pub(super) struct Page<K> {
    /// The elements.
    pub elements: Vec<Value>,
    /// `None` ends the list.
    pub next: Option<K>,
}

/// Answers a JSON array between `open` and `close`.
///
/// # Errors
/// Those of the first page; a later one breaks the answer off, which clients see as a failed transfer.
pub(super) async fn answer<K, L, F>(
    open: String,
    close: &'static str,
    load: L,
) -> Result<Response, StoreError>
where
    K: Send + 'static,
    L: Fn(Option<K>) -> F + Send + 'static,
    F: Future<Output = Result<Page<K>, StoreError>> + Send + 'static,
{
    let first = load(None).await?;
    let mut start = open;
    let mut is_begun = append(&mut start, &first.elements, false);
    let rest = stream::unfold((first.next, load), |(place, load)| async move {
        let page = load(Some(place?)).await;
        let (page, next) = match page {
            Ok(page) => (Ok(page.elements), page.next),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a list broke off");
                (Err(std::io::Error::other("the list broke off")), None)
            }
        };
        Some((page, (next, load)))
    });
    let rest = rest.map(move |page| {
        page.map(|elements| {
            let mut text = String::new();
            is_begun = append(&mut text, &elements, is_begun);
            Bytes::from(text)
        })
    });
    let pieces = stream::once(async { Ok(Bytes::from(start)) })
        .chain(rest)
        .chain(stream::once(async move { Ok(Bytes::from_static(close.as_bytes())) }));
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(pieces)).into_response())
}

/// Writes elements, with a comma before them when others were written before; tells whether there are any by now.
fn append(text: &mut String, elements: &[Value], is_begun: bool) -> bool {
    let mut is_begun = is_begun;
    for element in elements {
        if is_begun {
            text.push(',');
        }
        text.push_str(&element.to_string());
        is_begun = true;
    }
    is_begun
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn pages_and_empty_pages_make_one_array() {
        for count in [0_u64, 1, 2, 3, 7] {
            let load = move |from: Option<u64>| async move {
                let from = from.unwrap_or_default();
                // Every other page holds nothing.
                let elements =
                    (from..count).take(usize::from(from.is_multiple_of(2))).map(Value::from).collect();
                Ok(Page { elements, next: (from + 1 < count).then_some(from + 1) })
            };
            let response = answer("{\"a\":[".to_owned(), "]}", load).await.expect("first page");
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("body");
            let expected: Vec<u64> = (0..count).filter(|number| number % 2 == 0).collect();
            assert_eq!(serde_json::from_slice::<Value>(&bytes).expect("JSON"), json!({"a": expected}));
        }
    }
}
