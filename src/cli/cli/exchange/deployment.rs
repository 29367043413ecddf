//! `hzn exchange deployment` (also `business`): deployment policies (exchange API 4.8).

use std::path::PathBuf;

use clap::Subcommand;
use http::StatusCode;
use serde_json::Value;

use super::orch::{self, OrchCommand};
use super::revision::{self, RevisionCommand};
use crate::context::{Context, Exchange, Watch};
use crate::exit::Outcome;
use crate::input::{read_shape, read_shaped, template};
use crate::output::View;
use crate::plan::CheckToken;
use crate::resource::deployment::{merged, prepare};
use crate::resource::kinds::POLICIES;
use crate::resource::selection::ListSelection;
use crate::shape::{DeploymentPolicyFile, complete_policy, require_constraints};
use crate::stops::{ForceOfFile, Write, confirm_stops, show_stops};
use crate::wait::{self, Wait};

/// Commands for deployment policies.
#[derive(Debug, Subcommand)]
pub enum DeploymentCommand {
    /// Shows the deployment policies of the organization, or one of them
    #[command(name = "listpolicy", visible_alias = "list")]
    List {
        /// Policy to show
        policy: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        selection: ListSelection,
        #[command(flatten)]
        watch: Watch,
    },
    /// Prints a template for a deployment policy
    New,
    /// Creates or replaces a deployment policy
    #[command(name = "addpolicy", visible_alias = "add")]
    Add {
        /// Name of the policy
        policy: String,
        /// JSON or YAML file with the policy, - for standard input
        #[arg(short = 'f', long = "json-file", value_name = "FILE")]
        file: PathBuf,
        /// Confirm that a policy without constraints is meant for every node
        #[arg(long)]
        no_constraints: bool,
        #[command(flatten)]
        token: CheckToken,
        #[command(flatten)]
        force: ForceOfFile,
        #[command(flatten)]
        wait: Wait,
    },
    /// Changes attributes of a deployment policy
    #[command(name = "updatepolicy", visible_alias = "update")]
    Update {
        /// Name of the policy
        policy: String,
        /// JSON or YAML file with the attributes, - for standard input
        #[arg(short = 'f', long = "json-file", value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        token: CheckToken,
        #[command(flatten)]
        force: ForceOfFile,
        #[command(flatten)]
        wait: Wait,
    },
    /// Instances of a deployment policy, their placement and their state
    #[command(subcommand, name = "orchestration", alias = "orch")]
    Orch(OrchCommand),
    /// Removes a deployment policy and stops its service on every node
    #[command(name = "removepolicy", visible_aliases = ["remove", "delete"])]
    Remove {
        /// Name of the policy
        policy: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
        /// Stop its instances although workloads in its "children" are up
        #[arg(long)]
        skip_children: bool,
    },
    #[command(flatten)]
    Revision(RevisionCommand),
}

/// Runs a command for deployment policies.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: DeploymentCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        DeploymentCommand::Revision(command) => revision::run(command, &POLICIES, context, exchange).await,
        DeploymentCommand::List { policy, long, selection, watch } => {
            context
                .show_watched(&watch, async || {
                    POLICIES.list_selected(exchange, policy.as_deref(), long, &selection).await
                })
                .await
        }
        DeploymentCommand::New => show_template(context),
        DeploymentCommand::Add { policy, file, no_constraints, token, force, wait } => {
            POLICIES.check_name(&policy)?;
            let mut shaped = read_shaped::<DeploymentPolicyFile>(&file, context)?;
            complete_policy(&policy, &mut shaped.document)?;
            require_constraints(&format!("deployment policy {policy}"), &shaped, no_constraints)?;
            let mut body = shaped.document;
            POLICIES.check(exchange, &policy, &body)?;
            prepare(&mut body, context)?;
            token.check(context, exchange, &policy, "hzn plan", async || Ok(body.clone())).await?;
            let write = [Write::policy(&policy, &body)];
            if !confirm_stops(context, exchange, &write, force.confirmation()).await? {
                return Ok(());
            }
            POLICIES.put(exchange, &policy, &body, StatusCode::FORBIDDEN).await?;
            wait::policy::follow(&wait, context, exchange, &policy).await
        }
        DeploymentCommand::Update { policy, file, token, force, wait } => {
            POLICIES.check_name(&policy)?;
            let mut changes = read_shape::<DeploymentPolicyFile>(&file, context)?;
            POLICIES.check(exchange, &policy, &changes)?;
            prepare(&mut changes, context)?;
            let written = async || merged(exchange, &policy, changes.as_object()).await;
            token.check(context, exchange, &policy, "hzn plan --update", &written).await?;
            let write = [Write::policy(&policy, &written().await?)];
            if !confirm_stops(context, exchange, &write, force.confirmation()).await? {
                return Ok(());
            }
            update(exchange, &policy, changes).await?;
            wait::policy::follow(&wait, context, exchange, &policy).await
        }
        DeploymentCommand::Orch(command) => orch::run(command, context, exchange).await,
        DeploymentCommand::Remove { policy, force, skip_children } => {
            show_stops(context, exchange, &[Write::policy_removal(&policy)]).await;
            if skip_children {
                return remove_before_children(exchange, &policy, force).await;
            }
            POLICIES.remove(exchange, &policy, force).await
        }
    }
}

/// Removes a policy whose instances do not wait for its children.
async fn remove_before_children(exchange: &Exchange, policy: &str, is_forced: bool) -> Outcome {
    let (org, id) = exchange.split(policy);
    let question = format!("Remove deployment policy {org}/{id}, without waiting for its children?");
    if exchange.server.is_dry_run {
        POLICIES.require(exchange, policy).await?;
    }
    let removed = exchange.server.client.delete_policy_before_children(&org, &id);
    POLICIES.remove_by(exchange, policy, (&question, is_forced), removed).await
}

/// A single attribute is changed alone; several take effect together, so that no agbot acts on a part of the change.
async fn update(exchange: &Exchange, name: &str, changes: Value) -> Outcome {
    match changes {
        Value::Object(changes) if changes.len() > 1 => {
            let policy = merged(exchange, name, Some(&changes)).await?;
            let (org, id) = exchange.split(name);
            let doing = format!("changing deployment policy {org}/{id}");
            POLICIES.replace(exchange, name, &policy, &doing).await?;
            exchange.server.report_done(&format!("deployment policy {org}/{id} is changed"));
            Ok(())
        }
        changes => POLICIES.patch(exchange, name, &changes).await,
    }
}

/// Prints a template for a deployment policy.
///
/// # Errors
/// When nothing can be written.
pub fn show_template(context: &Context) -> Outcome {
    let text = r#"{
  "label": "",                      /* name for people */
  "description": "",
  "service": {
    "name": "",                     /* name of the service */
    "org": "$HZN_ORG_ID",           /* its organization */
    "arch": "*",                    /* * for every architecture */
    "serviceVersions": [
      {
        "version": "1.0.0",
        "priority": {               /* leave out when there is one version only */
          "priority_value": 2,      /* the lowest number is tried first */
          "retries": 2,
          "retry_durations": 1800
        }
      }
    ],
    "nodeHealth": {
      "missing_heartbeat_interval": 600,
      "check_agreement_status": 120
    }
  },
  "properties": [                   /* properties of the policy */
    {"name": "myproperty", "value": "myvalue"}
  ],
  "constraints": [                  /* conditions on the properties of nodes, such as openhorizon.hagroup == cameras */
    "site == north"
  ],
  "userInput": []
}"#;
    context.screen.show(&View::plain(text, template(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_paths_are_refused() {
        for fine in ["p", "o/p", "p.1-x_y"] {
            assert_eq!(POLICIES.check_name(fine), Ok(()), "{fine}");
        }
        for path in ["../x", "o/../x", "o/p/x", "o/", "/p", "", ".", "o/.."] {
            assert!(POLICIES.check_name(path).is_err(), "{path}");
        }
    }
}
