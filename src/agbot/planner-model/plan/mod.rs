//! Plans: the outcome of a decision about a workload unit, as data.
//!
//! [`UnitPlan`] is what is decided, [`StoredPlan`] the rows that one transaction writes of it. Source: engine 4; orchestration 1.10.

mod stored;

pub use stored::{Neighbors, StoredPlan, neighbors};

use std::{borrow::Cow, collections::BTreeMap};

use evenkeel_change::Permit;
use evenkeel_ids::{NodeId, TaskId};
use evenkeel_planner_record::{
    blocklist::BlocklistChanges,
    report::{Blocked, EliminationReport},
    workload::{DesiredState, Slot, Step, Task, UpdateStatus, Versions},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A change of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskChange {
    /// Creates it.
    Create(Box<Task>),
    /// Assigns it to a node.
    Assign {
        /// The task.
        task: TaskId,
        /// The node.
        node: NodeId,
        /// When it may start at the earliest.
        start_at: Timestamp,
    },
    /// Raises its desired state.
    Raise {
        /// The task.
        task: TaskId,
        /// The state.
        desired: DesiredState,
    },
    /// Abandons it because its node is permanently lost.
    Orphan {
        /// The task.
        task: TaskId,
    },
    /// Deletes its record.
    Delete {
        /// The task.
        task: TaskId,
    },
}

/// A node on which the workload failed for good: another one is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceFailure {
    /// The node.
    pub node: NodeId,
    /// Why, in words.
    pub message: String,
    /// The number of the version that failed; another one may succeed.
    pub version: u64,
    /// True if a stop failed; false for a start.
    pub is_of_stop: bool,
}

/// An event of a workload unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitEvent {
    /// Kind, for instance `restart.exhausted`.
    pub kind: Cow<'static, str>,
    /// The slot, if it is about one.
    pub slot: Option<Slot>,
    /// The node, if it is about one.
    pub node: Option<NodeId>,
    /// Human-readable description.
    pub text: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

/// The changes to make, all in one transaction, and what has to wait.
///
/// # Shape
/// `update` and `versions`: the workload's row as it is to be; none when it does not change. `unplaced`: the last elimination, if
/// fewer instances than wanted were placed. `wake_at`: when time alone changes the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnitPlan {
    /// The changes of tasks.
    pub changes: Vec<TaskChange>,
    /// The changed tasks as they will be, with what was seen of them.
    pub records: Vec<Task>,
    /// Nodes to be marked as failed.
    pub failures: Vec<InstanceFailure>,
    /// Nodes that a user chose, and those that no longer count as chosen.
    pub pins: BTreeMap<NodeId, bool>,
    /// Changes of the node blocklist.
    pub blocklist: BlocklistChanges,
    /// The update's status.
    pub update: Option<UpdateStatus>,
    /// The versions, after a rollback.
    pub versions: Option<Versions>,
    /// Conditions that must still hold when the changes are made.
    pub permits: Vec<Permit>,
    /// Steps that have to wait.
    pub blocked: Vec<(Step, Blocked)>,
    /// Events.
    pub events: Vec<UnitEvent>,
    /// Reason why not everything was placed.
    pub unplaced: Option<EliminationReport>,
    /// When to plan again without an event.
    pub wake_at: Option<Timestamp>,
}

/// Kind of the event of the first reconciliation of a workload unit by its owner.
pub const INITIAL_PASS: &str = "reconcile.initial";
