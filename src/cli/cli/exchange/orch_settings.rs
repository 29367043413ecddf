//! `hzn exchange orchestration settings`: settings of the organization for its workloads and nodes (orchestration 1.6, 2.8).

use clap::Subcommand;
use evenkeel_wire::RawJson;
use serde_json::{Map, Value};

use super::orch::events::{self, ChosenEvents, Subject};
use super::revision::{self, ChosenRevisions, Revised, UndoTarget};
use crate::confirm::confirm;
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::stops::{Confirmation, Write, confirm_stops};

/// The setting for the time without a heartbeat after which a node is down.
const DOWN_AFTER: &str = "nodeDownAfterSeconds";
/// The member that only the exchange sets.
const AUTHOR: &str = "lastUpdatedBy";
/// The setting for which constraints give way.
const PRIORITIES: &str = "constraintPriorities";
/// Seconds between two heartbeats of an idle agent that was started without `--heartbeat-interval`.
const HEARTBEAT_SECS: u64 = 30;

/// Commands for all workloads of the organization.
#[derive(Debug, Subcommand)]
pub enum OrgOrchCommand {
    /// Settings of the organization for its workloads and nodes
    #[command(subcommand)]
    Settings(SettingsCommand),
    /// Shows the events of all deployment policies, nodes and HA groups in the order of their numbers
    Events {
        #[command(flatten)]
        chosen: ChosenEvents,
    },
}

/// Commands for the settings of the organization.
#[derive(Debug, Subcommand)]
pub enum SettingsCommand {
    /// Shows the settings, with the defaults
    Show {
        #[command(flatten)]
        watch: Watch,
    },
    /// Changes settings
    Set {
        /// Changes as KEY=VALUE, for instance nodeDownAfterSeconds=60 or blocklist.baseSeconds=60; KEY=null restores
        /// the default
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
    /// Shows the revisions of the settings, newest first, one of them, or the changes between two
    Revisions {
        #[command(flatten)]
        chosen: ChosenRevisions,
    },
    /// Writes the settings of an earlier revision again, with the checks and questions of every write
    Undo {
        #[command(flatten)]
        undo: UndoTarget,
    },
}

/// Runs a command for all workloads of the organization.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: OrgOrchCommand, context: &Context, exchange: &Exchange) -> Outcome {
    let command = match command {
        OrgOrchCommand::Settings(command) => command,
        OrgOrchCommand::Events { chosen } => {
            return events::run(context, exchange, Subject::Organization, &chosen).await;
        }
    };
    match command {
        SettingsCommand::Show { watch } => context.show_watched(&watch, async || show(exchange).await).await,
        SettingsCommand::Set { changes, force } => {
            let change = merged(&changes)?;
            if !confirm_change(&change, force || context.is_dry_run)? {
                return Ok(());
            }
            let (write, confirmation) = (Write::settings(exchange, &change), Confirmation::by_flag(force));
            if !confirm_stops(context, exchange, &[write], confirmation).await? {
                return Ok(());
            }
            set(exchange, &change).await
        }
        SettingsCommand::Revisions { chosen } => {
            revision::show(Revised::OrgSettings, &chosen, context, exchange).await
        }
        SettingsCommand::Undo { undo } => {
            revision::undo(Revised::OrgSettings, &undo, context, exchange).await
        }
    }
}

/// Returns the settings that a document changes; one that it lacks is `null`.
///
/// # Errors
/// With status 5 when the settings cannot be read.
pub async fn changed(exchange: &Exchange, document: &Value) -> Outcome<Map<String, Value>> {
    let doing = format!("reading the settings of organization {}", exchange.org);
    let stored = exchange.server.client.org_orchestration(&exchange.org);
    let stored = exchange.server.call(&doing, stored).await?;
    let stored = stored.map(RawJson::into_value).unwrap_or_default();
    Ok(differences(&stored, document))
}

fn differences(stored: &Value, wanted: &Value) -> Map<String, Value> {
    let members = |document: &Value| document.as_object().cloned().unwrap_or_default();
    let (stored, wanted) = (members(stored), members(wanted));
    let removed = stored.keys().filter(|name| *name != AUTHOR && !wanted.contains_key(*name));
    let removed: Vec<(String, Value)> = removed.map(|name| (name.clone(), Value::Null)).collect();
    let written = wanted.into_iter().filter(|(name, value)| stored.get(name) != Some(value));
    written.chain(removed).collect()
}

/// Asks for confirmation of a change that needs one.
///
/// # Errors
/// With status 1 when there is no terminal to confirm on.
pub fn confirm_change(change: &Map<String, Value>, is_forced: bool) -> Outcome<bool> {
    question_of(change).map_or(Ok(true), |question| confirm(&question, is_forced))
}

async fn show(exchange: &Exchange) -> Outcome<View> {
    let doing = format!("reading the settings of organization {}", exchange.org);
    let found = exchange.server.client.org_orchestration_record(&exchange.org);
    let found = exchange.server.call(&doing, found).await?.ok_or_else(|| {
        CliError::input(
            format!("the settings of organization {} were not read", exchange.org),
            "there is no such organization, or the exchange has no such settings",
            "list the organizations: hzn exchange org list",
        )
    })?;
    let found = found.into_value();
    let table = found.as_object().map_or_else(|| Table::of_record(&found), Table::of_paths);
    Ok(View::new(found, table))
}

/// Returns the confirmation prompt for a change; none if the change needs no confirmation.
///
/// # Source
/// Orchestration D5.
fn question_of(change: &Map<String, Value>) -> Option<String> {
    change.get(PRIORITIES)?;
    Some(format!(
        "Change {PRIORITIES} of all workloads of the organization? Constraints that are not hard are relaxed without asking: \
         instances start where a rule is violated"
    ))
}

async fn set(exchange: &Exchange, change: &Map<String, Value>) -> Outcome {
    let doing = format!("changing the settings of organization {}", exchange.org);
    let server = &exchange.server;
    server.call(&doing, server.client.patch_org_orchestration(&exchange.org, change)).await?;
    server.report_done(&format!("the settings of organization {} are changed", exchange.org));
    if let Some(warning) = heartbeat_warning(change) {
        print_note(format!("warning: {warning}"));
    }
    Ok(())
}

/// Returns a warning about a limit that is too short for agents with the default heartbeat interval.
fn heartbeat_warning(change: &Map<String, Value>) -> Option<String> {
    let secs = change.get(DOWN_AFTER)?.as_u64().filter(|secs| *secs < 2 * HEARTBEAT_SECS)?;
    Some(format!(
        "{DOWN_AFTER}={secs} is less than two heartbeats of an agent, which sends one every {HEARTBEAT_SECS} seconds when it is idle: \
         nodes that are alive count as down between two heartbeats, and their instances start elsewhere, unless their agents \
         were started with a shorter --heartbeat-interval"
    ))
}

/// Combines all changes into one document; a key with dots names a member of an object.
pub fn merged(changes: &[String]) -> Outcome<Map<String, Value>> {
    let mut document = Map::new();
    for change in changes {
        let (key, value) = parse(change)?;
        let mut path: Vec<&str> = key.split('.').collect();
        let Some(last) = path.pop() else { continue };
        let mut members = Some(&mut document);
        for name in path {
            let inner = members.and_then(|members| {
                members.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
            });
            members = inner;
        }
        let members = members.ok_or_else(|| {
            CliError::input(
                format!("the change {change} cannot be applied"),
                "another change sets its parent member",
                "give each setting once, for instance blocklist.baseSeconds=60",
            )
        })?;
        members.insert(last.to_owned(), value);
    }
    Ok(document)
}

fn parse(change: &str) -> Outcome<(String, Value)> {
    let parsed = change.split_once('=').filter(|(key, _)| !key.is_empty()).and_then(|(key, text)| {
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let is_complete = !text.is_empty() && key.split('.').all(|name| !name.is_empty());
        is_complete.then(|| (key.to_owned(), value))
    });
    parsed.ok_or_else(|| {
        CliError::input(
            format!("the change {change} cannot be applied"),
            "it is not of the form KEY=VALUE",
            "give changes such as nodeDownAfterSeconds=60, bufferUse=upgrade or readyPeriodSeconds=null",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_values_of_any_kind() {
        assert_eq!(parse("a=5").unwrap(), ("a".to_owned(), Value::from(5)));
        assert_eq!(parse("a=null").unwrap(), ("a".to_owned(), Value::Null));
        assert_eq!(parse("a=x").unwrap(), ("a".to_owned(), Value::from("x")));
        for bad in ["a", "=5", "a=", "a.=1", ".a=1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn silence_shorter_than_two_heartbeats_is_warned_of() {
        let warning = |change: &str| heartbeat_warning(&merged(&[change.to_owned()]).unwrap());
        let text = warning("nodeDownAfterSeconds=15").unwrap();
        assert!(text.starts_with("nodeDownAfterSeconds=15 is less than two heartbeats"), "{text}");
        assert!(warning("nodeDownAfterSeconds=59").is_some());
        for fine in ["nodeDownAfterSeconds=60", "nodeDownAfterSeconds=null", "readyPeriodSeconds=1"] {
            assert_eq!(warning(fine), None, "{fine}");
        }
    }

    #[test]
    fn priorities_of_constraints_are_asked_for() {
        let question = |change: &str| question_of(&merged(&[change.to_owned()]).unwrap());
        assert!(question("constraintPriorities.Affinity=1").is_some());
        assert_eq!(question("nodeDownAfterSeconds=60"), None);
    }

    #[test]
    fn settings_that_a_document_lacks_are_removed() {
        let stored = serde_json::json!({"a": 1, "b": 2, "lastUpdatedBy": "o/u"});
        let wanted = serde_json::json!({"a": 1, "c": 3});
        assert_eq!(Value::Object(differences(&stored, &wanted)), serde_json::json!({"c": 3, "b": null}));
    }

    #[test]
    fn keys_with_dots_are_members_of_one_object() {
        let changes = ["b.x=1", "a=2", "b.y=null"].map(str::to_owned);
        let expected = serde_json::json!({"b": {"x": 1, "y": null}, "a": 2});
        assert_eq!(Value::Object(merged(&changes).unwrap()), expected);
        assert!(merged(&["b=1", "b.x=1"].map(str::to_owned)).is_err());
    }
}
