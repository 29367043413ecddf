//! `hzn exchange node …policy|…errors|…status|management`: what hangs below a node (exchange API 4.4.1).

use std::path::PathBuf;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::nmp::NMPS;
use super::node::NODES;
use super::resource::{Part, require_selectors};
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::read_json;
use crate::output::{Table, View};

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
    },
    /// Replaces parts of the policy of a node
    Updatepolicy {
        /// Node whose policy is changed
        node: String,
        /// JSON or YAML file with properties, constraints, deployment or management, - for standard input
        #[arg(short = 'f', long = "json-file", visible_alias = "input-file", value_name = "FILE")]
        file: PathBuf,
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
/// Those of the command.
pub async fn run(command: NodePartCommand, context: &Context, exchange: &Exchange) -> Outcome {
    let path = |node: &str, part: &str| {
        let (org, id) = exchange.split(node);
        NODES.path_of(&org, Some(&id)).push(part)
    };
    match command {
        NodePartCommand::Listpolicy { node } => {
            let path = path(&node, "policy");
            policy_part(&node, &path).show(context, exchange).await
        }
        NodePartCommand::Addpolicy { node, file } => {
            let policy = read_json(&file, &context.settings)?;
            put_policy(exchange, &node, policy).await
        }
        NodePartCommand::Updatepolicy { node, file } => {
            let change = read_json(&file, &context.settings)?;
            let path = path(&node, "policy");
            let stored = policy_part(&node, &path).find(exchange).await?;
            put_policy(exchange, &node, merged(stored.unwrap_or_else(|| json!({})), change)?).await
        }
        NodePartCommand::Removepolicy { node, force } => {
            let path = path(&node, "policy");
            policy_part(&node, &path).remove(exchange, force).await
        }
        NodePartCommand::Listerrors { node, long } => list_errors(context, exchange, &node, long).await,
        NodePartCommand::Liststatus { node, watch } => {
            context.show_watched(&watch, async || show_status(exchange, &node).await).await
        }
        NodePartCommand::Management(ManagementCommand::Status { node, policy, watch }) => {
            let look = async || {
                let found = node_management(exchange, &node, policy.as_deref()).await?;
                if found.is_empty() {
                    let selectors = [(&NODES, Some(node.as_str())), (&NMPS, policy.as_deref())];
                    require_selectors(exchange, &selectors).await?;
                }
                Ok(management_view(found))
            };
            context.show_watched(&watch, look).await
        }
    }
}

/// Replaces a node's policy; without a version it is in the present form.
///
/// # Errors
/// With status 1 when it is no object, 5 when the exchange refuses it.
pub async fn put_policy(exchange: &Exchange, node: &str, mut policy: Value) -> Outcome {
    let (org, id) = exchange.split(node);
    let members = policy.as_object_mut().ok_or_else(|| {
        CliError::new(Exit::Json, "the policy cannot be used", "it is not a JSON object", "correct the file")
    })?;
    members.remove("lastUpdated");
    members.insert("nodePolicyVersion".to_owned(), Value::from("v2"));
    let path = NODES.path_of(&org, Some(&id)).push("policy").no_heartbeat();
    exchange
        .api
        .write(&format!("setting the policy of node {org}/{id}"), Method::PUT, &path, Some(&policy))
        .await?;
    exchange.api.report_done(&format!("the policy of node {org}/{id} is set"));
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

fn policy_part<'a>(node: &'a str, path: &'a evenkeel_client::Path) -> Part<'a> {
    Part { kind: &NODES, owner: node, noun: "policy", path }
}

async fn list_errors(context: &Context, exchange: &Exchange, node: &str, is_long: bool) -> Outcome {
    let (org, id) = exchange.split(node);
    let path = NODES.path_of(&org, Some(&id)).push("errors");
    let part = Part { kind: &NODES, owner: node, noun: "errors", path: &path };
    let found = part.find(exchange).await?.unwrap_or_default();
    let errors: Vec<Value> = found.get("errors").and_then(Value::as_array).cloned().unwrap_or_default();
    let table =
        Table::of_list(&errors, &[("code", "event_code"), ("message", "message"), ("hidden", "hidden")]);
    let short = || errors.iter().map(|error| error.get("message").cloned().unwrap_or(Value::Null)).collect();
    let json = if is_long { Value::Array(errors.clone()) } else { short() };
    context.screen.show(&View::new(json, table))
}

async fn show_status(exchange: &Exchange, node: &str) -> Outcome<View> {
    let (org, id) = exchange.split(node);
    let path = NODES.path_of(&org, Some(&id)).push("status");
    let part = Part { kind: &NODES, owner: node, noun: "status", path: &path };
    let found = part.find(exchange).await?.unwrap_or_else(|| json!({}));
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

/// How far a node is with its management policies, by `org/policy`; empty when it has none.
///
/// # Errors
/// With status 5 when it cannot be read.
pub async fn node_management(
    exchange: &Exchange,
    node: &str,
    policy: Option<&str>,
) -> Outcome<serde_json::Map<String, Value>> {
    let (org, id) = exchange.split(node);
    let path = NODES.path_of(&org, Some(&id)).push("managementStatus");
    let path = match policy {
        Some(policy) => path.push(&crate::context::split_name(policy, &org).1),
        None => path,
    };
    let found = exchange.api.find(&format!("reading the management status of node {node}"), &path).await?;
    match found.and_then(|mut found| found.get_mut("managementStatus").map(Value::take)) {
        Some(Value::Object(map)) => Ok(map),
        _ => Ok(serde_json::Map::new()),
    }
}

fn management_view(found: serde_json::Map<String, Value>) -> View {
    let columns = [
        ("status", "/agentUpgradePolicyStatus/status"),
        ("scheduled", "/agentUpgradePolicyStatus/scheduledTime"),
        ("started", "/agentUpgradePolicyStatus/startTime"),
        ("ended", "/agentUpgradePolicyStatus/endTime"),
        ("error", "/agentUpgradePolicyStatus/errorMessage"),
    ];
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
