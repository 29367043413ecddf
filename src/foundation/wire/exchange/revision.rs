//! Revisions of documents that persons write.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// The header with the reason for a write.
pub const REASON: &str = "x-reason";

/// One revision, without its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// Its number; later revisions of the document have greater ones, also after it was removed and created again.
    pub revision: i64,
    /// When it was written, RFC 3339 in UTC.
    pub time: String,
    /// Login of the author, `org/id`; empty when a write found the document in this state, which no revision held.
    pub author: String,
    /// Reason that the author gave; empty without one.
    pub reason: String,
    /// `create`, `update`, `delete`, or `found` for a state that a write found.
    pub operation: String,
    /// Bytes that count against the limits of revisions.
    pub bytes: i64,
}

/// Selection of revisions to list.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct RevisionsQuery {
    /// Only revisions with smaller numbers: `next` of the page before.
    #[serde(default)]
    pub after: Option<i64>,
    /// Maximum number of revisions in one response, 1 to 100 [default: 20].
    #[serde(default)]
    pub limit: Option<i64>,
}

/// Revisions, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevisionsResponse {
    /// The revisions.
    pub revisions: Vec<Revision>,
    /// `after` of the next page; absent when this was the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// The revision to compare with.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct RevisionQuery {
    /// Another revision of the document: the response contains the changes from that one to this one.
    #[serde(default)]
    pub from: Option<i64>,
}

/// One revision with its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevisionResponse {
    /// Who wrote it, when and why.
    #[serde(flatten)]
    pub about: Revision,
    /// The document as the body of a write that would store it; `null` after a removal.
    #[schema(value_type = Option<Object>)]
    pub document: Value,
    /// The changes from the revision that `from` names, as JSON Patch (RFC 6902).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub patch: Option<Value>,
}
