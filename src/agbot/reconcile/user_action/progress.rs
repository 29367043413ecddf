//! Progress of a workload unit toward the goal of a user's action.
//!
//! Source: orchestration A6 (rules 2 to 6).

use std::collections::BTreeSet;

use evenkeel_ids::NodeId;
use evenkeel_placement::place::{Elimination, NodeTable, UnitNode};
use evenkeel_planner_record::{
    report::FrozenLevel,
    time::later,
    workload::{ActionGoal, DesiredState, Slot, Task, UserAction, Workload},
};
use jiff::Timestamp;

use super::goal::is_of_action;

/// Current state of a workload unit.
#[derive(Debug)]
pub(crate) struct UnitView<'a> {
    /// Its workload.
    pub workload: &'a Workload,
    /// Its nodes.
    pub table: &'a NodeTable,
    /// Its tasks.
    pub tasks: Vec<&'a Task>,
}

/// Progress of a workload unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is on its way; `until`: when that is too late.
    Open { until: Option<Timestamp> },
    /// It has reached the goal.
    Done,
    /// It cannot reach the goal, and why.
    Failed(String),
}

impl UnitView<'_> {
    fn row(&self, task: &Task) -> Option<&UnitNode> {
        self.table.find(task.node.as_ref()?)
    }

    /// Returns whether something of a task may still run, and its node will report when it has ended.
    fn is_open(&self, task: &Task) -> bool {
        let is_lost = || self.row(task).is_none_or(|row| row.down_since().is_some());
        !(task.is_stopped() || is_lost())
    }

    /// Returns whether a task runs that is to run, as far as its node is there.
    fn runs(&self, task: &Task) -> bool {
        task.is_wanted() && task.is_running() && self.is_open(task)
    }

    fn runs_on(&self, node: &NodeId) -> bool {
        self.tasks.iter().any(|task| self.runs(task) && task.node.as_ref() == Some(node))
    }

    fn running(&self) -> u32 {
        self.tasks.iter().filter(|task| self.runs(task)).count() as u32
    }

    /// Returns why a node cannot become what the user named it for.
    fn failed_destination(&self, node: &NodeId) -> Option<String> {
        let Some(row) = self.table.find(node) else { return Some(format!("{node} no longer exists")) };
        if self.runs_on(node) {
            return None;
        }
        if let Some(why) = &row.marks.start_failed {
            return Some(format!("the start on {node} failed: {why}"));
        }
        if row.down_since().is_some() {
            return Some(format!("{node} is down"));
        }
        row.eligibility.is_failed().then(|| format!("{node} can no longer run it"))
    }

    /// Returns why an instance that is meant does not stop.
    fn failed_stop(&self, is_meant: impl Fn(&Task) -> bool) -> Option<String> {
        self.tasks.iter().filter(|task| !task.is_wanted() && self.is_open(task) && is_meant(task)).find_map(
            |task| {
                let row = self.row(task)?;
                let why = row.marks.stop_failed.as_ref()?;
                Some(format!("the stop on {} failed: {why}", row.id))
            },
        )
    }

    /// Returns whether everything that is meant has stopped.
    fn is_stopped(&self, is_meant: impl Fn(&Task) -> bool) -> bool {
        let mut meant = self.tasks.iter().filter(|task| is_meant(task));
        meant.all(|task| task.is_stopped() || !task.is_wanted() && !self.is_open(task))
    }
}

/// Returns whether a task is still to be started again. Tasks that are frozen individually, or lost, are left
/// out.
pub(super) fn is_to_restart(task: &Task, table: &NodeTable, action: &UserAction, goal: &ActionGoal) -> bool {
    let ActionGoal::Restarted { node } = goal else { return false };
    let row = task.node.as_ref().and_then(|node| table.find(node));
    let is_frozen = |row: &UnitNode| matches!(row.frozen, Some(FrozenLevel::Instance | FrozenLevel::Node));
    // Instances on a node that is down cannot be restarted there.
    if row.is_none_or(|row| is_frozen(row) || row.down_since().is_some()) {
        return false;
    }
    let is_meant = task.node.is_some() && (node.is_none() || *node == task.node);
    is_meant && task.is_live() && task.created_at < action.accepted_at
}

/// Returns how far a workload unit is.
pub(crate) fn progress(
    action: &UserAction,
    goal: &ActionGoal,
    view: &UnitView<'_>,
    now: Timestamp,
) -> Progress {
    let is_on = |task: &Task, node: &NodeId| task.node.as_ref() == Some(node);
    let is_on_one = |task: &Task, nodes: &BTreeSet<NodeId>| nodes.iter().any(|node| is_on(task, node));
    let failure = match goal {
        ActionGoal::Started => every_candidate_failed(view),
        ActionGoal::StartedOn { node } => view.failed_destination(node),
        ActionGoal::Stopped => view.failed_stop(|_| true),
        ActionGoal::StoppedOn { nodes } => view.failed_stop(|task| is_on_one(task, nodes)),
        ActionGoal::Restarted { .. } => failed_restart(view, action),
        ActionGoal::Recovered { slots, fills_up, .. } => {
            let recovery = failed_recovery(view, action, slots);
            recovery.or_else(|| fills_up.then(|| every_candidate_failed(view)).flatten())
        }
        ActionGoal::Placed { nodes, .. } => {
            let is_elsewhere = |task: &Task| !is_on_one(task, nodes);
            let stop = if action.is_forced { None } else { view.failed_stop(is_elsewhere) };
            stop.or_else(|| nodes.iter().find_map(|node| view.failed_destination(node)))
        }
    };
    if let Some(why) = failure {
        return Progress::Failed(why);
    }
    let is_done = match goal {
        ActionGoal::Started => is_started(view) || has_started(view, action),
        ActionGoal::StartedOn { node } => view.runs_on(node),
        ActionGoal::Stopped => view.is_stopped(|_| true),
        ActionGoal::StoppedOn { nodes } => view.is_stopped(|task| is_on_one(task, nodes)),
        ActionGoal::Restarted { .. } => {
            let is_left = |task: &&Task| {
                is_to_restart(task, view.table, action, goal)
                    || is_of_action(task, action) && task.is_live() && !task.is_running()
            };
            !view.tasks.iter().any(is_left)
        }
        ActionGoal::Recovered { slots, fills_up, .. } => {
            slots.iter().all(|slot| is_recovered(view, action, slot)) && (!fills_up || is_started(view))
        }
        ActionGoal::Placed { nodes, .. } => {
            let is_elsewhere = |task: &Task| !is_on_one(task, nodes);
            let is_given_up = |task: &Task| {
                action.is_forced
                    && !task.is_wanted()
                    && view.row(task).is_some_and(|row| row.marks.stop_failed.is_some())
            };
            nodes.iter().all(|node| view.runs_on(node))
                && view.is_stopped(|task| is_elsewhere(task) && !is_given_up(task))
        }
    };
    if is_done {
        return Progress::Done;
    }
    match deadline(action, goal, view) {
        Some(until) if now >= until => {
            let secs = view.workload.update.start_timeout_secs;
            Progress::Failed(format!("not everything was seen running within {secs} s"))
        }
        until => Progress::Open { until },
    }
}

/// Returns when a start takes too long. A start that a gate blocks has no deadline: it is shown, and the user
/// may abort.
fn deadline(action: &UserAction, goal: &ActionGoal, view: &UnitView<'_>) -> Option<Timestamp> {
    let secs = view.workload.update.start_timeout_secs;
    let starting = || view.tasks.iter().filter(|task| is_of_action(task, action) && task.is_live());
    let since = starting().filter_map(|task| task.desired_at).max();
    match goal {
        ActionGoal::Started if starting().any(|task| task.desired == DesiredState::Ready) => None,
        ActionGoal::Started => Some(later(since.unwrap_or(action.accepted_at), secs)),
        ActionGoal::Restarted { .. } => since.map(|since| later(since, secs)),
        _ => None,
    }
}

/// Returns whether the recovery of a slot is over. A slot that is removed needs none.
fn is_recovered(view: &UnitView<'_>, action: &UserAction, slot: &Slot) -> bool {
    let is_left = |task: &&&Task| task.slot == *slot && task.desired != DesiredState::Remove;
    let mut left = view.tasks.iter().filter(is_left).peekable();
    left.peek().is_none() || left.any(|task| task.health.is_over(&action.id))
}

/// Returns why the recovery of one of the slots failed, when all of them are over.
fn failed_recovery(view: &UnitView<'_>, action: &UserAction, slots: &BTreeSet<Slot>) -> Option<String> {
    if !slots.iter().all(|slot| is_recovered(view, action, slot)) {
        return None;
    }
    let of_slots = view.tasks.iter().filter(|task| slots.contains(&task.slot));
    of_slots.filter(|task| task.health.is_over(&action.id)).find_map(|task| {
        let failure = task.health.ended_order.as_ref()?.failure.as_ref()?;
        let place = task.node.as_ref().map_or_else(|| format!("slot {}", task.slot), ToString::to_string);
        Some(format!("the instance on {place} was not recovered: {failure}"))
    })
}

/// Returns whether everything runs that is wanted.
pub(crate) fn is_started(view: &UnitView<'_>) -> bool {
    let goal = &view.workload.goal;
    if goal.is_per_node() {
        return Elimination::with_instances(view.table)
            .iter()
            .all(|number| view.runs_on(&view.table.node(number).id));
    }
    view.running() >= goal.wanted(0)
}

/// Returns whether everything that runs now, or has run because of the action and ended, is what is wanted.
fn has_started(view: &UnitView<'_>, action: &UserAction) -> bool {
    let has_run = |task: &&&Task| is_of_action(task, action) && task.running_at.is_some();
    let goal = &view.workload.goal;
    if goal.is_per_node() {
        return Elimination::with_instances(view.table).iter().all(|number| {
            let node = &view.table.node(number).id;
            let mut of_node = view.tasks.iter().filter(has_run);
            view.runs_on(node) || of_node.any(|task| task.node.as_ref() == Some(node))
        });
    }
    let ended = view.tasks.iter().filter(has_run).filter(|task| !task.is_live());
    let slots: BTreeSet<&Slot> = ended.map(|task| &task.slot).collect();
    let is_counted = |slot: &Slot| !view.tasks.iter().any(|task| task.slot == *slot && task.is_live());
    let ended = slots.into_iter().filter(|slot| is_counted(slot)).count() as u32;
    view.running() + ended >= goal.wanted(0)
}

/// Returns why nothing more can be started: the start failed on every node, or what ended stays on a frozen one.
fn every_candidate_failed(view: &UnitView<'_>) -> Option<String> {
    let is_held = |task: &Task| {
        task.state.is_ended() && view.row(task).is_some_and(|row| row.frozen == Some(FrozenLevel::Node))
    };
    let is_busy = view
        .tasks
        .iter()
        .any(|task| task.is_wanted() && !task.is_running() && task.node.is_some() && !is_held(task));
    if is_busy || is_started(view) || !Elimination::with_instances(view.table).is_empty() {
        return None;
    }
    let failed = view.table.nodes().find_map(|row| Some((&row.id, row.marks.start_failed.as_ref()?)));
    if let Some((node, why)) = failed {
        return Some(format!("no node is left; the start on {node} failed: {why}"));
    }
    let held = view.tasks.iter().find(|task| task.is_wanted() && is_held(task))?;
    Some(format!("no node is left; {} is frozen", held.node.as_ref()?))
}

fn failed_restart(view: &UnitView<'_>, action: &UserAction) -> Option<String> {
    let mut restarted = view.tasks.iter().filter(|task| is_of_action(task, action));
    let failed = restarted.find(|task| task.ended_by_itself())?;
    let node = failed.node.as_ref()?;
    Some(format!("the instance on {node} ended after its restart: {}", failed.ending_text()))
}
