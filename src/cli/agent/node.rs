//! `hzn node`: the node on this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_client::Path;
use serde_json::{Map, Value, json};

use super::device;
use crate::api::Api;
use crate::context::{Context, Watch};
use crate::exit::Outcome;
use crate::output::View;
use crate::time::local_text;

/// Commands for the node.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Shows how the node is registered
    List {
        #[command(flatten)]
        watch: Watch,
    },
}

/// Runs a command for the node.
///
/// # Errors
/// Those of the command.
pub async fn run(command: NodeCommand, context: &Context) -> Outcome {
    let NodeCommand::List { watch } = command;
    let agent = context.agent()?;
    context.show_watched(&watch, async || show(&agent).await).await
}

async fn show(agent: &Api) -> Outcome<View> {
    let device = device(agent).await?;
    let status = agent.get("asking the agent for its status", &Path::new(&["status"])).await?;
    Ok(View::of(combine(&device, &status)))
}

fn combine(device: &Value, status: &Value) -> Value {
    let mut shown = Map::new();
    for member in ["id", "organization", "pattern", "name", "nodeType", "clusterNamespace"] {
        shown.insert(member.to_owned(), device.get(member).cloned().unwrap_or(json!("")));
    }
    let valid_since = local_text(device.get("token_last_valid_time"));
    shown.insert("token_last_valid_time".to_owned(), Value::from(valid_since));
    for member in ["token_valid", "ha_group"] {
        shown.insert(member.to_owned(), device.get(member).cloned().unwrap_or(Value::Null));
    }
    let mut state =
        device.get("configstate").cloned().unwrap_or_else(|| json!({"state": super::UNCONFIGURED}));
    state["last_update_time"] = Value::from(local_text(device.pointer("/configstate/last_update_time")));
    shown.insert("configstate".to_owned(), state);
    let configuration = status.get("configuration").cloned().unwrap_or(Value::Null);
    shown.insert("configuration".to_owned(), configuration);
    if let Some(connectivity) = status.get("connectivity") {
        shown.insert("connectivity".to_owned(), connectivity.clone());
    }
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unregistered_node_is_shown_with_its_state() {
        let device = json!({"id": "", "organization": null, "configstate": {"state": "unconfigured", "last_update_time": 0}});
        let shown = combine(&device, &json!({"configuration": {"architecture": "amd64"}}));
        assert_eq!(shown["configstate"], json!({"state": "unconfigured", "last_update_time": ""}));
        assert_eq!(shown["configuration"]["architecture"], "amd64");
        assert_eq!(shown["organization"], Value::Null);
    }
}
