//! The documents that keep revisions, by kind and name.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_wire::page::PageQuery;

use crate::address::{address_of, query_of};
use crate::document::{self, Revisable, RevisableKind};
use crate::failure::Failure;
use crate::form::Query;
use crate::layout::{self, Tab, bare_name};
use crate::session::Reader;

/// Names of a page.
const PAGE: u16 = 100;

#[derive(Template)]
#[template(path = "documents.html")]
struct KindsPage {
    /// Title and address of each kind.
    kinds: Vec<(&'static str, String)>,
}

/// Lists the kinds.
pub(crate) async fn show_kinds(reader: Reader, Path(org): Path<String>) -> Result<Response, Failure> {
    let href = |kind: RevisableKind| match kind.resource() {
        Some(_) => address_of(&org, &["documents", kind.segment()]),
        None => Revisable::new(kind, &org, &org).href(),
    };
    let kinds = RevisableKind::ALL.into_iter().map(|kind| (kind.plural(), href(kind))).collect();
    Ok(layout::show(&reader, &org, Tab::Policies, "Documents", &KindsPage { kinds }))
}

#[derive(Template)]
#[template(path = "document-names.html")]
struct NamesPage {
    title: &'static str,
    documents: Vec<Revisable>,
    next: Option<String>,
    is_first: bool,
}

/// Lists the documents of a kind, or leads to the one that the query names.
pub(crate) async fn show_names(
    reader: Reader,
    Path((org, kind)): Path<(String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let kind = kind_of(&kind)?;
    if let Some(name) = form.get("name") {
        return Ok(Redirect::to(&Revisable::new(kind, &org, name).href()).into_response());
    }
    let after = form.owned("after");
    let is_first = after.is_none();
    let query = PageQuery { limit: Some(PAGE), after, ..PageQuery::default() };
    let found = document::names(&reader, &org, kind, &query).await?;
    let names = found.records.into_iter().map(|(name, _)| name);
    let page = NamesPage {
        title: kind.plural(),
        documents: names.map(|name| Revisable::new(kind, &org, bare_name(&org, &name))).collect(),
        next: found.next.map(|next| format!("?{}", query_of([("after", next.as_str())]))),
        is_first,
    };
    Ok(layout::show(&reader, &org, kind.tab(), kind.plural(), &page))
}

/// Returns the kind that a segment of an address names.
///
/// # Errors
/// When there is no such kind.
pub(super) fn kind_of(segment: &str) -> Result<RevisableKind, Failure> {
    RevisableKind::find(segment)
        .ok_or_else(|| Failure::Missing(format!("there is no kind of document {segment}")))
}
