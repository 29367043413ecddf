//! `hzn eventlog`: what happened on the node of this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_wire::RawJson;
use serde_json::{Map, Value};

use crate::context::{Context, Watch};
use crate::exit::Outcome;
use crate::output::{Table, View};
use crate::server::Server;
use crate::time::local_text;

/// Commands for the event log.
#[derive(Debug, Subcommand)]
pub enum EventLogCommand {
    /// Shows the event log, oldest first
    List {
        /// Include events from before the current registration of the node
        #[arg(short = 'a', long)]
        all: bool,
        /// Show everything, not only time and text
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the errors that the node reports to the exchange
    Surface,
}

/// Runs a command for the event log.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: EventLogCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        EventLogCommand::List { all, long, watch } => {
            context.show_watched(&watch, async || list(&agent, all, long).await).await
        }
        EventLogCommand::Surface => {
            let found = agent.client.surfaced_error_records();
            let found = agent.call("asking the agent for its errors", found).await?;
            let errors: Vec<Value> = found.into_iter().map(RawJson::into_value).collect();
            let table = Table::of_list(&errors, &[("code", "event_code"), ("message", "message")]);
            context.screen.show(&View::new(Value::Array(errors), table))
        }
    }
}

async fn list(agent: &Server, is_all: bool, is_long: bool) -> Outcome<View> {
    let found = agent.call("asking the agent for its events", agent.client.event_log_records(is_all)).await?;
    Ok(view(&found.into_iter().map(RawJson::into_value).collect::<Vec<Value>>(), is_long))
}

fn view(entries: &[Value], is_long: bool) -> View {
    let mut table = Table::new(&["time", "severity", "message"]);
    let mut shown = Vec::new();
    for entry in entries {
        let time = local_text(entry.get("timestamp"));
        let text = |member: &str| entry.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
        table.push([time.clone(), text("severity"), text("message")]);
        shown.push(if is_long {
            let mut full: Map<String, Value> = entry.as_object().cloned().unwrap_or_default();
            full.insert("timestamp".to_owned(), Value::from(time));
            full.shift_remove("message_meta");
            Value::Object(full)
        } else {
            Value::from(format!("{time}:   {}", text("message")))
        });
    }
    View::new(Value::Array(shown), table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_form_is_one_text_per_event() {
        let entries = [json!({"timestamp": 0, "message": "started", "severity": "info", "message_meta": {}})];
        assert_eq!(view(&entries, false).json, json!([":   started"]));
        assert_eq!(
            view(&entries, true).json[0],
            json!({"timestamp": "", "message": "started", "severity": "info"})
        );
    }
}
