//! `hzn node`: the node on this machine (agbot 5.6).

use std::time::Duration;

use clap::Subcommand;
use evenkeel_wire::agent::maintenance::{MaintenanceResponse, PutMaintenance};
use evenkeel_wire::agent::node::LocalNode;
use serde_json::{Value, json};

use super::local_node;
use crate::context::{Context, Watch};
use crate::exit::Outcome;
use crate::output::{Table, View};
use crate::server::Server;
use crate::time::local_text;
use crate::wait::duration;

/// The agent reports to the hub before it responds.
const REPORT_LIMIT: Duration = Duration::from_secs(60);

/// Commands for the node.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Shows how the node is registered
    List {
        #[command(flatten)]
        watch: Watch,
    },
    /// Announces maintenance of the node, so that missing heartbeats do not count as a failure for a while
    #[command(subcommand)]
    Maintenance(MaintenanceCommand),
}

/// Commands for the maintenance of the node.
#[derive(Debug, Subcommand)]
pub enum MaintenanceCommand {
    /// Begins maintenance: nothing new is placed on the node, and running instances stay
    On {
        /// End maintenance automatically after this time: seconds, or a number with the unit s, m or h
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        limit: Option<Duration>,
        /// Maintenance for an upgrade: the time of an upgrade applies, and instances that leave the node
        /// meanwhile return afterwards
        #[arg(long)]
        upgrade: bool,
    },
    /// Ends maintenance
    Off,
    /// Shows whether the node is in maintenance
    Status,
}

/// Runs a command for the node.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: NodeCommand, context: &Context) -> Outcome {
    let agent = context.agent()?;
    match command {
        NodeCommand::List { watch } => context.show_watched(&watch, async || show(&agent).await).await,
        NodeCommand::Maintenance(command) => maintain(command, &agent, context).await,
    }
}

async fn maintain(command: MaintenanceCommand, agent: &Server, context: &Context) -> Outcome {
    match command {
        MaintenanceCommand::On { limit, upgrade } => {
            let request = PutMaintenance { for_seconds: limit.map(|limit| limit.as_secs()), upgrade };
            let begun = agent.client.begin_local_maintenance(&request, REPORT_LIMIT);
            agent.call("beginning the maintenance of the node", begun).await?;
            let found = agent.client.local_maintenance();
            let found = agent.call("asking the agent for the maintenance of the node", found).await?;
            let until = found.until.map(|until| format!(" until {}", local_text(Some(&json!(until)))));
            let what = if upgrade { "in maintenance for an upgrade" } else { "in maintenance" };
            agent.report_done(&format!("the node is {what}{}", until.unwrap_or_default()));
        }
        MaintenanceCommand::Off => {
            agent.call("ending the maintenance of the node", agent.client.end_local_maintenance()).await?;
            agent.report_done("the node is no longer in maintenance");
        }
        MaintenanceCommand::Status => {
            let found = agent.client.local_maintenance();
            let found = agent.call("asking the agent for the maintenance of the node", found).await?;
            return context.screen.show(&maintenance_view(found));
        }
    }
    Ok(())
}

/// Returns the maintenance with its end as a number and in local time.
fn maintenance_view(found: MaintenanceResponse) -> View {
    let mut shown = json!(found);
    let mut document = shown.clone();
    if let Some(until) = shown.get_mut("until").filter(|until| !until.is_null()) {
        *until = json!(local_text(Some(until)));
        document["untilDate"] = until.clone();
    }
    View::new(document, Table::of_record(&shown))
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
    if let Some(superseded) = status.get("superseded") {
        shown["superseded"] = superseded.clone();
    }
    if let Some(connectivity) = status.get("connectivity") {
        shown["connectivity"] = connectivity.clone();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_maintenance_is_shown_as_a_date() {
        let found = MaintenanceResponse { until: Some(1_795_898_790), ..MaintenanceResponse::default() };
        let shown = maintenance_view(found).json;
        assert_eq!(shown["until"], 1_795_898_790);
        assert!(shown["untilDate"].as_str().is_some_and(|date| date.starts_with("2026-11-")), "{shown}");
        assert!(maintenance_view(MaintenanceResponse::default()).json.get("untilDate").is_none());
    }

    #[test]
    fn unregistered_node_is_shown_with_its_state() {
        let shown =
            combine(LocalNode::default(), &json!({"configuration": {"architecture": "amd64", "more": 1}}));
        assert_eq!(shown["configstate"], json!({"state": "unconfigured", "last_update_time": ""}));
        assert_eq!(shown["configuration"], json!({"architecture": "amd64", "more": 1}));
        assert_eq!((&shown["organization"], &shown["token_valid"]), (&Value::Null, &Value::Null));
        assert_eq!(shown.get("superseded"), None);
        let superseded = combine(LocalNode::default(), &json!({"superseded": "another agent reports"}));
        assert_eq!(superseded["superseded"], "another agent reports");
    }
}
