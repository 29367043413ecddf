//! Tasks: attempts to run an instance in a slot.
//!
//! Source: orchestration B3.

use evenkeel_ids::{AgreementId, NodeId, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Cause, DesiredState, Ending, Slot, SpecVersion, TaskHealth, TaskState, UnitId, Writer};

/// A task.
///
/// # Shape
/// Workload unit, slot, version and cause never change; the node is set once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its workload unit.
    pub unit_id: UnitId,
    /// Its slot.
    pub slot: Slot,
    /// Its number in the slot: the newest task of a slot has the largest, regardless of clocks.
    pub generation: u64,
    /// The version of the task spec that it runs.
    pub spec: SpecVersion,
    /// The node; none until one is chosen.
    pub node: Option<NodeId>,
    /// The agreement with the node, once there is one.
    pub agreement: Option<AgreementId>,
    /// Desired state of the task.
    pub desired: DesiredState,
    /// Observed state of the task.
    #[serde(flatten)]
    pub state: TaskState,
    /// Sequence number of the last report.
    pub seq: u64,
    /// Reason why it was created.
    pub cause: Cause,
    /// The node to which the slot returns when the upgrade is over during which it left that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<NodeId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it may become desired running at the earliest.
    pub start_at: Timestamp,
    /// When its desired state was raised to running or above; none before.
    pub desired_at: Option<Timestamp>,
    /// When its state changed last, by the hub's clock.
    pub state_at: Timestamp,
    /// When it was first seen running: as its node reported, clamped to the bounds that the hub knows.
    pub running_at: Option<Timestamp>,
    /// When it ended: as its node reported, clamped to the bounds that the hub knows.
    pub ended_at: Option<Timestamp>,
    /// True if its end had been requested when it was recorded; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_end_requested: Option<bool>,
    /// Its restarts by its node.
    #[serde(default, skip_serializing_if = "NodeRestarts::is_none")]
    pub restarts: NodeRestarts,
    /// Its supervision and recovery.
    #[serde(default, skip_serializing_if = "TaskHealth::is_empty")]
    pub health: TaskHealth,
}

/// The restarts of a task by its node, which had no contact to the hub.
///
/// # Source
/// Orchestration B10.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRestarts {
    /// Their number.
    pub count: u64,
    /// The times of the latest, by the node's clock.
    pub latest: Vec<Timestamp>,
    /// Error with which the instance ended before the last restart; none when it had completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl NodeRestarts {
    /// Returns whether there were none.
    pub fn is_none(&self) -> bool {
        self.count == 0
    }
}

/// A node's report about a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The node that reports.
    pub node: NodeId,
    /// The state.
    #[serde(flatten)]
    pub state: TaskState,
    /// Sequence number; grows with every report of a task.
    pub seq: u64,
    /// Time of the change, by the node's clock.
    pub at: Timestamp,
}

/// A report or transition that a task does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedReport {
    /// The report comes from a node that the task is not assigned to.
    #[error("task {task} does not belong to node {node}")]
    ForeignTask {
        /// The task.
        task: TaskId,
        /// The node that reported.
        node: NodeId,
    },
    /// The report was sent before one that has arrived already.
    #[error("report {seq} of task {task} is not newer than report {stored}")]
    OldReport {
        /// The task.
        task: TaskId,
        /// Its sequence number.
        seq: u64,
        /// State of the last report.
        stored: u64,
    },
    /// The state would go back, or is not the reporter's to write.
    #[error("task {task} cannot go from {stored} to {reported}")]
    Backwards {
        /// The task.
        task: TaskId,
        /// Its state.
        stored: &'static str,
        /// The reported state.
        reported: &'static str,
    },
}

impl Task {
    /// Returns how it ended, in words: its error, or else the name of its state.
    pub fn ending_text(&self) -> String {
        match &self.state {
            TaskState::Ended(Ending::Failed { error, .. } | Ending::Rejected { error })
                if !error.is_empty() =>
            {
                error.clone()
            }
            state => state.name().to_owned(),
        }
    }

    /// Returns when its state, desired state or node changed last.
    pub fn changed_at(&self) -> Timestamp {
        self.created_at.max(self.state_at).max(self.desired_at.unwrap_or(self.created_at))
    }

    /// Returns whether the engine wants the task to run, now or later.
    pub fn is_wanted(&self) -> bool {
        self.desired <= DesiredState::Running
    }

    /// Returns whether a recovery that continues created it.
    pub fn is_recreated(&self) -> bool {
        self.health.recovery.as_ref().is_some_and(|recovery| recovery.is_recreated)
    }

    /// Returns whether the task is wanted and has not ended.
    pub fn is_live(&self) -> bool {
        self.is_wanted() && !self.state.is_ended()
    }

    /// Returns true if no part of the task can still run: it ended, or no node ever got it.
    pub fn is_stopped(&self) -> bool {
        self.state.is_ended() || self.node.is_none()
    }

    /// Returns whether the task is ready on its node and starts later, unless a better node contests that.
    pub fn is_contender(&self) -> bool {
        let is_held = self.desired == DesiredState::Ready && self.node.is_some();
        is_held && !self.state.is_ended() && self.cause.is_contested()
    }

    /// Returns true if the task ended without a request.
    pub fn ended_by_itself(&self) -> bool {
        let is_stopped = matches!(self.state, TaskState::Ended(Ending::Shutdown | Ending::Orphaned));
        self.state.is_ended() && !is_stopped && !self.is_end_requested()
    }

    /// Returns true if the end of the task had been requested when it was recorded.
    ///
    /// The end records that, and no times are compared: a later request, or a clock that is set back, changes nothing.
    pub fn is_end_requested(&self) -> bool {
        self.is_end_requested.unwrap_or_else(|| !self.is_wanted() && self.was_requested_before())
    }

    /// Returns whether a request is older than the end, for a row that was written before ends recorded that.
    fn was_requested_before(&self) -> bool {
        self.desired_at.is_some_and(|at| at < self.state_at)
    }

    /// Returns whether the task is seen running.
    pub fn is_running(&self) -> bool {
        self.state.is_running()
    }

    /// Returns whether this record of a task was written after another one: neither state goes back.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.state.rank() > other.state.rank()
            || self.desired > other.desired
            || self.seq > other.seq
            || self.restarts.count > other.restarts.count
    }

    /// Records what the node reported; `now`: the hub's clock.
    ///
    /// # Errors
    /// [`RefusedReport`] when the report is of another node, old, or would revert the state. Nothing changes
    /// then.
    pub fn report(&mut self, report: TaskReport, now: Timestamp) -> Result<(), RefusedReport> {
        let task = || self.id.clone();
        if self.node.as_ref() != Some(&report.node) {
            return Err(RefusedReport::ForeignTask { task: task(), node: report.node });
        }
        if report.state.writer() != Writer::Agent {
            return Err(self.backwards(&report.state));
        }
        if report.seq <= self.seq {
            return Err(RefusedReport::OldReport { task: task(), seq: report.seq, stored: self.seq });
        }
        // The clock of a node may be wrong by years.
        let earliest = self.running_at.unwrap_or(self.state_at).min(now);
        let at = report.at.clamp(earliest, now);
        self.change_state(report.state, now)?;
        self.seq = report.seq;
        if self.is_running() {
            self.running_at.get_or_insert(at);
        }
        if self.state.is_ended() {
            self.ended_at = Some(at);
        }
        Ok(())
    }

    /// Returns the node of the task, or the only one that it may have: that of its slot.
    ///
    /// # Source
    /// Orchestration B1.
    pub fn bound_node(&self) -> Option<&NodeId> {
        let of_slot = match &self.slot {
            Slot::Node(node) => Some(node),
            Slot::Number(_) => None,
        };
        self.node.as_ref().or(of_slot)
    }

    /// Assigns the task to a node. The node of a task never changes.
    ///
    /// # Errors
    /// [`RefusedReport::Backwards`] when it has a node already.
    pub fn assign(&mut self, node: &NodeId, now: Timestamp) -> Result<(), RefusedReport> {
        if self.node.as_ref().is_some_and(|own| own != node) {
            return Err(self.backwards(&TaskState::Assigned));
        }
        self.change_state(TaskState::Assigned, now)?;
        self.node = Some(node.clone());
        self.origin = self.origin.take().filter(|origin| origin != node);
        Ok(())
    }

    /// Abandons the task because its node is permanently lost.
    ///
    /// # Errors
    /// [`RefusedReport::Backwards`] when it ended.
    pub fn orphan(&mut self, now: Timestamp) -> Result<(), RefusedReport> {
        self.change_state(TaskState::Ended(Ending::Orphaned), now)
    }

    /// Raises the desired state; a lower one is ignored. Returns whether it changed.
    pub fn raise_desired(&mut self, desired: DesiredState, now: Timestamp) -> bool {
        let is_raised = desired > self.desired;
        if is_raised {
            let had_request = self.state.is_ended() && !self.is_wanted();
            if self.state.is_ended() {
                // A row of an older version says from here on what its times say now.
                self.is_end_requested = Some(self.is_end_requested());
            }
            self.desired = desired;
            // What was requested to end and has ended was not requested to now.
            self.desired_at = if had_request { self.desired_at } else { Some(now) };
        }
        is_raised
    }

    fn change_state(&mut self, state: TaskState, now: Timestamp) -> Result<(), RefusedReport> {
        if !self.state.may_become(&state) {
            return Err(self.backwards(&state));
        }
        if state.is_ended() {
            self.is_end_requested = Some(!self.is_wanted());
        }
        (self.state, self.state_at) = (state, now);
        Ok(())
    }

    fn backwards(&self, state: &TaskState) -> RefusedReport {
        RefusedReport::Backwards { task: self.id.clone(), stored: self.state.name(), reported: state.name() }
    }
}
