//! The states of an instant, and the differences between two.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use evenkeel_wire::agbot::history::{
    HistoryChange, HistoryChanges, HistoryDiffQuery, HistoryQuery, HistoryState, HistoryStates,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::moment::Moment;
use crate::address::{address_of, query_of};
use crate::failure::Failure;
use crate::form::{Form, Query};
use crate::layout::{self, Tab, bare_name};
use crate::reads;
use crate::session::Reader;

/// States or changes of a page.
const PAGE: u16 = 100;

/// The choice of the reader, as the fields of the form show it.
#[derive(Default)]
struct Chosen {
    at: String,
    with: String,
    kind: String,
    policy: String,
    group: String,
    node: String,
}

impl Chosen {
    fn read(form: &Form) -> Self {
        let of = |name| form.get(name).unwrap_or_default().to_owned();
        Self {
            at: of("at"),
            with: of("with"),
            kind: of("kind"),
            policy: of("policy"),
            group: of("group"),
            node: of("node"),
        }
    }

    /// Returns the fields of the instants.
    fn instants(&self) -> [String; 2] {
        [&self.at, &self.with].map(|text| field_of_instant(text))
    }

    fn is_kind(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// Returns the query of the following page: of the same instants, also if one of them was now.
    fn following(&self, at: &str, with: &str, after: &str) -> String {
        let Self { kind, policy, group, node, .. } = self;
        let fields = [
            ("at", at),
            ("with", with),
            ("kind", kind),
            ("policy", policy),
            ("group", group),
            ("node", node),
            ("after", after),
        ];
        format!("?{}", query_of(fields))
    }
}

/// A state of the list, or a subject with its states at both instants.
struct Row {
    /// `+`, `-` or `~` for a change.
    sign: &'static str,
    kind: String,
    about: Vec<Link>,
    node: Option<Link>,
    before: String,
    state: String,
    since: Moment,
    /// The state that followed, with the error.
    then: String,
}

/// A name, and the page about it; empty for what has none here.
struct Link {
    text: String,
    href: String,
}

#[derive(Template)]
#[template(path = "history.html")]
struct Page {
    chosen: Chosen,
    error: String,
    /// The instant, or the earlier one.
    at: String,
    /// The later instant of a comparison.
    to: String,
    complete_since: String,
    is_comparison: bool,
    rows: Vec<Row>,
    next: Option<String>,
}

pub(crate) async fn show(
    reader: Reader,
    Path(org): Path<String>,
    Query(form): Query,
) -> Result<Response, Failure> {
    let chosen = Chosen::read(&form);
    let read = match (instant(&chosen.at), instant(&chosen.with)) {
        (at, None) => read_states(&reader, &org, &form, at).await,
        (at, Some(with)) => read_changes(&reader, &org, &form, (at, with)).await,
    };
    let is_comparison = !chosen.with.is_empty();
    let page = match read {
        Ok(found) => Page {
            next: found.next.map(|after| {
                let with = if is_comparison { found.to.as_str() } else { "" };
                chosen.following(&found.at, with, &after)
            }),
            chosen,
            error: String::new(),
            at: found.at,
            to: found.to,
            complete_since: found.complete_since,
            is_comparison,
            rows: found.rows,
        },
        // A choice with a mistake is shown with it, so that it can be corrected.
        Err(failure) if failure.is_input() => Page {
            chosen,
            error: failure.text(),
            at: String::new(),
            to: String::new(),
            complete_since: String::new(),
            is_comparison,
            rows: Vec::new(),
            next: None,
        },
        Err(failure) => return Err(failure),
    };
    Ok(layout::show(&reader, &org, Tab::History, "History", &page))
}

/// A page of states or changes.
struct Found {
    at: String,
    to: String,
    complete_since: String,
    rows: Vec<Row>,
    next: Option<String>,
}

async fn read_states(reader: &Reader, org: &str, form: &Form, at: Option<String>) -> Result<Found, Failure> {
    let query = HistoryQuery {
        at,
        kind: form.owned("kind"),
        policy: form.owned("policy"),
        group: form.owned("group"),
        node: form.owned("node"),
        after: form.owned("after"),
        limit: Some(PAGE),
    };
    let HistoryStates { at, complete_since, states, next } = reads::history(reader, org, &query).await?;
    let now = Timestamp::now();
    let rows = states.iter().map(|state| row(org, "", None, Some(state), now)).collect();
    Ok(Found { at, to: String::new(), complete_since, rows, next })
}

/// Compares two instants, in their order; one that was not given is now.
async fn read_changes(
    reader: &Reader,
    org: &str,
    form: &Form,
    (at, with): (Option<String>, String),
) -> Result<Found, Failure> {
    let (from, to) = match at {
        Some(at) if at.parse::<Timestamp>().ok() > with.parse::<Timestamp>().ok() => (with, Some(at)),
        Some(at) => (at, Some(with)),
        None => (with, None),
    };
    let query = HistoryDiffQuery {
        from: Some(from),
        to,
        kind: form.owned("kind"),
        policy: form.owned("policy"),
        group: form.owned("group"),
        node: form.owned("node"),
        after: form.owned("after"),
        limit: Some(PAGE),
    };
    let found = reads::history_changes(reader, org, &query).await?;
    let HistoryChanges { from, to, complete_since, changes, next } = found;
    let now = Timestamp::now();
    let of = |HistoryChange { before, after }: &HistoryChange| {
        let sign = match (before, after) {
            (None, _) => "+",
            (_, None) => "-",
            _ => "~",
        };
        row(org, sign, before.as_ref(), after.as_ref(), now)
    };
    Ok(Found { at: from, to, complete_since, rows: changes.iter().map(of).collect(), next })
}

/// Returns an instant as the fields of browsers have it: in UTC, without a zone. What cannot be read is left to the reader.
pub(super) fn field_of_instant(text: &str) -> String {
    let at = text.parse::<Timestamp>().map(|at| TimeZone::UTC.to_datetime(at));
    at.map_or_else(|_| text.to_owned(), |at| at.strftime("%Y-%m-%dT%H:%M:%S").to_string())
}

/// Returns an instant of the form for the API: a time without a zone, as the browser's field has it, is in UTC. None for an empty field.
pub(super) fn instant(text: &str) -> Option<String> {
    let at = text.parse::<DateTime>().ok().filter(|_| text.parse::<Timestamp>().is_err());
    let instant = at.and_then(|at| TimeZone::UTC.to_timestamp(at).ok());
    // What cannot be read is refused by the API, which names the rule.
    let sent = instant.map_or_else(|| text.to_owned(), |instant| instant.to_string());
    Some(sent).filter(|sent| !sent.is_empty())
}

fn row(
    org: &str,
    sign: &'static str,
    before: Option<&HistoryState>,
    after: Option<&HistoryState>,
    now: Timestamp,
) -> Row {
    let shown = after.or(before).cloned().unwrap_or_default();
    let at = if after.is_some() { &shown.since } else { shown.until.as_ref().unwrap_or(&shown.since) };
    let then =
        [shown.next.clone(), shown.error.clone()].into_iter().flatten().collect::<Vec<String>>().join(": ");
    Row {
        sign,
        about: about(org, &shown),
        node: shown.node.as_deref().map(|node| link(org, "nodes", node)),
        before: before.map(in_words).unwrap_or_default(),
        state: after.map(in_words).unwrap_or_default(),
        since: Moment::new(at, now),
        then,
        kind: shown.kind,
    }
}

fn in_words(state: &HistoryState) -> String {
    let spec = state.spec_version.map(|number| format!("spec {number}"));
    let version = state.version.clone().or(spec);
    [Some(state.state.clone()), version].into_iter().flatten().collect::<Vec<String>>().join(", ")
}

fn link(org: &str, path: &str, name: &str) -> Link {
    let text = bare_name(org, name).to_owned();
    // What belongs to another organization has no page here.
    let is_own = !text.contains('/');
    let href = address_of(org, &[path, &text]);
    Link { text, href: if is_own { href } else { String::new() } }
}

fn about(org: &str, state: &HistoryState) -> Vec<Link> {
    let group = state.group.as_deref().map(|group| link(org, "groups", group));
    let policy = state.policy.as_deref().map(|policy| link(org, "policies", policy));
    let unit = state.unit.as_deref().filter(|unit| *unit != "all");
    let slot = state.slot.as_deref().map(|slot| Link { text: format!("slot {slot}"), href: String::new() });
    let unit = unit.map(|unit| link(org, "groups", unit));
    [group, policy, unit, slot].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_browsers_are_in_utc_and_mistakes_are_left_to_the_api() {
        for (text, sent) in [
            ("2026-11-29T14:05", "2026-11-29T14:05:00Z"),
            ("2026-11-29T14:05:30", "2026-11-29T14:05:30Z"),
            ("2026-11-29T14:05:30+01:00", "2026-11-29T14:05:30+01:00"),
            ("noon", "noon"),
        ] {
            assert_eq!(instant(text).as_deref(), Some(sent), "{text}");
        }
        assert_eq!(instant(""), None);
    }

    #[test]
    fn following_page_is_of_the_same_instants() {
        let chosen = Chosen { kind: "task".to_owned(), policy: "p&q".to_owned(), ..Chosen::default() };
        assert_eq!(chosen.following("t", "", "c"), "?at=t&kind=task&policy=p%26q&after=c");
    }

    #[test]
    fn change_links_to_what_it_is_about() {
        let state = HistoryState {
            kind: "task".to_owned(),
            state: "running".to_owned(),
            node: Some("x/n".to_owned()),
            policy: Some("o/p".to_owned()),
            unit: Some("all".to_owned()),
            slot: Some("2".to_owned()),
            spec_version: Some(4),
            ..HistoryState::default()
        };
        let row = row("o", "+", None, Some(&state), Timestamp::UNIX_EPOCH);
        assert_eq!((row.before.as_str(), row.state.as_str()), ("", "running, spec 4"));
        let about: Vec<_> = row.about.iter().map(|link| (link.text.as_str(), link.href.as_str())).collect();
        assert_eq!(about, [("p", "/console/orgs/o/policies/p"), ("slot 2", "")]);
        assert_eq!(row.node.map(|node| (node.text, node.href)), Some(("x/n".to_owned(), String::new())));
    }
}
