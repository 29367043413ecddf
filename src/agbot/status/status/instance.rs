//! The status of one instance: availability, monitor state, flags.
//!
//! Source: orchestration A9.1, A9.2, A9.4.

use std::collections::BTreeMap;

use evenkeel_ids::{AgreementId, NodeId, TaskId};
use evenkeel_placement::place::{NodeState, NodeTable, UnitNode, Verdict};
use evenkeel_planner_record::{
    facts::{Availability, NodeMonitorState},
    goal::Avail,
    report::{Blocked, Constraint},
    workload::{Cause, DesiredState, Priority, Slot, Task, TaskState},
};
use jiff::Timestamp;

/// The engine's handling of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MonitorState {
    /// Nothing.
    Idle,
    /// It will be started after the ready period.
    Ready,
    /// It is being started.
    Starting,
    /// The last start failed, and no other one is made.
    StartFailed,
    /// It is being started again on the same node.
    Restarting,
    /// It is being stopped.
    Stopping,
    /// The last stop failed, and nothing is started on its node.
    StopFailed,
    /// It is being started because a user moves it.
    Placing,
    /// It starts when its parents are up.
    WaitParents,
    /// It is stopped when its children are down.
    WaitChildren,
}

impl MonitorState {
    /// Returns the word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::StartFailed => "start-failed",
            Self::Restarting => "restarting",
            Self::Stopping => "stopping",
            Self::StopFailed => "stop-failed",
            Self::Placing => "placing",
            Self::WaitParents => "wait-parents",
            Self::WaitChildren => "wait-children",
        }
    }
}

/// The status of a workload on one node.
///
/// # Shape
/// `flags`: some of `A` (the affinity is violated), `C` (a constraint is violated), `F` (frozen) and `L` (natural leader), in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceStatus {
    /// The node.
    pub node: NodeId,
    /// Its availability.
    pub avail: Avail,
    /// The engine's handling of the instance.
    pub monitor: MonitorState,
    /// State in which the engine keeps the instance: `started`, `shutdown` or `none`.
    pub local_expect: &'static str,
    /// Flags.
    pub flags: String,
    /// True if a user froze the instance or the workload.
    pub is_frozen: bool,
    /// True if a user chose the node of the instance.
    pub is_pinned: bool,
    /// Slots of its tasks.
    pub slots: Vec<Slot>,
    /// Its newest task.
    pub task: Option<TaskId>,
    /// The agreement of that task.
    pub agreement: Option<AgreementId>,
    /// The service version of that agreement.
    pub version: Option<String>,
    /// Violated constraints.
    pub violations: Vec<Violation>,
    /// Reason why its node gets no start.
    pub blocklisted: Option<Box<Blocked>>,
    /// Since when its newest task has its state.
    pub since: Option<Timestamp>,
}

/// A constraint of the placement that does not hold on a node.
///
/// # Source
/// Orchestration A5.6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The constraint.
    pub constraint: Constraint,
    /// The expression.
    pub expression: String,
    /// Reason why it does not hold, in words.
    pub detail: String,
}

impl Violation {
    /// Returns that a node has too little.
    pub(super) fn of_capacity(detail: &str) -> Self {
        let (constraint, expression) = (Constraint::NodeCapacity, String::new());
        Self { constraint, expression, detail: detail.to_owned() }
    }
}

impl InstanceStatus {
    /// Returns whether an instance runs where a constraint is violated.
    pub(super) fn is_violated(&self) -> bool {
        !self.violations.is_empty() && self.task.is_some()
    }
}

/// A node of a workload unit with its tasks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instance<'a> {
    pub row: &'a UnitNode,
    /// The service version of the agreement of its newest task.
    pub version: Option<&'a str>,
    /// Those that have not ended, the newest of each slot, and those that it restarts; newest first.
    pub tasks: &'a [&'a Task],
    /// Slots of the workload unit that wait for a parent or a child.
    pub waits: &'a BTreeMap<&'a Slot, MonitorState>,
    /// The expression of its placement.
    pub expression: &'a str,
    pub is_leader: bool,
    /// True if a user's action moves instances.
    pub is_placing: bool,
    pub is_frozen: bool,
    /// True if the instance was reported to be in error.
    pub is_unhealthy: bool,
    pub table: &'a NodeTable,
    /// True if a node that could take an instance violates less of the soft lists of the affinity.
    pub has_better_neighbors: bool,
    pub now: Timestamp,
}

impl Instance<'_> {
    pub fn status(&self) -> InstanceStatus {
        let row = self.row;
        let newest = self.tasks.first();
        let is_tested =
            |constraint: &Constraint| self.table.priorities().of_constraint(*constraint) != Priority::Off;
        let tested = |constraint: Constraint| Some(constraint).filter(is_tested);
        let expression =
            tested(Constraint::PlacementConstraint).and_then(|constraint| row.removed_by(constraint, 0, 1));
        let affinity = self.affinity_violation();
        let overload =
            tested(Constraint::NodeCapacity).and_then(|_| row.room.as_ref().and_then(|room| room.overload()));
        let violation = |constraint, expression: &str, detail: &String| Violation {
            constraint,
            expression: expression.to_owned(),
            detail: detail.clone(),
        };
        let of_expression = expression
            .iter()
            .map(|detail| violation(Constraint::PlacementConstraint, self.expression, detail));
        let of_affinity = affinity.iter().map(|detail| violation(Constraint::Affinity, "", detail));
        let of_capacity = overload.iter().map(|detail| Violation::of_capacity(detail));
        let number = self.table.number(&row.id).filter(|_| self.running() > 0);
        let packing = number.and_then(|number| self.table.packing(number, None));
        let is_violated = expression.is_some() || overload.is_some() || packing.is_some();
        let of_domain = packing.iter().map(|packing| {
            let detail = format!("{}, distribution policy Packing", packing.text);
            violation(packing.kind, "", &detail)
        });
        let violations = of_expression.chain(of_affinity).chain(of_capacity).chain(of_domain);
        let mut flags = String::new();
        for (is_set, flag) in [
            (affinity.is_some(), 'A'),
            (is_violated, 'C'),
            (self.is_frozen || row.frozen.is_some(), 'F'),
            (self.is_leader, 'L'),
        ] {
            if is_set {
                flags.push(flag);
            }
        }
        let mut slots: Vec<Slot> = self.tasks.iter().map(|task| task.slot.clone()).collect();
        slots.sort();
        slots.dedup();
        InstanceStatus {
            node: row.id.clone(),
            avail: self.avail(),
            monitor: self.monitor(),
            local_expect: self.local_expect(),
            flags,
            is_frozen: self.is_frozen,
            is_pinned: row.is_pinned,
            slots,
            task: newest.map(|task| task.id.clone()),
            agreement: newest.and_then(|task| task.agreement.clone()),
            version: self.version.map(str::to_owned),
            violations: violations.collect(),
            blocklisted: row.marks.blocklisted.clone(),
            since: newest.map(|task| task.state_at),
        }
    }

    /// A soft list is violated if another node could satisfy more of it.
    fn affinity_violation(&self) -> Option<String> {
        let affinity = &self.row.affinity;
        let soft = affinity.soft_text.as_deref().filter(|_| self.has_better_neighbors);
        let text: Vec<&str> = affinity.hard.as_deref().into_iter().chain(soft).collect();
        (!text.is_empty()).then(|| text.join(", "))
    }

    /// Returns the number of tasks that are seen running.
    pub fn running(&self) -> usize {
        self.tasks.iter().filter(|task| task.is_running()).count()
    }

    pub fn avail(&self) -> Avail {
        let is_impaired = |task: &&&Task| matches!(task.state, TaskState::Running { impaired: Some(_) });
        // Instances that ran when a node announced its absence count as running (A10.2).
        let is_silent = match self.row.state {
            NodeState::Ready => false,
            NodeState::Away { monitor_state, .. } => monitor_state == NodeMonitorState::Idle,
            NodeState::NeverHeard | NodeState::Down { .. } => true,
        };
        match self.running() {
            0 if matches!(self.row.eligibility, Verdict::Failed(_)) => Avail::NotApplicable,
            0 if self.row.state == NodeState::NeverHeard => Avail::Unknown,
            0 => Avail::Down,
            _ if is_silent => Avail::Unknown,
            _ if self.is_unhealthy => Avail::Warn,
            running if self.tasks.iter().filter(is_impaired).count() == running => Avail::Warn,
            _ => Avail::Up,
        }
    }

    fn monitor(&self) -> MonitorState {
        let live = self.tasks.iter().find(|task| task.is_live());
        let is_stopping = |task: &&Task| !task.is_wanted() && !task.state.is_ended();
        match live {
            None if self.row.marks.stop_failed.is_some() => MonitorState::StopFailed,
            None if self.tasks.iter().any(is_stopping) => MonitorState::Stopping,
            None if self.row.marks.start_failed.is_some() => MonitorState::StartFailed,
            None => MonitorState::Idle,
            Some(task) if task.is_running() => {
                let is_to_stop = self.waits.get(&task.slot) == Some(&MonitorState::WaitChildren);
                if is_to_stop { MonitorState::WaitChildren } else { MonitorState::Idle }
            }
            Some(task) if self.waits.contains_key(&task.slot) => MonitorState::WaitParents,
            Some(task) if self.is_placing && matches!(task.cause, Cause::User { .. }) => {
                MonitorState::Placing
            }
            Some(task) if self.tasks.iter().any(|other| is_restart(task, other)) => MonitorState::Restarting,
            Some(task) if task.desired == DesiredState::Ready && self.now < task.start_at => {
                MonitorState::Ready
            }
            Some(_) => MonitorState::Starting,
        }
    }

    fn local_expect(&self) -> &'static str {
        match self.row.availability {
            Availability::Drain => "shutdown",
            _ if self.tasks.iter().any(|task| task.is_live()) => "started",
            _ => "none",
        }
    }
}

/// Returns whether a task restarts another one: one of the same slot and version that ended by itself on the same node.
pub(super) fn is_restart(task: &Task, other: &Task) -> bool {
    let is_pending = task.is_live() && !task.is_running();
    let is_same = (&other.slot, &other.spec, &other.node) == (&task.slot, &task.spec, &task.node);
    is_pending && is_same && other.generation < task.generation && other.ended_by_itself()
}
