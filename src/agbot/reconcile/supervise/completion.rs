//! Progress and end of an update.
//!
//! Source: orchestration B11.8, B12.

use std::collections::BTreeSet;

use evenkeel_planner_record::{
    settings::Pace,
    time::later,
    workload::{Cause, Ending, Slot, Task, TaskState, UpdateEvent, UpdateState, next_state},
};
use jiff::Timestamp;

use super::{
    failed_tasks, monitored, rules, set_aside,
    update::{dirty_slots, target},
};
use crate::unit_pass::UnitPass;

/// Counts the slots that are done; the number never goes back. Slots without a node are counted apart.
pub(super) fn count(pass: &mut UnitPass<'_>) {
    let (aside, dirty) = set_aside::split(pass, dirty_slots(pass));
    let mut left: BTreeSet<Slot> = dirty.into_iter().collect();
    left.extend(unproven_slots(pass));
    let failing_slots = failing_slots(pass);
    let lost = pass.all_slots().into_iter().filter(|slot| set_aside::is_lost_with_version(pass, slot));
    let aside: BTreeSet<Slot> = aside.into_iter().chain(lost).collect();
    let part = pass.facts.unit_id.part.clone();
    let progress = pass.update.part_mut(&part);
    let open = progress.tickets.iter().filter(|(_, ticket)| ticket.done_at.is_none());
    left.extend(open.map(|(slot, _)| slot.clone()));
    let without_node = aside.len() as u32;
    let left_count = left.difference(&aside).count() as u32 + without_node;
    progress.set_aside = without_node;
    progress.done = rules::done(progress.done, progress.total, left_count);
    // The number of done slots may hold some that are in work again, because it never goes back.
    let in_work_again = progress.done.saturating_sub(progress.total.saturating_sub(left_count));
    progress.failing_slots = failing_slots;
    let is_meant = |slot: &Slot| !aside.contains(slot) && is_failing(pass, slot);
    let failing: Vec<Slot> = pass.all_slots().into_iter().filter(is_meant).collect();
    wake_when_shown(pass, &failing);
    let (again, rest): (Vec<Slot>, Vec<Slot>) = failing.into_iter().partition(|slot| left.contains(slot));
    let failing = rest.len() as u32 + in_work_again.min(again.len() as u32);
    pass.update.part_mut(&part).failing = failing;
}

/// Counts the slots of a completed update in which the version has shown itself after all. What fails later is no part of the update.
pub(super) fn follow_failing(pass: &mut UnitPass<'_>) {
    let part = pass.facts.unit_id.part.clone();
    let known = pass.update.part(&part).map_or(0, |share| share.failing);
    if known == 0 {
        return;
    }
    let recorded = failing_slots(pass);
    pass.update.part_mut(&part).failing_slots = recorded;
    let failing: Vec<Slot> = pass.all_slots().into_iter().filter(|slot| is_failing(pass, slot)).collect();
    wake_when_shown(pass, &failing);
    pass.update.part_mut(&part).failing = known.min(failing.len() as u32);
}

/// Returns the slots in which the version still has to show itself, and asks to be woken when it has.
fn unproven_slots(pass: &mut UnitPass<'_>) -> Vec<Slot> {
    let slots = pass.all_slots().into_iter();
    let unproven: Vec<Slot> = slots.filter(|slot| is_unproven(pass, slot)).collect();
    wake_when_shown(pass, &unproven);
    unproven
}

/// Returns whether the version still has to show in a slot that it runs: a restart that follows a failure has to as well, unless the
/// failure was counted and tolerated.
fn is_unproven(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let tasks = pass.tasks(slot);
    let Some(newest) = tasks.newest().filter(|task| task.is_wanted() && task.node.is_some()) else {
        return false;
    };
    let is_shown = if is_restart(newest) { has_shown(pass, slot) } else { newest.is_running() };
    newest.spec == target(pass) && !is_shown && !is_tolerated(pass, slot) && !pass.is_node_lost(newest)
}

/// Returns whether a failure in a slot was counted since the update began, or was resumed, and did not end it. It stays counted when the
/// record of the task is deleted.
fn is_tolerated(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let part = pass.update.part(&pass.facts.unit_id.part);
    part.is_some_and(|part| {
        let is_counted = |task: &Task| part.failed.contains(&task.id);
        part.failing_slots.contains(slot) || pass.tasks(slot).iter().any(is_counted)
    })
}

/// Returns the slots in which a failure was counted, and the version has not run since for as long as it is judged. Asks to be woken when it
/// has.
///
/// The slots are recorded, because the tasks that failed are deleted after a while.
fn failing_slots(pass: &mut UnitPass<'_>) -> BTreeSet<Slot> {
    let slots = pass.all_slots().into_iter().filter(|slot| is_tolerated(pass, slot));
    let failing: BTreeSet<Slot> = slots.filter(|slot| !has_shown(pass, slot)).collect();
    wake_when_shown(pass, &failing);
    failing
}

/// Returns whether a slot does not run the version because it failed there, soon or late, or has not for as long as it is judged.
fn is_failing(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let is_recorded = pass.update.part(&pass.facts.unit_id.part).map(|part| &part.failing_slots);
    let newest = pass.tasks(slot).newest().filter(|task| task.spec == target(pass));
    let has_failed = |task: &Task| task.ended_by_itself() && task.state.has_failed();
    let fails = |task: &Task| has_failed(task) || is_restart(task) && !has_shown(pass, slot);
    is_recorded.is_some_and(|recorded| recorded.contains(slot)) || newest.is_some_and(fails)
}

fn is_restart(task: &Task) -> bool {
    task.is_wanted() && task.cause == Cause::TaskFailed
}

fn has_shown(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    shown_at(pass, slot).is_some_and(|at| pass.now >= at)
}

fn wake_when_shown<'s>(pass: &mut UnitPass<'_>, slots: impl IntoIterator<Item = &'s Slot>) {
    for slot in slots {
        shown_at(pass, slot).into_iter().for_each(|at| pass.wake(at));
    }
}

/// Returns when the version has run in a slot for as long as it is judged; none while it does not run there, or when it ended before that.
fn shown_at(pass: &UnitPass<'_>, slot: &Slot) -> Option<Timestamp> {
    let newest = pass.tasks(slot).newest().filter(|task| task.spec == target(pass))?;
    let at = later(newest.running_at?, pass.update_settings().judged_secs());
    let has_completed = newest.state == TaskState::Ended(Ending::Complete);
    let has_run = has_completed && newest.ended_at.is_some_and(|ended_at| ended_at >= at);
    (newest.is_running() || has_run).then_some(at)
}

/// Returns until when what runs in the slots is watched.
fn watched_until(pass: &UnitPass<'_>) -> Option<Timestamp> {
    let slots = pass.all_slots();
    let until = |slot: &Slot| {
        let grace_secs = failed_tasks::report_grace_secs(pass, pass.tasks(slot).newest()?);
        Some(later(shown_at(pass, slot)?, grace_secs))
    };
    slots.iter().filter_map(until).max()
}

/// Returns how much longer an update is watched for the sake of agents that do not read tasks.
///
/// # Source
/// Orchestration B11.8.
fn report_grace_secs(pass: &UnitPass<'_>) -> u64 {
    let slots = pass.all_slots();
    let newest = slots.iter().filter_map(|slot| pass.tasks(slot).newest());
    newest.map(|task| failed_tasks::report_grace_secs(pass, task)).max().unwrap_or(0)
}

/// Counts the slots that still follow a completed update.
pub(super) fn count_left_out(pass: &mut UnitPass<'_>, without_node: u32) {
    let part = pass.facts.unit_id.part.clone();
    let known = pass.update.part(&part).map_or(0, |share| share.set_aside);
    if known != without_node {
        let share = pass.update.part_mut(&part);
        // A slot that has followed is done.
        (share.done, share.set_aside) = (share.total.saturating_sub(without_node), without_node);
    }
}

/// Completes the update when every slot of every workload unit is done and the monitoring time is over.
///
/// Slots without a node are updated when they get one, as long as the version has shown itself in another slot.
pub(super) fn complete(pass: &mut UnitPass<'_>) {
    let parts = &pass.update.parts;
    let is_done = parts.len() >= pass.facts.part_count && parts.iter().all(|(_, part)| part.is_done());
    if !pass.update.is_rolling() || !is_done || !is_shown(pass) {
        return;
    }
    if !unproven_slots(pass).is_empty() {
        return;
    }
    // Of what was created now it is not known yet whether it finds a node.
    let is_new = |task: &Task| task.created_at == pass.now && task.is_live();
    if pass.all_slots().iter().any(|slot| pass.tasks(slot).newest().is_some_and(is_new)) {
        return pass.wake(later(pass.now, 1));
    }
    let until = judged_until(pass);
    if pass.now < until {
        return pass.wake(until);
    }
    let state = next_state(pass.update.state, UpdateEvent::AllDone).unwrap_or(pass.update.state);
    let (kind, message) = match state {
        // Why it was rolled back is asked afterwards.
        UpdateState::RollbackCompleted => {
            ("update.rollback-completed", format!("rollback completed: {}", pass.update.message))
        }
        _ => ("update.completed", "update completed".to_owned()),
    };
    pass.versions = pass.versions.completed();
    pass.update.state = state;
    pass.update.completed_at = Some(pass.now);
    pass.update.message.clone_from(&message);
    pass.emit(kind, None, None, message);
}

/// Returns whether the version runs somewhere: slots without a node do not count.
pub(super) fn is_shown(pass: &UnitPass<'_>) -> bool {
    pass.update.set_aside() == 0
        || pass.update.done() > 0
        || pass.all_slots().iter().any(|slot| {
            let runs =
                |task: &Task| task.spec == target(pass) && task.is_running() && !pass.is_node_lost(task);
            pass.tasks(slot).wanted().any(runs)
        })
}

/// Returns until when failures count for the update: what runs is judged, and so is what was finished last, or resumed.
fn judged_until(pass: &UnitPass<'_>) -> Timestamp {
    let settings = pass.update_settings();
    let was_monitored =
        settings.pace == Pace::Monitored && pass.update.last_step_at != pass.update.counts_from;
    let judged = settings.judged_secs() - if was_monitored { settings.monitor_secs } else { 0 };
    let grace_secs = if was_monitored { 0 } else { report_grace_secs(pass) };
    let until = pass.update.last_step_at.map_or(pass.now, |at| later(at, judged + grace_secs));
    until.max(watched_until(pass).unwrap_or(until)).max(monitored::failing_until(pass).unwrap_or(until))
}
