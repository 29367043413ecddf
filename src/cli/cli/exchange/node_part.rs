//! `hzn exchange node …policy|…errors|…status|management`: the parts of a node (exchange API 4.4.1).

use std::path::PathBuf;

use clap::Subcommand;
use evenkeel_client::{ClientError, Records};
use evenkeel_wire::RawJson;
use serde_json::{Value, json};

use super::revision::{self, PolicyOwner, PolicyRevisionCommand};
use crate::constraints;
use crate::context::{Context, Exchange, Watch, split_name};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::read_shape;
use crate::output::{Table, View};
use crate::resource::kinds::{NMPS, NODES};
use crate::resource::{Part, members_of, require_selectors};
use crate::shape::{self, NodePolicyFile};
use crate::stops::{Confirmation, ForceOfFile, Write, confirm_stops, show_stops};

/// Commands for parts of a node.
#[derive(Debug, Subcommand)]
pub enum NodePartCommand {
    /// Shows the policy of a node
    Listpolicy {
        /// Node whose policy is shown
        node: String,
    },
    /// Replaces the policy of a node
    #[command(visible_aliases = ["setpolicy"])]
    Addpolicy {
        /// Node that gets the policy
        node: String,
        /// JSON or YAML file with the policy, - for standard input
        #[arg(short = 'f', long = "json-file", visible_alias = "input-file", value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        force: ForceOfFile,
    },
    /// Replaces parts of the policy of a node
    Updatepolicy {
        /// Node whose policy is changed
        node: String,
        /// JSON or YAML file with properties, constraints, deployment or management, - for standard input
        #[arg(short = 'f', long = "json-file", visible_alias = "input-file", value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        force: ForceOfFile,
    },
    /// Removes the policy of a node
    Removepolicy {
        /// Node whose policy is removed
        node: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
    /// Shows the errors that a node reports
    Listerrors {
        /// Node whose errors are shown
        node: String,
        /// Show everything, not only the messages
        #[arg(short = 'l', long)]
        long: bool,
    },
    /// Shows the status of the services of a node
    Liststatus {
        /// Node whose status is shown
        node: String,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows the progress of a node's management policies
    #[command(subcommand)]
    Management(ManagementCommand),
    #[command(flatten)]
    PolicyRevision(PolicyRevisionCommand),
}

/// Commands for the management of a node.
#[derive(Debug, Subcommand)]
pub enum ManagementCommand {
    /// Shows the status of each management policy
    Status {
        /// Node whose status is shown
        node: String,
        /// Only this policy
        #[arg(short = 'p', long = "policy", value_name = "NMP")]
        policy: Option<String>,
        #[command(flatten)]
        watch: Watch,
    },
}

/// Runs a command for a part of a node.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: NodePartCommand, context: &Context, exchange: &Exchange) -> Outcome {
    let client = &exchange.server.client;
    match command {
        NodePartCommand::PolicyRevision(command) => {
            revision::run_for_policy(command, PolicyOwner::Node, context, exchange).await
        }
        NodePartCommand::Listpolicy { node } => {
            let id = exchange.node_id(&node);
            part(&node, "policy").show(context, exchange, client.node_policy(&id)).await
        }
        NodePartCommand::Addpolicy { node, file, force } => {
            let policy = read_shape::<NodePolicyFile>(&file, context)?;
            replace_policy((context, exchange), &node, policy, force.confirmation()).await
        }
        NodePartCommand::Updatepolicy { node, file, force } => {
            let change = read_shape::<NodePolicyFile>(&file, context)?;
            let id = exchange.node_id(&node);
            let stored = part(&node, "policy").find(exchange, client.node_policy(&id)).await?;
            let stored = stored.map_or_else(|| json!({}), RawJson::into_value);
            replace_policy((context, exchange), &node, merged(stored, change)?, force.confirmation()).await
        }
        NodePartCommand::Removepolicy { node, force } => {
            let id = exchange.node_id(&node);
            show_stops(context, exchange, &[Write::node_policy(&id, None)]).await;
            part(&node, "policy").remove(exchange, force, client.delete_node_policy(&id)).await
        }
        NodePartCommand::Listerrors { node, long } => list_errors(context, exchange, &node, long).await,
        NodePartCommand::Liststatus { node, watch } => {
            context.show_watched(&watch, async || show_status(exchange, &node).await).await
        }
        NodePartCommand::Management(ManagementCommand::Status { node, policy, watch }) => {
            let status = async || {
                let found = node_management(exchange, &node, policy.as_deref()).await?;
                if found.is_empty() {
                    let selectors = [(&NODES, Some(node.as_str())), (&NMPS, policy.as_deref())];
                    require_selectors(exchange, &selectors).await?;
                }
                Ok(management_view(found))
            };
            context.show_watched(&watch, status).await
        }
    }
}

/// Replaces a node's policy after the user has confirmed the stops that follow from it.
async fn replace_policy(
    (context, exchange): (&Context, &Exchange),
    node: &str,
    policy: Value,
    confirmation: Confirmation,
) -> Outcome {
    let write = Write::node_policy(&exchange.node_id(node), Some(&policy));
    if !confirm_stops(context, exchange, &[write], confirmation).await? {
        return Ok(());
    }
    put_policy(exchange, node, policy).await
}

/// Replaces a node's policy; without a version it is in the current format.
///
/// # Errors
/// With status 1 when it is not an object, 5 when the exchange refuses it.
pub async fn put_policy(exchange: &Exchange, node: &str, mut policy: Value) -> Outcome {
    let id = exchange.node_id(node);
    let members = policy.as_object_mut().ok_or_else(|| {
        CliError::new(Exit::Json, "the policy cannot be used", "it is not a JSON object", "correct the file")
    })?;
    members.remove("lastUpdated");
    members.insert("nodePolicyVersion".to_owned(), Value::from("v2"));
    constraints::check(&policy)?;
    shape::check_properties(&format!("node {id}"), &policy)?;
    let written = exchange.server.client.put_node_policy(&id, &policy);
    exchange.server.call(&format!("setting the policy of node {id}"), written).await?;
    exchange.server.report_done(&format!("the policy of node {id} is set"));
    Ok(())
}

fn merged(mut stored: Value, change: Value) -> Outcome<Value> {
    let (Some(members), Value::Object(change)) = (stored.as_object_mut(), change) else {
        return Err(CliError::new(
            Exit::Json,
            "the change cannot be used",
            "it is not a JSON object",
            "correct the file",
        ));
    };
    for (name, value) in change {
        if !["properties", "constraints", "deployment", "management", "label", "description"]
            .contains(&name.as_str())
        {
            let why = format!("node policies have no member {name}");
            return Err(CliError::input("the policy was not changed", why, "remove it from the file"));
        }
        members.insert(name, value);
    }
    Ok(stored)
}

fn part<'a>(node: &'a str, noun: &'a str) -> Part<'a> {
    Part { kind: &NODES, owner: node, noun }
}

async fn list_errors(context: &Context, exchange: &Exchange, node: &str, is_long: bool) -> Outcome {
    let id = exchange.node_id(node);
    let found = part(node, "errors").find(exchange, exchange.server.client.node_errors(&id)).await?;
    let errors: Vec<Value> = match found {
        Some(found) => found.errors().map_err(|error| {
            exchange.server.failed(&format!("reading errors of node {node}"), &ClientError::from(error))
        })?,
        None => Vec::new(),
    };
    let table =
        Table::of_list(&errors, &[("code", "event_code"), ("message", "message"), ("hidden", "hidden")]);
    let short = || errors.iter().map(|error| error.get("message").cloned().unwrap_or(Value::Null)).collect();
    let json = if is_long { Value::Array(errors.clone()) } else { short() };
    context.screen.show(&View::new(json, table))
}

async fn show_status(exchange: &Exchange, node: &str) -> Outcome<View> {
    let id = exchange.node_id(node);
    let found = exchange.server.client.node_status_record(&id);
    let found = part(node, "status").find(exchange, found).await?;
    let found = found.map_or_else(|| json!({}), RawJson::into_value);
    let services: Vec<Value> = found.get("services").and_then(Value::as_array).cloned().unwrap_or_default();
    let columns = [
        ("service", "serviceUrl"),
        ("organization", "orgid"),
        ("version", "version"),
        ("state", "/containerStatus/0/state"),
        ("agreement", "agreementId"),
    ];
    Ok(View::new(found, Table::of_list(&services, &columns)))
}

/// Progress of a node with its management policies, by `org/policy`; empty when it has none.
///
/// # Errors
/// With status 5 when it cannot be read.
pub async fn node_management(exchange: &Exchange, node: &str, policy: Option<&str>) -> Outcome<Records> {
    let id = exchange.node_id(node);
    let policy = policy.map(|policy| split_name(policy, id.org()).1);
    let found = exchange.server.client.management_status_records(&id, policy.as_deref());
    exchange.server.call(&format!("reading the management status of node {node}"), found).await
}

fn management_view(found: Records) -> View {
    let columns = [
        ("status", "/agentUpgradePolicyStatus/status"),
        ("scheduled", "/agentUpgradePolicyStatus/scheduledTime"),
        ("started", "/agentUpgradePolicyStatus/startTime"),
        ("ended", "/agentUpgradePolicyStatus/endTime"),
        ("error", "/agentUpgradePolicyStatus/errorMessage"),
    ];
    let found = members_of(found);
    let table = Table::of_map(&found, "policy", &columns);
    View::new(Value::Object(found), table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_replaces_whole_parts_and_nothing_else() {
        let stored = json!({"properties": [1], "constraints": ["a"], "lastUpdated": "x"});
        let expected = json!({"properties": [2], "constraints": ["a"], "lastUpdated": "x"});
        assert_eq!(merged(stored.clone(), json!({"properties": [2]})), Ok(expected));
        assert_eq!(
            merged(stored.clone(), json!({"propertys": []})).map_err(|error| error.exit),
            Err(Exit::Input)
        );
        assert_eq!(merged(stored, json!([])).map_err(|error| error.exit), Err(Exit::Json));
    }
}
