//! The audit log as a file: a record on each line, read page by page while it is sent.

use std::collections::VecDeque;

use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use bytes::Bytes;
use evenkeel_client::{Client, ClientError};
use evenkeel_wire::exchange::audit::{AuditQuery, AuditRecord, AuditResponse};
use futures_util::{Stream, stream};
use http::{HeaderValue, header};

use super::audit::ChosenRecords;
use crate::failure::Failure;
use crate::form::Query;
use crate::session::Reader;

/// Records of one request.
const PAGE: i64 = 1_000;
/// Records of a file.
const MOST: i64 = 100_000;

/// What is left of a file that is being sent.
struct Export {
    client: Client,
    org: String,
    query: AuditQuery,
    /// Pages that were read and not yet sent.
    read: VecDeque<AuditResponse>,
    left: i64,
}

/// Sends the chosen records, the oldest first, also those that nodes report about themselves: what a check of the chain needs.
pub(crate) async fn download(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let query = AuditQuery {
        after: form.number("after")?,
        limit: Some(PAGE),
        ..ChosenRecords::read(&form).query(&org)
    };
    // What is refused is refused by a page, before the file begins.
    let first = reader.client.audit_records(&org, &query).await?;
    let name = file_name(&org);
    let export = Export { client: reader.client, org, query, read: VecDeque::from([first]), left: MOST };
    let mut response = Response::new(Body::from_stream(export.lines()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let disposition = format!("attachment; filename=\"{name}\"");
    let disposition = HeaderValue::try_from(disposition).unwrap_or(HeaderValue::from_static("attachment"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    Ok(response)
}

/// Returns a name without characters that headers or file systems treat specially.
fn file_name(org: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let plain: String =
        org.chars().take(64).map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
    format!("audit-{plain}.jsonl")
}

impl Export {
    /// Returns the pages as text. A page that cannot be read breaks the transfer off, so that nobody takes a part for the whole.
    fn lines(self) -> impl Stream<Item = Result<Bytes, ClientError>> {
        stream::try_unfold(self, |mut export| async move {
            let Some(page) = export.next_page().await? else { return Ok(None) };
            Ok(Some((Bytes::from(as_lines(&page)?), export)))
        })
    }

    async fn next_page(&mut self) -> Result<Option<Vec<AuditRecord>>, ClientError> {
        if self.left <= 0 {
            return Ok(None);
        }
        let page = match self.read.pop_front() {
            Some(page) => page,
            None if self.query.after.is_none() => return Ok(None),
            None => self.client.audit_records(&self.org, &self.query).await?,
        };
        // The end is marked by a query without a position.
        self.query.after = page.next;
        let mut records = page.records;
        records.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= i64::try_from(records.len()).unwrap_or(i64::MAX);
        Ok((!records.is_empty()).then_some(records))
    }
}

fn as_lines(records: &[AuditRecord]) -> Result<String, ClientError> {
    let mut text = String::new();
    for record in records {
        text.push_str(&serde_json::to_string(record)?);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(file_name("plant-7"), "audit-plant-7.jsonl");
        assert_eq!(file_name("../\"\r\n;ü\u{202e}"), format!("audit-{}.jsonl", "-".repeat(9)));
        assert_eq!(file_name(&"x".repeat(1_000)).len(), "audit-.jsonl".len() + 64);
    }
}
