//! `orch tasks`: the tasks of a deployment policy (orchestration 1.5, B3).

use clap::Args;
use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::orchestration::TasksQuery;
use serde_json::Value;

use crate::context::{Context, Exchange};
use crate::exchange::deployment::POLICIES;
use crate::exit::Outcome;
use crate::output::{Table, View};

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

/// Which tasks are meant.
#[derive(Debug, Args)]
pub struct ChosenTasks {
    /// Only those of this part: all, or the name of an HA group
    #[arg(long = "unit", value_name = "UNIT")]
    workload_unit: Option<String>,
    /// Only those of this slot: a number, or a node
    #[arg(long, value_name = "SLOT")]
    slot: Option<String>,
    /// Only those of this node
    #[arg(long = "node", value_name = "NODE")]
    node: Option<String>,
    /// Only those in this state, such as running or failed
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Also those that ended and were replaced
    #[arg(long)]
    history: bool,
}

/// Reads the tasks of a policy.
///
/// # Errors
/// With status 8 when the policy does not exist, 5 when the agbot does not respond.
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
    };
    let found = agbot.call(&doing, agbot.client.workload_task_records(&org, &name, &query)).await?;
    let found = found.ok_or_else(|| POLICIES.missing(policy))?;
    let entries: Vec<Value> = found.into_iter().map(RawJson::into_value).collect();
    let table = Table::of_list(&entries, &COLUMNS).keeping(&["slot", "node", "state", "error"]);
    Ok(View::new(Value::Array(entries), table))
}
