//! The slots that an update has in work: when they are finished, and when the next one may follow.
//!
//! Source: orchestration B11.5, B11.8.

use evenkeel_ids::TaskId;
use evenkeel_planner_record::{
    settings::Pace,
    time::later,
    workload::{Slot, Task, Ticket, UpdateState},
};
use jiff::Timestamp;
use serde_json::json;

use super::{
    failed_tasks::{may_run_at, report_grace_secs},
    in_work::{outcome, successor},
    monitored, set_aside,
    update::is_dirty,
};
use crate::unit_pass::UnitPass;

/// Marks slots in work as finished, and frees those whose delay is over, and those that have no node to run on.
pub(super) fn finish(pass: &mut UnitPass<'_>) {
    let (now, settings) = (pass.now, *pass.update_settings());
    let part = pass.facts.unit_id.part.clone();
    let tickets: Vec<(Slot, Ticket)> = pass
        .update
        .part(&part)
        .into_iter()
        .flat_map(|part| &part.tickets)
        .map(|(slot, ticket)| (slot.clone(), ticket.clone()))
        .collect();
    for (slot, mut ticket) in tickets {
        if let Some(next) = successor(pass, &slot, &ticket) {
            (ticket.since, ticket.task) = (now, Some(next));
        }
        if set_aside::has_no_node(pass, &slot, &ticket) {
            pass.update.part_mut(&part).tickets.remove(&slot);
            let text = "no node can take it now; it follows when it gets one".to_owned();
            pass.emit("update.set-aside", Some(&slot), None, text);
            continue;
        }
        if ticket.done_at.is_none() && is_finished(pass, &slot, &ticket, settings.start_timeout_secs) {
            ticket.done_at = Some(now);
            note_finished(pass, &slot, &ticket);
        }
        let free_at = ticket.done_at.map(|at| settings.next_slot_at(at));
        let tickets = &mut pass.update.part_mut(&part).tickets;
        match free_at {
            Some(at) if at <= now => {
                tickets.remove(&slot);
            }
            _ => {
                tickets.insert(slot, ticket);
            }
        }
        free_at.into_iter().for_each(|at| pass.wake(at));
    }
}

/// Records that a slot is finished. Changes after a completed update are not part of it.
fn note_finished(pass: &mut UnitPass<'_>, slot: &Slot, ticket: &Ticket) {
    if matches!(pass.update.state, UpdateState::Completed | UpdateState::RollbackCompleted) {
        return;
    }
    pass.update.last_step_at = Some(pass.now);
    let text = outcome(pass, slot, ticket);
    let task = ticket.task.as_ref().and_then(|id| pass.tasks(slot).iter().find(|one| one.id == *id));
    let (node, data) = (task.and_then(|task| task.node.clone()), json!({"taskId": ticket.task}));
    pass.emit_with("update.slot", Some(slot), node.as_ref(), text, Some(data));
}

fn is_finished(pass: &mut UnitPass<'_>, slot: &Slot, ticket: &Ticket, timeout_secs: u64) -> bool {
    // The task that was created for an update before this one does not count: the slot is in work only while nothing runs in it.
    let Some(id) = &ticket.task else { return !is_dirty(pass, slot) || pass.tasks(slot).is_running() };
    let task = pass.tasks(slot).iter().find(|task| task.id == *id).cloned();
    let task = task.as_ref();
    let from = match task {
        Some(task) => may_run_at(task),
        None => Some(ticket.since),
    };
    let from = from.map(|at| at.max(ticket.since));
    let deadline = from.map(|at| later(at, timeout_secs));
    let is_over = task.is_none_or(|task| task.state.is_ended() || !task.is_wanted());
    let is_running = task.is_some_and(Task::is_running);
    if let Some(task) = task.filter(|_| !is_over && is_running) {
        let until = monitored_until(pass, task);
        until.into_iter().for_each(|until| pass.wake(until));
        let is_monitored = until.is_none_or(|until| pass.now >= until);
        return monitored::is_examined(pass, task, timeout_secs) && is_alone(pass, slot, id) && is_monitored;
    }
    let is_late = deadline.is_some_and(|at| pass.now >= at);
    if let Some(at) = deadline.filter(|_| !is_over && !is_late) {
        pass.wake(at);
    }
    is_over || is_late
}

/// Returns until when an instance has to run before its slot is finished; none when it is finished as soon as it runs.
fn monitored_until(pass: &UnitPass<'_>, task: &Task) -> Option<Timestamp> {
    let settings = pass.update_settings();
    let running_at = task.running_at.filter(|_| settings.pace == Pace::Monitored)?;
    Some(later(settings.monitored_until(running_at), report_grace_secs(pass, task)))
}

/// Returns whether the instance before is gone. The slot is in work until then, so that there are never more instances than wanted and
/// slots in work.
fn is_alone(pass: &mut UnitPass<'_>, slot: &Slot, id: &TaskId) -> bool {
    let timeout_secs = pass.facts.settings.old_task_timeout_secs;
    let others = pass.tasks(slot).iter().filter(|task| task.id != *id && !task.is_stopped());
    let stays = others.filter(|task| !pass.is_node_lost(task)).map(|task| {
        // One that does not confirm its stop is waited for as long as the start of another one would wait.
        (!task.is_wanted()).then(|| later(task.desired_at.unwrap_or(task.created_at), timeout_secs))
    });
    let stays: Vec<Option<Timestamp>> =
        stays.filter(|until| until.is_none_or(|until| pass.now < until)).collect();
    stays.iter().flatten().for_each(|until| pass.wake(*until));
    stays.is_empty()
}
