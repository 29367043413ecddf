//! `hzn agreement`: agreements of the node on this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_client::ClientError;
use evenkeel_wire::RawJson;
use evenkeel_wire::agent::ByAge;
use evenkeel_wire::agent::agreement::LocalAgreement;
use serde_json::{Map, Value, json};

use crate::confirm::confirm;
use crate::context::{Context, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};
use crate::server::Server;
use crate::time::local_text;

/// Commands for agreements.
#[derive(Debug, Subcommand)]
pub enum AgreementCommand {
    /// Shows the agreements of the node, or all details of one
    List {
        /// Agreement to show
        id: Option<String>,
        /// Show agreements that ended
        #[arg(short = 'r', long = "archivedAgreements", visible_alias = "archived")]
        archived: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Cancels agreements; the agbot may make them again
    Cancel {
        /// Agreement to cancel
        id: Option<String>,
        /// Cancel all agreements
        #[arg(short = 'a', long, conflicts_with = "id")]
        all: bool,
        /// Do not ask before canceling all
        #[arg(short = 'f', long)]
        force: bool,
    },
}

/// Runs a command for agreements.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: AgreementCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        AgreementCommand::List { id: Some(id), watch, .. } => {
            context.show_watched(&watch, async || one(&agent, read(&agent).await?, &id)).await
        }
        AgreementCommand::List { id: None, archived, watch } => {
            let list = async || {
                let found = read(&agent).await?;
                Ok(all(if archived { found.archived } else { found.active }, archived))
            };
            context.show_watched(&watch, list).await
        }
        AgreementCommand::Cancel { id, all, force } => cancel(&agent, id, all, force).await,
    }
}

const READING: &str = "asking the agent for its agreements";

async fn read(agent: &Server) -> Outcome<ByAge<RawJson>> {
    agent.call(READING, agent.client.local_agreement_records()).await
}

/// Reads the live agreements from the agent.
///
/// # Errors
/// With status 5 when the agent does not respond.
pub async fn active(agent: &Server) -> Outcome<Vec<LocalAgreement>> {
    read(agent).await?.active.into_iter().map(|record| typed(agent, record)).collect()
}

fn typed(agent: &Server, record: RawJson) -> Outcome<LocalAgreement> {
    evenkeel_wire::agent::read(record).map_err(|error| agent.failed(READING, &ClientError::from(error)))
}

fn one(agent: &Server, found: ByAge<RawJson>, id: &str) -> Outcome<View> {
    for record in found.active.into_iter().chain(found.archived) {
        if typed(agent, record.clone())?.current_agreement_id == id {
            return Ok(View::of(record.into_value()));
        }
    }
    Err(unknown(id))
}

fn unknown(id: &str) -> CliError {
    let what = format!("agreement {id} was not found");
    CliError::input(
        what,
        "the agent has no agreement with that id",
        "see what there is with: hzn agreement list",
    )
}

fn all(records: Vec<RawJson>, archived: bool) -> View {
    let shown: Vec<Value> = records.iter().map(|record| short(record.as_value(), archived)).collect();
    let mut columns = vec![
        ("service", "/workload_to_run/url"),
        ("version", "/workload_to_run/version"),
        ("agbot", "consumer_id"),
        ("final", "agreement_finalized_time"),
        ("started", "agreement_execution_start_time"),
        ("agreement", "current_agreement_id"),
    ];
    if archived {
        columns[3] = ("ended", "agreement_terminated_time");
        columns[4] = ("reason", "terminated_description");
    }
    let table = Table::of_list(&shown, &columns);
    View::new(Value::Array(shown), table)
}

/// The format of the existing tool: a selection of members as the agent sent them, with instants in local time.
fn short(record: &Value, archived: bool) -> Value {
    let mut shown = Map::new();
    for member in ["name", "current_agreement_id", "consumer_id"] {
        shown.insert(member.to_owned(), record.get(member).cloned().unwrap_or(Value::Null));
    }
    for member in [
        "agreement_creation_time",
        "agreement_accepted_time",
        "agreement_finalized_time",
        "agreement_execution_start_time",
        "agreement_data_received_time",
    ] {
        shown.insert(member.to_owned(), Value::from(local_text(record.get(member))));
    }
    for member in ["agreement_protocol", "workload_to_run"] {
        shown.insert(member.to_owned(), record.get(member).cloned().unwrap_or(Value::Null));
    }
    if archived {
        let ended = local_text(record.get("agreement_terminated_time"));
        shown.insert("agreement_terminated_time".to_owned(), Value::from(ended));
        for member in ["terminated_reason", "terminated_description"] {
            shown.insert(member.to_owned(), record.get(member).cloned().unwrap_or(json!("")));
        }
    }
    Value::Object(shown)
}

async fn cancel(agent: &Server, id: Option<String>, is_all: bool, is_forced: bool) -> Outcome {
    let ids = match id {
        Some(id) => vec![id],
        None if is_all => {
            if !confirm("End all agreements of this node?", is_forced || agent.is_dry_run)? {
                print_note("nothing was ended");
                return Ok(());
            }
            active(agent).await?.into_iter().map(|agreement| agreement.current_agreement_id).collect()
        }
        None => {
            return Err(CliError::input(
                "no agreement was ended",
                "none is named",
                "give an agreement id, or -a for all",
            ));
        }
    };
    for id in ids {
        let canceled = agent.client.cancel_local_agreement(&id);
        if !agent.call(&format!("ending agreement {id}"), canceled).await? {
            return Err(unknown(&id));
        }
        agent.report_done(&format!("agreement {id} is being ended"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_form_has_the_members_of_the_contract() {
        let active = json!({"name": "n", "current_agreement_id": "a1", "consumer_id": "o/agbot", "agreement_protocol": "Basic",
                            "agreement_finalized_time": 0, "workload_to_run": {"url": "cam", "version": "1.0.0"}, "proposal": "x"});
        let view = all(vec![active.into()], false);
        let record = &view.json[0];
        assert_eq!((&record["agreement_finalized_time"], record.get("proposal")), (&json!(""), None));
        assert_eq!(record["workload_to_run"]["url"], "cam");
        assert_eq!(view.table.rows[0][0], "cam");
        let archived =
            json!({"current_agreement_id": "a0", "terminated_reason": 100, "terminated_description": "why"});
        let ended = all(vec![archived.into()], true);
        assert_eq!(
            (&ended.json[0]["terminated_reason"], ended.json.as_array().map(Vec::len)),
            (&json!(100), Some(1))
        );
    }

    #[test]
    fn single_agreement_is_shown_as_it_is_and_an_unknown_one_is_wrong_input() {
        let context = Context::default();
        let agent = context.agent().expect("the usual address");
        let record = json!({"current_agreement_id": "a1", "proposal": "x", "dependent_services": null});
        let found = ByAge { active: vec![record.clone().into()], archived: Vec::new() };
        assert_eq!(one(&agent, found.clone(), "a1").map(|view| view.json), Ok(record));
        assert_eq!(one(&agent, found, "zz").map_err(|error| error.exit), Err(crate::exit::Exit::Input));
    }
}
