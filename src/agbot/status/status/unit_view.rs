//! Reports of the engine about a workload unit: running instances, violated constraints, failed starts.
//!
//! Source: orchestration D2.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ids::NodeId;
use evenkeel_planner_model::model::{Model, UnitRecord};
use evenkeel_planner_record::{
    facts::Availability,
    goal::{Avail, Count},
    report::Blocked,
    workload::{Ending, SlotTasks, Task, TaskState, UnitId},
};
use jiff::Timestamp;

use super::{
    Violation,
    part::{Source, is_frozen_everywhere, selected, tasks_by_number},
};

/// A start that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// Why, in words.
    pub text: String,
    /// True if no other start is made on the node.
    pub is_final: bool,
}

/// A workload unit as its health depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnitView {
    /// Instances that are up.
    pub up: u32,
    /// Instances that are to run.
    pub wanted: u32,
    /// Instances below which the unit is a warning.
    pub min: u32,
    /// Reason why not everything was placed.
    pub unplaced: Option<String>,
    /// True if every node is frozen, so that nothing is placed.
    pub is_frozen_everywhere: bool,
    /// The compatibility versions of the agents, if they differ and that suspends automatic decisions.
    pub incompatible: Vec<i64>,
    /// Constraints that running instances violate.
    pub violations: Vec<(NodeId, Violation)>,
    /// The last starts that failed, by node.
    pub failures: BTreeMap<NodeId, StartFailure>,
    /// Nodes with tasks.
    pub nodes: BTreeSet<NodeId>,
}

/// Returns what is seen of a workload unit; none when no tasks carry it out.
pub fn unit_view(model: &Model, unit_id: &UnitId, now: Timestamp) -> Option<UnitView> {
    let source = Source::new(model, &unit_id.policy, now)?;
    let unit = model.workload_unit(unit_id).filter(|unit| unit.is_wanted)?;
    let (goal, tasks) = (&source.workload.goal, tasks_by_number(unit));
    // What is to be down has no start that could fail.
    let is_stopped = goal.is_stopped || source.record.is_stopped;
    let failures = if is_stopped { BTreeMap::new() } else { failures(unit) };
    let mut view = UnitView { failures, ..UnitView::default() };
    let waits = BTreeMap::new();
    for (number, of_node) in &tasks {
        let instance = source.instance(unit, of_node, *number, &waits);
        let running = instance.running();
        if instance.avail() == Avail::Up {
            view.up += running as u32;
        }
        let node = &instance.row.id;
        view.nodes.insert(node.clone());
        if running > 0 {
            let violations = instance.status().violations.into_iter();
            view.violations.extend(violations.map(|violation| (node.clone(), violation)));
        }
    }
    // The needs of a new version are too large as well (D2-S2).
    let waiting = source.record.update.blocked.iter().flat_map(|blocked| &blocked.slots);
    let short = waiting.filter_map(|(_, blocked)| match blocked {
        Blocked::NoRoom { node, detail } if unit.table.number(node).is_some() => {
            Some((node.clone(), Violation::of_capacity(detail)))
        }
        _ => None,
    });
    view.violations.extend(short);
    let slots = unit.slots.values().filter(|tasks| tasks.wanted().next().is_some()).count() as u32;
    let is_automatic = goal.is_per_node() || goal.moves_by_itself();
    let selected = if goal.is_per_node() { selected(&unit.table) } else { 0 };
    let is_held = source.record.is_frozen || source.record.is_stopped;
    view.wanted = match () {
        () if goal.is_stopped || source.record.is_stopped => 0,
        () if is_automatic && !is_held => goal.wanted(selected),
        // Instances that are not started automatically count as wanted where a user started them.
        () => slots,
    };
    view.min = match goal.count {
        Count::PerNode => selected,
        Count::Exactly(count) => count,
        Count::Between { min, .. } => min,
    };
    view.is_frozen_everywhere = is_frozen_everywhere(&unit.table);
    view.incompatible = source.workload.suspending_versions(unit.table.compat_versions());
    view.unplaced = unit.unplaced.as_ref().map(|report| report.summary.clone());
    Some(view)
}

/// Returns the nodes on which the newest start failed.
fn failures(unit: &UnitRecord) -> BTreeMap<NodeId, StartFailure> {
    let mut newest: BTreeMap<&NodeId, &Task> = BTreeMap::new();
    for tasks in unit.slots.values() {
        // A starting instance gives no result yet.
        let conclusive = SlotTasks::iter(tasks).filter(|task| task.is_running() || task.state.is_ended());
        for (node, task) in conclusive.filter_map(|task| Some((task.node.as_ref()?, task))) {
            let known = newest.entry(node).or_insert(task);
            if task.created_at > known.created_at {
                *known = task;
            }
        }
    }
    let mut failures = BTreeMap::new();
    for (node, task) in newest {
        let text = match &task.state {
            TaskState::Ended(Ending::Failed { error, .. } | Ending::Rejected { error }) => error.clone(),
            _ => continue,
        };
        // Nothing is wanted on a node that left the workload unit, that may not have an instance, or that is emptied.
        let row = unit.table.find(node).filter(|row| {
            row.is_member && !row.eligibility.is_failed() && row.availability != Availability::Drain
        });
        let Some(row) = row else { continue };
        let is_final = row.marks.start_failed.is_some();
        // Starts on a node whose slot runs elsewhere now are over.
        let is_elsewhere =
            |one: &Task| one.is_wanted() && one.is_running() && one.node.as_ref() != Some(node);
        if (task.running_at.is_some() || !is_final) && unit.tasks(&task.slot).iter().any(is_elsewhere) {
            continue;
        }
        let is_cleared = row.marks.cleared_at.is_some_and(|at| at >= task.state_at);
        if !is_cleared && (task.is_wanted() || task.ended_by_itself() || is_final) {
            failures.insert(node.clone(), StartFailure { text, is_final });
        }
    }
    failures
}
