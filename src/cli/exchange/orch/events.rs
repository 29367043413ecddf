//! `orch events`: the event log of a deployment policy, once or for as long as the command runs (orchestration 2.6).

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use evenkeel_domain::text::printable;
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::orchestration::{OrchestrationEvent, OrchestrationEventsQuery};
use serde_json::Value;

use crate::context::{Context, Exchange};
use crate::exchange::deployment::POLICIES;
use crate::exit::Outcome;
use crate::output::{Table, View, show_json_line, show_text};

/// Between two requests of a command that follows.
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

/// Which events are meant.
#[derive(Debug, Args)]
pub struct ChosenEvents {
    /// Follow new events until interrupted; when piped, as JSON with one event per line
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only those with a greater number [default: the newest]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(i64).range(0..))]
    since: Option<i64>,
    /// Only those of this kind, or, with .* at its end, of all kinds that begin so
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Maximum number of events, up to 1000
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: Option<u16>,
}

/// Shows the events of a policy.
///
/// # Errors
/// With status 8 when the policy does not exist, 5 when the agbot does not respond.
pub async fn run(context: &Context, exchange: &Exchange, policy: &str, chosen: &ChosenEvents) -> Outcome {
    let query =
        OrchestrationEventsQuery { since: chosen.since, kind: chosen.kind.clone(), limit: chosen.limit };
    let first = read(context, exchange, policy, &query).await?;
    if !chosen.follow {
        let entries: Vec<Value> = first.into_iter().map(RawJson::into_value).collect();
        let table = Table::of_list(&entries, &COLUMNS).keeping(&["kind", "reason"]);
        return context.screen.show(&View::new(Value::Array(entries), table));
    }
    let mut shown = BTreeSet::new();
    print(context, first, &mut shown)?;
    loop {
        tokio::time::sleep(PERIOD).await;
        let since = shown.last().copied().or(chosen.since).unwrap_or(0);
        let since = Some((since - OVERLAP).max(chosen.since.unwrap_or(0)));
        let next = OrchestrationEventsQuery { since, limit: Some(MOST), ..query.clone() };
        match read(context, exchange, policy, &next).await {
            Ok(found) => print(context, found, &mut shown)?,
            // The hub may be restarted meanwhile.
            Err(error) if error.is_retryable => {}
            Err(error) => return Err(error),
        }
    }
}

async fn read(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    query: &OrchestrationEventsQuery,
) -> Outcome<Vec<RawJson>> {
    let (org, name) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the events of {org}/{name}");
    let found = agbot.call(&doing, agbot.client.policy_event_records(&org, &name, query)).await?;
    found.ok_or_else(|| POLICIES.missing(policy))
}

/// Writes the events that were not shown before, one on each line.
fn print(context: &Context, found: Vec<RawJson>, shown: &mut BTreeSet<i64>) -> Outcome {
    // Before the first event of a command that follows, older ones are none of its business.
    let oldest = shown.first().copied().unwrap_or(0);
    for record in found {
        let event: OrchestrationEvent = record.read().unwrap_or_default();
        if event.seq >= oldest && shown.insert(event.seq) {
            if context.screen.is_json() {
                show_json_line(&record.into_value())?;
            } else {
                show_text(&format!("{}\n", printable(&line(&event))))?;
            }
        }
    }
    while shown.len() > usize::from(MOST) * 2 {
        shown.pop_first();
    }
    Ok(())
}

fn line(event: &OrchestrationEvent) -> String {
    let slot = event.slot.as_ref().map(|slot| format!("slot {slot}"));
    let about = [event.workload_unit.clone(), slot, event.node.clone()];
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
            "seq": 7, "at": "t", "kind": "update.slot", "unit": "all", "slot": 2, "node": "n1", "reason": "done",
            "actor": "o/ann",
        }))
        .unwrap();
        assert_eq!(line(&event), "7 t update.slot all slot 2 n1: done (o/ann)");
    }
}
