//! The event log of a deployment policy, an HA group or the organization, once or for as long as the command runs (orchestration 2.6).

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use evenkeel_domain::text::printable;
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::orchestration::{
    OrchestrationEvent, OrchestrationEventsQuery, OrganizationEventsQuery,
};
use serde_json::Value;

use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, show_json_line, show_text};
use crate::resource::kinds::{GROUPS, POLICIES};

/// Pause between two requests with `--follow`.
const PERIOD: Duration = Duration::from_secs(1);
/// Events are written in parallel: one with a smaller number may appear a moment after one with a larger number.
const OVERLAP: i64 = 200;
/// The largest number of events of one request.
const MOST: u16 = 1000;

const COLUMNS: [(&str, &str); 8] = [
    ("seq", "seq"),
    ("at", "at"),
    ("kind", "kind"),
    ("unit", "unit"),
    ("slot", "slot"),
    ("node", "node"),
    ("actor", "actor"),
    ("reason", "reason"),
];

/// Selection of events.
#[derive(Debug, Args)]
pub struct ChosenEvents {
    /// Follow new events until interrupted; when piped, as JSON with one event per line
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only events with a greater sequence number [default: the newest]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(i64).range(0..))]
    since: Option<i64>,
    /// Only events of this kind, or, with a trailing .*, of all kinds with this prefix
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Maximum number of events, up to 1000
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: Option<u16>,
}

/// Subject of events.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A deployment policy.
    Policy(&'a str),
    /// An HA group.
    Group(&'a str),
    /// The deployment policies, nodes and HA groups of the organization.
    Organization,
}

/// Shows the events of a subject.
///
/// # Errors
/// With status 8 when the policy or the group does not exist, 5 when the agbot does not respond.
pub async fn run(
    context: &Context,
    exchange: &Exchange,
    subject: Subject<'_>,
    chosen: &ChosenEvents,
) -> Outcome {
    if let Subject::Group(name) = subject {
        GROUPS.require(exchange, name).await?;
    }
    let query =
        OrchestrationEventsQuery { since: chosen.since, kind: chosen.kind.clone(), limit: chosen.limit };
    let first = read(context, exchange, subject, &query).await?;
    if !chosen.follow {
        let entries: Vec<Value> = first.into_iter().map(RawJson::into_value).collect();
        let columns: Vec<(&str, &str)> = match subject {
            Subject::Organization => [&COLUMNS[..3], &[("policy", "policy")], &COLUMNS[3..]].concat(),
            Subject::Policy(_) | Subject::Group(_) => COLUMNS.to_vec(),
        };
        let table = Table::of_list(&entries, &columns).keeping(&["kind", "reason"]);
        return context.screen.show(&View::new(Value::Array(entries), table));
    }
    let mut shown = BTreeSet::new();
    let shows_policy = matches!(subject, Subject::Organization);
    print(context, first, &mut shown, shows_policy)?;
    loop {
        tokio::time::sleep(PERIOD).await;
        let since = shown.last().copied().or(chosen.since).unwrap_or(0);
        let since = Some((since - OVERLAP).max(chosen.since.unwrap_or(0)));
        let next = OrchestrationEventsQuery { since, limit: Some(MOST), ..query.clone() };
        match read(context, exchange, subject, &next).await {
            Ok(found) => print(context, found, &mut shown, shows_policy)?,
            // The hub may be restarted meanwhile.
            Err(error) if error.is_retryable => {}
            Err(error) => return Err(error),
        }
    }
}

async fn read(
    context: &Context,
    exchange: &Exchange,
    subject: Subject<'_>,
    query: &OrchestrationEventsQuery,
) -> Outcome<Vec<RawJson>> {
    let agbot = context.agbot(exchange)?;
    let (org, group) = match subject {
        Subject::Policy(policy) => {
            let (org, name) = exchange.split(policy);
            let doing = format!("reading the events of {org}/{name}");
            let found = agbot.call(&doing, agbot.client.policy_event_records(&org, &name, query)).await?;
            return found.ok_or_else(|| POLICIES.missing(policy));
        }
        Subject::Group(name) => {
            let (org, name) = exchange.split(name);
            (org, Some(name))
        }
        Subject::Organization => (exchange.org.clone(), None),
    };
    let OrchestrationEventsQuery { since, kind, limit } = query.clone();
    let query = OrganizationEventsQuery { since, kind, group, limit };
    let doing = format!("reading the events of organization {org}");
    let found = agbot.call(&doing, agbot.client.orchestration_event_records(&org, &query)).await?;
    found.ok_or_else(|| {
        CliError::input(
            format!("{doing} failed"),
            "there is no such organization, or the agbot has no such events",
            "see the agbot's own events with: hzn agbot events",
        )
    })
}

/// Writes the events that were not shown before, one on each line.
fn print(context: &Context, found: Vec<RawJson>, shown: &mut BTreeSet<i64>, shows_policy: bool) -> Outcome {
    // A command that follows new events does not show older ones.
    let oldest = shown.first().copied().unwrap_or(0);
    for record in found {
        let event: OrchestrationEvent = record.read().unwrap_or_default();
        if event.seq >= oldest && shown.insert(event.seq) {
            if context.screen.is_json() {
                show_json_line(&record.into_value())?;
            } else {
                show_text(&format!("{}\n", printable(&line(&event, shows_policy))))?;
            }
        }
    }
    while shown.len() > usize::from(MOST) * 2 {
        shown.pop_first();
    }
    Ok(())
}

fn line(event: &OrchestrationEvent, shows_policy: bool) -> String {
    let slot = event.slot.as_ref().map(|slot| format!("slot {slot}"));
    let policy = event.policy.clone().filter(|_| shows_policy);
    let about = [policy, event.workload_unit.clone(), slot, event.node.clone()];
    let about: Vec<String> = about.into_iter().flatten().collect();
    let reason = event.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let actor = event.actor.as_deref().map(|actor| format!(" ({actor})")).unwrap_or_default();
    format!("{} {} {} {}{reason}{actor}", event.seq, event.at, event.kind, about.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn event_is_one_line_with_what_it_is_about() {
        let event: OrchestrationEvent = serde_json::from_value(json!({
            "seq": 7, "at": "t", "kind": "update.slot", "policy": "o/p", "unit": "all", "slot": 2, "node": "n1", "reason": "done",
            "actor": "o/ann",
        }))
        .unwrap();
        assert_eq!(line(&event, false), "7 t update.slot all slot 2 n1: done (o/ann)");
        assert_eq!(line(&event, true), "7 t update.slot o/p all slot 2 n1: done (o/ann)");
    }
}
