//! Brings the number of slots to the goal.
//!
//! Source: orchestration B6 to B8, A1, A2.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::AddAssign as _,
};

use evenkeel_change::GateFacts;
use evenkeel_ids::{GroupId, NodeId};
use evenkeel_placement::{
    place::Elimination,
    slots::{self, SlotCondition},
};
use evenkeel_planner_record::{
    goal::StartMode,
    report::{Blocked, Constraint, FrozenLevel},
    settings::UpdateOrder,
    time::later,
    workload::{ActionGoal, Cause, Change, Slot, Step, Task},
};
use roaring::RoaringBitmap;
use serde_json::json;

use crate::unit_pass::UnitPass;

/// Removes the slots of a stopped workload that had another mode.
pub(super) fn remove_other_forms(pass: &mut UnitPass<'_>) {
    if !pass.facts.workload.goal.is_stopped {
        return;
    }
    for slot in pass.all_slots() {
        let is_other = !slot.is_of(&pass.facts.workload.goal);
        if is_other && pass.tasks(&slot).iter().all(Task::is_stopped) {
            pass.remove_slot(&slot);
        }
    }
}

/// Creates missing slots, removes surplus ones, and clears dead ones.
pub(super) fn plan(pass: &mut UnitPass<'_>) {
    let slots = pass.all_slots();
    let conditions: BTreeMap<Slot, SlotCondition> =
        slots.into_iter().map(|slot| (slot.clone(), pass.condition(&slot))).collect();
    let used: Vec<Slot> = conditions
        .iter()
        .filter(|(slot, condition)| is_used(pass, slot, **condition))
        .map(|(slot, _)| slot.clone())
        .collect();
    if pass.facts.workload.goal.is_per_node() {
        return fill_nodes(pass, &used);
    }
    let new = scale(pass, &used);
    for (slot, condition) in &conditions {
        let is_free = *condition == SlotCondition::Dead && used.binary_search(slot).is_err();
        if is_free && !new.contains(slot) && !is_to_be_used_again(pass, slot) {
            pass.remove_slot(slot);
        }
    }
}

/// Returns whether the next start uses a slot again, so that its history stays.
fn is_to_be_used_again(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let count = pass.facts.workload.goal.leader_count().unwrap_or(0);
    matches!(slot, Slot::Number(number) if *number <= count)
}

/// Returns whether a slot counts toward the wanted number.
fn is_used(pass: &UnitPass<'_>, slot: &Slot, condition: SlotCondition) -> bool {
    match condition {
        SlotCondition::Runnable => true,
        // Slots given up with a version that is being rolled back start again with the previous version, and
        // so do slots given up before a user starts the workload.
        SlotCondition::GivenUp => {
            let is_rolling_back = pass.update.is_rollback() && pass.update.is_rolling();
            let newest = pass.tasks(slot).newest();
            let is_same = newest.is_none_or(|newest| newest.spec == pass.versions.current);
            let is_to_start = newest.is_some_and(|newest| pass.starts_again(newest));
            !is_to_start && (!is_rolling_back || is_same)
        }
        SlotCondition::Dead => has_failed_to_stop(pass, slot),
    }
}

/// Returns whether an instance runs on although it was to stop: until a user has cleared that, nothing takes its place (A9.5).
fn has_failed_to_stop(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    let mut running = pass.tasks(slot).iter().filter(|task| !task.is_stopped() && !pass.is_node_lost(task));
    running.any(|task| pass.node_of(task).is_some_and(|row| pass.has_failed_to_stop_on(row)))
}

fn may_start(pass: &UnitPass<'_>) -> bool {
    let workload = pass.facts.workload;
    let is_wanted = workload.goal.start != StartMode::Never || pass.is_started_by_user();
    is_wanted && !workload.goal.is_stopped && !workload.is_frozen && pass.facts.gone_group.is_none()
}

/// Creates a task on every selected node without one.
fn fill_nodes(pass: &mut UnitPass<'_>, used: &[Slot]) {
    if pass.facts.workload.goal.is_stopped {
        return remove(pass, used, used.len() as u32, true);
    }
    if !may_start(pass) {
        return;
    }
    let table = pass.facts.table;
    let nodes = Elimination::with_instances(table);
    let full = Elimination::removed_by_capacity(table);
    // An instance that is stopping keeps its room until it has stopped.
    let busy = table.removed_by(Constraint::NodeCapacity).map(|full| full & &nodes).unwrap_or_default();
    let spec = pass.versions.current;
    for number in &nodes | &full {
        let node = &table.node(number).id;
        let slot = Slot::Node(node.clone());
        if used.binary_search(&slot).is_err() {
            let cause = cause_of_start(pass);
            if nodes.contains(number) && !busy.contains(number) {
                pass.create(&slot, spec, cause, Some(node));
                pass.stay_apart(&slot, node, cause);
            } else {
                // It waits for room on its node (B1).
                pass.create(&slot, spec, cause, None);
            }
        }
    }
    withdraw_waiting(pass, used, &(nodes | full));
}

/// Removes tasks that wait for room on nodes that are no longer wanted.
fn withdraw_waiting(pass: &mut UnitPass<'_>, used: &[Slot], wanted: &RoaringBitmap) {
    for slot in used {
        let Slot::Node(node) = slot else { continue };
        let is_wanted = pass.facts.table.number(node).is_some_and(|number| wanted.contains(number));
        let is_waiting = pass.tasks(slot).wanted().next().is_some_and(|task| task.node.is_none());
        if is_waiting && !is_wanted {
            pass.remove_slot(slot);
        }
    }
}

/// Returns the slots that are created or used again.
fn scale(pass: &mut UnitPass<'_>, used: &[Slot]) -> BTreeSet<Slot> {
    let goal = pass.facts.workload.goal;
    let (wanted, count) = (goal.wanted(0), used.len() as u32);
    if is_held(pass) {
        return BTreeSet::new();
    }
    if count > wanted && goal.removes_surplus() {
        remove(pass, used, count - wanted, wanted == 0);
    }
    if count > wanted || goal.start != StartMode::BestAvailable {
        return if count < wanted { add(pass, used, wanted - count, None) } else { BTreeSet::new() };
    }
    let waiting: Vec<Slot> = used.iter().filter(|slot| is_waiting(pass, slot)).cloned().collect();
    if waiting.is_empty() && count == wanted {
        return BTreeSet::new();
    }
    // Instances without a candidate are only a number: they get a slot when they get a node.
    let idle = waiting.iter().filter(|slot| has_never_had_a_node(pass, slot)).cloned().collect::<Vec<_>>();
    let asked = waiting.len() as u32 + (wanted - count);
    let room = pass.place_most(asked).count().saturating_sub((waiting.len() - idle.len()) as u32);
    let surplus = idle.get(room as usize..).unwrap_or_default();
    for slot in surplus.iter().rev().take(MOST_WITHDRAWN) {
        pass.remove_slot(slot);
    }
    if surplus.len() > MOST_WITHDRAWN {
        pass.wake(later(pass.now, 1));
    }
    let left: BTreeSet<&Slot> = surplus.iter().collect();
    let kept: Vec<Slot> = used.iter().filter(|slot| !left.contains(slot)).cloned().collect();
    let missing = wanted - kept.len() as u32;
    let found = room - (idle.len() - surplus.len()) as u32;
    if missing == 0 { BTreeSet::new() } else { add(pass, &kept, missing, Some(found)) }
}

/// Slots without a candidate that one decision withdraws at most.
const MOST_WITHDRAWN: usize = 500;

/// Returns whether a slot has a task that waits for a node.
fn is_waiting(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    pass.tasks(slot).iter().any(|task| task.is_live() && task.node.is_none())
}

fn has_never_had_a_node(pass: &UnitPass<'_>, slot: &Slot) -> bool {
    pass.tasks(slot).iter().all(|task| task.node.is_none())
}

/// Returns whether a user's action wants instances on nodes that it names. Surplus instances stop, and
/// missing ones start, when the action is over for the whole workload: the verdict about this unit alone
/// would change with it, and the action would undo it.
///
/// # Source
/// Orchestration A2.
fn is_held(pass: &UnitPass<'_>) -> bool {
    let workload = pass.facts.workload;
    let goal = workload.action.as_ref().and_then(|action| action.goal_of(&pass.facts.unit_id.part));
    !workload.goal.is_stopped && goal.is_some_and(ActionGoal::holds_count)
}

/// Creates slots. `found`: for how many of them there is a node, if that is known.
fn add(pass: &mut UnitPass<'_>, used: &[Slot], missing: u32, found: Option<u32>) -> BTreeSet<Slot> {
    if !may_start(pass) || !pass.ranking().has_order() {
        note_frozen(pass, used);
        return BTreeSet::new();
    }
    // Without a node there is nothing to wait with: no task is created.
    let count = found.unwrap_or_else(|| pass.place_most(missing).count()).min(missing);
    let numbers = slots::new_numbers(used, count);
    let slots: BTreeSet<Slot> = numbers.into_iter().map(Slot::Number).collect();
    if count < missing {
        note_missing(pass, used, missing);
    }
    let spec = pass.versions.current;
    for slot in &slots {
        pass.create(slot, spec, cause_of_start(pass), None);
    }
    note_change(pass, "scale.up", slots.len());
    slots
}

fn note_change(pass: &mut UnitPass<'_>, kind: &'static str, count: usize) {
    if count > 0 {
        let wanted = pass.facts.workload.goal.wanted(0);
        let data = json!({"count": count, "wanted": wanted});
        pass.emit_with(kind, None, None, format!("by {count}, to {wanted} instances"), Some(data));
    }
}

/// Records that a freeze of the workload keeps missing instances from being started.
fn note_frozen(pass: &mut UnitPass<'_>, used: &[Slot]) {
    let workload = pass.facts.workload;
    let is_reason =
        workload.is_frozen && !workload.goal.is_stopped && workload.goal.start != StartMode::Never;
    let number = slots::new_numbers(used, 1).pop().filter(|_| is_reason);
    if let Some(number) = number {
        let change = Change::Replace { node: None, may_run: false, order: UpdateOrder::StopFirst };
        let step = pass.step(&Slot::Number(number), change, Cause::Scale);
        pass.block(&step, Blocked::Frozen { level: FrozenLevel::Workload });
    }
}

/// Records that instances are missing for which no task is created.
fn note_missing(pass: &mut UnitPass<'_>, used: &[Slot], missing: u32) {
    let Some(number) = slots::new_numbers(used, 1).pop() else { return };
    let change = Change::Replace { node: None, may_run: false, order: UpdateOrder::StopFirst };
    let unit_id = pass.facts.unit_id.clone();
    let step = Step { unit_id, slot: Slot::Number(number), change, cause: cause_of_start(pass) };
    let blocked = pass.unplaced(missing);
    pass.block(&step, blocked);
}

fn cause_of_start(pass: &UnitPass<'_>) -> Cause {
    if pass.is_started_by_user() { Cause::User { force: false } } else { Cause::Scale }
}

/// Removes slots; those that a gate keeps are passed over.
fn remove(pass: &mut UnitPass<'_>, used: &[Slot], surplus: u32, is_to_nothing: bool) {
    let ranking = pass.ranking().order(&Elimination::of_eligibility(pass.facts.table));
    let positions: BTreeMap<u32, usize> = ranking.into_iter().zip(0..).collect();
    let table = pass.facts.table;
    let rank = |node: &NodeId| {
        let number = table.number(node);
        let position = number.and_then(|number| positions.get(&number).copied());
        // Instances that a user started somewhere stay longest.
        match number.is_some_and(|number| table.node(number).is_pinned) {
            true => position.unwrap_or(positions.len()),
            false => position.map_or(usize::MAX - 1, |position| positions.len() + 1 + position),
        }
    };
    let candidates = used.iter().map(|slot| (slot, pass.tasks(slot)));
    let is_lost = |task: &Task| pass.is_node_lost(task);
    // A rollback keeps what runs the version before.
    let is_bad = |slot: &Slot| {
        let runs_target = |task: &Task| task.spec == pass.versions.current && task.is_running();
        pass.update.is_rollback() && !pass.tasks(slot).wanted().any(runs_target)
    };
    let order = slots::removal_order(pass.facts.workload.goal.surplus, candidates, rank, is_lost, is_bad);
    let is_forced = pass.facts.workload.action.as_ref().is_some_and(|action| action.is_forced);
    let cause = match is_to_nothing {
        true if is_forced => Cause::User { force: true },
        true => Cause::Withdrawn,
        false => Cause::Scale,
    };
    let (mut left, mut in_groups) = (surplus, InstancesInGroups::of(pass));
    let is_stopped = pass.facts.workload.goal.is_stopped;
    for slot in order {
        if left == 0 {
            break;
        }
        if may_remove(pass, &slot, cause, &in_groups) {
            in_groups.subtract(pass, &slot);
            if is_stopped {
                pass.stop_slot(&slot);
            } else {
                pass.remove_slot(&slot);
            }
            left -= 1;
        }
    }
    if !is_stopped {
        note_change(pass, "scale.down", (surplus - left) as usize);
    }
}

/// The running instances in each HA group, those of other policies for the same service included.
struct InstancesInGroups(BTreeMap<GroupId, usize>);

impl InstancesInGroups {
    fn of(pass: &UnitPass<'_>) -> Self {
        let mut counts: BTreeMap<GroupId, usize> = BTreeMap::new();
        let mut own: BTreeSet<NodeId> = BTreeSet::new();
        for slot in pass.facts.slots.keys() {
            for node in nodes_in_groups(pass, slot) {
                counts.entry(node.1).or_default().add_assign(1);
                own.insert(node.0);
            }
        }
        for (id, group) in pass.facts.groups {
            let others = group.running.iter().filter(|node| !own.contains(*node)).count();
            counts.entry(id.clone()).or_default().add_assign(others);
        }
        Self(counts)
    }

    /// Counts the instances of a slot no longer.
    fn subtract(&mut self, pass: &UnitPass<'_>, slot: &Slot) {
        for (_, group) in nodes_in_groups(pass, slot) {
            if let Some(count) = self.0.get_mut(&group) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

/// Returns the nodes in HA groups on which a slot has running instances, each with its group.
fn nodes_in_groups(pass: &UnitPass<'_>, slot: &Slot) -> Vec<(NodeId, GroupId)> {
    let running = pass.tasks(slot).wanted().filter(|task| task.is_running() && !pass.is_node_lost(task));
    let nodes = running.filter_map(|task| pass.node_of(task));
    nodes.filter_map(|node| Some((node.id.clone(), node.group.clone()?))).collect()
}

fn may_remove(pass: &mut UnitPass<'_>, slot: &Slot, cause: Cause, in_groups: &InstancesInGroups) -> bool {
    let live = pass.tasks(slot).wanted().filter(|task| !task.state.is_ended() && !pass.is_node_lost(task));
    let nodes: Vec<_> = live.filter_map(|task| task.node.clone()).collect();
    let unit_id = pass.facts.unit_id;
    let step = |change| Step { unit_id: unit_id.clone(), slot: slot.clone(), change, cause };
    if pass.facts.workload.is_frozen {
        let order = UpdateOrder::StopFirst;
        let step = step(Change::Replace { node: None, may_run: false, order });
        pass.block(&step, Blocked::Frozen { level: FrozenLevel::Workload });
        return false;
    }
    let steps: Vec<Step> = nodes.into_iter().map(|node| step(Change::Stop { node })).collect();
    for step in steps {
        if let Some(blocked) = last_member(pass, &step, in_groups).filter(|_| cause == Cause::Scale) {
            pass.block(&step, blocked);
            return false;
        }
        match pass.permit(&step) {
            Some(permit) => pass.keep(permit),
            None => return false,
        }
    }
    true
}

/// Returns whether a slot of a workload unit that the policy no longer has may be emptied. Where another unit of the policy runs the service
/// from now on, as after a change of its scope, the minimum of the node's HA group holds.
pub(super) fn may_withdraw(pass: &mut UnitPass<'_>, slot: &Slot) -> bool {
    let running: Vec<NodeId> = pass
        .tasks(slot)
        .wanted()
        .filter(|task| !task.state.is_ended() && !pass.is_node_lost(task))
        .filter_map(|task| task.node.clone())
        .collect();
    running.into_iter().all(|node| {
        let is_taken_over = pass.facts.taken_over.binary_search(&node).is_ok();
        pass.permits_stop(slot, &node, if is_taken_over { Cause::Scale } else { Cause::Withdrawn })
    })
}

/// Returns that the only running instance of an HA group would be removed; another one goes instead.
fn last_member(pass: &UnitPass<'_>, step: &Step, in_groups: &InstancesInGroups) -> Option<Blocked> {
    let group = pass.group_of(step.node()?)?;
    let own = nodes_in_groups(pass, &step.slot).into_iter().filter(|(_, id)| *id == group.facts.id).count();
    let count = in_groups.0.get(&group.facts.id).copied().unwrap_or_default();
    let is_last = own > 0 && count <= own && group.facts.members.len() > 1;
    is_last.then(|| Blocked::HaMinimum {
        group: group.facts.id.clone(),
        service: group.service.clone(),
        wanted: 1,
        running: Vec::new(),
        missing: group.missing.clone(),
    })
}
