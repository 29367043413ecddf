//! `hzn nmstatus`: management policies on the node of this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_client::Records;
use serde_json::{Map, Value};

use crate::context::{Context, Watch};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View};
use crate::resource::members_of;
use crate::server::Server;

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
/// Returns the error of the command.
pub async fn run(command: ManagementCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        ManagementCommand::List { nmp, long, watch } => {
            context.show_watched(&watch, async || list(&agent, nmp.as_deref(), long).await).await
        }
        ManagementCommand::Reset { nmp } => {
            let reset = agent.client.reset_local_management(nmp.as_deref());
            match (agent.call("resetting management", reset).await?, nmp) {
                (false, Some(nmp)) => {
                    Err(CliError::not_found("management policy", &nmp, "hzn nmstatus list"))
                }
                _ => {
                    agent.report_done("the node begins again");
                    Ok(())
                }
            }
        }
    }
}

async fn list(agent: &Server, nmp: Option<&str>, is_long: bool) -> Outcome<View> {
    let found = agent.client.local_management_records(nmp);
    let found = agent.call("asking the agent for its management policies", found).await?;
    match (found, nmp) {
        (None, Some(nmp)) => Err(CliError::not_found("management policy", nmp, "hzn nmstatus list")),
        (found, _) => Ok(view(found.unwrap_or_default(), is_long)),
    }
}

fn view(found: Records, is_long: bool) -> View {
    let map = members_of(found);
    let columns = [
        ("status", "/agentUpgradePolicyStatus/status"),
        ("scheduled", "/agentUpgradePolicyStatus/scheduledTime"),
        ("ended", "/agentUpgradePolicyStatus/endTime"),
        ("error", "/agentUpgradePolicyStatus/errorMessage"),
    ];
    let table = Table::of_map(&map, "policy", &columns);
    if is_long {
        return View::new(Value::Object(map), table);
    }
    let state =
        |status: &Value| status.pointer("/agentUpgradePolicyStatus/status").cloned().unwrap_or_default();
    let short: Map<String, Value> = map.iter().map(|(name, status)| (name.clone(), state(status))).collect();
    View::new(Value::Object(short), table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_form_is_one_word_per_policy() {
        let status = json!({"agentUpgradePolicyStatus": {"status": "successful"}});
        let found: Records = vec![("plant7/fw-9".to_owned(), status.clone().into())];
        assert_eq!(view(found.clone(), false).json, json!({"plant7/fw-9": "successful"}));
        assert_eq!(view(found, true).json, json!({"plant7/fw-9": status}));
    }
}
