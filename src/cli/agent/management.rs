//! `hzn nmstatus`: management policies on the node of this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_client::Path;
use http::Method;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::context::{Context, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View};

/// Commands for management policies on the node.
#[derive(Debug, Subcommand)]
pub enum ManagementCommand {
    /// Shows the progress of the node's management policies
    List {
        /// Policy to show
        nmp: Option<String>,
        /// Show everything, not only the state
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Restarts the management policies of the node, or one of them
    Reset {
        /// Policy to restart
        nmp: Option<String>,
    },
}

/// Runs a command for management policies on the node.
///
/// # Errors
/// Those of the command.
pub async fn run(command: ManagementCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        ManagementCommand::List { nmp, long, watch } => {
            context.show_watched(&watch, async || list(&agent, nmp.as_deref(), long).await).await
        }
        ManagementCommand::Reset { nmp } => {
            let path = path("reset", nmp.as_deref());
            let answer = agent.attempt("resetting management", Method::PUT, &path, None).await?;
            match (answer.status.as_u16(), nmp) {
                (404, Some(nmp)) => Err(CliError::not_found("management policy", &nmp, "hzn nmstatus list")),
                (200 | 201, _) => {
                    agent.report_done("the node begins again");
                    Ok(())
                }
                _ => Err(agent.failed("resetting management", &answer.unexpected())),
            }
        }
    }
}

fn path(what: &str, nmp: Option<&str>) -> Path {
    let path = Path::new(&["nodemanagement", what]);
    nmp.into_iter().flat_map(|nmp| nmp.split('/')).fold(path, Path::push)
}

async fn list(agent: &Api, nmp: Option<&str>, is_long: bool) -> Outcome<View> {
    let found = agent.find("asking the agent for its management policies", &path("status", nmp)).await?;
    match (found, nmp) {
        (None, Some(nmp)) => Err(CliError::not_found("management policy", nmp, "hzn nmstatus list")),
        (found, _) => Ok(view(found.unwrap_or_else(|| json!({})), is_long)),
    }
}

fn view(found: Value, is_long: bool) -> View {
    let map = found.as_object().cloned().unwrap_or_default();
    let columns = [
        ("status", "/agentUpgradePolicyStatus/status"),
        ("scheduled", "/agentUpgradePolicyStatus/scheduledTime"),
        ("ended", "/agentUpgradePolicyStatus/endTime"),
        ("error", "/agentUpgradePolicyStatus/errorMessage"),
    ];
    let table = Table::of_map(&map, "policy", &columns);
    if is_long {
        return View::new(found, table);
    }
    let state =
        |status: &Value| status.pointer("/agentUpgradePolicyStatus/status").cloned().unwrap_or_default();
    let short: Map<String, Value> = map.iter().map(|(name, status)| (name.clone(), state(status))).collect();
    View::new(Value::Object(short), table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_form_is_one_word_per_policy() {
        let found = json!({"plant7/fw-9": {"agentUpgradePolicyStatus": {"status": "successful"}}});
        assert_eq!(view(found.clone(), false).json, json!({"plant7/fw-9": "successful"}));
        assert_eq!(view(found.clone(), true).json, found);
        assert_eq!(path("status", Some("o/n")).shown(), "/nodemanagement/status/o/n");
    }
}
