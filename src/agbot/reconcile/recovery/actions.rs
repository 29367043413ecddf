//! The actions of a recovery: commands to the node, calls of workflows, and the replacement of the instance.
//!
//! Each that takes away what runs asks the gate table first, and waits while a gate is closed. Source: orchestration C6.

use evenkeel_domain::orchestration::health_policy::{ActionKind, HealthPolicy};
use evenkeel_ids::NodeId;
use evenkeel_placement::place::{NodeState, UnitNode};
use evenkeel_planner_record::{
    facts::Availability,
    report::{Blocked, Constraint},
    settings::UpdateOrder,
    time::later,
    workload::{
        Cause, Change, DesiredState, PreparedAction, Recovery, RecoveryCommand, Task, TaskHealth,
        WorkflowCall,
    },
};
use serde_json::json;

use super::{recover::NEXT_ON_NODE_SECS, workflow};
use crate::unit_pass::{UnitPass, examine, running_member};

/// Returns why the instance of a task is recovered, for the gate table.
fn cause_of(pass: &UnitPass<'_>, task: &Task, recovery: &Recovery) -> Cause {
    // An instance on a node that has failed has not failed itself.
    let is_running = recovery.of_group.is_some() && task.is_running() && !pass.is_node_lost(task);
    if is_running { Cause::NodeHealth } else { Cause::Health }
}

/// Asks the gate table whether an action may take the instance away. If not, the recovery waits and asks again.
pub(super) fn may_take_away(
    pass: &mut UnitPass<'_>,
    task: &Task,
    recovery: &Recovery,
    change: Change,
) -> bool {
    let step = pass.step(&task.slot, change, cause_of(pass, task, recovery));
    if let Some(permit) = pass.permit(&step) {
        pass.keep(permit);
        return true;
    }
    let is_common = matches!(pass.plan.blocked.last(), Some((_, Blocked::CommonCause { .. })));
    if is_common && !task.health.is_withheld {
        note_common_cause(pass, task);
    }
    let recovery = Some(Box::new(recovery.clone()));
    let health = TaskHealth { recovery, is_withheld: is_common, ..task.health.clone() };
    pass.set_health(&task.slot, &task.id, health);
    pass.wake(later(pass.now, NEXT_ON_NODE_SECS));
    false
}

/// Reports once for all members that fail at once why none of them is recovered.
fn note_common_cause(pass: &mut UnitPass<'_>, task: &Task) {
    let slots = pass.all_slots();
    let is_reported = |one: &Task| one.id != task.id && one.is_wanted() && one.health.is_withheld;
    if slots.iter().any(|slot| pass.tasks(slot).iter().any(is_reported)) {
        return;
    }
    let Some((_, blocked)) = pass.plan.blocked.last() else { return };
    let text = blocked.to_string();
    let data = json!({"failing": match blocked {
        Blocked::CommonCause { failing, .. } => *failing,
        _ => 0,
    }});
    pass.emit_with("health.common-cause", None, None, text, Some(data));
}

/// Returns whether an action takes away what runs.
fn takes_away(pass: &UnitPass<'_>, task: &Task, kind: ActionKind) -> bool {
    !matches!(kind, ActionKind::Unpause | ActionKind::Check) && running_member(pass, &task.slot).is_some()
}

pub(super) fn announce(pass: &mut UnitPass<'_>, task: &Task, name: &str) {
    let text = format!("{name} of task {}", task.id);
    let data = json!({"operation": name});
    pass.emit_with("health.recover-action", Some(&task.slot), task.node.as_ref(), text, Some(data));
}

/// Sends a command to the node.
pub(super) fn command(
    pass: &mut UnitPass<'_>,
    task: &Task,
    recovery: &mut Recovery,
    action: &PreparedAction,
) -> Result<(), String> {
    if !pass.node_of(task).is_some_and(|node| node.is_capable) {
        return Err("the agent of the node accepts no commands".to_owned());
    }
    if task.state.is_ended() {
        return Err("the task has ended".to_owned());
    }
    if pass.is_node_lost(task) {
        return Err("the node is down".to_owned());
    }
    if may_repair(pass, task, recovery, action) {
        order_command(pass, task, recovery, action, None);
    }
    Ok(())
}

/// Returns whether an action may be carried out where the instance is.
fn may_repair(pass: &mut UnitPass<'_>, task: &Task, recovery: &Recovery, action: &PreparedAction) -> bool {
    let Some(node) = task.node.clone().filter(|_| takes_away(pass, task, action.kind)) else { return true };
    let change = Change::Repair { node, is_of_host: action.is_of_host };
    may_take_away(pass, task, recovery, change)
}

/// Makes the hub call a workflow.
pub(super) fn call(
    pass: &mut UnitPass<'_>,
    policy: &HealthPolicy,
    task: &Task,
    recovery: &mut Recovery,
    action: &PreparedAction,
) -> Result<(), String> {
    let Some(workflow) = &action.workflow else { return Err("it names no workflow".to_owned()) };
    let call = workflow::call(workflow, task, recovery.hint.as_ref(), policy.recovery.action_timeout)?;
    // The effect of a workflow is unknown: it may take the instance away.
    if may_repair(pass, task, recovery, action) {
        order_command(pass, task, recovery, action, Some(call));
    }
    Ok(())
}

/// Stores the command of an action; the node or the hub carries it out.
fn order_command(
    pass: &mut UnitPass<'_>,
    task: &Task,
    recovery: &mut Recovery,
    action: &PreparedAction,
    call: Option<WorkflowCall>,
) {
    note_action(pass, task);
    announce(pass, task, action.name());
    let commands = task.health.commands + 1;
    let id = format!("{}-{commands}", task.id);
    let call = call.map(Box::new);
    let PreparedAction { kind, hard, is_of_host, .. } = *action;
    recovery.command = Some(RecoveryCommand { id, kind, hard, is_of_host, call });
    recovery.action_since = Some(pass.now);
    let health = TaskHealth { commands, recovery: Some(Box::new(recovery.clone())), ..task.health.clone() };
    pass.set_health(&task.slot, &task.id, health);
}

/// Returns whether the instance may be created again on its node (P2).
fn may_stay(pass: &mut UnitPass<'_>, task: &Task) -> bool {
    let is_startable = |row: &UnitNode| {
        row.is_member && row.state == NodeState::Ready && row.availability == Availability::Active
    };
    let is_free = pass.node_of(task).is_some_and(is_startable) && pass.block_of(task).is_none();
    // The room of one that has ended may have been taken since.
    let is_free = is_free
        && !examine::is_engine_failed(pass, task)
        && (!task.state.is_ended() || pass.has_room_again(task));
    (is_free || pass.facts.workload.goal.is_per_node()) && !has_bad_neighbors(pass, task)
}

/// Returns whether something runs on the node of an instance that must not be beside it: it could stay, and cannot start again.
fn has_bad_neighbors(pass: &UnitPass<'_>, task: &Task) -> bool {
    let is_hard = pass.facts.table.priorities().is_hard(Constraint::Affinity);
    is_hard && pass.node_of(task).is_some_and(|row| row.affinity.hard.is_some())
}

/// Returns where an instance of a node that has failed is created again: elsewhere if that is allowed, otherwise there again.
///
/// # Source
/// Orchestration C6.
fn node_of_recreation(pass: &mut UnitPass<'_>, task: &Task, node: &NodeId) -> Result<Option<NodeId>, String> {
    let is_bound = pass.facts.workload.goal.is_per_node();
    let mut avoided = pass.facts.recovery.failing.clone();
    avoided.insert(node.clone());
    let elsewhere = if is_bound { None } else { pass.candidate_apart_from(&avoided) };
    match elsewhere {
        Some(found) => Ok(Some(found)),
        None if pass.is_node_lost(task) && is_bound => Err("the node is down".to_owned()),
        None if may_stay(pass, task) => Ok(Some(node.clone())),
        None => Ok(None),
    }
}

/// Notes that an action begins on a node, so that no other instance there is recovered meanwhile.
fn note_action(pass: &mut UnitPass<'_>, task: &Task) {
    if let Some(node) = &task.node {
        pass.recovering.insert(node.clone(), task.slot.clone());
    }
}

/// Ends the task and creates another one, which continues with the recovery; waits while a gate blocks that.
pub(super) fn replace(
    pass: &mut UnitPass<'_>,
    task: &Task,
    recovery: &mut Recovery,
    kind: ActionKind,
) -> Result<(), String> {
    let Some(node) = task.node.clone() else { return Err("the task has no node".to_owned()) };
    if pass.facts.workload.goal.is_per_node() && has_bad_neighbors(pass, task) {
        return Err("another workload on the node must not be beside it".to_owned());
    }
    let target: Option<NodeId> = match kind {
        ActionKind::Migrate => {
            let found = pass.candidate(task, Cause::Health).filter(|found| *found != node);
            Some(found.ok_or_else(|| "no other node can take it".to_owned())?)
        }
        ActionKind::Recreate if recovery.of_group.is_some() => node_of_recreation(pass, task, &node)?,
        ActionKind::Recreate if may_stay(pass, task) => Some(node.clone()),
        ActionKind::Recreate if examine::is_engine_failed(pass, task) => {
            pass.candidate(task, Cause::Health).filter(|found| *found != node)
        }
        ActionKind::Recreate => None,
        _ => return Err("the action is not known to the hub".to_owned()),
    };
    let cause = cause_of(pass, task, recovery);
    // Of one that has ended nothing is taken away.
    let change = if task.state.is_ended() {
        Change::Replace { node: Some(node.clone()), may_run: false, order: UpdateOrder::StopFirst }
    } else {
        Change::Stop { node: node.clone() }
    };
    if !may_take_away(pass, task, recovery, change) {
        return Ok(());
    }
    note_action(pass, task);
    announce(pass, task, kind.word());
    pass.set_health(&task.slot, &task.id, TaskHealth { recovery: None, ..task.health.clone() });
    pass.raise(&task.slot, &task.id, DesiredState::Shutdown);
    let spec = pass.spec_of_replacement(task);
    let id = pass.create(&task.slot, spec, cause, target.as_ref());
    if let Some(target) = &target {
        pass.stay_apart(&task.slot, target, cause);
    }
    recovery.is_recreated = true;
    recovery.action_since = Some(pass.now);
    recovery.command = None;
    let health = TaskHealth {
        supervision: task.health.supervision.clone(),
        recovery: Some(Box::new(recovery.clone())),
        ..TaskHealth::default()
    };
    pass.set_health(&task.slot, &id, health);
    Ok(())
}
