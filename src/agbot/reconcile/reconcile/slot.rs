//! One slot: what ended is restarted or given up, what runs where it should not is moved, duplicates are stopped.
//!
//! Source: orchestration B2.4, B8 to B10, B13.

use evenkeel_change::Gate;
use evenkeel_domain::orchestration::{OnExhausted, OnViolation, RestartCondition};
use evenkeel_ids::NodeId;
use evenkeel_placement::place::{Elimination, UnitNode};
use evenkeel_planner_record::{
    facts::Availability,
    report::{Blocked, Constraint, FrozenLevel},
    settings::UpdateOrder,
    time::later,
    workload::{ActionGoal, Cause, Change, DesiredState, Part, Slot, Step, Task, UpdateState},
};
use jiff::Timestamp;
use serde_json::json;

use super::lost;
use crate::{
    supervise::tasks_to_delete,
    unit_pass::{
        self, RestartVerdict, UnitPass,
        failed_start::{is_failed_start, start_deadline},
    },
};

/// A problem of a wanted task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// It ended by itself.
    Ended,
    /// Its node is deleted or down.
    NodeLost,
    /// Its node must not have it.
    Incompatible,
    /// Its node is being drained.
    Drained,
    /// Its node should not have it.
    Misplaced,
    /// It was to start on its node, which another one contests, or which has become no candidate.
    Contested,
    /// It waits for its start on a node that gets no start of it.
    Blocked,
    /// It did not get running on a node on which it was started for the first time.
    StartFailed,
    /// A workload that it must, or must not, share its node with is being upgraded, and may be away for that time only.
    PartnerAway,
    /// Its domain has too many instances.
    Packed,
}

/// Plans what a slot's tasks need, apart from the update.
pub(super) fn settle(pass: &mut UnitPass<'_>, slot: &Slot) {
    crate::recovery::follow(pass, slot);
    pass.set_restart_rules(slot);
    if is_quiet(pass, slot) {
        return;
    }
    lost::take_back(pass, slot);
    stop_duplicates(pass, slot);
    let newest = pass.tasks(slot).wanted().next().cloned();
    if let Some(task) = newest {
        match trouble(pass, &task) {
            None => {}
            Some(Trouble::Ended) => {
                restart(pass, slot, &task);
                if pass.tasks(slot).wanted().next().is_none() {
                    // What the restart policy gives up is left to the health policy, and nothing else may happen until it is due.
                    crate::recovery::follow(pass, slot);
                }
            }
            Some(Trouble::NodeLost) => lost::take_over(pass, slot, &task),
            Some(Trouble::Incompatible) if is_followed(pass, slot, &task) => {}
            Some(Trouble::Incompatible) => give_up(pass, slot, &task, Cause::Incompatible),
            // A user's action goes first (P7).
            Some(Trouble::Drained | Trouble::Misplaced) if is_held(pass) => {}
            Some(Trouble::Blocked) => {
                pass.raise(slot, &task.id, DesiredState::Shutdown);
                replace_elsewhere(pass, slot, &task, task.cause, task.start_at);
            }
            Some(Trouble::Contested) => drop_claim(pass, slot, &task),
            Some(Trouble::StartFailed) => leave_node(pass, slot, &task),
            Some(Trouble::Drained) => relocate(pass, slot, &task, Cause::Drain),
            Some(Trouble::Misplaced) => relocate(pass, slot, &task, Cause::Cure),
            Some(Trouble::Packed) => spread(pass, slot, &task),
            Some(Trouble::PartnerAway) => {
                let (node, order) = (task.node.clone(), UpdateOrder::StopFirst);
                let change = Change::Replace { node, may_run: true, order };
                pass.block(&pass.step(slot, change, Cause::Cure), Blocked::PartnerInUpgrade);
            }
        }
    }
    let deadline = pass.tasks(slot).wanted().next().and_then(|task| start_deadline(pass, task));
    deadline.into_iter().for_each(|until| pass.wake(until));
    lost::give_up_orphans(pass, slot);
    note_pending(pass, slot);
}

fn is_held(pass: &UnitPass<'_>) -> bool {
    pass.action_goal.is_some_and(ActionGoal::holds_count)
}

/// Returns whether a slot has one task, which runs where it should.
fn is_quiet(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let tasks = pass.tasks(slot);
    let mut all = tasks.iter();
    matches!((all.next(), all.next()), (Some(only), None)
        if only.desired == DesiredState::Running && only.is_running() && trouble(pass, only).is_none())
}

fn trouble(pass: &UnitPass<'_>, task: &Task) -> Option<Trouble> {
    let goal = &pass.facts.workload.goal;
    let is_moving = pass.facts.workload.placement.on_violation == OnViolation::Move;
    let node = pass.node_of(task);
    // Violations that are not hard were known when the node was chosen.
    let is_hard = |constraint| pass.facts.table.priorities().is_hard(constraint);
    let is_excluded =
        |node: &UnitNode| !node.expression.is_passed() && is_hard(Constraint::PlacementConstraint);
    // A node that must not have the task gets no restart of it either.
    let is_unfit = node.is_some_and(|node| {
        node.eligibility.is_failed()
            || goal.is_per_node() && (!node.is_member || is_excluded(node) && is_moving)
    });
    if is_unfit && pass.facts.gone_group.is_none() {
        return Some(Trouble::Incompatible);
    }
    if pass.is_node_lost(task) {
        return Some(Trouble::NodeLost);
    }
    // Events on a node that is away count when it is back (A10.2, A10.4).
    if node.is_some_and(UnitNode::is_away) && !pass.contested.contains(&task.id) {
        return None;
    }
    if is_failed_start(pass, task) {
        return Some(Trouble::StartFailed);
    }
    if task.state.is_ended() {
        let is_lost = lost::ended_with_node(pass, task);
        return Some(if is_lost { Trouble::NodeLost } else { Trouble::Ended });
    }
    let node = node?;
    if node.availability == Availability::Drain {
        return Some(Trouble::Drained);
    }
    if waits_on_blocked_node(pass, task) {
        return Some(Trouble::Blocked);
    }
    let has_bad_neighbors =
        node.affinity.hard.is_some() && is_hard(Constraint::Affinity) && !goal.is_per_node();
    if pass.contested.contains(&task.id) {
        return Some(Trouble::Contested);
    }
    let is_surplus = is_hard(Constraint::NodeCapacity)
        && node.room.as_ref().is_some_and(|room| room.surplus.as_ref() == Some(&task.id));
    let is_unfit = is_excluded(node) || is_surplus;
    let may_move = is_moving && !node.is_pinned;
    if !node.is_member || may_move && is_unfit {
        return Some(Trouble::Misplaced);
    }
    if may_move && has_bad_neighbors {
        // A partner that is being upgraded comes back (P-S7).
        let is_away = pass.facts.are_partners_in_upgrade;
        return Some(if is_away { Trouble::PartnerAway } else { Trouble::Misplaced });
    }
    (is_moving && !node.is_pinned && is_packed(pass, task)).then_some(Trouble::Packed)
}

/// Moves a task out of a domain with too many instances, if its best other node spreads them better as a whole.
fn spread(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task) {
    let target = pass.candidate(task, Cause::Cure);
    let number = |node: Option<&NodeId>| pass.facts.table.number(node?);
    let ends = number(task.node.as_ref()).zip(number(target.as_ref()));
    if ends.is_some_and(|(from, to)| pass.facts.table.spreads_better(from, to)) {
        relocate(pass, slot, task, Cause::Cure);
    }
}

/// Returns whether a task is the next to leave a domain with too many instances: one at a time, the last slot first.
///
/// # Source
/// Orchestration D6.
fn is_packed(pass: &UnitPass<'_>, task: &Task) -> bool {
    let table = pass.facts.table;
    if !table.has_domains() || pass.facts.workload.goal.is_per_node() {
        return false;
    }
    let Some(number) = task.node.as_ref().and_then(|node| table.number(node)) else { return false };
    // Where all domains are even no node needs to be compared.
    if table.packing(number, None).is_none() {
        return false;
    }
    // It moves only where it violates nothing else.
    let weight = table.weight(number);
    let left = Elimination::of(table).remaining.iter().filter(|one| table.weight(*one) <= weight).collect();
    let Some(packing) = table.packing(number, Some(&left)) else { return false };
    // Violations that are not hard are not cured during an upgrade (D9.5).
    if !table.priorities().is_hard(packing.kind) && unit_pass::snapshot::is_in_upgrade(pass) {
        return false;
    }
    let is_there = |one: &Task| {
        let number = one.node.as_ref().and_then(|node| table.number(node));
        number.is_some_and(|number| table.is_in(number, &packing))
    };
    let all = pass.all_slots();
    let is_moving =
        all.iter().any(|slot| pass.tasks(slot).iter().filter(|one| !one.state.is_ended()).count() > 1);
    let last = all.iter().rev().find(|slot| pass.tasks(slot).wanted().next().is_some_and(is_there));
    !is_moving && last == Some(&task.slot)
}

/// Returns whether a task waits for its start on a node that gets no start of it, and another node may take it (D4).
fn waits_on_blocked_node(pass: &UnitPass<'_>, task: &Task) -> bool {
    let workload = pass.facts.workload;
    let may_move = workload.goal.moves_by_itself() && workload.restart.condition != RestartCondition::None;
    let is_chosen_by_user = matches!(task.cause, Cause::User { .. });
    may_move && !is_chosen_by_user && task.desired == DesiredState::Ready && pass.block_of(task).is_some()
}

/// Marks the node of a task that did not get running there, and lets another one be chosen.
fn leave_node(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task) {
    let Some(node) = task.node.clone() else { return };
    let step = pass.step(slot, Change::Start { node: node.clone() }, Cause::TaskFailed);
    if let Some(blocked) = evenkeel_change::GateFacts::frozen(pass, &step) {
        return pass.block(&step, blocked);
    }
    let why = match task.state.is_ended() {
        true => task.ending_text(),
        false => format!("was not seen running within {} s", pass.facts.workload.update.start_timeout_secs),
    };
    pass.emit("instance.start-failed", Some(slot), Some(&node), why.clone());
    pass.raise(slot, &task.id, DesiredState::Shutdown);
    pass.fail_node(&node, task.spec.number, why);
    replace_elsewhere(pass, slot, task, Cause::TaskFailed, pass.now);
}

/// Stops what a newer task of the slot has replaced, and what does not run beside it.
fn stop_duplicates(pass: &mut UnitPass<'_>, slot: &Slot) {
    let wanted: Vec<Task> = pass.tasks(slot).wanted().cloned().collect();
    let Some((newest, older)) = wanted.split_first() else { return };
    for task in older {
        // Instances on a lost node continue until their replacements start.
        let is_kept = pass.is_node_lost(task)
            && pass.node_of(task).is_some()
            && task.is_live()
            && trouble(pass, task) != Some(Trouble::Incompatible);
        let loses_nothing = !task.is_running() || pass.is_node_lost(task);
        let may_stop = match &task.node {
            _ if is_kept && newest.desired == DesiredState::Ready => false,
            _ if loses_nothing => true,
            // Instances that a user froze meanwhile stay; a frozen node does not prevent a user from moving
            // its instances (A12).
            _ if is_frozen_by_user(pass, task) => false,
            // Where there must never be a second one, it stops first.
            _ if !newest.is_running() && !pass.facts.workload.goal.is_exclusive() => false,
            Some(node) if task.node != newest.node => pass.permits_stop(slot, node, newest.cause),
            _ => true,
        };
        if may_stop {
            pass.raise(slot, &task.id, DesiredState::Shutdown);
        }
    }
}

fn is_frozen_by_user(pass: &UnitPass<'_>, task: &Task) -> bool {
    let frozen = pass.node_of(task).and_then(|row| row.frozen);
    pass.facts.workload.is_frozen || frozen == Some(FrozenLevel::Instance)
}

/// Ends a task whose node is lost or must not have it, and lets another node take over.
fn give_up(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task, cause: Cause) {
    let Some(node) = &task.node else { return };
    if !pass.permits_stop(slot, node, cause) {
        return;
    }
    pass.raise(slot, &task.id, DesiredState::Shutdown);
    replace_elsewhere(pass, slot, task, cause, pass.now);
}

/// Ends a task that has not started, and lets another node be chosen. A restart keeps its delay.
fn drop_claim(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task) {
    pass.raise(slot, &task.id, DesiredState::Shutdown);
    let start_at = if task.cause == Cause::TaskFailed { task.start_at.max(pass.now) } else { pass.now };
    pass.create_at(slot, task.spec, task.cause, None, start_at);
}

/// Lets another node take over before a task stops that its node must no longer have. Returns whether one
/// can.
///
/// # Source
/// Orchestration 1.3.
fn is_followed(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task) -> bool {
    let goal = pass.facts.workload.goal;
    let has_left = pass.node_of(task).is_some_and(|node| !node.is_member);
    let may_have_two = has_left || !goal.is_exclusive();
    if !may_have_two || !task.is_running() || goal.is_per_node() || !goal.moves_by_itself() {
        return false;
    }
    let candidate = pass.candidate(task, Cause::Incompatible);
    candidate.is_some() && relocate_to(pass, slot, task, Cause::Incompatible, candidate)
}

/// Creates a successor on whatever node is best, if the goal starts instances by itself. The replacement of
/// an instance that did not fail is not a restart (B9.2).
fn replace_elsewhere(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task, cause: Cause, start_at: Timestamp) {
    if pass.facts.workload.goal.moves_by_itself() {
        let spec = pass.spec_of_replacement(task);
        pass.create_at(slot, spec, cause, None, start_at);
    }
}

/// Lets the restart supervisor decide about a task that ended.
fn restart(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task) {
    let Some(node) = task.node.clone() else { return };
    let step = pass.step(slot, Change::Start { node: node.clone() }, Cause::TaskFailed);
    let goal = pass.facts.workload.goal;
    if let Some(blocked) = evenkeel_change::GateFacts::frozen(pass, &step) {
        let cause = Cause::User { force: false };
        if !pass.starts_again(task) || goal.is_per_node() || pass.candidate(task, cause).is_none() {
            return pass.block(&step, blocked);
        }
        // A start thaws no node: another one takes over what ended there (A12).
        pass.raise(slot, &task.id, DesiredState::Shutdown);
        let spec = pass.spec_of_replacement(task);
        pass.create_at(slot, spec, cause, None, pass.now);
        return;
    }
    let availability = pass.node_of(task).map_or(Availability::Active, |node| node.availability);
    match pass.judge(slot, task) {
        RestartVerdict::Wait { until } => pass.wake(until),
        RestartVerdict::Unwanted => pass.raise(slot, &task.id, DesiredState::Shutdown),
        RestartVerdict::Exhausted { attempts } => exhaust(pass, slot, task, &node, attempts),
        RestartVerdict::Restart { start_at } => {
            pass.note_bypass(&Step { change: Change::Stop { node: node.clone() }, ..step });
            pass.raise(slot, &task.id, DesiredState::Shutdown);
            if goal.is_per_node() {
                // A paused or drained node gets no task; it gets one when it is active again.
                if availability != Availability::Active {
                    return;
                }
                restart_on(pass, slot, task, &node, start_at);
            } else if goal.is_sticky && !goal.moves_by_itself() || pass.facts.gone_group.is_some() {
                restart_on(pass, slot, task, &node, start_at);
            } else {
                let start_at = if availability == Availability::Drain { pass.now } else { start_at };
                replace_elsewhere(pass, slot, task, Cause::TaskFailed, start_at);
            }
        }
    }
}

fn restart_on(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task, node: &NodeId, start_at: Timestamp) {
    let spec = pass.spec_of_replacement(task);
    pass.create_at(slot, spec, Cause::TaskFailed, Some(node), start_at);
}

fn exhaust(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task, node: &NodeId, attempts: u32) {
    let workload = pass.facts.workload;
    let text = match attempts {
        1 => "one restart was not enough".to_owned(),
        _ => format!("{attempts} restarts were not enough"),
    };
    let data = json!({"taskId": task.id, "attempts": attempts});
    pass.emit_with("restart.exhausted", Some(slot), Some(node), text.clone(), Some(data));
    pass.raise(slot, &task.id, DesiredState::Shutdown);
    if workload.restart.on_exhausted == OnExhausted::Switch && !workload.goal.is_per_node() {
        // Another version is tried on the node, too.
        if pass.spec_of_replacement(task) == task.spec {
            pass.fail_node(node, task.spec.number, text);
        }
        replace_elsewhere(pass, slot, task, Cause::TaskFailed, pass.now);
    }
}

/// Moves a task off its node.
///
/// The successor starts first where two instances may exist. If no node can take it, a drained instance stops nevertheless where the
/// gates allow that and it is not the last one of an HA group, and a misplaced one stays.
fn relocate(pass: &mut UnitPass<'_>, slot: &Slot, task: &Task, cause: Cause) {
    let Some(node) = task.node.clone() else { return };
    let goal = pass.facts.workload.goal;
    if goal.is_per_node() {
        if pass.permits_stop(slot, &node, cause) {
            pass.raise(slot, &task.id, DesiredState::Shutdown);
        }
        return;
    }
    let may_move = goal.moves_by_itself() && pass.facts.gone_group.is_none();
    let found = if may_move { pass.candidate(task, cause) } else { None };
    relocate_to(pass, slot, task, cause, found);
}

/// Moves a task off its node to another one, if there is one; see [`relocate`]. Returns whether it does.
pub(crate) fn relocate_to(
    pass: &mut UnitPass<'_>,
    slot: &Slot,
    task: &Task,
    cause: Cause,
    found: Option<NodeId>,
) -> bool {
    let (Some(node), Some(own)) = (task.node.clone(), pass.node_of(task)) else { return false };
    let goal = pass.facts.workload.goal;
    let order = if goal.is_exclusive() { UpdateOrder::StopFirst } else { UpdateOrder::StartFirst };
    let change = Change::Relocate { node: node.clone(), order };
    if order == UpdateOrder::StartFirst && task.is_running() {
        let others = pass.tasks(slot).wanted().filter(|one| one.id != task.id && one.is_running());
        let others: Vec<bool> = others.map(|one| trouble(pass, one).is_none()).collect();
        // The slot goes back to the instance before, which still runs, and never has a third one.
        if others.contains(&true) && pass.permits_stop(slot, &node, cause) {
            pass.raise(slot, &task.id, DesiredState::Shutdown);
        }
        if !others.is_empty() {
            return true;
        }
    }
    match found {
        Some(candidate) => {
            let step = pass.step(slot, change, cause);
            let Some(permit) = pass.permit(&step) else { return false };
            pass.keep(permit);
            // An instance that does not run yet is not waited for.
            if order == UpdateOrder::StopFirst || !task.is_running() {
                pass.raise(slot, &task.id, DesiredState::Shutdown);
            }
            let spec = pass.spec_of_replacement(task);
            pass.create(slot, spec, cause, Some(&candidate));
            pass.stay_apart(slot, &candidate, cause);
            if cause == Cause::Drain {
                unit_pass::snapshot::announce_drain(pass, &node);
            }
            true
        }
        None if cause == Cause::Drain && may_leave(pass, task) => {
            let may_stop = pass.permits_stop(slot, &node, cause);
            if may_stop {
                pass.raise(slot, &task.id, DesiredState::Shutdown);
                replace_elsewhere(pass, slot, task, cause, pass.now);
            }
            may_stop
        }
        None => {
            let step = pass.step(slot, change, cause);
            let blocked = no_candidate(pass, own);
            pass.block(&step, blocked);
            false
        }
    }
}

/// Returns whether an instance may leave a drained node although no other one can take it.
fn may_leave(pass: &UnitPass<'_>, task: &Task) -> bool {
    let is_forced = task.node.as_ref().is_some_and(|node| pass.is_drain_forced(node));
    is_forced || !pass.facts.workload.goal.is_exclusive() && !is_last_of_group(pass, task)
}

/// Returns whether an instance is the last one that runs in an HA group with other members.
///
/// # Source
/// Orchestration B9.1, P.
fn is_last_of_group(pass: &UnitPass<'_>, task: &Task) -> bool {
    let has_peers = pass.facts.unit_id.part != Part::All && pass.facts.table.members().len() > 1;
    let slots = pass.all_slots();
    let mut others = slots.iter().flat_map(|slot| pass.tasks(slot).iter()).filter(|one| one.id != task.id);
    has_peers && task.is_running() && !others.any(Task::is_running)
}

fn no_candidate(pass: &mut UnitPass<'_>, own: &UnitNode) -> Blocked {
    match &own.group {
        Some(group) => Blocked::NoCandidate { group: group.clone() },
        None => pass.unplaced(1),
    }
}

/// Remembers tasks without a node, to be placed together with others.
fn note_pending(pass: &mut UnitPass<'_>, slot: &Slot) {
    let waits = |task: &&Task| task.node.is_none() && task.is_live();
    let found: Vec<_> = pass.tasks(slot).iter().filter(waits).map(|task| task.id.clone()).collect();
    pass.pending.extend(found.into_iter().map(|id| (slot.clone(), id)));
    pass.starting.insert(slot.clone());
}

/// Starts the newest task of a slot, if it may.
pub(super) fn start(pass: &mut UnitPass<'_>, slot: &Slot) {
    let Some(task) = pass.tasks(slot).wanted().next().cloned() else { return };
    let Some(node) = task.node.clone() else { return };
    if task.desired != DesiredState::Ready || task.state.is_ended() {
        return;
    }
    let step = pass.step(slot, Change::Start { node }, pass.cause_of_start(&task));
    // A version that is being rolled back is not tried again: its slots wait for the one before it (P14).
    if pass.update.state == UpdateState::RollbackStarted
        && task.cause == Cause::TaskFailed
        && task.spec != pass.versions.current
    {
        let limit = pass.update_settings().parallelism;
        return pass.block(&step, Blocked::UpdateBudget { limit });
    }
    let permit = pass.permit(&step);
    crate::recovery::note(pass, &task, permit.is_some());
    if let Some(mut permit) = permit {
        // After the wait for its parents a new ready period begins (A8.1).
        let has_waited = pass.facts.dependencies.has_waited(Gate::Parents, slot);
        if let Some(until) = unit_pass::ready_at(pass, &task).filter(|_| has_waited) {
            pass.postpone(slot, &task.id, until);
            return pass.block(&step, Blocked::StartDelayed { until });
        }
        permit.tasks.insert(task.id.clone());
        pass.keep(permit);
        crate::recovery::supervise(pass, slot);
        pass.begin_probe(&task);
        pass.set_restart_rules(slot);
        pass.raise(slot, &task.id, DesiredState::Running);
        lost::end_replaced(pass, slot, &task.id);
    }
}

/// Deletes the records of a slot that are no longer needed.
pub(super) fn reap(pass: &mut UnitPass<'_>, slot: &Slot) {
    let limit = pass.facts.settings.task_history_limit;
    let tasks = pass.tasks(slot);
    if tasks.len() <= 1 && tasks.newest().is_none_or(Task::is_wanted) {
        return;
    }
    let mut deleted = tasks_to_delete(tasks, limit, pass.facts.workload.restart.max_attempts);
    // The interval between two moves is measured from it.
    let moved = tasks.iter().find(|task| is_recent_move(pass, task)).map(|task| task.id.clone());
    deleted.retain(|task| Some(task) != moved.as_ref());
    pass.plan
        .changes
        .extend(deleted.into_iter().map(|task| evenkeel_planner_model::plan::TaskChange::Delete { task }));
}

/// Returns whether an instance was moved by itself so lately that the next one may not move yet.
fn is_recent_move(pass: &UnitPass<'_>, task: &Task) -> bool {
    let interval_secs = pass.facts.settings.rebalance_interval_secs;
    task.cause == Cause::Rebalance && pass.now < later(task.created_at, interval_secs)
}
