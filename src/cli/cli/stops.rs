//! Report of the instances that a write of a deployment policy stops, before it is sent, with a confirmation
//! prompt if it stops all of them.

use clap::Args;
use evenkeel_wire::agbot::plan::{PlanResponse, PlannedAction};
use serde_json::Value;

use crate::confirm::confirm_by;
use crate::context::{Context, Exchange};
use crate::exit::Outcome;
use crate::output::note;

/// Asks whether everything is to stop, where `-f` names a file.
#[derive(Debug, Args)]
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

impl ForceOfFile {
    /// Returns the confirmation.
    pub fn confirmation(&self) -> Confirmation {
        Confirmation { option: "--force", is_given: self.force }
    }
}

impl Force {
    /// Returns the confirmation.
    pub fn confirmation(&self) -> Confirmation {
        Confirmation { option: "-f", is_given: self.force }
    }
}

/// Shows how many instances a write stops, and asks for confirmation when these are all; false when it is
/// denied.
///
/// An agbot that cannot plan does not prevent the write.
///
/// # Errors
/// With status 1 when there is no terminal to confirm on.
pub async fn confirm_stops(
    context: &Context,
    exchange: &Exchange,
    (policy, body): (&str, &Value),
    confirmation: Confirmation,
) -> Outcome<bool> {
    let (org, id) = exchange.split(policy);
    let Ok(agbot) = context.agbot(exchange) else { return Ok(true) };
    let Ok(Some(plan)) = agbot.client.plan_deployment_policy(&org, &id, Some(body)).await else {
        return Ok(true);
    };
    let (stopped, instances) = counts(&plan);
    if stopped == 0 {
        return Ok(true);
    }
    note(format!("this write stops {stopped} of {instances} instances of deployment policy {org}/{id}"));
    if stopped < instances {
        return Ok(true);
    }
    let question = format!("Stop all instances of {org}/{id}?");
    let is_confirmed =
        confirm_by(confirmation.option, &question, confirmation.is_given || exchange.server.is_dry_run)?;
    if !is_confirmed {
        note("nothing was written");
    }
    Ok(is_confirmed)
}

/// Returns the number of instances that stop without a replacement, and of all.
fn counts(plan: &PlanResponse) -> (u64, u64) {
    let changes = plan.workload_units.iter().flat_map(|unit| &unit.changes);
    let stopped = changes.filter(|change| change.action == PlannedAction::Stop).count();
    (stopped as u64, plan.workload_units.iter().map(|unit| unit.instances).sum())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_instances_without_a_replacement_are_counted() {
        let change = |action: &str, slot: u32| json!({"action": action, "slot": slot, "reason": "r"});
        let plan = json!({
            "policy": "o/p", "token": "t", "complete": true,
            "units": [
                {"name": "a", "instances": 2, "blocked": [], "changes": [change("stop", 1), change("move", 2)]},
                {"name": "b", "instances": 1, "blocked": [], "changes": [change("stop", 1)]},
            ],
        });
        assert_eq!(counts(&serde_json::from_value(plan).expect("a plan")), (2, 3));
    }
}
