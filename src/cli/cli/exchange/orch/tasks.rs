//! `orchestration tasks`: the tasks of a deployment policy (orchestration 1.5, B3).

use clap::Args;
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::orchestration::{TasksQuery, WorkloadStatus};
use serde_json::Value;

use super::missing_part;
use super::status::read_status;
use crate::context::{Context, Exchange, split_name};
use crate::exit::Outcome;
use crate::output::{Table, View};
use crate::resource::kinds::POLICIES;

const COLUMNS: [(&str, &str); 9] = [
    ("unit", "unit"),
    ("slot", "slot"),
    ("node", "node"),
    ("state", "state"),
    ("desired", "desiredState"),
    ("version", "version"),
    ("cause", "cause"),
    ("since", "at"),
    ("error", "err"),
];

/// Selection of tasks.
#[derive(Debug, Args)]
pub struct ChosenTasks {
    /// Only tasks of this workload unit: all, or the name of an HA group
    #[arg(long = "unit", value_name = "UNIT")]
    workload_unit: Option<String>,
    /// Only tasks of this slot: a number, or a node
    #[arg(long, value_name = "SLOT")]
    slot: Option<String>,
    /// Only tasks of this node
    #[arg(long = "node", value_name = "NODE")]
    node: Option<String>,
    /// Only tasks in this state, such as running or failed
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Also those that ended and were replaced
    #[arg(long)]
    history: bool,
}

/// Reads the tasks of a policy.
///
/// # Errors
/// With status 8 when the policy, the unit or the node does not exist, 5 when the agbot does not respond.
pub async fn read(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    chosen: &ChosenTasks,
) -> Outcome<View> {
    let (org, name) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("reading the tasks of {org}/{name}");
    let query = TasksQuery {
        workload_unit: chosen.workload_unit.clone(),
        slot: chosen.slot.clone(),
        node: chosen.node.clone(),
        state: chosen.state.clone(),
        history: chosen.history.then_some(true),
        ..TasksQuery::default()
    };
    let found = agbot.call(&doing, agbot.client.workload_task_records(&org, &name, &query)).await?;
    let found = found.ok_or_else(|| POLICIES.missing(policy))?;
    if found.is_empty() {
        require_parts(context, exchange, policy, chosen).await?;
    }
    let entries: Vec<Value> = found.into_iter().map(RawJson::into_value).collect();
    let table = Table::of_list(&entries, &COLUMNS).keeping(&["slot", "node", "state", "error"]);
    Ok(View::new(Value::Array(entries), table))
}

/// Fails when the policy has no such unit or node; called when they selected no task.
async fn require_parts(
    context: &Context,
    exchange: &Exchange,
    policy: &str,
    chosen: &ChosenTasks,
) -> Outcome {
    let (part, node) = (chosen.workload_unit.as_deref(), chosen.node.as_deref());
    if part.is_none() && node.is_none() {
        return Ok(());
    }
    let (_, status) = read_status(context, exchange, policy, part).await?;
    let (org, _) = exchange.split(policy);
    match node {
        Some(node) if !has_node(&status, &org, node) => {
            Err(missing_part(context, exchange, policy, Some(node)).await)
        }
        _ => Ok(()),
    }
}

/// Returns whether a node belongs to a policy in `org`. An agbot that has not read the policy yet does not know its nodes.
fn has_node(status: &WorkloadStatus, org: &str, node: &str) -> bool {
    let wanted = split_name(node, org);
    let mut instances = status.workload_units.iter().flat_map(|one| &one.instances);
    status.workload_units.is_empty() || instances.any(|one| split_name(&one.node, org) == wanted)
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::orchestration::{Instance, WorkloadUnit};

    use super::*;

    #[test]
    fn node_is_found_by_its_name_with_and_without_organization() {
        let instance = |node: &str| Instance { node: node.to_owned(), ..Instance::default() };
        let part =
            WorkloadUnit { instances: vec![instance("n1"), instance("p/n2")], ..WorkloadUnit::default() };
        let status = WorkloadStatus { workload_units: vec![part], ..WorkloadStatus::default() };
        let found = ["n1", "o/n1", "p/n2", "n2", "edge-9"].map(|node| has_node(&status, "o", node));
        assert_eq!(found, [true, true, true, false, false]);
        assert!(has_node(&WorkloadStatus::default(), "o", "n1"), "nothing is known of the policy");
    }
}
