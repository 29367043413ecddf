//! The update supervisor: replaces the slots that run another version than the workload's, some at a time.
//!
//! Its progress is the status row; it holds nothing else, so that any agbot continues where another one stopped. Sources:
//! orchestration B11, B12, P8.

use std::collections::BTreeSet;

use evenkeel_ids::TaskId;
use jiff::Timestamp;
use serde_json::json;

use super::{
    domain_order::{self, DomainOrder},
    failed_tasks::{self, failed_tasks, failure_message, may_run_at},
    in_work::{outcome, slots_in_work, slots_without_node, successor},
    monitored, rules,
    start_order::{start_first, too_little_room, wants_start_first},
    unhealthy::{self, Failed},
    update_status::{Ticket, UpdateBlocked, UpdateEvent, UpdateState, next_state},
};
use crate::{
    change::{Cause, Change, Permit, Step},
    claims::Scope,
    facts::Availability,
    goal::SlotCondition,
    reconcile::UnitPass,
    report::Blocked,
    settings::{FailureAction, UpdateOrder},
    usage::later,
    workload::{DesiredState, Ending, Slot, SlotTasks, SpecVersion, Task, TaskState},
};

/// Slots that are listed when all of them wait.
const BLOCKED_SLOTS: usize = 20;

/// Continues the update of a workload in one workload unit.
pub(crate) fn plan(pass: &mut UnitPass<'_>) {
    // Nobody else would end their share.
    pass.update.parts.retain(|(part, _)| !pass.facts.gone_parts.contains(part));
    let dirty = dirty_slots(pass);
    let (idle, dirty): (Vec<Slot>, Vec<Slot>) = dirty.into_iter().partition(|slot| is_idle(pass, slot));
    let is_update = begin(pass, &dirty);
    replace_stragglers(pass, &idle);
    if !is_update {
        return;
    }
    if matches!(pass.update.state, UpdateState::Completed | UpdateState::RollbackCompleted) {
        return replace_stragglers(pass, &dirty);
    }
    finish_tickets(pass);
    if pass.update.is_rolling() {
        if react_to_failures(pass) {
            return;
        }
    } else {
        // Slots that were in work when the update was paused may fail as well.
        note_failures(pass);
    }
    if pass.update.is_rolling() {
        if !take(pass, &dirty) {
            return;
        }
    } else {
        pass.update.blocked = None;
    }
    count(pass);
    complete(pass);
}

fn target(pass: &UnitPass<'_>) -> SpecVersion {
    pass.versions.current
}

/// Returns the slots that run another version, in the order in which they are replaced: those not running first, then by upgrade domain.
///
/// Every instance keeps its version if the new one says so (B11.10). A paused node keeps its own slot until it is active again (B8-S3); a
/// slot that could be on any node is waited for.
fn dirty_slots(pass: &UnitPass<'_>) -> Vec<Slot> {
    let mut dirty = pass.all_slots();
    dirty.retain(|slot| is_dirty(pass, slot));
    domain_order::in_order(pass, dirty)
}

fn is_dirty(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let (tasks, target) = (pass.tasks(slot), target(pass));
    let workload = pass.facts.workload;
    let stays = |task: &Task| {
        workload.keeps_running && task.is_running()
            || workload.goal.is_per_node() && is_on_paused_node(pass, task)
    };
    if tasks.wanted().any(|task| task.spec == target || stays(task)) {
        return has_left_over(tasks, target) && !tasks.wanted().any(stays);
    }
    let is_tried = |task: &Task| {
        task.spec == target
            && task.ended_by_itself()
            && pass.update.counts_from.is_none_or(|from| task.created_at >= from)
    };
    if tasks.iter().any(is_tried) {
        return false;
    }
    match pass.condition(slot) {
        SlotCondition::Runnable => true,
        // One that was given up with this version is tried again only after a user resumed the update.
        SlotCondition::GivenUp => {
            let newest = tasks.newest();
            let failed = newest.is_some_and(|one| one.state != TaskState::Ended(Ending::Complete));
            let is_older = newest.is_some_and(|one| one.spec != target);
            is_older && !pass.update.is_rollback() || !is_older && failed && pass.update.is_rolling()
        }
        SlotCondition::Dead => false,
    }
}

/// Returns whether a slot that runs the version has tasks of another one as well, which are not the ones that it replaces: what an update
/// started first and has not seen running when it was rolled back.
///
/// # Source
/// Orchestration B11.3.
fn has_left_over(tasks: &SlotTasks, target: SpecVersion) -> bool {
    let is_running = tasks.wanted().any(|task| task.spec == target && task.is_running());
    is_running && tasks.wanted().any(|task| task.spec != target)
}

/// Returns whether a slot runs nowhere and cannot, because its workload unit has no nodes: nobody waits for it.
fn is_idle(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    pass.facts.table.members().is_empty() && pass.tasks(slot).iter().all(|task| task.node.is_none())
}

pub(super) fn is_on_paused_node(pass: &UnitPass<'_>, task: &Task) -> bool {
    pass.node_of(task).is_some_and(|node| node.availability == Availability::Pause)
}

/// Starts an update if slots are dirty and none works toward the version. Returns whether there is one.
fn begin(pass: &mut UnitPass<'_>, dirty: &[Slot]) -> bool {
    let (now, target) = (pass.now, target(pass));
    let part = pass.facts.unit_id.part.clone();
    let is_known = pass.update.target == Some(target) && pass.update.state != UpdateState::None;
    if !is_known {
        // A user's rollback, which may have been paused before it began.
        let is_rollback = pass.update.target.is_none()
            && matches!(pass.update.state, UpdateState::RollbackStarted | UpdateState::RollbackPaused);
        if dirty.is_empty() && !pass.update.is_rolling() {
            return false;
        }
        if !is_rollback {
            pass.update.start(now);
            pass.update.state = UpdateState::Updating;
            "update in progress".clone_into(&mut pass.update.message);
            let text = format!("{} slots run another version", dirty.len());
            let data = json!({"specVersion": target.number, "slots": dirty.len()});
            pass.emit_with("update.started", None, None, text, Some(data));
            super::snapshot::announce(pass);
        }
        pass.update.target = Some(target);
    }
    if pass.update.is_rolling() && pass.update.part(&part).is_none_or(|part| part.total == 0) {
        pass.update.part_mut(&part).total = dirty.len() as u32;
        expect_others(pass);
    }
    true
}

/// Counts the slots of the workload units that have not looked yet, so that failures are compared with all slots from the start.
fn expect_others(pass: &mut UnitPass<'_>) {
    let target = target(pass);
    for (other, slots) in pass.facts.other_units {
        let is_outdated = |tasks: &&SlotTasks| {
            tasks.wanted().next().is_some() && tasks.wanted().all(|task| task.spec != target)
        };
        let count = slots.values().filter(is_outdated).count() as u32;
        if count > 0 && pass.update.part(other).is_none_or(|part| part.total == 0 && part.tickets.is_empty())
        {
            pass.update.part_mut(other).total = count;
        }
    }
}

/// Replaces slots that were left out of the update because their nodes were paused or away; the status stays as it is.
fn replace_stragglers(pass: &mut UnitPass<'_>, dirty: &[Slot]) {
    let cause = cause(pass);
    for slot in dirty {
        replace(pass, slot, cause);
    }
}

fn cause(pass: &UnitPass<'_>) -> Cause {
    if pass.update.is_rollback() { Cause::Rollback } else { Cause::Update }
}

/// Marks slots in work as finished, and frees those whose delay is over.
fn finish_tickets(pass: &mut UnitPass<'_>) {
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
        if ticket.done_at.is_none() && is_finished(pass, &slot, &ticket, settings.start_timeout_secs) {
            ticket.done_at = Some(now);
            pass.update.last_step_at = Some(now);
            let text = outcome(pass, &slot, &ticket);
            let task = ticket.task.as_ref().and_then(|id| pass.tasks(&slot).iter().find(|one| one.id == *id));
            let (node, data) = (task.and_then(|task| task.node.clone()), json!({"taskId": ticket.task}));
            pass.emit_with("update.slot", Some(&slot), node.as_ref(), text, Some(data));
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
        return monitored::is_examined(pass, task, timeout_secs) && is_alone(pass, slot, id);
    }
    let is_late = deadline.is_some_and(|at| pass.now >= at);
    if let Some(at) = deadline.filter(|_| !is_over && !is_late) {
        pass.wake(at);
    }
    is_over || is_late
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

/// Counts tasks of the update that failed, and what was reported to be in error, each once; returns the last new one.
fn note_failures(pass: &mut UnitPass<'_>) -> Option<Failed> {
    let reported = unhealthy::note(pass);
    note_failed_tasks(pass).or(reported)
}

fn note_failed_tasks(pass: &mut UnitPass<'_>) -> Option<Failed> {
    let settings = *pass.update_settings();
    let part = pass.facts.unit_id.part.clone();
    let known = pass.update.part(&part).map(|part| part.failed.clone()).unwrap_or_default();
    let new: Vec<Task> = failed_tasks(pass, settings.monitor_secs, settings.start_timeout_secs)
        .into_iter()
        .filter(|task| !known.contains(&task.id) && !unhealthy::is_instance_counted(pass, task))
        .collect();
    let last = new.last().cloned()?;
    pass.update.part_mut(&part).failed.extend(new.into_iter().map(|task| task.id));
    Some(Failed { message: failure_message(pass, &last), slot: Some(last.slot), node: last.node })
}

/// Pauses the update or rolls it back when too many of its tasks failed. Returns whether it did.
fn react_to_failures(pass: &mut UnitPass<'_>) -> bool {
    let settings = *pass.update_settings();
    let Some(last) = note_failures(pass) else { return false };
    let (counts, versions) = ((pass.update.failed(), pass.update.total()), pass.versions.roll_back());
    let next = rules::after_failures(pass.update.state, &settings, counts, versions.is_some());
    next.map(|state| end(pass, state, last)).is_some()
}

/// Ends the update, or turns it back, after a failure.
fn end(pass: &mut UnitPass<'_>, state: UpdateState, failed: Failed) {
    let versions = pass.versions.roll_back();
    let is_to_roll_back = pass.update_settings().failure_action == FailureAction::Rollback;
    let Failed { slot, node, message } = failed;
    let (slot, node) = (slot.as_ref(), node.as_ref());
    match (state, versions) {
        (UpdateState::RollbackStarted, Some(versions)) => {
            pass.versions = versions;
            pass.update.start(pass.now);
            pass.update.target = Some(versions.current);
            pass.emit("update.rollback-started", slot, node, message.clone());
            pass.update.state = state;
            pass.update.message = message;
        }
        (UpdateState::Paused, None) if is_to_roll_back => {
            pass.update.state = state;
            pass.update.message = format!("{message}; there is no previous version to roll back to");
            pass.emit("update.paused", slot, node, pass.update.message.clone());
        }
        _ => {
            let kind =
                if state == UpdateState::RollbackPaused { "update.rollback-paused" } else { "update.paused" };
            pass.emit(kind, slot, node, message.clone());
            pass.update.state = state;
            pass.update.message = message;
        }
    }
}

/// Returns which upgrade domains the update has reached; none without them.
pub(super) fn domain_order(pass: &UnitPass<'_>) -> Option<DomainOrder> {
    DomainOrder::of(pass, &dirty_slots(pass), &slots_in_work(pass))
}

/// Replaces dirty slots as far as the gates allow. Returns whether the update goes on.
fn take(pass: &mut UnitPass<'_>, dirty: &[Slot]) -> bool {
    let part = pass.facts.unit_id.part.clone();
    let in_work = slots_in_work(pass);
    let (cause, first) = (cause(pass), pass.plan.blocked.len());
    let order = DomainOrder::of(pass, dirty, &in_work);
    if let Some(message) = order.as_ref().and_then(|order| order.failure(pass, dirty)) {
        let (action, can_roll_back) =
            (pass.update_settings().failure_action, pass.versions.roll_back().is_some());
        let state = rules::after_failure(pass.update.state, action, can_roll_back);
        end(pass, state, Failed { slot: None, node: None, message });
        return false;
    }
    let unplaced = slots_without_node(pass);
    for (slot, blocked) in &unplaced {
        let change = Change::Replace { node: None, may_run: false, order: UpdateOrder::StopFirst };
        let blocked = blocked.clone().unwrap_or_else(|| pass.unplaced(1));
        let step = pass.step(slot, change, cause);
        pass.block(&step, blocked);
    }
    for (slot, ticket) in &mut pass.update.part_mut(&part).tickets {
        ticket.is_unplaced = unplaced.contains_key(slot);
    }
    for slot in dirty.iter().filter(|slot| !in_work.contains(*slot)) {
        if let Some(blocked) = order.as_ref().and_then(|order| order.objection(pass, slot)) {
            let change = Change::Replace { node: None, may_run: true, order: UpdateOrder::StopFirst };
            let step = pass.step(slot, change, cause);
            pass.block(&step, blocked);
            continue;
        }
        if let Some(task) = replace(pass, slot, cause) {
            let ticket = Ticket::new(pass.now, Some(task));
            pass.update.part_mut(&part).tickets.insert(slot.clone(), ticket);
            pass.wake(pass.update_settings().start_deadline(pass.now));
        }
    }
    let is_proceeding = pass.update.tickets().any(|(_, _, ticket)| ticket.is_proceeding());
    note_blocked(pass, first, is_proceeding);
    true
}

/// Records what all slots wait for, if none proceeds.
fn note_blocked(pass: &mut UnitPass<'_>, first: usize, is_proceeding: bool) {
    // Those for which there is no budget, or whose group watches another member of the update, wait for one of the others. A member that is
    // lost shows nothing for as long as it has time.
    let is_first = |(_, blocked): &&(Step, Blocked)| match blocked {
        Blocked::UpdateBudget { .. } => false,
        Blocked::HaLock { scope: Scope::Policy(policy), holder, .. } => {
            *policy != pass.facts.unit_id.policy
                || pass.facts.table.find(holder).is_some_and(|row| row.down_since().is_some())
        }
        _ => true,
    };
    let waiting = pass.plan.blocked[first..].iter().filter(is_first).take(BLOCKED_SLOTS);
    let waiting: Vec<&(Step, Blocked)> = waiting.collect();
    let node_of = |(step, _): &&(Step, Blocked)| match &step.slot {
        Slot::Number(_) => Some((step.slot.clone(), step.node()?.clone())),
        Slot::Node(_) => None,
    };
    let nodes = waiting.iter().filter_map(node_of).collect();
    let slots: Vec<(Slot, Blocked)> =
        waiting.into_iter().map(|(step, blocked)| (step.slot.clone(), blocked.clone())).collect();
    // Only the first workload unit that is not done records its reasons: several would overwrite each other's without end.
    let open = pass.update.parts.iter().filter(|(_, share)| !share.is_done()).map(|(part, _)| part);
    if !is_proceeding && open.min().is_some_and(|first| *first != pass.facts.unit_id.part) {
        return;
    }
    if is_proceeding || slots.is_empty() {
        pass.update.blocked = None;
        return;
    }
    let known = pass.update.blocked.take();
    let since = known.as_ref().map_or(pass.now, |blocked| blocked.since);
    let is_announced = known.is_some_and(|blocked| blocked.is_announced);
    pass.update.blocked = Some(UpdateBlocked { since, slots, nodes, is_announced });
}

/// Replaces the tasks of one slot by one of the workload's version; returns it, or none when a gate blocks.
fn replace(pass: &mut UnitPass<'_>, slot: &Slot, cause: Cause) -> Option<TaskId> {
    if has_left_over(pass.tasks(slot), target(pass)) {
        drop_left_over(pass, slot, cause);
        return None;
    }
    if !stop_earlier(pass, slot, cause) || has_dropped_second(pass, slot, cause) {
        return None;
    }
    let old: Vec<Task> = pass.tasks(slot).wanted().cloned().collect();
    let live = old.iter().find(|task| !task.state.is_ended() && task.node.is_some());
    let node = live.and_then(|task| task.node.clone());
    let wants_both = live.is_some() && wants_start_first(pass);
    let (order, destination) = match live {
        Some(task) if wants_both => start_first(pass, slot, task, cause)?,
        _ => (UpdateOrder::StopFirst, None),
    };
    if let Some(task) = live.filter(|_| order == UpdateOrder::StopFirst)
        && let Some(blocked) = too_little_room(pass, task, cause)
    {
        let change = Change::Replace { node, may_run: false, order };
        pass.block(&pass.step(slot, change, cause), blocked);
        return None;
    }
    let may_run =
        old.iter().any(|task| task.state.rank() >= TaskState::Starting.rank() && !task.state.is_ended());
    let change = Change::Replace { node: node.clone(), may_run, order };
    let step = pass.step(slot, change, cause);
    let permit = pass.permit(&step)?;
    if wants_both && order == UpdateOrder::StopFirst {
        let text = "no node can run both instances; the old one stops first".to_owned();
        pass.emit("update.order-degraded", Some(slot), node.as_ref(), text);
    }
    let limit = pass.update_settings().parallelism;
    let tasks = old.iter().map(|task| task.id.clone()).collect();
    pass.keep(Permit { ticket_limit: Some(limit), tasks, ..permit });
    // What does not run yet is not waited for.
    for task in old.iter().filter(|task| order == UpdateOrder::StopFirst || !task.is_running()) {
        pass.raise(slot, &task.id, DesiredState::Shutdown);
    }
    let on_node = match slot {
        Slot::Node(node) => Some(node.clone()),
        Slot::Number(_) => destination,
    };
    if let Some(node) = on_node.as_ref().filter(|_| order == UpdateOrder::StartFirst) {
        pass.stay_apart(slot, node, cause);
    }
    Some(pass.create(slot, target(pass), cause, on_node.as_ref()))
}

/// Stops the tasks of other versions in a slot that runs the version.
fn drop_left_over(pass: &mut UnitPass<'_>, slot: &Slot, cause: Cause) {
    let target = target(pass);
    let others: Vec<Task> = pass.tasks(slot).wanted().filter(|task| task.spec != target).cloned().collect();
    for task in others {
        let runs_on = task.node.as_ref().filter(|_| task.is_running());
        if runs_on.is_none_or(|node| pass.permits_stop(slot, node, cause)) {
            pass.raise(slot, &task.id, DesiredState::Shutdown);
        }
    }
}

/// Stops an instance that a user started, or is about to, beside the only one that is wanted: the new version could not start beside the
/// other one. Returns whether there are two.
fn has_dropped_second(pass: &mut UnitPass<'_>, slot: &Slot, cause: Cause) -> bool {
    let runs = |one: &Slot| pass.tasks(one).wanted().any(Task::is_running);
    if !pass.facts.workload.goal.is_exclusive() {
        return false;
    }
    let is_running = runs(slot);
    if !pass.all_slots().iter().any(|one| one != slot && runs(one)) {
        return false;
    }
    let node = pass.tasks(slot).wanted().find_map(|task| task.node.clone());
    if !is_running || node.is_some_and(|node| pass.permits_stop(slot, &node, cause)) {
        pass.remove_slot(slot);
    }
    true
}

/// Stops what a move or an update before has left in a slot beside its newest instance, as far as the gates allow that. Returns whether
/// nothing is left of it.
fn stop_earlier(pass: &mut UnitPass<'_>, slot: &Slot, cause: Cause) -> bool {
    let running: Vec<Task> = pass.tasks(slot).wanted().filter(|task| task.is_running()).cloned().collect();
    running.iter().skip(1).all(|task| {
        let is_beside = task.node == running[0].node;
        let may_stop =
            task.node.as_ref().is_none_or(|node| is_beside || pass.permits_stop(slot, node, cause));
        if may_stop {
            pass.raise(slot, &task.id, DesiredState::Shutdown);
        }
        may_stop
    })
}

/// Counts the slots that are done; the number never goes back.
fn count(pass: &mut UnitPass<'_>) {
    let mut left: BTreeSet<Slot> = dirty_slots(pass).into_iter().collect();
    left.extend(pass.all_slots().into_iter().filter(|slot| is_unproven(pass, slot)));
    let part = pass.facts.unit_id.part.clone();
    let progress = pass.update.part_mut(&part);
    let open = progress.tickets.iter().filter(|(_, ticket)| ticket.done_at.is_none());
    left.extend(open.map(|(slot, _)| slot.clone()));
    progress.done = rules::done(progress.done, progress.total, left.len() as u32);
}

/// Returns whether the version still has to show in a slot that it runs: a restart that follows a failure has to as well, unless the
/// failure was counted and tolerated.
fn is_unproven(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let tasks = pass.tasks(slot);
    let Some(newest) = tasks.newest().filter(|task| task.is_wanted() && task.node.is_some()) else {
        return false;
    };
    let failed = pass.update.part(&pass.facts.unit_id.part).map(|part| &part.failed);
    let is_tolerated = failed.is_some_and(|failed| tasks.iter().any(|task| failed.contains(&task.id)));
    newest.spec == target(pass) && !newest.is_running() && !is_tolerated && !pass.is_node_lost(newest)
}

/// Returns until when what runs in the slots is watched.
fn watched_until(pass: &UnitPass<'_>) -> Option<Timestamp> {
    let slots = pass.all_slots();
    let newest = slots.iter().filter_map(|slot| pass.tasks(slot).newest());
    let running = newest.filter(|task| task.is_running() && task.spec == target(pass));
    let until = |task: &Task| {
        let until = pass.update_settings().monitored_until(task.running_at?);
        Some(later(until, failed_tasks::report_grace_secs(pass, task)))
    };
    running.filter_map(until).max()
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

/// Completes the update when every slot of every workload unit is done and the monitoring time is over.
fn complete(pass: &mut UnitPass<'_>) {
    let is_done = pass.update.parts.len() >= pass.facts.part_count
        && pass.update.parts.iter().all(|(_, part)| part.is_done());
    if !pass.update.is_rolling() || !is_done {
        return;
    }
    let settings = *pass.update_settings();
    // The last slot's delay is waited for, so that its failure is still noticed.
    let watched = if settings.delay_secs >= settings.monitor_secs {
        settings.delay_secs + 1
    } else {
        settings.monitor_secs
    };
    if pass.all_slots().iter().any(|slot| is_unproven(pass, slot)) {
        return;
    }
    let watched = watched + report_grace_secs(pass);
    // Of what was created now it is not known yet whether it finds a node.
    let is_new = |task: &Task| task.created_at == pass.now && task.is_live();
    if pass.all_slots().iter().any(|slot| pass.tasks(slot).newest().is_some_and(is_new)) {
        return pass.wake(later(pass.now, 1));
    }
    let until = pass.update.last_step_at.map_or(pass.now, |at| later(at, watched));
    let until =
        until.max(watched_until(pass).unwrap_or(until)).max(monitored::failing_until(pass).unwrap_or(until));
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
    pass.update.state = state;
    pass.update.completed_at = Some(pass.now);
    pass.update.message.clone_from(&message);
    pass.emit(kind, None, None, message);
}
