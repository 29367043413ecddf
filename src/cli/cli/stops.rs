//! Report of the instances that a write stops, before it is sent, with a confirmation prompt if it stops all of
//! them. The numbers are those of the agbot's plans.

use std::collections::BTreeSet;

use clap::Args;
use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::plan::{DependencyWrite, PlanResponse, PlannedAction};
use serde_json::{Map, Value};

use crate::confirm::confirm_by;
use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::output::print_note;
use crate::server::Server;

/// Policies in one question, at most.
const MOST_NAMED: usize = 5;
/// Plans that one write waits for, at most.
const MOST_PLANNED: usize = 100;

/// Confirmation prompt for stopping everything, if `-f` names a file.
#[derive(Debug, Default, Args)]
pub struct ForceOfFile {
    /// Do not ask when the write stops all instances
    #[arg(long)]
    force: bool,
}

/// Asks whether everything is to stop.
#[derive(Debug, Args)]
pub struct Force {
    /// Do not ask when the write stops all instances
    #[arg(short = 'f', long)]
    force: bool,
}

/// Permission to stop all instances, with the option that gives it.
#[derive(Debug, Clone, Copy)]
pub struct Confirmation {
    option: &'static str,
    is_given: bool,
}

impl Confirmation {
    /// Returns that of the option `-f`.
    pub fn by_flag(is_given: bool) -> Self {
        Self { option: "-f", is_given }
    }
}

impl ForceOfFile {
    /// Returns the confirmation.
    pub fn confirmation(&self) -> Confirmation {
        Confirmation { option: "--force", is_given: self.force }
    }
}

impl Force {
    /// Returns the confirmation.
    pub fn confirmation(&self) -> Confirmation {
        Confirmation::by_flag(self.force)
    }
}

/// A write after which instances of deployment policies may no longer be wanted.
#[derive(Debug, Clone)]
pub enum Write {
    /// Of a deployment policy.
    Policy {
        /// The policy.
        name: String,
        /// The policy as it is then; none removes it.
        document: Option<Value>,
    },
    /// A write of an object that deployment policies depend on.
    Dependency {
        /// The organization.
        org: String,
        /// The write.
        write: DependencyWrite,
    },
}

impl Write {
    /// Writes a policy.
    pub fn policy(name: &str, document: &Value) -> Self {
        Self::Policy { name: name.to_owned(), document: Some(document.clone()) }
    }

    /// Removes a policy.
    pub fn policy_removal(name: &str) -> Self {
        Self::Policy { name: name.to_owned(), document: None }
    }

    /// Replaces the members of an HA group.
    pub fn members(exchange: &Exchange, name: &str, members: impl IntoIterator<Item = String>) -> Self {
        let (org, group) = exchange.split(name);
        let members = members.into_iter().map(|member| exchange.split(&member).1).collect();
        Self::Dependency { org, write: DependencyWrite::HaGroup { group, members: Some(members) } }
    }

    /// Removes an HA group.
    pub fn group_removal(exchange: &Exchange, name: &str) -> Self {
        let (org, group) = exchange.split(name);
        Self::Dependency { org, write: DependencyWrite::HaGroup { group, members: None } }
    }

    /// Replaces the policy of a node, or removes it.
    pub fn node_policy(node: &NodeId, policy: Option<&Value>) -> Self {
        let (node, org) = (node.name().to_owned(), node.org().to_owned());
        let policy = policy.and_then(Value::as_object).cloned();
        Self::Dependency { org, write: DependencyWrite::NodePolicy { node, policy } }
    }

    /// Replaces the user input of a node.
    pub fn user_input(node: &NodeId, user_input: &Value) -> Self {
        let (node, org) = (node.name().to_owned(), node.org().to_owned());
        let entries = user_input.as_array().into_iter().flatten();
        let user_input = entries.filter_map(|entry| entry.as_object().cloned()).collect();
        Self::Dependency { org, write: DependencyWrite::UserInput { node, user_input } }
    }

    /// Changes settings of the organization.
    pub fn settings(exchange: &Exchange, changes: &Map<String, Value>) -> Self {
        let write = DependencyWrite::Settings { settings: changes.clone() };
        Self::Dependency { org: exchange.org.clone(), write }
    }
}

/// Instances of a policy that a write stops.
struct Stops {
    policy: String,
    instances: u64,
    stopped: u64,
    /// False if the gates of an HA group may keep some of them.
    is_exact: bool,
}

/// Returns the instances that a write stops; an agbot that cannot plan does not prevent it.
async fn stops_of(agbot: &Server, exchange: &Exchange, write: &Write) -> Vec<Stops> {
    match write {
        Write::Policy { name, document } => {
            let (org, id) = exchange.split(name);
            let planned = agbot.client.plan_deployment_policy(&org, &id, document.as_ref()).await;
            let Ok(Some(plan)) = planned else { return Vec::new() };
            let (stopped, instances) = counts(&plan, document.is_none());
            vec![Stops { policy: format!("{org}/{id}"), instances, stopped, is_exact: true }]
        }
        Write::Dependency { org, write } => {
            let planned = match agbot.client.plan_stops(org, write).await {
                Ok(planned) => planned.unwrap_or_default(),
                Err(error) => {
                    print_note(format!("the instances that this stops are not counted: {error}"));
                    return Vec::new();
                }
            };
            let stops = planned.policies.into_iter().map(|one| Stops {
                policy: one.policy.to_string(),
                instances: one.instances,
                stopped: one.stopped,
                is_exact: false,
            });
            stops.collect()
        }
    }
}

/// Shows how many instances of each policy the writes stop, and returns the policies of which they stop all.
///
/// An agbot that cannot plan does not prevent a write.
pub async fn show_stops(context: &Context, exchange: &Exchange, writes: &[Write]) -> Vec<String> {
    let mut ended = Vec::new();
    if writes.is_empty() {
        return ended;
    }
    let Ok(agbot) = context.agbot(exchange) else { return ended };
    if let Some(others) = writes.len().checked_sub(MOST_PLANNED).filter(|others| *others > 0) {
        print_note(format!("{others} more writes may stop instances: these are not counted"));
    }
    // The plan of a policy that is written itself is that of its document.
    let (of_policies, of_others): (Vec<&Write>, Vec<&Write>) =
        writes.iter().take(MOST_PLANNED).partition(|write| matches!(write, Write::Policy { .. }));
    let mut counted = BTreeSet::new();
    for write in of_policies.into_iter().chain(of_others) {
        for Stops { policy, instances, stopped, is_exact } in stops_of(&agbot, exchange, write).await {
            if !counted.insert(policy.clone()) || stopped == 0 {
                continue;
            }
            let most = if is_exact { "" } else { "at most " };
            print_note(format!(
                "this write stops {most}{stopped} of {instances} instances of deployment policy {policy}"
            ));
            if stopped >= instances {
                ended.push(policy);
            }
        }
    }
    ended
}

/// Shows how many instances writes stop, and asks for confirmation if they stop all instances of a policy; returns
/// false if the user declines.
///
/// # Errors
/// With status 1 when there is no terminal to confirm on.
pub async fn confirm_stops(
    context: &Context,
    exchange: &Exchange,
    writes: &[Write],
    confirmation: Confirmation,
) -> Outcome<bool> {
    let ended = show_stops(context, exchange, writes).await;
    if ended.is_empty() {
        return Ok(true);
    }
    let question = format!("Stop all instances of {}?", listed(&ended));
    let is_confirmed =
        confirm_by(confirmation.option, &question, confirmation.is_given || exchange.server.is_dry_run)?;
    if !is_confirmed {
        print_note("nothing was written");
    }
    Ok(is_confirmed)
}

/// Lists the first names and the number of the others.
fn listed(policies: &[String]) -> String {
    let named = policies.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match policies.len().saturating_sub(MOST_NAMED) {
        0 => named,
        others => format!("{named} and {others} more policies"),
    }
}

/// Returns the number of instances that stop without a replacement, and of all.
fn counts(plan: &PlanResponse, is_removal: bool) -> (u64, u64) {
    let instances = plan.workload_units.iter().map(|unit| unit.instances).sum();
    if is_removal {
        return (instances, instances);
    }
    let changes = plan.workload_units.iter().flat_map(|unit| &unit.changes);
    let stopped = changes.filter(|change| change.action == PlannedAction::Stop).count();
    ((stopped as u64).min(instances), instances)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn question_names_some_policies_and_counts_the_others() {
        let names: Vec<String> = (1..=7).map(|number| format!("o/p{number}")).collect();
        assert_eq!(listed(&names[..1]), "o/p1");
        assert_eq!(listed(&names), "o/p1, o/p2, o/p3, o/p4, o/p5 and 2 more policies");
    }

    #[test]
    fn only_instances_without_a_replacement_are_counted() {
        let change = |action: &str, slot: u32| json!({"action": action, "slot": slot, "reason": "r"});
        let plan = json!({
            "policy": "o/p", "token": "t", "complete": true,
            "units": [
                {"name": "a", "instances": 2, "blocked": [], "changes": [change("stop", 1), change("move", 2)]},
                {"name": "b", "instances": 1, "blocked": [{"slot": 1, "reason": "r"}], "changes": [change("stop", 1)]},
            ],
        });
        let plan = serde_json::from_value(plan).expect("a plan");
        assert_eq!(counts(&plan, false), (2, 3));
        assert_eq!(counts(&plan, true), (3, 3));
    }
}
