//! States of tasks, agreements, claims and nodes at an instant, and the difference of two instants, page by page.

use axum::Json;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_agbot::Context;
use evenkeel_agbot_store::history::{self, StateFilter, StateKey, StateRow};
use evenkeel_api::{MAX_ID, OrgPath, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_ids::{GroupId, NodeId};
use evenkeel_wire::agbot::history::{
    HistoryChange, HistoryChanges, HistoryDiffQuery, HistoryQuery, HistoryStates,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::fleet::policy_of;
use super::orchestration::node_of;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op, unreadable};
use crate::shown::SeenNodes;
use crate::shown::history::{change, state};
use crate::shown::workload_shape::time;

/// The kinds, in the order of a list.
const KINDS: [&str; 4] = ["task", "agreement", "claim", "node"];
const MOST_STATES: i64 = 1000;
const STATES: u16 = 500;
/// Longest cursor: ids of an organization, a policy, a group, a node and four keys, encoded.
const MOST_CURSOR: usize = 16 * MAX_ID;
/// Time between the instants of a comparison whose earlier one is left out.
const USUAL: SignedDuration = SignedDuration::from_hours(1);
/// The clock of a caller may be ahead by this.
const AHEAD: SignedDuration = SignedDuration::from_secs(60);

impl NamedQuery for HistoryQuery {
    const KNOWN: Members = known(&["at", "kind", "policy", "group", "node", "after", "limit"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let limit = parameters.number("limit", 1..=MOST_STATES)?;
        Ok(Self {
            at: parameters.text("at")?,
            kind: parameters.word("kind", &KINDS)?,
            policy: parameters.text("policy")?,
            group: parameters.text("group")?,
            node: parameters.text("node")?,
            after: parameters.text_of("after", MOST_CURSOR)?,
            limit: limit.and_then(|limit| u16::try_from(limit).ok()),
        })
    }
}

impl NamedQuery for HistoryDiffQuery {
    const KNOWN: Members = known(&["from", "to", "kind", "policy", "group", "node", "after", "limit"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let limit = parameters.number("limit", 1..=MOST_STATES)?;
        Ok(Self {
            from: parameters.text("from")?,
            to: parameters.text("to")?,
            kind: parameters.word("kind", &KINDS)?,
            policy: parameters.text("policy")?,
            group: parameters.text("group")?,
            node: parameters.text("node")?,
            after: parameters.text_of("after", MOST_CURSOR)?,
            limit: limit.and_then(|limit| u16::try_from(limit).ok()),
        })
    }
}

/// The subject of a list. A cursor belongs to one list only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Selection {
    org: String,
    from: Timestamp,
    to: Timestamp,
    kind: Option<String>,
    policy: Option<String>,
    group: Option<String>,
    node: Option<String>,
}

/// The last entry of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    selection: Selection,
    kind: String,
    key: [String; 4],
}

impl Cursor {
    fn after(selection: &Selection, kind: &str, key: &StateKey) -> Self {
        let StateKey { first, second, third, subject } = key.clone();
        Self { selection: selection.clone(), kind: kind.to_owned(), key: [first, second, third, subject] }
    }

    fn text(&self) -> Option<String> {
        serde_json::to_vec(self).ok().map(|json| URL_SAFE_NO_PAD.encode(json))
    }

    fn read(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

/// An instant of a query, by the name of its parameter.
struct Instant<'q> {
    name: &'static str,
    text: Option<&'q str>,
}

impl Instant<'_> {
    /// Returns the instant; the one of the page before, or else the usual one, if none was given.
    fn read(
        &self,
        of_page_before: Option<Timestamp>,
        usual: Timestamp,
        now: Timestamp,
    ) -> Result<Timestamp, Refusal> {
        let Self { name, text } = self;
        let Some(text) = text else { return Ok(of_page_before.unwrap_or(usual)) };
        let read: Timestamp = text.parse().map_err(|_| {
            Refusal::invalid_input(format!("{name}: must be an instant such as 2026-11-29T14:05:00Z"))
        })?;
        if read > now.checked_add(AHEAD).unwrap_or(now) {
            return Err(Refusal::invalid_input(format!("{name}: must not be in the future")));
        }
        Ok(read)
    }
}

/// Returns the states of an organization at an instant.
pub(super) async fn list_history(
    op: Op<OrgPath>,
    permission: Permission<right::HistoryRead>,
    Named(query): Named<HistoryQuery>,
) -> Result<Json<HistoryStates>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let HistoryQuery { at, kind, policy, group, node, after, limit } = query;
    let cursor = after.as_deref().map(read_cursor).transpose()?;
    let (of_page_before, now) = (cursor.as_ref().map(|cursor| cursor.selection.from), context.now());
    let at = Instant { name: "at", text: at.as_deref() }.read(of_page_before, now, now)?;
    let selection = Selection { from: at, to: at, ..selected(&org, kind, policy, group, node)? };
    let complete_since = complete_since(&context).await?;
    check_known("at", at, complete_since)?;
    let page = read_page(&context, &permission.into_proof(), &selection, cursor, limit).await?;
    Ok(Json(HistoryStates {
        at: time(at),
        complete_since: time(complete_since),
        states: page.found.iter().flatten().map(|(kind, row)| state(kind, row)).collect(),
        next: page.next,
    }))
}

/// Returns the differences of the states of an organization at two instants.
pub(super) async fn diff_history(
    op: Op<OrgPath>,
    permission: Permission<right::HistoryRead>,
    Named(query): Named<HistoryDiffQuery>,
) -> Result<Json<HistoryChanges>, Refusal> {
    let Op { request: AgbotRequest { context, .. }, path: OrgPath { org }, .. } = op;
    let HistoryDiffQuery { from, to, kind, policy, group, node, after, limit } = query;
    let cursor = after.as_deref().map(read_cursor).transpose()?;
    let (now, of_page_before) = (context.now(), cursor.as_ref().map(|cursor| &cursor.selection));
    let complete_since = complete_since(&context).await?;
    let to = Instant { name: "to", text: to.as_deref() };
    let to = to.read(of_page_before.map(|selection| selection.to), now, now)?;
    let usual = to.checked_sub(USUAL).unwrap_or(to).max(complete_since);
    let from = Instant { name: "from", text: from.as_deref() };
    let from = from.read(of_page_before.map(|selection| selection.from), usual, now)?;
    if from >= to {
        return Err(Refusal::invalid_input("from: must be before to"));
    }
    let selection = Selection { from, to, ..selected(&org, kind, policy, group, node)? };
    check_known("from", from, complete_since)?;
    let page = read_page(&context, &permission.into_proof(), &selection, cursor, limit).await?;
    let changes: Vec<HistoryChange> = page.found.iter().filter_map(|rows| change(rows)).collect();
    Ok(Json(HistoryChanges {
        from: time(from),
        to: time(to),
        complete_since: time(complete_since),
        changes,
        next: page.next,
    }))
}

fn read_cursor(text: &str) -> Result<Cursor, Refusal> {
    Cursor::read(text)
        .ok_or_else(|| Refusal::invalid_input("after: must be the value of next of a page before"))
}

fn selected(
    org: &str,
    kind: Option<String>,
    policy: Option<String>,
    group: Option<String>,
    node: Option<String>,
) -> Result<Selection, Refusal> {
    let policy = policy.map(|name| policy_of(org, &name));
    if let Some(foreign) = policy.as_ref().filter(|policy| policy.org() != org) {
        let text = format!("policy: {foreign} is no deployment policy of the organization {org}");
        return Err(Refusal::invalid_input(text));
    }
    let group = group.map(|name| match name.split_once('/') {
        Some(_) => GroupId::from_text(&name),
        None => GroupId::new(org, &name),
    });
    if let Some(foreign) = group.as_ref().filter(|group| group.org() != org) {
        let text = format!("group: {foreign} is no HA group of the organization {org}");
        return Err(Refusal::invalid_input(text));
    }
    Ok(Selection {
        org: org.to_owned(),
        from: Timestamp::UNIX_EPOCH,
        to: Timestamp::UNIX_EPOCH,
        kind,
        policy: policy.map(|policy| policy.to_string()),
        group: group.map(|group| group.to_string()),
        node: node.map(|name| node_of(org, &name).to_string()),
    })
}

/// Returns the instant since which the history is complete.
async fn complete_since(context: &Context) -> Result<Timestamp, Refusal> {
    let read = context.database.read(async |connection| history::get_complete_since(connection).await);
    read.await.map_err(|error| unreadable(&error))
}

fn check_known(name: &str, at: Timestamp, complete_since: Timestamp) -> Result<(), Refusal> {
    if at >= complete_since {
        return Ok(());
    }
    let text = format!("{name}: the history begins at {}: choose a later instant", time(complete_since));
    Err(Refusal::invalid_input(text))
}

/// A page: for each subject its one or two states, with their kind.
struct StatePage {
    found: Vec<Vec<(&'static str, StateRow)>>,
    next: Option<String>,
}

async fn read_page(
    context: &Context,
    seen: &SeenNodes,
    selection: &Selection,
    cursor: Option<Cursor>,
    limit: Option<u16>,
) -> Result<StatePage, Refusal> {
    if cursor.as_ref().is_some_and(|cursor| cursor.selection != *selection) {
        let text = "after: is the end of a page of another list: repeat the request without it";
        return Err(Refusal::invalid_input(text));
    }
    let nodes = nodes_of(seen, selection.node.as_deref());
    let limit = usize::from(limit.unwrap_or(STATES));
    let first_kind = cursor.as_ref().and_then(|cursor| KINDS.iter().position(|kind| *kind == cursor.kind));
    let mut after = cursor.map(|cursor| key_of(cursor.key)).unwrap_or_default();
    let mut page = StatePage { found: Vec::new(), next: None };
    for kind in KINDS.into_iter().skip(first_kind.unwrap_or_default()) {
        let after = std::mem::take(&mut after);
        let Some(mut filter) = filter_of(kind, selection) else { continue };
        (filter.nodes, filter.after) = (nodes.as_deref(), after);
        // A subject has at most two states, so that this many rows are enough to see whether there is another page.
        let rows = 2 * (limit - page.found.len() + 1);
        let instants = (selection.from, selection.to);
        let read = context
            .database
            .read(async |connection| history::list_states(connection, &filter, instants, rows as i64).await);
        for row in read.await.map_err(|error| unreadable(&error))? {
            let last = page.found.last().and_then(|rows| rows.last());
            if last.is_some_and(|(one, last)| *one == kind && last.key == row.key) {
                page.found.last_mut().into_iter().for_each(|rows| rows.push((kind, row.clone())));
            } else if page.found.len() < limit {
                page.found.push(vec![(kind, row)]);
            } else {
                page.next = last.and_then(|(kind, last)| Cursor::after(selection, kind, &last.key).text());
                return Ok(page);
            }
        }
    }
    Ok(page)
}

/// The nodes to ask the database for: those that the caller may read, or the one of the query if it is one of them.
fn nodes_of(seen: &SeenNodes, node: Option<&str>) -> Option<Vec<NodeId>> {
    match node.map(NodeId::from_text) {
        Some(node) => Some(Some(node).filter(|node| seen.shows(node)).into_iter().collect()),
        None => seen.ids(),
    }
}

fn key_of([first, second, third, subject]: [String; 4]) -> StateKey {
    StateKey { first, second, third, subject }
}

/// Returns the filter for states of a kind; none if the selection excludes all of them.
fn filter_of<'a>(kind: &'static str, selection: &'a Selection) -> Option<StateFilter<'a>> {
    let Selection { org, policy, group, .. } = selection;
    if selection.kind.as_deref().is_some_and(|wanted| wanted != kind) {
        return None;
    }
    let (policy, group) = (policy.as_deref(), group.as_deref());
    let (first, second) = match kind {
        "task" => (policy, group),
        "claim" => (group, policy),
        "agreement" if group.is_none() => (None, policy),
        "node" if group.is_none() && policy.is_none() => (None, None),
        _ => return None,
    };
    Some(StateFilter { org, kind, first, second, ..StateFilter::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection() -> Selection {
        let policy = Some("p".to_owned());
        selected("o", None, policy, None, None).expect("a selection")
    }

    #[test]
    fn cursor_is_read_back_and_anything_else_is_refused() {
        let key = ["o/p", "all", "3", "t\u{202e}<1>"].map(str::to_owned);
        let cursor = Cursor { selection: selection(), kind: "task".to_owned(), key };
        let text = cursor.text().expect("a text");
        assert_eq!(read_cursor(&text).expect("the cursor"), cursor);
        for text in ["", "x", "e30", "%%%"] {
            assert!(
                read_cursor(text).is_err_and(|refusal| refusal.message().starts_with("after: ")),
                "{text}"
            );
        }
    }

    #[test]
    fn instants_are_read_and_may_be_a_little_ahead() {
        let now: Timestamp = "2026-11-29T14:05:00Z".parse().expect("an instant");
        let read = |text| Instant { name: "at", text }.read(Some(Timestamp::UNIX_EPOCH), now, now);
        assert_eq!(read(None).expect("that of the page before"), Timestamp::UNIX_EPOCH);
        assert!(read(Some("2026-11-29T14:05:30Z")).is_ok());
        for (text, rule) in [("14:05", "must be an instant"), ("2026-11-29T14:07:00Z", "future")] {
            assert!(read(Some(text)).is_err_and(|refusal| refusal.message().contains(rule)), "{text}");
        }
    }

    #[test]
    fn kinds_without_a_policy_or_group_are_left_out_when_one_is_selected() {
        let of = |selection: &Selection| {
            KINDS.into_iter().filter(|kind| filter_of(kind, selection).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(of(&selection()), ["task", "agreement", "claim"]);
        let group = selected("o", None, None, Some("g".to_owned()), None).expect("a selection");
        assert_eq!(of(&group), ["task", "claim"]);
        assert_eq!(filter_of("task", &group).and_then(|filter| filter.second), Some("o/g"));
        let claims = selected("o", Some("claim".to_owned()), None, None, None).expect("a selection");
        assert_eq!(of(&claims), ["claim"]);
    }

    #[test]
    fn documents_of_another_organization_are_refused_by_name() {
        let foreign = || Some("x/y".to_owned());
        for (found, field) in [
            (selected("o", None, foreign(), None, None), "policy: "),
            (selected("o", None, None, foreign(), None), "group: "),
        ] {
            assert!(found.is_err_and(|refusal| refusal.message().starts_with(field)));
        }
    }

    #[test]
    fn caller_asks_only_for_nodes_that_it_may_read() {
        let own = NodeId::new("o", "own");
        let seen = SeenNodes::Only([own.clone()].into());
        assert_eq!(nodes_of(&seen, None), Some(vec![own.clone()]));
        assert_eq!(nodes_of(&seen, Some("o/own")), Some(vec![own.clone()]));
        assert_eq!(nodes_of(&seen, Some("o/other")), Some(Vec::new()));
        assert_eq!(nodes_of(&SeenNodes::All, Some("o/own")), Some(vec![own]));
        assert_eq!(nodes_of(&SeenNodes::All, None), None);
    }
}
