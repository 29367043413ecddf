//! `hzn exchange nmp`: management policies (exchange API 4.9, agreement protocol 6).

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Subcommand;
use evenkeel_wire::RawJson;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::nmp_match::matching_nodes;
use super::node_part::node_management;
use super::revision::{self, RevisionCommand};
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::{read_shaped, template};
use crate::output::{Table, View, print_note};
use crate::resource::deployment::without;
use crate::resource::kinds::{NMPS, NODES};
use crate::resource::require_selectors;
use crate::shape::{NmpFile, require_constraints};

const EXCHANGE_ONLY: [&str; 3] = ["owner", "created", "lastUpdated"];

/// Commands for management policies.
#[derive(Debug, Subcommand)]
pub enum NmpCommand {
    /// Shows the management policies of the organization, or one of them
    List {
        /// Policy to show
        nmp: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'l', long)]
        long: bool,
        /// Show the nodes that each policy is for
        #[arg(long)]
        nodes: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Prints a template for a management policy
    New,
    /// Creates or replaces a management policy
    Add {
        /// Name of the policy
        nmp: String,
        /// JSON or YAML file with the policy, - for standard input
        #[arg(short = 'f', long = "json-file", value_name = "FILE")]
        file: PathBuf,
        /// Show the nodes that it is for
        #[arg(long = "appliesTo", visible_alias = "applies-to")]
        applies_to: bool,
        /// Confirm that a policy without constraints is meant for every node
        #[arg(long)]
        no_constraints: bool,
    },
    /// Removes a management policy
    #[command(visible_alias = "delete")]
    Remove {
        /// Name of the policy
        nmp: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
    /// Shows the progress of nodes with a management policy
    Status {
        /// Name of the policy
        nmp: String,
        /// Only this node
        #[arg(short = 'N', long = "node", value_name = "NODE")]
        node: Option<String>,
        /// Show everything, not only the state
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Enables a management policy
    Enable {
        /// Name of the policy
        nmp: String,
        /// Start of the management, as 2030-01-31T12:00:00Z or `now` [default: unchanged]
        #[arg(short = 's', long, value_name = "TIME", value_parser = start_time)]
        start_time: Option<String>,
        /// Window after the start in which nodes begin, in seconds [default: unchanged]
        #[arg(short = 'w', long, value_name = "SECONDS")]
        start_window: Option<u32>,
    },
    /// Disables a management policy
    Disable {
        /// Name of the policy
        nmp: String,
    },
    #[command(flatten)]
    Revision(RevisionCommand),
}

/// Runs a command for management policies.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: NmpCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        NmpCommand::Revision(command) => revision::run(command, &NMPS, context, exchange).await,
        NmpCommand::List { nmp, nodes: true, watch, .. } => {
            context.show_watched(&watch, async || list_nodes(exchange, nmp.as_deref()).await).await
        }
        NmpCommand::List { nmp, long, watch, .. } => {
            context.show_watched(&watch, async || NMPS.list(exchange, nmp.as_deref(), long).await).await
        }
        NmpCommand::New => show_template(context),
        NmpCommand::Add { nmp, file, applies_to, no_constraints } => {
            let shaped = read_shaped::<NmpFile>(&file, context)?;
            require_constraints(&format!("management policy {nmp}"), &shaped, no_constraints)?;
            NMPS.put(exchange, &nmp, &shaped.document, StatusCode::FORBIDDEN).await?;
            if applies_to { context.screen.show(&list_nodes(exchange, Some(&nmp)).await?) } else { Ok(()) }
        }
        NmpCommand::Remove { nmp, force } => NMPS.remove(exchange, &nmp, force).await,
        NmpCommand::Status { nmp, node, long, watch } => {
            context.show_watched(&watch, async || status(exchange, &nmp, node.as_deref(), long).await).await
        }
        NmpCommand::Enable { nmp, start_time, start_window } => {
            let start = start_time.map(|time| ("start", Value::from(time)));
            let window = start_window.map(|seconds| ("startWindow", Value::from(seconds)));
            set_enabled(exchange, &nmp, true, start.into_iter().chain(window).collect()).await
        }
        NmpCommand::Disable { nmp } => set_enabled(exchange, &nmp, false, Vec::new()).await,
    }
}

fn start_time(text: &str) -> Result<String, &'static str> {
    let is_time = text == "now" || text.parse::<jiff::Timestamp>().is_ok();
    is_time.then(|| text.to_owned()).ok_or("it is neither a time such as 2030-01-31T12:00:00Z nor `now`")
}

/// The exchange does not support changes of single attributes here, so the whole policy is read and written back.
async fn set_enabled(
    exchange: &Exchange,
    nmp: &str,
    is_enabled: bool,
    attributes: Vec<(&str, Value)>,
) -> Outcome {
    let mut policy = NMPS.read_one(exchange, nmp).await?.into_value();
    let word = if is_enabled { "in force" } else { "out of force" };
    if attributes.is_empty() && policy.get("enabled") == Some(&Value::Bool(is_enabled)) {
        print_note(format!("management policy {nmp} is {word} already"));
        return Ok(());
    }
    prepare(&mut policy, is_enabled);
    for (member, value) in attributes {
        policy[member] = value;
    }
    let (org, id) = exchange.split(nmp);
    let doing = format!("setting management policy {org}/{id} to {word}");
    // Not checked, because it must be possible to disable a policy that was stored with a mistake.
    let replaced = exchange.server.client.replace_record(NMPS.resource, &org, &id, &policy);
    exchange.server.call(&doing, replaced).await?;
    exchange.server.report_done(&format!("management policy {org}/{id} is {word}"));
    Ok(())
}

/// Constraints and patterns exclude each other even when one of them is empty.
fn prepare(policy: &mut Value, is_enabled: bool) {
    without(policy, &EXCHANGE_ONLY);
    policy["enabled"] = Value::Bool(is_enabled);
    let has_patterns = policy.get("patterns").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    without(policy, &[if has_patterns { "constraints" } else { "patterns" }]);
}

async fn list_nodes(exchange: &Exchange, nmp: Option<&str>) -> Outcome<View> {
    let policies = NMPS.read(exchange, nmp).await?;
    let nodes = NODES.read(exchange, None).await?;
    let mut found = Map::new();
    let mut table = Table::new(&["management policy", "nodes"]).keeping(&["nodes"]);
    let matches = matching_nodes(exchange, &policies, &nodes).await?;
    for (policy, nodes) in matches {
        table.push([policy.clone(), nodes.join(", ")]);
        found.insert(policy, nodes.into_iter().map(Value::from).collect());
    }
    Ok(View::new(Value::Object(found), table))
}

async fn status(exchange: &Exchange, nmp: &str, node: Option<&str>, is_long: bool) -> Outcome<View> {
    let (org, id) = exchange.split(nmp);
    let qualified = format!("{org}/{id}");
    let nodes: Vec<String> = match node {
        Some(node) => vec![node.to_owned()],
        None => NODES.read(exchange, None).await?.into_iter().map(|(name, _)| name).collect(),
    };
    let mut found: BTreeMap<String, RawJson> = BTreeMap::new();
    for node in nodes {
        let statuses = node_management(exchange, &node, Some(&qualified)).await?;
        if let Some((_, status)) = statuses.into_iter().find(|(name, _)| *name == qualified) {
            let (node_org, node_id) = exchange.split(&node);
            found.insert(format!("{node_org}/{node_id}"), status);
        }
    }
    if found.is_empty() {
        require_selectors(exchange, &[(&NMPS, Some(nmp)), (&NODES, node)]).await?;
        return Err(CliError::new(
            Exit::NotFound,
            format!("no node has a status for management policy {qualified}"),
            "no node has started it yet",
            format!("see which nodes it is for with: hzn exchange nmp list {id} --nodes"),
        ));
    }
    Ok(status_view(&found, &qualified, is_long))
}

fn status_view(found: &BTreeMap<String, RawJson>, nmp: &str, is_long: bool) -> View {
    let inner = |status: &RawJson, member: &str| {
        status
            .as_value()
            .pointer(&format!("/agentUpgradePolicyStatus/{member}"))
            .cloned()
            .unwrap_or(Value::Null)
    };
    let mut table = Table::new(&["node", "status", "scheduled", "ended", "error"]);
    let mut json = Map::new();
    for (node, status) in found {
        let cell = |member: &str| crate::output::cell_text(&inner(status, member));
        table.push([
            node.clone(),
            cell("status"),
            cell("scheduledTime"),
            cell("endTime"),
            cell("errorMessage"),
        ]);
        let shown = if is_long { json!({ nmp: status }) } else { inner(status, "status") };
        json.insert(node.clone(), shown);
    }
    View::new(Value::Object(json), table)
}

/// Prints a template for a management policy.
///
/// # Errors
/// When nothing can be written.
pub fn show_template(context: &Context) -> Outcome {
    let text = r#"{
  "label": "",                      /* name for people */
  "description": "",
  "constraints": [                  /* which nodes; leave out when patterns are given */
    "site == north"
  ],
  "properties": [],
  "enabled": true,
  "start": "now",                   /* now, or an instant such as 2030-01-31T22:00:00Z */
  "startWindow": 0,                 /* seconds over which nodes spread their start */
  "agentUpgradePolicy": {
    "manifest": "",                 /* what to install */
    "allowDowngrade": false
  }
}"#;
    context.screen.show(&View::plain(text, template(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_back_has_either_constraints_or_patterns() {
        let mut policy =
            json!({"owner": "x", "constraints": [], "patterns": ["p"], "enabled": false, "created": ""});
        prepare(&mut policy, true);
        assert_eq!(policy, json!({"patterns": ["p"], "enabled": true}));
        let mut policy = json!({"constraints": ["a == b"], "patterns": [], "enabled": true});
        prepare(&mut policy, false);
        assert_eq!(policy, json!({"constraints": ["a == b"], "enabled": false}));
    }

    #[test]
    fn short_status_is_one_word_per_node() {
        let status = json!({"agentUpgradePolicyStatus": {"status": "waiting", "scheduledTime": "t"}});
        let found = BTreeMap::from([("o/n1".to_owned(), status.clone().into())]);
        assert_eq!(status_view(&found, "o/fw", false).json, json!({"o/n1": "waiting"}));
        assert_eq!(status_view(&found, "o/fw", true).json, json!({"o/n1": {"o/fw": status}}));
    }
}
