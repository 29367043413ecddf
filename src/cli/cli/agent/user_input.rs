//! `hzn userinput`: values for the variables of services on this node (agbot 5.6, agreement protocol 4.5).

use std::path::PathBuf;

use super::local_stops::{confirm_local_stops, show_local_stops};
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::Outcome;
use crate::input::template;
use crate::output::{Table, View, print_note};
use crate::shape::read_user_input;
use crate::stops::{ForceOfFile, Write};
use clap::Subcommand;
use evenkeel_ids::NodeId;
use serde_json::json;

/// Commands for user input.
#[derive(Debug, Subcommand)]
pub enum UserInputCommand {
    /// Shows the values
    List,
    /// Prints a template
    New,
    /// Replaces all values
    Add {
        /// JSON or YAML file with the values, - for standard input
        #[arg(short = 'f', long = "file-path", value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        force: ForceOfFile,
    },
    /// Replaces or adds single values and keeps all others
    Update {
        /// JSON or YAML file with the values, - for standard input
        #[arg(short = 'f', long = "file-path", value_name = "FILE")]
        file: PathBuf,
    },
    /// Removes all values
    #[command(visible_alias = "delete")]
    Remove {
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
}

/// Runs a command for user input.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: UserInputCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        UserInputCommand::List => {
            let found = agent.client.local_user_input();
            let found = agent.call("asking the agent for the node's user input", found).await?.into_value();
            let entries = found.as_array().cloned().unwrap_or_default();
            let columns = [("service", "serviceUrl"), ("organization", "serviceOrgid"), ("values", "inputs")];
            let table = Table::of_list(&entries, &columns);
            context.screen.show(&View::new(found, table))
        }
        UserInputCommand::New => {
            let text = r#"[
  {
    "serviceOrgid": "$HZN_ORG_ID",
    "serviceUrl": "",
    "serviceArch": "",
    "serviceVersionRange": "[0.0.0,INFINITY)",
    "inputs": [
      {"name": "", "value": ""}
    ]
  }
]"#;
            context.screen.show(&View::plain(text, template(text)))
        }
        UserInputCommand::Add { file, force } => {
            let values = read_user_input(&file, context)?;
            let write = |node: &NodeId| Write::user_input(node, &values);
            if !confirm_local_stops(context, &agent, write, force.confirmation()).await? {
                return Ok(());
            }
            let values = values.into();
            let written = agent.client.post_local_user_input(&values);
            agent.call("setting the node's user input", written).await?;
            agent.report_done("the node's user input is set");
            Ok(())
        }
        UserInputCommand::Update { file } => {
            let values = read_user_input(&file, context)?.into();
            let changed = agent.client.patch_local_user_input(&values);
            agent.call("changing the node's user input", changed).await?;
            agent.report_done("the node's user input is changed");
            Ok(())
        }
        UserInputCommand::Remove { force } => {
            show_local_stops(context, &agent, |node| Write::user_input(node, &json!([]))).await;
            if !confirm("Remove the node's user input?", force || agent.is_dry_run)? {
                print_note("nothing was removed");
                return Ok(());
            }
            agent.call("removing the node's user input", agent.client.delete_local_user_input()).await?;
            agent.report_done("the node's user input is removed");
            Ok(())
        }
    }
}
