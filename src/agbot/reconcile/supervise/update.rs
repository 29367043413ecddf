//! The update supervisor: replaces the slots that run another version than the workload's, some at a time.
//!
//! Its progress is the status row; it holds nothing else, so that any agbot continues where another one stopped. Source: orchestration B11, B12, P8.

use evenkeel_change::Permit;
use evenkeel_ids::TaskId;
use evenkeel_placement::slots::SlotCondition;
use evenkeel_planner_record::{
    claims::Scope,
    facts::Availability,
    report::Blocked,
    settings::{FailureAction, UpdateOrder},
    workload::{
        Cause, Change, DesiredState, Ending, Slot, SlotTasks, SpecVersion, Step, Task, TaskState, Ticket,
        UnitProgress, UpdateBlocked, UpdateState,
    },
};
use serde_json::json;

use super::{
    completion,
    domain_order::{self, DomainOrder},
    failed_tasks::{failed_tasks, failure_message},
    in_work::slots_in_work,
    monitored, rules, set_aside,
    start_order::{start_first, too_little_room, wants_start_first},
    tickets,
    unhealthy::{self, Failed},
};
use crate::unit_pass::UnitPass;

/// Slots that are listed when all of them wait.
const BLOCKED_SLOTS: usize = 20;

/// Continues the update of a workload in one workload unit.
pub(crate) fn plan(pass: &mut UnitPass<'_>) {
    proceed(pass);
    // One that is paused or over waits for no slot.
    if !pass.update.is_rolling() {
        pass.update.blocked = None;
    }
}

fn proceed(pass: &mut UnitPass<'_>) {
    // Their share would never end otherwise.
    pass.update.parts.retain(|(part, _)| !pass.facts.gone_parts.contains(part));
    let dirty = dirty_slots(pass);
    let (idle, dirty): (Vec<Slot>, Vec<Slot>) = dirty.into_iter().partition(|slot| is_idle(pass, slot));
    let (aside, dirty) = set_aside::split(pass, dirty);
    let is_update = begin(pass, &dirty, aside.len() as u32);
    replace_idle(pass, &idle);
    if !is_update {
        return;
    }
    tickets::finish(pass);
    if matches!(pass.update.state, UpdateState::Completed | UpdateState::RollbackCompleted) {
        set_aside::explain(pass, &aside, cause(pass));
        completion::count_left_out(pass, aside.len() as u32);
        completion::follow_failing(pass);
        return follow(pass, &dirty);
    }
    if pass.update.is_rolling() {
        if react_to_failures(pass) {
            return;
        }
    } else {
        // Slots that were in work when the update was paused may fail as well.
        note_failures(pass);
    }
    if pass.update.is_rolling() && !take(pass, &dirty, &aside) {
        return;
    }
    completion::count(pass);
    completion::complete(pass);
}

pub(super) fn target(pass: &UnitPass<'_>) -> SpecVersion {
    pass.versions.current
}

/// Returns the slots that run another version, in the order in which they are replaced: those with a node first, of these those not running,
/// then by upgrade domain.
///
/// Every instance keeps its version if the new one requires that (B11.10). A paused node keeps its own slot
/// until it is active again (B8-S3); a slot that could be on any node is waited for.
pub(super) fn dirty_slots(pass: &UnitPass<'_>) -> Vec<Slot> {
    let mut dirty = pass.all_slots();
    dirty.retain(|slot| is_dirty(pass, slot));
    domain_order::in_order(pass, dirty)
}

pub(super) fn is_dirty(pass: &UnitPass<'_>, slot: &Slot) -> bool {
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

/// Returns true if no task of a slot has ever had a node: an instance that starts there replaces nothing, and
/// no other slot waits for it.
fn is_idle(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    pass.tasks(slot).iter().all(|task| task.node.is_none())
}

pub(super) fn is_on_paused_node(pass: &UnitPass<'_>, task: &Task) -> bool {
    pass.node_of(task).is_some_and(|node| node.availability == Availability::Pause)
}

/// Starts an update if slots are dirty and none works toward the version. Returns whether there is one.
///
/// `set_aside`: dirty slots without a node, beside the others.
fn begin(pass: &mut UnitPass<'_>, dirty: &[Slot], set_aside: u32) -> bool {
    let (now, target) = (pass.now, target(pass));
    let part = pass.facts.unit_id.part.clone();
    let is_known = pass.update.target == Some(target) && pass.update.state != UpdateState::None;
    if !is_known {
        // A user's rollback, which may have been paused before it began.
        let is_rollback = pass.update.target.is_none()
            && matches!(pass.update.state, UpdateState::RollbackStarted | UpdateState::RollbackPaused);
        let count = dirty.len() + set_aside as usize;
        if count == 0 && !pass.update.is_rolling() {
            return false;
        }
        if !is_rollback {
            pass.update.start(now);
            pass.update.state = UpdateState::Updating;
            "update in progress".clone_into(&mut pass.update.message);
            let text = format!("{count} slots run another version");
            let data = json!({"specVersion": target.number, "slots": count});
            pass.emit_with("update.started", None, None, text, Some(data));
            crate::unit_pass::snapshot::announce(pass);
        }
        pass.update.target = Some(target);
    }
    if pass.update.is_rolling() && pass.update.part(&part).is_none_or(|part| part.total == 0) {
        let share = pass.update.part_mut(&part);
        (share.total, share.set_aside) = (dirty.len() as u32 + set_aside, set_aside);
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

/// Replaces what waits in slots that never had a node by the version that is wanted now.
fn replace_idle(pass: &mut UnitPass<'_>, idle: &[Slot]) {
    let cause = cause(pass);
    for slot in idle {
        replace(pass, slot, cause);
    }
}

/// Replaces slots that were left out of the update because their nodes were paused or away, some at a time. The status stays as it is until
/// the version fails in one of them: the others are judged as those before.
fn follow(pass: &mut UnitPass<'_>, dirty: &[Slot]) {
    let completed_at = pass.update.completed_at;
    let is_late = |task: &Task| completed_at.is_some_and(|at| task.created_at >= at);
    if let Some(last) = note_failed_tasks(pass, is_late) {
        let state =
            if pass.update.is_rollback() { UpdateState::RollbackStarted } else { UpdateState::Updating };
        if react(pass, state, last) {
            return;
        }
    }
    let (cause, in_work) = (cause(pass), slots_in_work(pass));
    for slot in dirty.iter().filter(|slot| !in_work.contains(*slot)) {
        replace_in_turn(pass, slot, cause);
    }
}

/// Takes a slot into work, if the gates allow that.
fn replace_in_turn(pass: &mut UnitPass<'_>, slot: &Slot, cause: Cause) {
    if let Some(task) = replace(pass, slot, cause) {
        let part = pass.facts.unit_id.part.clone();
        let ticket = Ticket::new(pass.now, Some(task));
        pass.update.part_mut(&part).tickets.insert(slot.clone(), ticket);
        pass.wake(pass.update_settings().start_deadline(pass.now));
    }
}

fn cause(pass: &UnitPass<'_>) -> Cause {
    if pass.update.is_rollback() { Cause::Rollback } else { Cause::Update }
}

/// Counts tasks of the update that failed, and what was reported to be in error, each once; returns the last new one.
fn note_failures(pass: &mut UnitPass<'_>) -> Option<Failed> {
    monitored::wake_for_failing(pass);
    let reported = unhealthy::note(pass);
    note_failed_tasks(pass, |_| true).or(reported)
}

fn note_failed_tasks(pass: &mut UnitPass<'_>, is_meant: impl Fn(&Task) -> bool) -> Option<Failed> {
    let settings = *pass.update_settings();
    let part = pass.facts.unit_id.part.clone();
    let known = pass.update.part(&part).map(|part| part.failed.clone()).unwrap_or_default();
    let new: Vec<Task> = failed_tasks(pass, settings.judged_secs(), settings.start_timeout_secs)
        .into_iter()
        .filter(|task| is_meant(task) && !known.contains(&task.id))
        .filter(|task| !unhealthy::is_instance_counted(pass, task))
        .collect();
    let last = new.last().cloned()?;
    pass.update.part_mut(&part).failed.extend(new.into_iter().map(|task| task.id));
    Some(Failed { message: failure_message(pass, &last), slot: Some(last.slot), node: last.node })
}

/// Pauses the update or rolls it back when too many of its tasks failed. Returns whether it did.
fn react_to_failures(pass: &mut UnitPass<'_>) -> bool {
    let state = pass.update.state;
    note_failures(pass).is_some_and(|last| react(pass, state, last))
}

/// Does so after a failure; `state`: that of the update in which it counts.
fn react(pass: &mut UnitPass<'_>, state: UpdateState, last: Failed) -> bool {
    let settings = *pass.update_settings();
    let (counts, versions) = ((pass.update.failed(), pass.update.total()), pass.versions.roll_back());
    let next = rules::after_failures(state, &settings, counts, versions.is_some());
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
pub(crate) fn domain_order(pass: &UnitPass<'_>) -> Option<DomainOrder> {
    DomainOrder::of(pass, &dirty_slots(pass), &slots_in_work(pass))
}

/// Replaces dirty slots as far as the gates allow; `aside`: those without a node. Returns whether the update
/// continues.
fn take(pass: &mut UnitPass<'_>, dirty: &[Slot], aside: &[Slot]) -> bool {
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
    for slot in dirty.iter().filter(|slot| !in_work.contains(*slot)) {
        // A slot that a rollback finds not running gets the previous version at once: nothing is lost by
        // that.
        let is_kept = cause != Cause::Rollback || pass.tasks(slot).is_running();
        let objection = order.as_ref().filter(|_| is_kept).and_then(|order| order.objection(pass, slot));
        if let Some(blocked) = objection {
            let change = Change::Replace { node: None, may_run: true, order: UpdateOrder::StopFirst };
            let step = pass.step(slot, change, cause);
            pass.block(&step, blocked);
            continue;
        }
        replace_in_turn(pass, slot, cause);
    }
    set_aside::explain(pass, aside, cause);
    let is_proceeding = pass.update.tickets().any(|(_, _, ticket)| ticket.task.is_some());
    // When all others are done, the update ends without those that are set aside.
    let part = &pass.facts.unit_id.part;
    let mut others = pass.update.parts.iter().filter(|(other, _)| other != part);
    let is_ending =
        dirty.is_empty() && others.all(|(_, share)| share.is_done()) && completion::is_shown(pass);
    note_blocked(pass, first, is_proceeding || is_ending);
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
    let is_open = |share: &UnitProgress| !share.is_done() || share.set_aside > 0;
    let open = pass.update.parts.iter().filter(|(_, share)| is_open(share)).map(|(part, _)| part);
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
    // Instances on a lost node continue until their replacements start.
    let is_there = |task: &&Task| !(task.is_live() && pass.is_node_lost(task));
    let old: Vec<Task> = pass.tasks(slot).wanted().filter(is_there).cloned().collect();
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
    // An instance that does not run yet is not waited for.
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
