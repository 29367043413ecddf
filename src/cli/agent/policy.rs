//! `hzn policy`: the policy of the node on this machine (agbot 5.6).

use std::path::PathBuf;

use clap::Subcommand;
use evenkeel_client::Path;
use http::Method;

use crate::confirm::confirm;
use crate::context::{Context, Watch};
use crate::exit::Outcome;
use crate::input::{read_json, template};
use crate::output::{View, note};

/// Commands for the node's policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Shows the policy
    List {
        #[command(flatten)]
        watch: Watch,
    },
    /// Prints a template for a policy
    New,
    /// Replaces the policy
    Update {
        /// JSON or YAML file with the policy, - for standard input
        #[arg(short = 'f', long = "input-file", value_name = "FILE")]
        file: PathBuf,
    },
    /// Replaces one part of the policy
    Patch {
        /// JSON text with one of properties, constraints, deployment, management
        patch: String,
    },
    /// Removes the policy
    #[command(visible_alias = "delete")]
    Remove {
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
}

/// Runs a command for the node's policy.
///
/// # Errors
/// Those of the command.
pub async fn run(command: PolicyCommand, context: &Context) -> Outcome {
    let path = Path::new(&["node", "policy"]);
    let agent = context.agent()?;
    match command {
        PolicyCommand::List { watch } => {
            let look =
                async || Ok(View::of(agent.get("asking the agent for the node's policy", &path).await?));
            context.show_watched(&watch, look).await
        }
        PolicyCommand::New => show_template(context),
        PolicyCommand::Update { file } => {
            let policy = read_json(&file, &context.settings)?;
            agent.write("setting the node's policy", Method::POST, &path, Some(&policy)).await?;
            agent.report_done("the node's policy is set");
            Ok(())
        }
        PolicyCommand::Patch { patch } => {
            let patch = serde_json::from_str(&patch).map_err(|error| {
                let why = error.to_string();
                crate::exit::CliError::new(
                    crate::exit::Exit::Json,
                    "the policy was not changed",
                    why,
                    "give JSON",
                )
            })?;
            agent.write("changing the node's policy", Method::PATCH, &path, Some(&patch)).await?;
            agent.report_done("the node's policy is changed");
            Ok(())
        }
        PolicyCommand::Remove { force } => {
            if !confirm("Remove the node's policy?", force || agent.is_dry_run)? {
                note("nothing was removed");
                return Ok(());
            }
            agent.delete("removing the node's policy", &path).await?;
            agent.report_done("the node's policy is removed");
            Ok(())
        }
    }
}

fn show_template(context: &Context) -> Outcome {
    let text = r#"{
  "properties": [                   /* what the node says of itself, for deployment and management */
    {"name": "site", "value": "north"}
  ],
  "constraints": [],                /* what it asks of policies and services */
  "deployment": {                   /* only for the deployment of services; its constraints replace those above */
    "properties": [],
    "constraints": []
  },
  "management": {                   /* only for the management of the agent */
    "properties": [],
    "constraints": []
  }
}"#;
    context.screen.show(&View::plain(text, template(text)))
}
