//! The audit log of an organization: a page of it, and the check of its chain.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::exchange::audit::{
    AuditQuery, AuditRecord, AuditVerifyQuery, AuditVerifyResponse, BrokenRecord,
};
use http::StatusCode;
use jiff::Timestamp;

use super::history::{field_of_instant, instant};
use super::moment::Moment;
use crate::address::query_of;
use crate::command_line::word;
use crate::failure::Failure;
use crate::form::{Form, Query};
use crate::layout::{self, Place, Tab};
use crate::session::Reader;

/// Records of a page.
const PAGE: i64 = 50;

/// The choice of the reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChosenRecords {
    caller: String,
    resource: String,
    since: String,
    until: String,
    /// True to list also what nodes report about themselves.
    has_reports: bool,
}

impl ChosenRecords {
    pub(super) fn read(form: &Form) -> Self {
        let of = |name| form.get(name).unwrap_or_default().to_owned();
        Self {
            caller: of("caller"),
            resource: of("resource"),
            since: of("since"),
            until: of("until"),
            has_reports: form.get("reports").is_some(),
        }
    }

    /// Returns the query of the API for the chosen records, without a page. A caller without an organization is one of this organization.
    pub(super) fn query(&self, org: &str) -> AuditQuery {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let caller = match self.caller.contains('/') {
            false if !self.caller.is_empty() => format!("{org}/{}", self.caller),
            _ => self.caller.clone(),
        };
        AuditQuery {
            caller: given(&caller),
            resource: given(&self.resource),
            since: instant(&self.since),
            until: instant(&self.until),
            ..AuditQuery::default()
        }
    }

    /// Returns the fields of an address for the same choice.
    fn fields(&self, further: &[(&str, &str)]) -> String {
        let chosen = [
            ("caller", self.caller.as_str()),
            ("resource", &self.resource),
            ("since", &self.since),
            ("until", &self.until),
            ("reports", if self.has_reports { "yes" } else { "" }),
        ];
        format!("?{}", query_of(chosen.into_iter().chain(further.iter().copied())))
    }

    /// Returns the options of the command that lists the same.
    fn options(&self, org: &str) -> String {
        let query = self.query(org);
        let options = [
            ("caller", query.caller),
            ("resource", query.resource),
            ("since", query.since),
            ("until", query.until),
        ];
        let all = if self.has_reports { " --all" } else { "" };
        let given =
            options.into_iter().filter_map(|(name, value)| Some(format!(" --{name} {}", word(&value?))));
        format!("{all}{}", given.collect::<String>())
    }
}

struct RecordRow {
    at: Moment,
    record: AuditRecord,
    is_refused: bool,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    chosen: ChosenRecords,
    since: String,
    until: String,
    error: String,
    /// Why the reader may not read the log.
    objection: String,
    rows: Vec<RecordRow>,
    next: Option<String>,
    is_first: bool,
    /// The query of the first page.
    first: String,
    export: String,
    command: String,
}

impl Page {
    fn new(org: &str, chosen: ChosenRecords, form: &Form) -> Self {
        Self {
            since: field_of_instant(&chosen.since),
            until: field_of_instant(&chosen.until),
            error: String::new(),
            objection: String::new(),
            rows: Vec::new(),
            next: None,
            is_first: form.get("before").is_none(),
            first: chosen.fields(&[]),
            export: format!("audit/export{}", chosen.fields(&[])),
            command: format!("hzn exchange audit list{}", chosen.options(org)),
            chosen,
        }
    }
}

pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let chosen = ChosenRecords::read(&form);
    let query = AuditQuery {
        limit: Some(PAGE),
        newest_first: Some(true),
        without_reports: (!chosen.has_reports).then_some(true),
        before: form.number("before")?,
        ..chosen.query(&org)
    };
    let mut page = Page::new(&org, chosen, &form);
    match reader.client.audit_records(&org, &query).await.map_err(Failure::from) {
        Ok(found) => {
            let now = Timestamp::now();
            page.next = found.next.map(|next| page.chosen.fields(&[("before", &next.to_string())]));
            page.rows = found.records.into_iter().map(|record| row(record, now)).collect();
        }
        // A choice with a mistake is shown with it, so that it can be corrected.
        Err(failure) if failure.is_input() => page.error = failure.text(),
        Err(failure) if is_forbidden(&failure) && org == reader.session.org => {
            page.objection = objection(&org);
        }
        Err(failure) => return Err(failure),
    }
    let place = Place { org: &org, tab: Tab::Audit };
    Ok(layout::show_still(&reader, place, StatusCode::OK, "Audit", &page))
}

/// Returns whether the reader lacks a right.
pub(super) fn is_forbidden(failure: &Failure) -> bool {
    matches!(failure, Failure::Api(error) if error.status() == Some(StatusCode::FORBIDDEN.as_u16()))
}

fn objection(org: &str) -> String {
    format!("only administrators, viewers and deployers of {org} may read its audit log")
}

fn row(record: AuditRecord, now: Timestamp) -> RecordRow {
    RecordRow { at: Moment::new(&record.time, now), is_refused: !(200..300).contains(&record.status), record }
}

/// A record that the reader has kept from an earlier check.
struct KnownRecord {
    number: i64,
    hash: String,
}

impl KnownRecord {
    fn read(text: &str) -> Option<Self> {
        let (number, hash) = text.split_once(':')?;
        let number = number.trim().parse().ok().filter(|number| *number >= 0)?;
        Some(Self { number, hash: hash.trim().to_owned() })
    }
}

#[derive(Template)]
#[template(path = "audit-verify.html")]
struct CheckPage {
    known: String,
    error: String,
    objection: String,
    checked: Option<Checked>,
    command: String,
}

/// Outcome of a check.
struct Checked {
    found: AuditVerifyResponse,
    broken: Option<BrokenRecord>,
    /// The last valid record, to be kept.
    end: String,
    next: Option<String>,
}

impl Checked {
    /// Compares the record at which the check began with the one that the reader has kept.
    fn new(found: AuditVerifyResponse, known: Option<&KnownRecord>) -> Self {
        let is_other =
            |known: &&KnownRecord| known.number == found.begin.number && known.hash != found.begin.hash;
        let replaced = known.filter(is_other).map(|known| BrokenRecord {
            number: known.number,
            reason: "its hash is not the one that you have kept".to_owned(),
        });
        Self {
            broken: replaced.or_else(|| found.broken.clone()),
            end: format!("{}:{}", found.end.number, found.end.hash),
            next: found.next.map(|next| {
                format!("?{}", query_of([("known", format!("{next}:{}", found.end.hash).as_str())]))
            }),
            found,
        }
    }
}

/// Shows whether the chain of the records is intact.
pub(crate) async fn verify(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let text = form.get("known").unwrap_or_default().to_owned();
    let known = KnownRecord::read(&text);
    let option = if known.is_some() { format!(" --known {}", word(&text)) } else { String::new() };
    let mut page = CheckPage {
        command: format!("hzn exchange audit verify{option}"),
        error: String::new(),
        objection: String::new(),
        checked: None,
        known: text,
    };
    if known.is_none() && !page.known.is_empty() {
        page.error = "known must be NUMBER:HASH, as an earlier check showed it".to_owned();
    } else {
        let query = AuditVerifyQuery { after: known.as_ref().map(|known| known.number), limit: None };
        match reader.client.verify_audit_records(&org, &query).await.map_err(Failure::from) {
            Ok(found) => page.checked = Some(Checked::new(found, known.as_ref())),
            Err(failure) if failure.refusal().is_some() && known.is_some() => page.error = failure.text(),
            Err(failure) if is_forbidden(&failure) && org == reader.session.org => {
                page.objection = objection(&org);
            }
            Err(failure) => return Err(failure),
        }
    }
    let place = Place { org: &org, tab: Tab::Audit };
    Ok(layout::show_still(&reader, place, StatusCode::OK, "Check of the audit log", &page))
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::exchange::audit::ChainPlace;

    use super::*;

    fn chosen(query: &str) -> ChosenRecords {
        ChosenRecords::read(&Form::parse(query.as_bytes()))
    }

    #[test]
    fn choice_is_the_same_on_the_next_page_and_in_the_command() {
        let one = chosen("caller=ann&resource=%2Forgs%2Fo%2Fnodes%2F&since=2026-01-02T03:04&reports=yes");
        assert_eq!(
            one.fields(&[("before", "7")]),
            "?caller=ann&resource=%2Forgs%2Fo%2Fnodes%2F&since=2026-01-02T03%3A04&reports=yes&before=7"
        );
        assert_eq!(
            one.options("o"),
            " --all --caller o/ann --resource /orgs/o/nodes/ --since 2026-01-02T03:04:00Z"
        );
        assert_eq!(chosen("caller=root%2Froot").query("o").caller.as_deref(), Some("root/root"));
        assert_eq!(chosen("").fields(&[]), "?");
    }

    #[test]
    fn hostile_records_are_escaped() {
        let name = format!("<img src=x>\"'&\u{202e}{}", "n".repeat(1_000));
        let record = AuditRecord {
            org: "o".into(),
            number: 3,
            time: "2026-01-01T00:00:00.000001Z".into(),
            caller: format!("o/{name}"),
            role: name.clone(),
            address: name.clone(),
            request: name.clone(),
            method: "PUT".into(),
            operation: name.clone(),
            resource: name.clone(),
            status: 403,
            before: String::new(),
            after: name.clone(),
            previous: name.clone(),
            hash: name.clone(),
        };
        let form = Form::parse(b"caller=%3Cb%3E");
        let mut page = Page::new("o", ChosenRecords::read(&form), &form);
        page.rows.push(row(record, Timestamp::UNIX_EPOCH));
        let html = page.render().expect("a page");
        assert!(!html.contains("<img") && !html.contains("<b>"), "{html}");
        assert!(html.contains("refused"), "{html}");
        assert!(html.contains("value=\"&#60;b&#62;\""), "{html}");
    }

    #[test]
    fn kept_record_must_be_there_with_its_hash() {
        let place = |number, hash: &str| ChainPlace { number, hash: hash.to_owned() };
        let found = AuditVerifyResponse {
            intact: true,
            checked: 2,
            begin: place(3, "ab"),
            end: place(5, "cd"),
            next: Some(5),
            broken: None,
        };
        let same = Checked::new(found.clone(), KnownRecord::read("3:ab").as_ref());
        assert_eq!(
            (same.broken, same.end.as_str(), same.next.as_deref()),
            (None, "5:cd", Some("?known=5%3Acd"))
        );
        let other = Checked::new(found, KnownRecord::read("3:ee").as_ref());
        assert_eq!(other.broken.map(|broken| broken.number), Some(3));
        assert!(KnownRecord::read("x:ab").is_none() && KnownRecord::read("3").is_none());
    }
}
