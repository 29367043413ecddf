//! One page of a list for a caller who asks for it: the elements after a key, at most so many, and only those that a filter selects.
//!
//! The elements are those of the whole list, so a page shows nothing that the list does not show to the caller, and a filter reads nothing else.

use std::error::Error;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::pages::{Element, Page, PageError};
use crate::response::Listing;

/// Elements that one request examines for a filter, and as many for the count.
pub const MAX_EXAMINED: usize = 2_000;
/// Highest count of a list without a filter.
pub const MAX_COUNT: i64 = 100_000;
/// A page ends with the element that exceeds so many bytes.
const PAGE_BYTES: usize = 4 << 20;
/// A request examines no further element after so many bytes.
const EXAMINED_BYTES: usize = 32 << 20;
/// Rows that the first statement for a filter reads at least: few, for most filters select much.
const FIRST_ROWS: usize = 100;

/// Decides by its key and its value whether an element is selected.
pub type ElementFilter = Box<dyn Fn(&str, &Value) -> bool + Send + Sync>;

/// PageSelection of a page.
pub struct PageSelection {
    /// Most elements.
    pub limit: usize,
    /// Only those that it selects.
    pub filter: Option<ElementFilter>,
    /// Count the elements of all pages.
    pub is_counted: bool,
}

/// Shape of a list.
#[derive(Clone, Copy)]
pub struct ListShape<'s> {
    /// The text that precedes the elements.
    pub open: &'s str,
    /// The text that follows them, the end of an object.
    pub close: &'static str,
    /// Member that is the key of an element; not used by lists whose elements are members of an object.
    pub key: &'static str,
    /// Most rows that one statement reads.
    pub rows: i64,
}

impl<T, const FOUND: u16, const EMPTY: u16> Listing<T, FOUND, EMPTY> {
    /// One page of a list, with `next` and `count` beside its elements. `load` reads at most so many rows after a key, `count` counts the rows of
    /// the whole list, up to a number.
    ///
    /// A list without elements has the status of an empty list only on its first page.
    ///
    /// # Errors
    /// Those of `load` and `count`.
    pub async fn selected<K, L, F, C, G, E>(
        shape: ListShape<'_>,
        selection: PageSelection,
        from: Option<K>,
        load: L,
        count: C,
    ) -> Result<Self, E>
    where
        L: Fn(Option<K>, i64) -> F,
        F: Future<Output = Result<Page<K>, E>>,
        C: FnOnce(i64) -> G,
        G: Future<Output = Result<i64, E>>,
        E: Error + From<PageError>,
    {
        let is_first = from.is_none();
        let mut scan = Scan::new(shape, selection);
        scan.run(from, &load).await?;
        let mut end = Map::new();
        if let Some(next) = scan.next.take() {
            end.insert("next".to_owned(), json!(next));
        }
        let is_empty = scan.json.is_empty() && is_first && end.is_empty();
        if scan.selection.is_counted {
            let (number, is_minimum) = match scan.selection.filter.take() {
                Some(filter) => counted(shape, filter, &load).await?,
                None => {
                    let found = count(MAX_COUNT + 1).await?;
                    (found.min(MAX_COUNT).unsigned_abs(), found > MAX_COUNT)
                }
            };
            end.insert("count".to_owned(), json!(number));
            if is_minimum {
                end.insert("countIsMinimum".to_owned(), json!(true));
            }
        }
        Ok(Self::sent(response(Self::status(is_empty), shape, &scan.json, &end)))
    }
}

/// Counts the elements that a filter selects among the first ones of the list, and returns whether there are more to examine.
async fn counted<K, L, F, E>(shape: ListShape<'_>, filter: ElementFilter, load: &L) -> Result<(u64, bool), E>
where
    L: Fn(Option<K>, i64) -> F,
    F: Future<Output = Result<Page<K>, E>>,
    E: From<PageError>,
{
    let mut scan =
        Scan::new(shape, PageSelection { limit: usize::MAX, filter: Some(filter), is_counted: true });
    scan.run(None, load).await?;
    Ok((scan.taken as u64, scan.next.is_some()))
}

/// Elements read one after the other until the page is full.
struct Scan<'s> {
    shape: ListShape<'s>,
    selection: PageSelection,
    /// The selected elements, with commas between them; none are kept when they are only counted.
    json: Vec<u8>,
    taken: usize,
    examined: usize,
    examined_bytes: usize,
    /// Key of the element before the current one.
    last: Option<String>,
    /// Key of the last selected element, once the page is full.
    last_taken: Option<String>,
    next: Option<String>,
}

impl<'s> Scan<'s> {
    fn new(shape: ListShape<'s>, selection: PageSelection) -> Self {
        Self {
            shape,
            selection,
            json: Vec::new(),
            taken: 0,
            examined: 0,
            examined_bytes: 0,
            last: None,
            last_taken: None,
            next: None,
        }
    }

    async fn run<K, L, F, E>(&mut self, from: Option<K>, load: &L) -> Result<(), E>
    where
        L: Fn(Option<K>, i64) -> F,
        F: Future<Output = Result<Page<K>, E>>,
        E: From<PageError>,
    {
        let mut position = from;
        loop {
            let mut page = load(position.take(), self.rows()).await?;
            if self.take(&mut page)? {
                return Ok(());
            }
            position = page.next;
            if position.is_none() {
                return Ok(());
            }
        }
    }

    /// Rows that are worth reading: one more than can be taken, which shows that there is a next page.
    fn rows(&self) -> i64 {
        let missing = self.selection.limit.saturating_sub(self.taken).saturating_add(1);
        let wanted = match self.selection.filter {
            None => missing,
            Some(_) if self.examined == 0 => missing.max(FIRST_ROWS),
            Some(_) => MAX_EXAMINED - self.examined + 1,
        };
        i64::try_from(wanted).unwrap_or(i64::MAX).clamp(1, self.shape.rows)
    }

    /// Takes the selected elements of some rows; true when the page has ended.
    fn take<K>(&mut self, page: &mut Page<K>) -> Result<bool, PageError> {
        page.split()?;
        for element in &page.elements {
            if self.has_ended() {
                self.next = self.last.take();
                return Ok(true);
            }
            let text = &page.json[element.start..element.end];
            let (key, is_selected) = match &self.selection.filter {
                None => (None, true),
                Some(filter) => {
                    let read;
                    let value = match &element.subject {
                        Some(subject) => subject,
                        None => {
                            read = element.parse(&page.json)?;
                            &read
                        }
                    };
                    let key = element.key(&page.json, self.shape.key)?;
                    let is_selected = filter(&key, value);
                    (Some(key), is_selected)
                }
            };
            let is_full = self.taken >= self.selection.limit || self.json.len() > PAGE_BYTES;
            if is_selected && is_full {
                self.next = self.last_taken.take();
                return Ok(true);
            }
            self.examined += 1;
            self.examined_bytes += text.len();
            if is_selected {
                self.taken += 1;
                self.keep(text);
                let is_full = self.taken >= self.selection.limit || self.json.len() > PAGE_BYTES;
                if is_full {
                    self.last_taken = Some(match &key {
                        Some(key) => key.clone(),
                        None => element.key(&page.json, self.shape.key)?,
                    });
                }
            }
            if key.is_some() {
                self.last = key;
            }
        }
        Ok(false)
    }

    /// True when no further element is examined for the filter.
    fn has_ended(&self) -> bool {
        let is_filtered = self.selection.filter.is_some();
        is_filtered && (self.examined >= MAX_EXAMINED || self.examined_bytes > EXAMINED_BYTES)
    }

    fn keep(&mut self, text: &[u8]) {
        // Without a limit, they are only counted.
        if self.selection.limit == usize::MAX {
            return;
        }
        if !self.json.is_empty() {
            self.json.push(b',');
        }
        self.json.extend_from_slice(text);
    }
}

impl<K> Page<K> {
    /// Finds the elements of an array that the database has written.
    fn split(&mut self) -> Result<(), PageError> {
        if !self.elements.is_empty() || self.json.is_empty() {
            return Ok(());
        }
        let array = [b"[", &self.json[..], b"]"].concat();
        let values: Vec<&RawValue> = serde_json::from_slice(&array).map_err(PageError)?;
        self.json.clear();
        values.into_iter().try_for_each(|value| self.push(&value))
    }
}

impl Element {
    fn parse(&self, json: &[u8]) -> Result<Value, PageError> {
        serde_json::from_slice(&json[self.value..self.end]).map_err(PageError)
    }

    /// Key by which the next page is asked for.
    fn key(&self, json: &[u8], member: &str) -> Result<String, PageError> {
        if let Some(key) = &self.key {
            return Ok(key.clone());
        }
        if self.value > self.start {
            // Without the colon.
            return serde_json::from_slice(&json[self.start..self.value - 1]).map_err(PageError);
        }
        let members =
            Members::deserialize(&mut serde_json::Deserializer::from_slice(&json[self.value..self.end]));
        let key = members.map_err(PageError)?.remove(member);
        Ok(key.and_then(|key| key.as_str().map(str::to_owned)).unwrap_or_default())
    }
}

type Members = Map<String, Value>;

// Apart from what is generic, so that it is compiled once.
fn response(
    status: http::StatusCode,
    shape: ListShape<'_>,
    elements: &[u8],
    end: &Map<String, Value>,
) -> Response {
    let close = shape.close.strip_suffix('}').unwrap_or(shape.close);
    let mut body = Vec::with_capacity(shape.open.len() + elements.len() + close.len() + 64);
    body.extend_from_slice(shape.open.as_bytes());
    body.extend_from_slice(elements);
    body.extend_from_slice(close.as_bytes());
    for (name, value) in end {
        body.extend_from_slice(format!(",{}:{value}", json!(name)).as_bytes());
    }
    body.push(b'}');
    let mut response = (status, Body::from(body)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::response::List;

    const SHAPE: ListShape<'_> =
        ListShape { open: r#"{"a":{"#, close: r#"},"lastIndex":0}"#, key: "", rows: 300 };

    /// Numbers below 5,000 with four digits as names, from the one after the given one.
    async fn numbers(after: Option<u32>, rows: i64) -> Result<Page<u32>, PageError> {
        let from = after.map_or(0, |last| last + 1);
        let found: Vec<u32> = (from..5_000).take(usize::try_from(rows).unwrap()).collect();
        Page::object(found, rows, |number| *number, |number| (format!("{number:04}"), number))
    }

    async fn read(limit: usize, filter: Option<ElementFilter>, from: Option<u32>) -> (StatusCode, Value) {
        let selection = PageSelection { limit, filter, is_counted: true };
        let count = |most: i64| async move { Ok(most.min(5_000)) };
        let list = List::<Value>::selected(SHAPE, selection, from, numbers, count).await;
        let response = list.expect("a page").into_response();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("body");
        (status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    fn every(nth: u64) -> ElementFilter {
        Box::new(move |_, value| value.as_u64().is_some_and(|number| number % nth == 0))
    }

    #[tokio::test]
    async fn page_ends_with_the_key_of_its_last_element_unless_it_is_the_last_page() {
        let (status, page) = read(700, None, Some(99)).await;
        assert_eq!((status, page["a"].as_object().map(Map::len)), (StatusCode::OK, Some(700)));
        assert_eq!(
            (&page["next"], &page["count"], &page["lastIndex"]),
            (&json!("0799"), &json!(5000), &json!(0))
        );
        let (_, page) = read(100, None, Some(4_899)).await;
        assert_eq!((page["a"].as_object().map(Map::len), page.get("next")), (Some(100), None));
    }

    #[tokio::test]
    async fn empty_list_has_its_status_on_the_first_page_only() {
        let (status, page) = read(10, None, Some(4_999)).await;
        assert_eq!((status, &page["a"], page.get("next")), (StatusCode::OK, &json!({}), None));
        let none: Option<ElementFilter> = Some(Box::new(|_, _| false));
        let selection = PageSelection { limit: 10, filter: none, is_counted: false };
        let few = |after: Option<u32>, rows| async move {
            if after.is_some() { Ok(Page::new()) } else { numbers(Some(4_990), rows).await }
        };
        let list = List::<Value>::selected(SHAPE, selection, None, few, |_| async { Ok(0) }).await;
        let status = list.map(|list: List<Value>| list.into_response().status());
        assert_eq!(status.map_err(|error: PageError| error.to_string()), Ok(StatusCode::NOT_FOUND));
    }

    #[tokio::test]
    async fn filter_examines_a_bounded_number_of_elements_and_continues_behind_them() {
        // Two of three pages are read to their end without an element.
        let (status, page) = read(10, Some(every(4_999)), Some(0)).await;
        assert_eq!((status, &page["a"], &page["next"]), (StatusCode::OK, &json!({}), &json!("2000")));
        let (_, page) = read(10, Some(every(4_999)), Some(2_000)).await;
        assert_eq!((&page["a"], &page["next"]), (&json!({}), &json!("4000")));
        let (_, page) = read(10, Some(every(4_999)), Some(4_000)).await;
        assert_eq!((&page["a"], page.get("next")), (&json!({"4999": 4999}), None));
        // The count begins at the start of the list.
        assert_eq!((&page["count"], &page["countIsMinimum"]), (&json!(1), &json!(true)));
    }

    #[tokio::test]
    async fn union_of_filtered_pages_is_the_whole_selection() {
        for limit in [1, 7, 250] {
            let (mut found, mut from) = (Vec::new(), None);
            loop {
                let (_, page) = read(limit, Some(every(37)), from).await;
                let elements = page["a"].as_object().expect("an object");
                assert!(elements.len() <= limit);
                found.extend(elements.values().filter_map(Value::as_u64));
                let Some(next) = page.get("next").and_then(Value::as_str) else { break };
                from = next.parse().ok();
            }
            assert_eq!(found, (0..5_000).step_by(37).collect::<Vec<u64>>(), "{limit}");
        }
    }

    #[tokio::test]
    async fn elements_written_by_the_database_have_their_keys_in_a_member() {
        let shape = ListShape { open: r#"{"g":["#, close: "]}", key: "name", rows: 10 };
        let load = |_: Option<String>, _| async {
            let text = r#"{"name":"a","members":["x,]"]},{"name":"b"},{"name":"c"}"#;
            Ok::<_, PageError>(Page::written(text.to_owned(), None))
        };
        let selection = PageSelection { limit: 2, filter: None, is_counted: false };
        let list = List::<Value>::selected(shape, selection, None, load, |_| async { Ok(0) }).await;
        let response = list.expect("a page").into_response();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("body");
        let page: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(page, json!({"g": [{"name": "a", "members": ["x,]"]}, {"name": "b"}], "next": "b"}));
    }

    #[tokio::test]
    async fn page_of_large_elements_ends_early() {
        let text = "x".repeat(1 << 20);
        let load = |after: Option<u32>, rows: i64| {
            let text = text.clone();
            async move {
                let from = after.map_or(0, |last| last + 1);
                let rows_found: Vec<u32> = (from..20).take(usize::try_from(rows).unwrap()).collect();
                Page::object(rows_found, rows, |number| *number, |number| (number.to_string(), text.clone()))
            }
        };
        let selection = PageSelection { limit: 20, filter: None, is_counted: false };
        let list = List::<Value>::selected(SHAPE, selection, None, load, |_| async { Ok(0) }).await;
        let response = list.map_err(|error: PageError| error.to_string()).expect("a page").into_response();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("body");
        let page: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!((page["a"].as_object().map(Map::len), &page["next"]), (Some(4), &json!("3")));
    }
}
