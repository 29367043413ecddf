//! Events about fencing: the instances for which a start had to wait are fenced, or cannot be.
//!
//! Whether an instance may still run is decided by [`crate::unit_pass::unfenced`]. Source: orchestration C8.

use evenkeel_planner_record::{report::Blocked, workload::Task};

use crate::unit_pass::{UnitPass, is_confirmed, lease_secs, may_run};

/// Reports that the instances for which a start had to wait are fenced, or that they cannot be: by the end of a lease on a lost node, by a
/// stop that is confirmed on one that is reached.
pub(crate) fn note(pass: &mut UnitPass<'_>, task: &Task, is_permitted: bool) {
    let is_fencing = pass.facts.workload.health.as_ref().is_some_and(|policy| policy.recovery.is_fencing());
    let others = pass.others(&task.slot, pass.facts.workload.goal.is_exclusive());
    if !is_fencing && others.iter().all(|one| one.health.supervision.lease_secs.is_none()) {
        return;
    }
    if is_permitted {
        let is_lost = |one: &&Task| {
            let may_run = pass.node_of(one).is_some_and(|row| may_run(one, row));
            one.id != task.id && may_run && pass.is_node_lost(one)
        };
        let others = pass.others(&task.slot, pass.facts.workload.goal.is_exclusive());
        let fenced: Vec<Task> = others.into_iter().filter(is_lost).cloned().collect();
        for one in fenced {
            let row = pass.node_of(&one);
            let text = match row.and_then(|row| is_confirmed(row, row.down_since()?).then_some(&row.id)) {
                Some(node) => format!("a user confirmed that {node} is dead"),
                None => {
                    let lease = row.and_then(|row| lease_secs(pass, &one, row).ok()).unwrap_or_default();
                    format!("the lease of {lease} s of task {} has expired", one.id)
                }
            };
            pass.emit("fence.confirmed", Some(&one.slot), one.node.as_ref(), text);
        }
        if let Some(one) = departed_before(pass, task).cloned() {
            let node = one.node.as_ref();
            let text = format!("the stop of task {} on its node, which was removed, is confirmed", one.id);
            pass.emit("fence.confirmed", Some(&one.slot), node, text);
        }
        let stopped = stopped_before(pass, task).filter(|_| task.health.is_fence_requested).cloned();
        if let Some(one) = stopped {
            let text = format!("its node reports that task {} has ended", one.id);
            pass.emit("fence.confirmed", Some(&one.slot), one.node.as_ref(), text);
        }
        return;
    }
    let of_slot = pass.plan.blocked.iter().rev().filter(|(step, _)| step.slot == task.slot);
    let found = of_slot.map(|(_, blocked)| blocked).find_map(|blocked| match blocked {
        Blocked::FencePending { node, .. } => Some((false, node.clone(), blocked.to_string())),
        Blocked::FenceFailed { node, .. } => Some((true, node.clone(), blocked.to_string())),
        // Without an end only its agent or a user ends the wait.
        Blocked::NodeDeparting { node, until, .. } => {
            Some((until.is_none(), node.clone(), blocked.to_string()))
        }
        Blocked::TaskStopping { node, .. } if task.is_recreated() && task.node.as_ref() != Some(node) => {
            Some((false, node.clone(), blocked.to_string()))
        }
        _ => None,
    });
    let Some((has_failed, node, text)) = found else { return };
    let mut health = task.health.clone();
    let (kind, is_reported) = match has_failed {
        true => ("fence.failed", &mut health.is_unfenced_reported),
        false => ("fence.requested", &mut health.is_fence_requested),
    };
    if !std::mem::replace(is_reported, true) {
        pass.emit(kind, Some(&task.slot), Some(&node), text);
        pass.set_health(&task.slot, &task.id, health);
    }
}

/// Returns the task on a removed node for which the start of this one had to wait, if that is over.
fn departed_before<'a>(pass: &'a UnitPass<'_>, task: &Task) -> Option<&'a Task> {
    let has_waited = task.health.is_unfenced_reported || task.health.is_fence_requested;
    let older = pass.tasks(&task.slot).iter().filter(|one| one.generation < task.generation);
    let newest = older.max_by_key(|one| one.generation).filter(|_| has_waited)?;
    let is_removed = newest.node.is_some() && pass.node_of(newest).is_none();
    (is_removed && newest.state.is_ended()).then_some(newest)
}

/// Returns the task that a recovery replaced by one on another node, if it has stopped.
fn stopped_before<'a>(pass: &'a UnitPass<'_>, task: &Task) -> Option<&'a Task> {
    let older = pass.tasks(&task.slot).iter().filter(|one| one.generation < task.generation);
    let newest = older.max_by_key(|one| one.generation)?;
    (task.is_recreated() && newest.state.is_ended() && newest.node != task.node).then_some(newest)
}
