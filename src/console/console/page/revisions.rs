//! Revisions of a document: who wrote what, when and why, one of them, and the difference of two.

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use evenkeel_wire::exchange::revision::{Revision, RevisionsQuery};
use jiff::Timestamp;

use super::documents::kind_of;
use super::moment::Moment;
use crate::document::{self, Difference, Revisable};
use crate::failure::Failure;
use crate::form::Query;
use crate::layout;
use crate::reads;
use crate::session::Reader;

/// Revisions of a page.
const PAGE: i64 = 20;

/// A revision.
struct RevisionRow {
    href: String,
    /// Address of its difference to the one before; empty for the first.
    difference: String,
    /// Address of the editable copy; empty for the removal of the document.
    undo: String,
    at: Moment,
    revision: Revision,
}

impl RevisionRow {
    fn new(document: &Revisable, revision: Revision, before: Option<i64>, now: Timestamp) -> Self {
        let (base, number) = (document.href(), revision.revision);
        let difference = before.map(|before| format!("{base}/compare?from={before}&to={number}"));
        let undo = format!("{base}/change?revision={number}");
        Self {
            href: format!("{base}/revisions/{number}"),
            difference: difference.unwrap_or_default(),
            undo: if revision.operation == "delete" { String::new() } else { undo },
            at: Moment::new(&revision.time, now),
            revision,
        }
    }

    /// Returns the operation in words.
    fn operation(&self) -> &str {
        match self.revision.operation.as_str() {
            "create" => "created",
            "update" => "changed",
            "delete" => "removed",
            "found" => "found changed",
            other => other,
        }
    }
}

#[derive(Template)]
#[template(path = "revisions.html")]
struct ListPage {
    document: Revisable,
    rows: Vec<RevisionRow>,
    next: Option<String>,
    is_first: bool,
    /// Reason for which the reader may not write the document; empty if it may.
    objection: String,
    exists: bool,
}

/// Lists the revisions of a document.
pub(crate) async fn show_list(
    reader: Reader,
    Path((org, kind, name)): Path<(String, String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let document = Revisable::new(kind_of(&kind)?, &org, &name);
    let after: Option<i64> = form.number("after")?;
    let now = Timestamp::now();
    // One more, with which the last one of the page is compared.
    let query = RevisionsQuery { after, limit: Some(PAGE + 1) };
    let (found, stored, account) = tokio::try_join!(
        document::revisions(&reader, &document, &query),
        document::stored(&reader, &document),
        reads::account(&reader),
    )?;
    let numbers: Vec<i64> = found.revisions.iter().map(|one| one.revision).collect();
    let shown = usize::try_from(PAGE).unwrap_or(usize::MAX);
    let rows: Vec<RevisionRow> = found
        .revisions
        .into_iter()
        .take(shown)
        .enumerate()
        .map(|(index, one)| RevisionRow::new(&document, one, numbers.get(index + 1).copied(), now))
        .collect();
    let last = rows.last().map(|row| row.revision.revision);
    let page = ListPage {
        objection: document::objection(&account, &document, stored.as_ref()),
        exists: stored.is_some(),
        next: last.filter(|_| numbers.len() > shown).map(|last| format!("?after={last}")),
        is_first: after.is_none(),
        rows,
        document,
    };
    let (tab, title) = (page.document.kind.tab(), format!("Revisions: {name}"));
    Ok(layout::show(&reader, &org, tab, &title, &page))
}

#[derive(Template)]
#[template(path = "revision.html")]
struct RevisionPage {
    document: Revisable,
    row: RevisionRow,
    /// The document; empty for its removal.
    text: String,
    objection: String,
}

/// Shows one revision with its document.
pub(crate) async fn show_one(
    reader: Reader,
    Path((org, kind, name, number)): Path<(String, String, String, String)>,
) -> Result<Response, Failure> {
    let document = Revisable::new(kind_of(&kind)?, &org, &name);
    let number = number_of("revision", &number)?;
    let (found, stored, account) = tokio::try_join!(
        document::revision(&reader, &document, number),
        document::stored(&reader, &document),
        reads::account(&reader),
    )?;
    let page = RevisionPage {
        objection: document::objection(&account, &document, stored.as_ref()),
        text: if found.document.is_null() { String::new() } else { document::shown_text(&found.document) },
        row: RevisionRow::new(&document, found.about, None, Timestamp::now()),
        document,
    };
    let (tab, title) = (page.document.kind.tab(), format!("Revision {number}: {name}"));
    Ok(layout::show(&reader, &org, tab, &title, &page))
}

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    document: Revisable,
    from: RevisionRow,
    to: RevisionRow,
    difference: Difference,
}

/// Shows the difference of two revisions.
pub(crate) async fn compare(
    reader: Reader,
    Path((org, kind, name)): Path<(String, String, String)>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let document = Revisable::new(kind_of(&kind)?, &org, &name);
    if form.get("from").is_none() && form.get("to").is_none() {
        // The address of the form, without its fields.
        return Ok(Redirect::to(&document.href()).into_response());
    }
    let [from, to] = ["from", "to"].map(|field| number_of(field, form.require(field)?));
    let (from, to) = tokio::try_join!(
        document::revision(&reader, &document, from?),
        document::revision(&reader, &document, to?),
    )?;
    let now = Timestamp::now();
    let page = ComparePage {
        difference: document::difference(&from.document, &to.document),
        from: RevisionRow::new(&document, from.about, None, now),
        to: RevisionRow::new(&document, to.about, None, now),
        document,
    };
    let (tab, title) = (page.document.kind.tab(), format!("Compare: {name}"));
    Ok(layout::show(&reader, &org, tab, &title, &page))
}

fn number_of(name: &str, text: &str) -> Result<i64, Failure> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Failure::Input(format!("{name} must be a positive integer")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::RevisableKind;

    const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\"'&";

    fn policy() -> Revisable {
        Revisable::new(RevisableKind::DeploymentPolicy, "o", HOSTILE)
    }

    fn row(number: i64, operation: &str, before: Option<i64>) -> RevisionRow {
        let revision = Revision {
            revision: number,
            time: "2026-03-03T00:00:00Z".to_owned(),
            author: format!("o/{}", "x".repeat(1_000)),
            reason: HOSTILE.to_owned(),
            operation: operation.to_owned(),
            bytes: 1,
        };
        RevisionRow::new(&policy(), revision, before, Timestamp::UNIX_EPOCH)
    }

    fn list(objection: &str, rows: Vec<RevisionRow>) -> String {
        let page = ListPage {
            document: policy(),
            rows,
            next: Some("?after=2".to_owned()),
            is_first: true,
            objection: objection.to_owned(),
            exists: true,
        };
        page.render().expect("a page")
    }

    #[test]
    fn hostile_names_and_reasons_are_text() {
        let page = list("", vec![row(3, "update", Some(2)), row(2, "delete", None)]);
        assert!(!page.contains("<script") && page.contains("&#60;script&#62;"), "{page}");
        assert!(page.contains(&"x".repeat(1_000)), "names stay whole");
        let base = policy().href();
        assert!(base.contains("%3Cscript%3E") && base.contains("%E2%80%AE"), "{base}");
        for address in ["/compare?from=2&#38;to=3", "/change?revision=3", "/revisions/2"] {
            assert!(page.contains(&format!("{base}{address}")), "{address}: {page}");
        }
        assert!(!page.contains("/change?revision=2"), "a removal has no document: {page}");
    }

    #[test]
    fn undo_is_disabled_with_the_reason() {
        let page = list("your role viewer changes nothing", vec![row(3, "update", Some(2))]);
        assert!(page.contains("disabled title=\"your role viewer changes nothing\""), "{page}");
        assert!(!page.contains("/change?revision="), "{page}");
    }

    #[test]
    fn difference_shows_sign_and_text_of_each_line() {
        let text = |line: &str| format!("{{\n1\n2\n3\n4\n5\n6\n7\n{line}\n");
        let difference = Difference::of(&text("<b>"), &text("</pre>"));
        let difference = Difference { others: 7, ..difference };
        let (from, to) = (row(1, "create", None), row(2, "update", None));
        let page = ComparePage { document: policy(), from, to, difference }.render().expect("a page");
        for text in [
            "class=\"removed\">-&#60;b&#62;",
            "class=\"added\">+&#60;/pre&#62;",
            "5 unchanged lines",
            "7 more lines",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }

    #[test]
    fn numbers_of_revisions_are_positive() {
        assert_eq!(number_of("from", "7").unwrap(), 7);
        for text in ["0", "-1", "x", "", "99999999999999999999"] {
            assert_eq!(number_of("from", text).unwrap_err().to_string(), "from must be a positive integer");
        }
    }
}
