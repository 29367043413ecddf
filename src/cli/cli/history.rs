//! `hzn history` and `hzn diff`: what ran at an instant, and what differs between two.

use clap::{Args, ValueEnum};
use evenkeel_wire::agbot::history::{
    HistoryChange, HistoryChanges, HistoryDiffQuery, HistoryQuery, HistoryState, HistoryStates,
};
use jiff::{Timestamp, Zoned};
use serde_json::json;

use crate::context::{Context, Exchange, UserOptions};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::time::past_instant;

/// The largest number of entries of one request.
const PAGE: usize = 1000;

/// A kind of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateKind {
    /// Attempts to run an instance.
    Task,
    /// Agreements with nodes.
    Agreement,
    /// Claims of members of HA groups to be upgraded.
    Claim,
    /// What is unusual about nodes.
    Node,
}

impl StateKind {
    fn word(self) -> String {
        let word = match self {
            Self::Task => "task",
            Self::Agreement => "agreement",
            Self::Claim => "claim",
            Self::Node => "node",
        };
        word.to_owned()
    }
}

/// Selection of states.
#[derive(Debug, Args)]
struct ChosenStates {
    /// Only states of this kind: task, agreement, claim or node
    #[arg(long, value_enum, value_name = "KIND", hide_possible_values = true)]
    kind: Option<StateKind>,
    /// Only tasks, agreements and claims of this deployment policy
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Only tasks and claims of this HA group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only states about this node
    #[arg(long = "node", value_name = "NODE")]
    node: Option<String>,
    /// Maximum number of entries
    #[arg(long, value_name = "COUNT", default_value_t = PAGE, value_parser = limit)]
    limit: usize,
}

fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit @ 1..=1_000_000) => Ok(limit),
        _ => Err("must be a number from 1 to 1000000".to_owned()),
    }
}

/// An instant in the past, as users write it.
fn instant(text: &str) -> Result<Timestamp, String> {
    past_instant(text, &Zoned::now())
}

/// Options of `history`.
#[derive(Debug, Args)]
pub struct HistoryArguments {
    #[command(flatten)]
    user: UserOptions,
    /// The instant: a local time such as 14:05 or '2026-11-29 14:05', one with a time zone, or how long ago, such as 2h [default: now]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    at: Option<Timestamp>,
    #[command(flatten)]
    chosen: ChosenStates,
}

/// Options of `diff`.
#[derive(Debug, Args)]
pub struct DiffArguments {
    #[command(flatten)]
    user: UserOptions,
    /// The earlier instant, in the forms of `hzn history --at`
    #[arg(long, value_name = "TIME", value_parser = instant)]
    from: Timestamp,
    /// The later instant [default: now]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    to: Option<Timestamp>,
    #[command(flatten)]
    chosen: ChosenStates,
}

/// Shows the states at an instant.
///
/// # Errors
/// With status 5 for an instant before the history, and when the agbot does not respond.
pub async fn show(arguments: HistoryArguments, context: &Context) -> Outcome {
    let HistoryArguments { user, at, chosen } = arguments;
    let exchange = context.exchange(&user, None)?;
    let agbot = context.agbot(&exchange)?;
    let mut query = HistoryQuery {
        at: at.map(|at| at.to_string()),
        kind: chosen.kind.map(StateKind::word),
        policy: chosen.policy,
        group: chosen.group,
        node: chosen.node,
        ..HistoryQuery::default()
    };
    let mut all = HistoryStates::default();
    let has_more = loop {
        query.limit = page(chosen.limit - all.states.len());
        let read = agbot.call("reading the history", agbot.client.history(&exchange.org, &query)).await?;
        let HistoryStates { states, next, at, complete_since } = read.ok_or_else(|| unknown(&exchange))?;
        all.states.extend(states);
        (all.at, all.complete_since) = (at, complete_since);
        query.after = next;
        if query.after.is_none() || all.states.len() >= chosen.limit {
            break query.after.is_some();
        }
    };
    if has_more {
        note_rest(chosen.limit);
    }
    let mut table = Table::new(&["kind", "about", "node", "state", "version", "since", "until", "then"])
        .keeping(&["about", "state"]);
    for state in &all.states {
        table.push([
            state.kind.clone(),
            about(state),
            state.node.clone().unwrap_or_default(),
            state.state.clone(),
            version(state),
            state.since.clone(),
            state.until.clone().unwrap_or_default(),
            then(state),
        ]);
    }
    context.screen.show(&View::new(json!(all), table))
}

/// Shows what differs between two instants.
///
/// # Errors
/// With status 5 for instants before the history or in the wrong order, and when the agbot does not respond.
pub async fn compare(arguments: DiffArguments, context: &Context) -> Outcome {
    let DiffArguments { user, from, to, chosen } = arguments;
    let exchange = context.exchange(&user, None)?;
    let agbot = context.agbot(&exchange)?;
    let mut query = HistoryDiffQuery {
        from: Some(from.to_string()),
        to: to.map(|to| to.to_string()),
        kind: chosen.kind.map(StateKind::word),
        policy: chosen.policy,
        group: chosen.group,
        node: chosen.node,
        ..HistoryDiffQuery::default()
    };
    let mut all = HistoryChanges::default();
    let has_more = loop {
        query.limit = page(chosen.limit - all.changes.len());
        let doing = "comparing the instants";
        let read = agbot.call(doing, agbot.client.history_changes(&exchange.org, &query)).await?;
        let HistoryChanges { changes, next, from, to, complete_since } =
            read.ok_or_else(|| unknown(&exchange))?;
        all.changes.extend(changes);
        (all.from, all.to, all.complete_since) = (from, to, complete_since);
        query.after = next;
        if query.after.is_none() || all.changes.len() >= chosen.limit {
            break query.after.is_some();
        }
    };
    if has_more {
        note_rest(chosen.limit);
    }
    let mut table =
        Table::new(&["", "kind", "about", "before", "after", "at"]).keeping(&["about", "before", "after"]);
    for change in &all.changes {
        table.push(row(change));
    }
    context.screen.show(&View::new(json!(all), table))
}

fn page(left: usize) -> Option<u16> {
    u16::try_from(left.min(PAGE)).ok()
}

fn note_rest(limit: usize) {
    print_note(format!(
        "there are more than {limit}: choose with --kind, --policy, --group or --node, or raise --limit"
    ));
}

fn unknown(exchange: &Exchange) -> CliError {
    CliError::input(
        "the history cannot be read",
        format!("there is no organization {}, or its agbot keeps no history", exchange.org),
        "check the organization with: hzn exchange org list",
    )
}

/// Returns what a state is about, apart from the node.
fn about(state: &HistoryState) -> String {
    let policy = state.policy.as_deref().unwrap_or_default();
    match (state.kind.as_str(), &state.unit, &state.slot) {
        ("task", Some(unit), Some(slot)) if unit == "all" => format!("{policy} slot {slot}"),
        ("task", Some(unit), Some(slot)) => format!("{policy} of {unit} slot {slot}"),
        ("claim", ..) if policy.is_empty() => state.group.clone().unwrap_or_default(),
        ("claim", ..) => format!("{} for {policy}", state.group.as_deref().unwrap_or_default()),
        _ => policy.to_owned(),
    }
}

fn version(state: &HistoryState) -> String {
    let spec = state.spec_version.map(|number| format!("spec {number}"));
    state.version.clone().or(spec).unwrap_or_default()
}

/// Returns what followed a state, with the error.
fn then(state: &HistoryState) -> String {
    let parts = [state.next.clone(), state.error.clone()];
    parts.into_iter().flatten().collect::<Vec<String>>().join(": ")
}

/// Returns the row of a change: a sign, the subject, its states, and when it changed.
fn row(change: &HistoryChange) -> [String; 6] {
    let HistoryChange { before, after } = change;
    let sign = match (before, after) {
        (None, _) => "+",
        (_, None) => "-",
        _ => "~",
    };
    let subject = after.as_ref().or(before.as_ref()).cloned().unwrap_or_default();
    let at = match (before, after) {
        (_, Some(after)) => after.since.clone(),
        (Some(before), None) => before.until.clone().unwrap_or_default(),
        (None, None) => String::new(),
    };
    let ended = || before.as_ref().map(then).unwrap_or_default();
    let after = after.as_ref().map_or_else(ended, shown);
    let before = before.as_ref().map(shown).unwrap_or_default();
    [sign.to_owned(), subject.kind.clone(), about(&subject), before, after, at]
}

fn shown(state: &HistoryState) -> String {
    let node = state.node.as_ref().map(|node| format!("on {node}"));
    let version = Some(version(state)).filter(|version| !version.is_empty());
    let parts = [Some(state.state.clone()), node, version];
    parts.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn read(value: Value) -> HistoryState {
        serde_json::from_value(value).expect("a state")
    }

    fn task(state: &str) -> HistoryState {
        read(json!({
            "kind": "task", "state": state, "since": "s", "node": "o/n1", "policy": "o/p", "unit": "all", "slot": "2",
            "specVersion": 3, "until": "u", "next": "failed", "error": "exit 1",
        }))
    }

    #[test]
    fn change_is_one_row_with_a_sign() {
        let (before, after) = (Some(task("starting")), Some(task("running")));
        let changed = row(&HistoryChange { before: before.clone(), after: after.clone() });
        assert_eq!(
            changed,
            ["~", "task", "o/p slot 2", "starting on o/n1 spec 3", "running on o/n1 spec 3", "s"]
        );
        let ended = row(&HistoryChange { before, after: None });
        assert_eq!(ended, ["-", "task", "o/p slot 2", "starting on o/n1 spec 3", "failed: exit 1", "u"]);
        let begun = row(&HistoryChange { before: None, after });
        assert_eq!(begun, ["+", "task", "o/p slot 2", "", "running on o/n1 spec 3", "s"]);
    }

    #[test]
    fn subjects_of_all_kinds_are_named() {
        let in_group = HistoryState { unit: Some("gate".to_owned()), ..task("running") };
        assert_eq!(about(&in_group), "o/p of gate slot 2");
        let claim = read(json!({"kind": "claim", "state": "stopping", "since": "s", "group": "o/gate"}));
        assert_eq!(about(&claim), "o/gate");
        assert_eq!(about(&HistoryState { policy: Some("o/p".to_owned()), ..claim }), "o/gate for o/p");
        let agreement = read(json!({"kind": "agreement", "policy": "o/p", "version": "1.0.0"}));
        assert_eq!((about(&agreement), version(&agreement)), ("o/p".to_owned(), "1.0.0".to_owned()));
        assert_eq!(about(&read(json!({"kind": "node", "node": "o/n1"}))), "");
    }

    #[test]
    fn limits_are_positive_numbers() {
        assert_eq!(limit("5000"), Ok(5000));
        assert!(limit("0").is_err() && limit("-1").is_err() && limit("2000000").is_err());
        assert_eq!((page(2_000), page(7)), (Some(1000), Some(7)));
    }
}
