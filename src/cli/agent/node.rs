//! `hzn node`: the node on this machine (agbot 5.6).

use clap::Subcommand;
use evenkeel_wire::agent::node::LocalNode;
use serde_json::{Value, json};

use super::local_node;
use crate::context::{Context, Watch};
use crate::exit::Outcome;
use crate::output::View;
use crate::server::Server;
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

async fn show(agent: &Server) -> Outcome<View> {
    let node = local_node(agent).await?;
    let status = agent.call("asking the agent for its status", agent.client.local_status_record()).await?;
    Ok(View::of(combine(node, status.as_value())))
}

fn combine(node: LocalNode, status: &Value) -> Value {
    let local = |secs: Option<u64>| local_text(secs.map(Value::from).as_ref());
    let mut shown = json!({
        "id": node.id,
        "organization": node.organization,
        "pattern": node.pattern,
        "name": node.name.unwrap_or_default(),
        "nodeType": node.node_type.unwrap_or_default(),
        "clusterNamespace": node.cluster_namespace,
        "token_last_valid_time": local(node.token_last_valid_time),
        "token_valid": node.token_valid,
        "ha_group": node.ha_group,
        "configstate": {
            "state": node.configstate.state,
            "last_update_time": local(Some(node.configstate.last_update_time)),
        },
        "configuration": status.get("configuration"),
    });
    if let Some(connectivity) = status.get("connectivity") {
        shown["connectivity"] = connectivity.clone();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unregistered_node_is_shown_with_its_state() {
        let shown =
            combine(LocalNode::default(), &json!({"configuration": {"architecture": "amd64", "more": 1}}));
        assert_eq!(shown["configstate"], json!({"state": "unconfigured", "last_update_time": ""}));
        assert_eq!(shown["configuration"], json!({"architecture": "amd64", "more": 1}));
        assert_eq!((&shown["organization"], &shown["token_valid"]), (&Value::Null, &Value::Null));
    }
}
