//! Tasks of a node: what the engine wants of them, and what the node reports.
//!
//! Source: orchestration 1.8, B3.

use evenkeel_domain::orchestration::{DesiredState, TaskState};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::task_health::{NodeCommand, TaskHealth, TaskSupervision};

/// Name and version by which an agent states in `softwareVersions` that it reads tasks.
///
/// # Source
/// Orchestration 1.1-4.
pub const TASKS_SOFTWARE: (&str, &str) = ("orchestration", "1");

/// Longest message or error of a report, in bytes.
pub const LONGEST_TEXT: usize = 4096;

/// Publishes what the engine wants of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutNodeTask {
    /// The deployment policy, `org/policy`.
    pub policy: String,
    /// Name of the workload unit: `all`, or that of an HA group.
    #[serde(rename = "unit")]
    pub workload_unit: String,
    /// Number of the slot; none when the slot is the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<i64>,
    /// Version of the task's spec.
    pub spec_version: i64,
    /// The wanted state: `ready`, `running`, `shutdown` or `remove`.
    #[schema(value_type = String)]
    pub desired_state: DesiredState,
    /// The agreement that the task owns; none before there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement_id: Option<String>,
    /// Fencing number of the agbot's lease.
    pub fencing: i64,
    /// What the agent does to supervise the task.
    #[serde(default, skip_serializing_if = "TaskSupervision::is_empty")]
    pub supervision: TaskSupervision,
}

response! {
    /// The tasks of a node.
    pub struct NodeTasksResponse {
        /// The tasks by id.
        tasks: Vec<NodeTask>,
        /// The commands that have not ended.
        commands: Vec<NodeCommand>,
    }
}

response! {
    /// A task of a node.
    pub struct NodeTask {
        /// Id.
        task_id: String,
        /// The deployment policy, `org/policy`.
        policy: String,
        /// Name of the workload unit: `all`, or that of an HA group.
        #[serde(rename = "unit")]
        workload_unit: String,
        /// Number of the slot; none when the slot is the node.
        slot: Option<i64>,
        /// Version of the task's spec.
        spec_version: i64,
        /// The wanted state: `ready`, `running`, `shutdown` or `remove`.
        #[schema(value_type = String)]
        desired_state: DesiredState,
        /// The agreement that the task owns.
        agreement_id: Option<String>,
        /// Fencing number of the agbot's lease.
        fencing: i64,
        /// What the agent does to supervise the task.
        #[serde(skip_serializing_if = "TaskSupervision::is_empty")]
        #[schema(required = false)]
        supervision: TaskSupervision,
        /// What the node reported about the health of the task.
        health: Option<TaskHealth>,
        /// The reported state, `assigned` before the first report.
        #[schema(value_type = String)]
        state: TaskState,
        /// Sequence number of the last report.
        seq: i64,
        /// Time of the last report, by the node's clock.
        at: Option<String>,
        /// Human-readable message of the last report.
        message: Option<String>,
        /// Error of the last report.
        err: Option<String>,
        /// Exit code of an ended task.
        exit_code: Option<i32>,
        /// Last change.
        last_updated: String,
    }
}

/// Reports the state of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutNodeTaskStatus {
    /// The state, from `accepted` on.
    #[schema(value_type = String)]
    pub state: TaskState,
    /// Sequence number, which grows with every report of a task.
    pub seq: i64,
    /// Time of the change, by the node's clock.
    pub at: String,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<String>,
    /// Exit code of an ended task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// The refusal of a write that the stored task does not allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskConflict {
    /// `conflict`.
    pub code: String,
    /// Human-readable message.
    pub msg: String,
    /// The stored state.
    #[schema(value_type = String)]
    pub state: TaskState,
    /// Sequence number of the last report.
    pub seq: i64,
    /// The stored wanted state.
    #[schema(value_type = String)]
    pub desired_state: DesiredState,
    /// The stored fencing number.
    pub fencing: i64,
}

/// Names the fencing number of the caller's lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
pub struct FencingQuery {
    /// Fencing number of the caller's lease; a smaller one than the stored is refused.
    #[serde(default)]
    pub fencing: i64,
}
