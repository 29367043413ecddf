//! `hzn policy`: the policy of the node on this machine (agbot 5.6).

use std::path::PathBuf;

use clap::Subcommand;
use evenkeel_ids::NodeId;
use serde_json::Value;

use super::local_stops::{confirm_local_stops, show_local_stops};
use crate::confirm::confirm;
use crate::constraints;
use crate::context::{Context, Watch};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::{read_shape, shaped, template};
use crate::output::{View, print_note};
use crate::shape::{NodePolicyFile, check_properties};
use crate::stops::{Force, ForceOfFile, Write};

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
        #[command(flatten)]
        force: ForceOfFile,
    },
    /// Replaces one part of the policy
    Patch {
        /// JSON text with one of properties, constraints, deployment, management
        patch: String,
        #[command(flatten)]
        force: Force,
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
/// Returns the error of the command.
pub async fn run(command: PolicyCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        PolicyCommand::List { watch } => {
            let show = async || {
                let found = agent.call("asking the agent for the node's policy", agent.client.local_policy());
                Ok(View::of(found.await?.into_value()))
            };
            context.show_watched(&watch, show).await
        }
        PolicyCommand::New => show_template(context),
        PolicyCommand::Update { file, force } => {
            let policy = read_shape::<NodePolicyFile>(&file, context)?;
            constraints::check(&policy)?;
            check_properties("the node", &policy)?;
            let write = |node: &NodeId| Write::node_policy(node, Some(&policy));
            if !confirm_local_stops(context, &agent, write, force.confirmation()).await? {
                return Ok(());
            }
            let policy = policy.into();
            let written = agent.client.post_local_policy(&policy);
            agent.call("setting the node's policy", written).await?;
            agent.report_done("the node's policy is set");
            Ok(())
        }
        PolicyCommand::Patch { patch, force } => {
            let patch: Value = serde_json::from_str(&patch).map_err(|error| {
                CliError::new(Exit::Json, "the policy was not changed", error.to_string(), "give JSON")
            })?;
            let patch = shaped::<NodePolicyFile>("the argument", &patch, context)?.document;
            constraints::check(&patch)?;
            check_properties("the node", &patch)?;
            let stored = agent.call("asking the agent for the node's policy", agent.client.local_policy());
            let mut policy = stored.await?.into_value();
            if let (Some(policy), Some(patch)) = (policy.as_object_mut(), patch.as_object()) {
                policy.extend(patch.clone());
            }
            let write = |node: &NodeId| Write::node_policy(node, Some(&policy));
            if !confirm_local_stops(context, &agent, write, force.confirmation()).await? {
                return Ok(());
            }
            let patch = patch.into();
            let changed = agent.client.patch_local_policy(&patch);
            agent.call("changing the node's policy", changed).await?;
            agent.report_done("the node's policy is changed");
            Ok(())
        }
        PolicyCommand::Remove { force } => {
            let write = |node: &NodeId| Write::node_policy(node, None);
            show_local_stops(context, &agent, write).await;
            if !confirm("Remove the node's policy?", force || agent.is_dry_run)? {
                print_note("nothing was removed");
                return Ok(());
            }
            agent.call("removing the node's policy", agent.client.delete_local_policy()).await?;
            agent.report_done("the node's policy is removed");
            Ok(())
        }
    }
}

fn show_template(context: &Context) -> Outcome {
    let text = r#"{
  "properties": [                   /* properties of the node, for deployment and management */
    {"name": "site", "value": "north"}
  ],
  "constraints": [],                /* conditions on the properties of policies and services */
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
