//! `hzn exchange node`: nodes (exchange API 4.4). Writes do not count as heartbeats of the node.

use clap::{Args, Subcommand};
use evenkeel_client::{Credentials, Records};
use evenkeel_wire::exchange::node::{NodeResponse, PutNode};
use jiff::Timestamp;
use serde_json::{Map, json};

use super::node_common::{self, NodeCommon};
use super::node_each::{self, EachCommand};
use super::node_orch::{self, NodeOrchCommand};
use super::node_part::{self, NodePartCommand};
use super::node_removal;
use super::node_state::{DownAfter, NodeHealth, with_health};
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::input::{read_shape, secret};
use crate::output::{View, print_note};
use crate::resource::kinds::NODES;
use crate::resource::selection::ListSelection;
use crate::shape::{self, NodeFile};

/// Commands for nodes.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Shows the nodes that the caller may see, or one of them
    List {
        /// Node to show
        node: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'l', long)]
        long: bool,
        #[command(flatten)]
        selection: ListSelection,
        #[command(flatten)]
        watch: Watch,
    },
    /// Shows what the nodes that are down, or others that are selected, have in common: properties, versions, domains
    Common(NodeCommon),
    /// Changes every node of a selection: drain, pause, activate, freeze, thaw, tag
    #[command(subcommand)]
    Each(EachCommand),
    /// Creates a node, or replaces the token of an existing one
    Create(NodeCreate),
    /// Changes attributes of a node
    Update {
        /// Node to change
        node: String,
        /// JSON object with the attributes, - for standard input
        #[arg(short = 'f', long = "json-file", value_name = "FILE")]
        file: std::path::PathBuf,
    },
    /// Replaces the token of a node
    Settoken {
        /// Node to change
        node: String,
        /// New token; - reads it from standard input
        token: String,
    },
    /// Tests the credentials of a node
    Confirm {
        /// Credentials as NODE:TOKEN [default: -n, else HZN_EXCHANGE_NODE_AUTH]
        credentials: Option<String>,
    },
    /// Removes a node
    #[command(visible_alias = "delete")]
    Remove {
        /// Node to remove
        node: String,
        /// Do not ask, and count the instances of the node as stopped although its agent may be alive
        #[arg(short = 'f', long)]
        force: bool,
    },
    /// Orchestration settings of a node
    #[command(subcommand, name = "orchestration", alias = "orch")]
    Orch(NodeOrchCommand),
    #[command(flatten)]
    Part(NodePartCommand),
}

/// A new node.
#[derive(Debug, Args)]
pub struct NodeCreate {
    /// NODE:TOKEN, or only the node when the token follows [default: -n, else HZN_EXCHANGE_NODE_AUTH]
    node: Option<String>,
    /// Token, unless it follows the node after a colon; - reads it from standard input
    token: Option<String>,
    /// Architecture, as programs of this machine would name it
    #[arg(short = 'a', long)]
    arch: Option<String>,
    /// Human-readable name [default: the id]
    #[arg(short = 'm', long = "node-name", visible_alias = "name")]
    name: Option<String>,
    /// device or cluster
    #[arg(short = 'T', long = "node-type", default_value = "device", value_parser = ["device", "cluster"], ignore_case = true)]
    node_type: String,
}

/// Runs a command for nodes; `node_auth` is what `-n` gives.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(
    command: NodeCommand,
    context: &Context,
    exchange: &Exchange,
    node_auth: Option<&str>,
) -> Outcome {
    match command {
        NodeCommand::List { node, long, selection, watch } => {
            let list = async || list(context, exchange, (node.as_deref(), &selection), long).await;
            context.show_watched(&watch, list).await
        }
        NodeCommand::Common(selection) => node_common::run(selection, context, exchange).await,
        NodeCommand::Each(command) => node_each::run(command, context, exchange).await,
        NodeCommand::Create(node) => create(&node, context, exchange, node_auth).await,
        NodeCommand::Update { node, file } => {
            NODES.patch(exchange, &node, &read_shape::<NodeFile>(&file, context)?).await
        }
        NodeCommand::Settoken { node, token } => {
            let token = secret(&token, "token")?;
            check_token(&node, &token)?;
            NODES.patch(exchange, &node, &json!({"token": token})).await
        }
        NodeCommand::Confirm { credentials } => {
            let given = credentials.as_deref().or(node_auth);
            let node = context.node_credentials(given, &exchange.org)?.ok_or_else(no_node)?;
            let name = node.name();
            let (url, source) = (exchange.server.url.clone(), exchange.server.source);
            let as_node = context.server(url, source, Some(node.clone()))?;
            let id = node.node();
            let own = as_node.client.confirm_node(&id);
            as_node.call(&format!("confirming node {name}"), own).await?;
            print_note(format!("the credentials of node {name} are valid"));
            Ok(())
        }
        NodeCommand::Remove { node, force } => node_removal::remove(context, exchange, &node, force).await,
        NodeCommand::Orch(command) => node_orch::run(command, context, exchange).await,
        NodeCommand::Part(command) => node_part::run(command, context, exchange).await,
    }
}

/// Reads one node.
///
/// # Errors
/// With status 8 when it does not exist.
pub async fn read_node(exchange: &Exchange, name: &str) -> Outcome<NodeResponse> {
    let id = exchange.node_id(name);
    let found =
        exchange.server.call(&format!("reading node {name}"), exchange.server.client.node(&id)).await?;
    found.ok_or_else(|| NODES.missing(name))
}

/// Creates a node without services.
///
/// # Errors
/// With status 5 when the exchange refuses it.
pub async fn put_new_node(exchange: &Exchange, node: &Credentials, body: &NewNode<'_>) -> Outcome {
    shape::check_name("node", &node.id)?;
    check_token(&node.name(), node.secret())?;
    let doing = format!("creating node {}", node.name());
    let body = PutNode {
        token: Some(node.secret().to_owned()),
        name: body.name.to_owned(),
        node_type: Some(body.node_type.to_owned()),
        pattern: Some(String::new()),
        software_versions: Some(Map::new()),
        public_key: Some(String::new()),
        arch: Some(body.arch.to_owned()),
        ..PutNode::default()
    };
    let id = node.node();
    let created = exchange.server.client.put_node(&id, &body, true);
    exchange.server.call(&doing, created).await?;
    exchange.server.report_done(&format!("node {} is created", node.name()));
    Ok(())
}

/// Attributes of a new node besides its id and token.
#[derive(Debug, Clone, Copy)]
pub struct NewNode<'a> {
    /// Display name.
    pub name: &'a str,
    /// `device` or `cluster`.
    pub node_type: &'a str,
    /// Architecture.
    pub arch: &'a str,
}

/// Shows the list of nodes; the table has their states, which are not members of their records.
async fn list(
    context: &Context,
    exchange: &Exchange,
    (node, selection): (Option<&str>, &ListSelection),
    is_long: bool,
) -> Outcome<View> {
    selection.require_whole(node)?;
    if selection.is_count() {
        return NODES.count(exchange, selection).await;
    }
    let records = NODES.read_selected(exchange, node, selection).await?;
    let org = node.map_or_else(|| exchange.org.clone(), |node| exchange.split(node).0);
    let (now, down_after) = (Timestamp::now(), DownAfter::read(context, exchange, &org).await?);
    let mut shown = Records::new();
    for (name, record) in &records {
        let known: NodeResponse = exchange.server.read(&format!("reading node {name}"), record)?;
        let record = with_health(record.as_value().clone(), NodeHealth::of(&known, now, down_after));
        shown.push((name.clone(), record.into()));
    }
    let table = NODES.view(shown, true).table;
    Ok(View::new(NODES.view(records, is_long || node.is_some()).json, table))
}

async fn create(
    node: &NodeCreate,
    context: &Context,
    exchange: &Exchange,
    node_auth: Option<&str>,
) -> Outcome {
    let login = match (&node.node, &node.token) {
        (Some(name), Some(token)) => {
            let (org, id) = exchange.split(name);
            Credentials::new(org, id, secret(token, "token")?)
        }
        (given, _) => {
            let given = given.as_deref().or(node_auth);
            context.node_credentials(given, &exchange.org)?.ok_or_else(no_node)?
        }
    };
    let name = login.name();
    let doing = format!("creating node {name}");
    if exchange.server.call(&doing, exchange.server.client.node(&login.node())).await?.is_some() {
        check_token(&name, login.secret())?;
        return NODES.patch(exchange, &name, &json!({"token": login.secret()})).await;
    }
    let body = NewNode {
        name: node.name.as_deref().unwrap_or(&login.id),
        node_type: &node.node_type.to_ascii_lowercase(),
        arch: node.arch.as_deref().unwrap_or(crate::machine::ARCH),
    };
    put_new_node(exchange, &login, &body).await
}

/// Refuses a new token that protects nothing.
///
/// # Errors
/// With status 1.
pub fn check_token(node: &str, token: &str) -> Outcome {
    shape::check_secret(&format!("node {node}"), "token", token)
}

fn no_node() -> CliError {
    CliError::input(
        "no node is named",
        "neither an argument nor HZN_EXCHANGE_NODE_AUTH names one",
        "give NODE:TOKEN",
    )
}
