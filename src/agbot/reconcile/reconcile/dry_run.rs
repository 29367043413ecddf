//! Dry run: plans one after the other, as if every task reached its desired state at once.
//!
//! Nothing is carried out. Source: orchestration D3 (`plan`).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_change::GroupState;
use evenkeel_ids::{GroupId, NodeId, TaskId};
use evenkeel_placement::place::{NodeTable, loading_tasks};
use evenkeel_planner_model::plan::{TaskChange, UnitPlan};
use evenkeel_planner_record::{
    claims::Scope,
    report::{Blocked, EliminationReport},
    settings::UpdateOrder,
    workload::{
        Cause, Change, DesiredState, Ending, Part, ReportedHealth, Slot, SlotTasks, Slots, Step, Task,
        TaskState, UpdateStatus, Workload,
    },
};
use jiff::Timestamp;

use super::{plan_removal, plan_unit};
use crate::unit_pass::UnitFacts;

/// Plans after which a dry run ends even if more would happen.
const MOST_PLANS: usize = 500;

/// The kind of an expected change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedKind {
    /// A slot is filled.
    Create,
    /// A slot gets another version.
    Replace,
    /// A slot goes to another node.
    Move,
    /// A slot is started again.
    Restart,
    /// A slot is emptied, or no node is left for it.
    Stop,
}

/// An expected change of one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedChange {
    /// Kind of the change.
    pub kind: ExpectedKind,
    /// The slot.
    pub slot: Slot,
    /// Current node of the slot.
    pub from: Option<NodeId>,
    /// Planned node of the slot.
    pub to: Option<NodeId>,
    /// Why; none for a slot that is no longer wanted.
    pub cause: Option<Cause>,
}

/// The outcome of a dry run.
///
/// # Shape
/// `changes` in the order in which they happen. `blocked`: what still waits at the end. `is_complete`: false when more changes would
/// follow than a dry run shows.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The changes.
    pub changes: Vec<ExpectedChange>,
    /// Blocked steps with their reasons.
    pub blocked: Vec<(Step, Blocked)>,
    /// Reason why not everything is placed.
    pub unplaced: Option<EliminationReport>,
    /// True if no changes follow.
    pub is_complete: bool,
}

/// Returns what would happen to a workload unit from now on.
pub fn dry_run(facts: &UnitFacts<'_>, now: Timestamp) -> DryRun {
    let mut world = Imagined::new(facts, now);
    world.finish_what_is_in_work(&facts.unit_id.part);
    let mut outcome = DryRun { changes: Vec::new(), blocked: Vec::new(), unplaced: None, is_complete: false };
    for number in 0..MOST_PLANS {
        // Seeds that no decision uses, so that new ids differ from those of the rows.
        let plan = world.plan(facts, u64::MAX - number as u64);
        let is_idle = plan.changes.is_empty() && plan.update.is_none() && plan.versions.is_none();
        outcome.changes.extend(world.expected(&plan));
        outcome.blocked.clone_from(&plan.blocked);
        if plan.unplaced.is_some() {
            outcome.unplaced.clone_from(&plan.unplaced);
        }
        match plan.wake_at.filter(|_| is_idle) {
            Some(at) => world.now = at,
            None if is_idle => {
                outcome.is_complete = true;
                break;
            }
            None => world.apply(plan),
        }
    }
    outcome.changes.extend(world.left_without_node());
    outcome.blocked.extend(world.held_by_pause(facts));
    outcome
}

/// Returns what would happen to a workload unit that its policy no longer has.
pub fn dry_removal(facts: &UnitFacts<'_>, now: Timestamp) -> DryRun {
    let plan = plan_removal(facts, now);
    let emptied = |slot: &&Slot| plan.blocked.iter().all(|(step, _)| step.slot != **slot);
    let wanted = |slot: &Slot| {
        let task = facts.slots.get(slot)?.wanted().next()?;
        let (slot, from) = (slot.clone(), task.node.clone());
        Some(ExpectedChange { kind: ExpectedKind::Stop, slot, from, to: None, cause: None })
    };
    let changes = facts.slots.keys().filter(emptied).filter_map(wanted).collect();
    DryRun { changes, blocked: plan.blocked, unplaced: None, is_complete: true }
}

/// The rows as they would be.
struct Imagined {
    workload: Workload,
    table: NodeTable,
    slots: Slots,
    groups: BTreeMap<GroupId, GroupState>,
    update: UpdateStatus,
    slot_of: BTreeMap<TaskId, Slot>,
    /// The tasks that had no node at the beginning.
    waiting: BTreeSet<TaskId>,
    /// What tasks without a node will be when they get one: those that a plan has created.
    without_node: BTreeMap<TaskId, ExpectedChange>,
    /// Reported health; every instance that starts counts as healthy.
    health: BTreeMap<TaskId, ReportedHealth>,
    now: Timestamp,
}

static NO_SLOTS: Slots = Slots::new();

/// Returns the slots with what was seen of them.
fn seen_slots(facts: &UnitFacts<'_>) -> Slots {
    let mut slots = facts.slots.clone();
    for (slot, tasks) in facts.observed {
        tasks.iter().for_each(|task| slots.entry(slot.clone()).or_default().put(task.clone()));
    }
    slots
}

impl Imagined {
    fn new(facts: &UnitFacts<'_>, now: Timestamp) -> Self {
        let tasks = || facts.slots.values().flat_map(SlotTasks::iter);
        let waiting = tasks().filter(|task| task.node.is_none() && task.is_live());
        Self {
            slot_of: tasks().map(|task| (task.id.clone(), task.slot.clone())).collect(),
            workload: facts.workload.clone(),
            table: facts.table.clone(),
            slots: seen_slots(facts),
            groups: facts.groups.clone(),
            update: facts.update.clone(),
            waiting: waiting.map(|task| task.id.clone()).collect(),
            without_node: BTreeMap::new(),
            health: facts.health.clone(),
            now,
        }
    }

    /// Completes earlier decisions, the claims for them, and the slots in work of other workload units.
    fn finish_what_is_in_work(&mut self, own_part: &Part) {
        let others = self.update.parts.iter_mut().filter(|(part, _)| part != own_part);
        others.for_each(|(_, share)| share.tickets.clear());
        let own = Scope::Policy(self.workload.policy.clone());
        self.groups.values_mut().for_each(|group| group.claims.retain(|claim| claim.scope != own));
        self.settle();
    }

    fn plan(&self, facts: &UnitFacts<'_>, seed: u64) -> UnitPlan {
        let facts = UnitFacts {
            workload: &self.workload,
            table: &self.table,
            slots: &self.slots,
            observed: &NO_SLOTS,
            groups: &self.groups,
            update: &self.update,
            health: &self.health,
            ..*facts
        };
        plan_unit(&facts, self.now, seed)
    }

    fn find(&self, id: &TaskId) -> Option<&Task> {
        self.slots.get(self.slot_of.get(id)?)?.iter().find(|task| task.id == *id)
    }

    /// Returns what becomes of slots for which no node is left: an instance that ends without one that follows it is stopped.
    fn left_without_node(&mut self) -> Vec<ExpectedChange> {
        let left = std::mem::take(&mut self.without_node);
        let is_stopped = |change: &ExpectedChange| {
            let tasks = self.slots.get(&change.slot);
            let runs =
                |node| tasks.is_some_and(|tasks| tasks.wanted().any(|task| task.node.as_ref() == Some(node)));
            change.from.as_ref().is_some_and(|node| !runs(node))
        };
        let changes = left.into_values().map(|change| match is_stopped(&change) {
            true => ExpectedChange { kind: ExpectedKind::Stop, ..change },
            false => change,
        });
        changes.collect()
    }

    /// Returns the slots that run another version as long as the update is paused.
    fn held_by_pause(&self, facts: &UnitFacts<'_>) -> Vec<(Step, Blocked)> {
        if !self.update.is_paused() {
            return Vec::new();
        }
        let cause = if self.update.is_rollback() { Cause::Rollback } else { Cause::Update };
        let is_outdated = |task: &&Task| task.spec != self.workload.versions.current;
        let held = self.slots.values().filter_map(|tasks| tasks.wanted().next().filter(is_outdated));
        let step = |task: &Task| Step {
            unit_id: facts.unit_id.clone(),
            slot: task.slot.clone(),
            change: Change::Replace { node: task.node.clone(), may_run: true, order: UpdateOrder::StopFirst },
            cause,
        };
        let blocked = Blocked::UpdatePaused { message: self.update.message.clone() };
        held.map(|task| (step(task), blocked.clone())).collect()
    }

    /// Returns what a plan does, slot by slot. A task that has waited for a node gets one.
    fn expected(&mut self, plan: &UnitPlan) -> Vec<ExpectedChange> {
        let mut without_node = std::mem::take(&mut self.without_node);
        let mut filled = BTreeSet::new();
        let created = plan.changes.iter().filter_map(|change| match change {
            TaskChange::Create(task) if task.node.is_none() => {
                filled.insert(task.slot.clone());
                without_node.insert(task.id.clone(), self.of_new_task(task));
                None
            }
            TaskChange::Create(task) => Some(self.of_new_task(task)),
            TaskChange::Assign { task, node, .. } if without_node.contains_key(task) => {
                let change = without_node.remove(task)?;
                Some(ExpectedChange { to: Some(node.clone()), ..change })
            }
            TaskChange::Assign { task, node, .. } if self.waiting.contains(task) => {
                let waiting = self.find(task)?;
                let older = self.slots[&waiting.slot].wanted().find(|one| one.id != waiting.id);
                let from = older.and_then(|older| older.node.clone());
                Some(ExpectedChange { from, to: Some(node.clone()), ..self.of_new_task(waiting) })
            }
            _ => None,
        });
        let mut expected: Vec<ExpectedChange> = created.collect();
        filled.extend(expected.iter().map(|change| change.slot.clone()));
        let ended = plan.changes.iter().filter_map(|change| match change {
            TaskChange::Raise { task, desired } if *desired > DesiredState::Running => self.find(task),
            _ => None,
        });
        for task in ended.filter(|task| task.is_wanted() && !filled.contains(&task.slot)) {
            // The older one of two tasks has been replaced before.
            let is_newest = self.slots[&task.slot].wanted().next().is_some_and(|newest| newest.id == task.id);
            // Of one that never got a node, what it was to replace ends.
            let withdrawn = without_node.remove(&task.id);
            let from = task.node.clone().or_else(|| withdrawn.as_ref()?.from.clone());
            if is_newest && (withdrawn.is_none() || from.is_some()) {
                let slot = task.slot.clone();
                expected.push(ExpectedChange { kind: ExpectedKind::Stop, slot, from, to: None, cause: None });
            }
        }
        self.without_node = without_node;
        expected
    }

    fn of_new_task(&self, task: &Task) -> ExpectedChange {
        let before = self.slots.get(&task.slot).and_then(|tasks| tasks.wanted().next());
        let kind = match task.cause {
            Cause::Update | Cause::Rollback => ExpectedKind::Replace,
            Cause::TaskFailed => ExpectedKind::Restart,
            Cause::NodeLost
            | Cause::Incompatible
            | Cause::Drain
            | Cause::Cure
            | Cause::Health
            | Cause::NodeHealth
            | Cause::Return
            | Cause::Rebalance => ExpectedKind::Move,
            Cause::User { .. } | Cause::Scale | Cause::Withdrawn => ExpectedKind::Create,
        };
        ExpectedChange {
            kind,
            slot: task.slot.clone(),
            from: before.and_then(|before| before.node.clone()),
            to: task.node.clone(),
            cause: Some(task.cause),
        }
    }

    fn apply(&mut self, plan: UnitPlan) {
        for change in plan.changes {
            match change {
                TaskChange::Create(task) => self.put(*task),
                TaskChange::Assign { task, node, start_at } => self.change(&task, |task, now| {
                    let is_assigned = task.assign(&node, now).is_ok();
                    debug_assert!(is_assigned, "a task is assigned once");
                    task.start_at = start_at;
                }),
                TaskChange::Raise { task, desired } => self.change(&task, |task, now| {
                    task.raise_desired(desired, now);
                }),
                TaskChange::Orphan { task } => self.change(&task, |task, now| {
                    let is_given_up = task.orphan(now).is_ok();
                    debug_assert!(is_given_up, "an ended task is not given up");
                }),
                TaskChange::Delete { task } => self.delete(&task),
            }
        }
        self.update = plan.update.unwrap_or_else(|| std::mem::take(&mut self.update));
        self.workload.versions = plan.versions.unwrap_or(self.workload.versions);
        self.settle();
    }

    fn put(&mut self, task: Task) {
        if let Some(node) = task.node.as_ref().filter(|_| task.is_live()) {
            self.table.count_instance(node, true);
        }
        self.slot_of.insert(task.id.clone(), task.slot.clone());
        let (slot, node) = (task.slot.clone(), task.node.clone());
        let load = |tasks: &SlotTasks| node.as_ref().map_or(0, |node| i64::from(loading_tasks(tasks, node)));
        let tasks = self.slots.entry(slot).or_default();
        let before = load(tasks);
        tasks.put(task);
        let by = load(tasks) - before;
        if let Some(node) = &node {
            self.table.count_load(node, by);
        }
    }

    fn change(&mut self, id: &TaskId, change: impl FnOnce(&mut Task, Timestamp)) {
        let Some(mut task) = self.find(id).cloned() else { return };
        self.uncount(&task);
        change(&mut task, self.now);
        self.put(task);
    }

    fn uncount(&mut self, task: &Task) {
        if let Some(node) = task.node.as_ref().filter(|_| task.is_live()) {
            self.table.count_instance(node, false);
        }
    }

    fn delete(&mut self, id: &TaskId) {
        let Some(task) = self.find(id).cloned() else { return };
        self.uncount(&task);
        self.slot_of.remove(id);
        let left = self.slots[&task.slot].iter().filter(|one| one.id != *id).cloned().collect::<Vec<_>>();
        if left.is_empty() {
            self.slots.remove(&task.slot);
        } else {
            self.slots.insert(task.slot, SlotTasks::new(left));
        }
    }

    /// Every task on a node that is there becomes what it is wanted to be.
    fn settle(&mut self) {
        let now = self.now;
        let tasks: Vec<Task> = self.slots.values().flat_map(SlotTasks::iter).cloned().collect();
        for task in tasks {
            let Some(node) = &task.node else { continue };
            let is_there = self.table.find(node).is_some_and(|node| node.down_since().is_none());
            let state = match task.desired {
                DesiredState::Ready => continue,
                DesiredState::Running => TaskState::RUNNING,
                DesiredState::Shutdown | DesiredState::Remove => TaskState::Ended(Ending::Shutdown),
            };
            let is_running = state.is_running();
            if is_there && task.state.may_become(&state) && task.state.rank() < state.rank() {
                let node = node.clone();
                self.note(&node, is_running);
                if is_running {
                    self.health.entry(task.id.clone()).or_default().healthy.get_or_insert(true);
                }
                self.change(&task.id, |task, _| {
                    task.is_end_requested = state.is_ended().then_some(true);
                    (task.state, task.state_at) = (state, now);
                    let seen_at = if is_running { &mut task.running_at } else { &mut task.ended_at };
                    *seen_at = Some(now);
                });
            }
        }
    }

    /// Counts a member of an HA group as running, or not: one of its instances has started or ended.
    fn note(&mut self, node: &NodeId, is_running: bool) {
        let has_another = || {
            let tasks = self.slots.values().flat_map(SlotTasks::iter);
            tasks.filter(|task| task.node.as_ref() == Some(node) && task.is_running()).count() > 1
        };
        if !is_running && has_another() {
            return;
        }
        let group = self.table.find(node).and_then(|node| node.group.clone());
        let Some(group) = group.and_then(|group| self.groups.get_mut(&group)) else { return };
        if is_running {
            group.missing.remove(node);
            group.running.insert(node.clone());
        } else if group.running.remove(node) {
            group.missing.insert(node.clone(), "stopped".to_owned());
        }
    }
}
