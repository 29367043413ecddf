//! Commands for the agent on this machine, by its local API (agbot 5.7).

pub mod agreement;
pub mod event_log;
mod local_stops;
pub mod management;
pub mod node;
pub mod policy;
pub mod register;
pub mod register_steps;
pub mod service;
pub mod service_log;
pub mod status;
pub mod unregister;
pub mod user_input;

use evenkeel_wire::agent::node::{LocalNode, UNCONFIGURED};

use crate::exit::{CliError, Exit, Outcome};
use crate::server::Server;

/// Reads the node as its agent knows it.
///
/// # Errors
/// With status 5 when the agent does not respond.
pub async fn local_node(agent: &Server) -> Outcome<LocalNode> {
    agent.call("asking the agent for its node", agent.client.local_node()).await
}

/// Returns whether the agent is registered, or being registered or unregistered.
pub fn is_registered(node: &LocalNode) -> bool {
    node.configstate.state != UNCONFIGURED
}

/// The failure for what needs a registered node.
pub fn not_registered(what: &str) -> CliError {
    CliError::new(
        Exit::Http,
        what.to_owned(),
        "the node is not registered",
        "register it first: hzn register",
    )
}
