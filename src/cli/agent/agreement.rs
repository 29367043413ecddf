//! `hzn agreement`: agreements of the node on this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_client::Path;
use serde_json::{Map, Value, json};

use super::{list, text};
use crate::api::Api;
use crate::confirm::confirm;
use crate::context::{Context, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, note};
use crate::time::local_text;

/// Commands for agreements.
#[derive(Debug, Subcommand)]
pub enum AgreementCommand {
    /// Shows the agreements of the node, or all details of one
    List {
        /// Agreement to show
        id: Option<String>,
        /// Show those that ended
        #[arg(short = 'r', long = "archivedAgreements", visible_alias = "archived")]
        archived: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Cancels agreements; the agbot may make them again
    Cancel {
        /// Agreement to cancel
        id: Option<String>,
        /// End all
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
/// Those of the command.
pub async fn run(command: AgreementCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        AgreementCommand::List { id: Some(id), watch, .. } => {
            context.show_watched(&watch, async || one(&read(&agent).await?, &id)).await
        }
        AgreementCommand::List { id: None, archived, watch } => {
            context.show_watched(&watch, async || Ok(all(&read(&agent).await?, archived))).await
        }
        AgreementCommand::Cancel { id, all, force } => cancel(&agent, id, all, force).await,
    }
}

/// Reads everything about agreements from the agent.
///
/// # Errors
/// With status 5 when the agent does not answer.
pub async fn read(agent: &Api) -> Outcome<Value> {
    agent.get("asking the agent for its agreements", &Path::new(&["agreement"])).await
}

fn one(found: &Value, id: &str) -> Outcome<View> {
    let lists = [list(found, "/agreements/active"), list(found, "/agreements/archived")];
    let record = lists.into_iter().flatten().find(|record| text(record, "current_agreement_id") == id);
    let record = record.ok_or_else(|| {
        let what = format!("agreement {id} was not found");
        CliError::input(what, "the agent has none of that id", "see what there is with: hzn agreement list")
    })?;
    Ok(View::of(record.clone()))
}

fn all(found: &Value, archived: bool) -> View {
    let records = list(found, if archived { "/agreements/archived" } else { "/agreements/active" });
    let shown: Vec<Value> = records.iter().map(|record| short(record, archived)).collect();
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

fn short(record: &Value, archived: bool) -> Value {
    let mut shown = Map::new();
    let mut copy = |member: &str| {
        shown.insert(member.to_owned(), record.get(member).cloned().unwrap_or(Value::Null));
    };
    ["name", "current_agreement_id", "consumer_id"].into_iter().for_each(&mut copy);
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

async fn cancel(agent: &Api, id: Option<String>, is_all: bool, is_forced: bool) -> Outcome {
    let ids = match id {
        Some(id) => vec![id],
        None if is_all => {
            if !confirm("End all agreements of this node?", is_forced || agent.is_dry_run)? {
                note("nothing was ended");
                return Ok(());
            }
            let found = read(agent).await?;
            let active = list(&found, "/agreements/active").iter();
            active.map(|record| text(record, "current_agreement_id").to_owned()).collect()
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
        if !agent.delete(&format!("ending agreement {id}"), &Path::new(&["agreement", &id])).await? {
            let what = format!("agreement {id} was not found");
            return Err(CliError::input(
                what,
                "the agent has none of that id",
                "see what there is with: hzn agreement list",
            ));
        }
        agent.report_done(&format!("agreement {id} is being ended"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Value {
        json!({"agreements": {
            "active": [{"name": "n", "current_agreement_id": "a1", "consumer_id": "o/agbot", "agreement_protocol": "Basic",
                        "agreement_finalized_time": 0, "workload_to_run": {"url": "cam", "version": "1.0.0"}, "proposal": "x"}],
            "archived": [{"current_agreement_id": "a0", "terminated_reason": 100, "terminated_description": "why"}],
        }})
    }

    #[test]
    fn short_form_has_the_members_of_the_contract() {
        let view = all(&found(), false);
        let record = &view.json[0];
        assert_eq!((&record["agreement_finalized_time"], record.get("proposal")), (&json!(""), None));
        assert_eq!(record["workload_to_run"]["url"], "cam");
        assert_eq!(view.table.rows[0][0], "cam");
        let ended = all(&found(), true);
        assert_eq!(
            (&ended.json[0]["terminated_reason"], ended.json.as_array().map(Vec::len)),
            (&json!(100), Some(1))
        );
    }

    #[test]
    fn single_agreement_is_shown_as_it_is_and_an_unknown_one_is_wrong_input() {
        assert_eq!(one(&found(), "a1").map(|view| view.json["proposal"].clone()), Ok(json!("x")));
        assert_eq!(one(&found(), "zz").map_err(|error| error.exit), Err(crate::exit::Exit::Input));
    }
}
