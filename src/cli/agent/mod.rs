//! Commands for the agent on this machine, by its local API (agbot 5.7).

pub mod agreement;
pub mod event_log;
pub mod management;
pub mod node;
pub mod policy;
pub mod register;
pub mod register_steps;
pub mod service;
pub mod status;
pub mod unregister;
pub mod user_input;

use serde_json::Value;

use crate::api::Api;
use crate::exit::{CliError, Exit, Outcome};

/// The state of an agent that is not registered.
pub const UNCONFIGURED: &str = "unconfigured";

/// Reads the node as its agent knows it.
///
/// # Errors
/// With status 5 when the agent does not answer.
pub async fn device(agent: &Api) -> Outcome<Value> {
    agent.get("asking the agent for its node", &evenkeel_client::Path::new(&["node"])).await
}

/// How far the registration is: `unconfigured`, `configuring`, `configured`, `unconfiguring`.
pub fn state_of(device: &Value) -> &str {
    device.pointer("/configstate/state").and_then(Value::as_str).unwrap_or(UNCONFIGURED)
}

/// A text member of a document, empty when it is not there.
pub fn text<'a>(document: &'a Value, member: &str) -> &'a str {
    document.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// A list inside a document, empty when it is not there.
pub fn list<'a>(document: &'a Value, pointer: &str) -> &'a [Value] {
    document.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
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
