//! The reasons for which tasks of single nodes wait, before they have an agreement and after.
//!
//! Source: orchestration D3, D11.

use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_placement::place::explain_node;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::{
    goal::StartMode,
    report::Blocked,
    workload::{DesiredState, SlotTasks, Task},
};
use evenkeel_status::status::{given_up, why_given_up};

use super::Waits;

/// Returns what a task of a node waits for, before it gets an agreement. It may name other nodes.
pub fn blocked_task(
    model: &Model,
    waits: &Waits<'_>,
    (node, policy): (&NodeId, &PolicyId),
) -> Option<Blocked> {
    let workload = model.workload_of(policy)?;
    let mut workload_units = model.workload_units_of(policy);
    let (unit_id, unit) = workload_units.find(|(_, unit)| unit.table.number(node).is_some())?;
    let blocked = waits.of_unit(unit_id, unit);
    if let Some((_, blocked)) = blocked.iter().find(|(step, _)| step.node() == Some(node)) {
        return Some(blocked.clone());
    }
    let mut tasks = unit.slots.values().flat_map(SlotTasks::iter).filter(|task| task.is_live());
    let holder = tasks.find_map(|task| task.node.clone()).filter(|_| workload.goal.is_exclusive())?;
    (holder != *node).then_some(Blocked::InstanceElsewhere { node: holder })
}

/// Returns what the drain of a node waits for, on which the policy runs. It may name other nodes.
pub fn waiting_drain(waits: &Waits<'_>, node: &NodeId, policy: &PolicyId) -> Option<Blocked> {
    let waiting = waits.on_nodes([node]).into_iter();
    let mut drains = waiting.filter(|one| one.policy == *policy && one.drained_since.is_some());
    drains.next().map(|one| one.blocked)
}

/// Returns what the start of a node's task waits for, which may have its agreement already. It may name other nodes.
pub fn held_task(model: &Model, waits: &Waits<'_>, (node, policy): (&NodeId, &PolicyId)) -> Option<Blocked> {
    let is_held = |task: &&Task| task.is_live() && task.desired == DesiredState::Ready;
    let task = model.tasks_of(node).filter(|task| task.unit_id.policy == *policy).find(is_held)?;
    let blocked = waits.of_unit(&task.unit_id, model.workload_unit(&task.unit_id)?);
    let own = blocked.iter().find(|(step, _)| step.slot == task.slot && step.node() == Some(node))?;
    Some(own.1.clone())
}

/// Returns why a node has no task of a policy with tasks, in words.
pub fn why_no_task(model: &Model, node: &NodeId, policy: &PolicyId) -> Option<String> {
    let workload = model.workload_of(policy)?;
    let (_, unit) = model.workload_units_of(policy).find(|(_, unit)| unit.table.number(node).is_some())?;
    if let Some((constraint, reason)) = explain_node(&unit.table, node).ok()? {
        return Some(format!("{}: {reason}", constraint.label()));
    }
    let live = unit.slots.values().flat_map(SlotTasks::iter).filter(|task| task.is_live()).count();
    let wanted = workload.goal.wanted(live as u32);
    if live < wanted as usize && workload.goal.start == StartMode::Never {
        return Some("not started: orchestrate is no, so a user starts it with the action start".to_owned());
    }
    let given_up: Vec<&Task> = unit.slots.values().filter_map(given_up).collect();
    if given_up.iter().any(|task| task.node.as_ref() == Some(node)) {
        let here = given_up.iter().copied().filter(|task| task.node.as_ref() == Some(node));
        return why_given_up(&unit.table, here).into_keys().next().map(str::to_owned);
    }
    let others = match given_up.len() {
        0 => String::new(),
        count => format!(", and {count} were given up by the restart policy"),
    };
    if live < wanted as usize {
        let unplaced = unit.unplaced.as_ref().map(|report| report.summary.clone());
        return Some(format!(
            "not chosen: {}{others}",
            unplaced.unwrap_or_else(|| "instances are being placed".to_owned())
        ));
    }
    Some(format!("not needed: the {wanted} wanted instances are on other nodes{others}"))
}
