//! Runtime status, tasks and events of deployment policies.
//!
//! Nodes and policies without an organization belong to that of the policy; a node that the caller may not read is `?`.
//! Source: orchestration 1.5, 2.6.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// A slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SlotName {
    /// Of a workload whose instances are counted.
    Number(u32),
    /// The node, where each has an instance.
    Node(String),
}

impl Default for SlotName {
    fn default() -> Self {
        Self::Node(String::new())
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Node(node) => node.fmt(f),
        }
    }
}

/// The runtime status of a deployment policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    /// The deployment policy, `org/policy`.
    #[schema(required = true)]
    pub policy: String,
    /// `global`, `replicated`, `failover` or `flex`; `n/a` of a policy that was deleted while instances run.
    #[schema(required = true)]
    pub mode: String,
    /// `no`, `start` or `ha`.
    #[schema(required = true)]
    pub orchestrate: String,
    /// Number of the version that tasks are to run; none when the policy has no tasks.
    pub spec_version: Option<u64>,
    /// Service version that it prefers.
    pub version: Option<String>,
    /// Number of the version that a rollback has abandoned.
    pub rolled_back_from: Option<u64>,
    /// The `orchestration` that applies after a rollback instead of that of the document: the document that worked last
    /// is restored as a whole.
    pub effective: Option<Value>,
    /// `up`, `warn`, `down` or `n/a`.
    #[schema(required = true)]
    pub avail: String,
    /// `avail`, degraded by the warnings.
    #[schema(required = true)]
    pub overall: String,
    /// `optimal`, `non-optimal` or `n/a`.
    #[schema(required = true)]
    pub placement: String,
    /// `frozen`, `thawed`, `mixed` or `n/a`.
    #[schema(required = true)]
    pub frozen: String,
    /// The state that a user's action leads to, while it is in progress.
    pub global_expect: Option<String>,
    /// Id of that action.
    pub action: Option<String>,
    /// `ok`.
    #[schema(required = true)]
    pub compat: String,
    /// Its update.
    #[schema(required = true)]
    pub update: UpdateProgress,
    /// Human-readable warnings.
    #[schema(required = true)]
    pub warnings: Vec<String>,
    /// Its workload units.
    #[serde(rename = "units")]
    #[schema(required = true)]
    pub workload_units: Vec<WorkloadUnit>,
}

/// Progress of an update.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateProgress {
    /// `none`, `updating`, `paused`, `completed`, `rollback-started`, `rollback-paused` or `rollback-completed`.
    #[schema(required = true)]
    pub state: String,
    /// When it started.
    pub started_at: Option<String>,
    /// When it completed.
    pub completed_at: Option<String>,
    /// Human-readable reason.
    #[schema(required = true)]
    pub message: String,
    /// Slots to be replaced at the start.
    #[schema(required = true)]
    pub total: u32,
    /// Slots that are done.
    #[schema(required = true)]
    pub done: u32,
    /// Tasks that failed.
    #[schema(required = true)]
    pub failed: u32,
    /// Slots without a node: they are not part of the other counts, block nothing, and follow when they get a
    /// node.
    #[schema(required = true)]
    pub set_aside: u32,
    /// Common reason for which all remaining slots wait, shown after 10 seconds.
    pub blocked: Option<UpdateBlocked>,
}

/// Common reason for which all remaining slots of an update wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateBlocked {
    /// Since when.
    #[schema(required = true)]
    pub since: String,
    /// The slots.
    #[schema(required = true)]
    pub slots: Vec<BlockedSlot>,
    /// The reasons, each once.
    #[schema(required = true)]
    pub rules: Vec<String>,
    /// Suggested action.
    #[schema(required = true)]
    pub hint: String,
}

/// A slot that waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockedSlot {
    /// The slot: a number, or the node.
    #[schema(required = true)]
    pub slot: SlotName,
    /// The node.
    pub node: Option<String>,
    /// For programs, such as `HAMinimum`.
    #[schema(required = true)]
    pub reason: String,
    /// For people.
    #[schema(required = true)]
    pub detail: String,
}

/// A workload unit: a part of a workload that is counted and placed by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadUnit {
    /// `all`, or the name of an HA group.
    #[serde(rename = "unit")]
    #[schema(required = true)]
    pub workload_unit: String,
    /// `up`, `warn`, `down` or `n/a`.
    #[schema(required = true)]
    pub avail: String,
    /// Wanted instances.
    #[schema(required = true)]
    pub target: u32,
    /// Running instances.
    #[schema(required = true)]
    pub up: u32,
    /// `optimal`, `non-optimal` or `n/a`.
    #[schema(required = true)]
    pub placement: String,
    /// The nodes on which instances belong, the best first, at most 100.
    #[schema(required = true)]
    pub natural_leaders: Vec<String>,
    /// Number of nodes, listed or not.
    #[schema(required = true)]
    pub instance_count: usize,
    /// Those with tasks first, then the other nodes.
    #[schema(required = true)]
    pub instances: Vec<Instance>,
    /// Value of `offset` for the following instances; none at the end of the list.
    pub next: Option<usize>,
}

/// A workload on one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Instance {
    /// The node.
    #[schema(required = true)]
    pub node: String,
    /// `up`, `warn`, `down`, `n/a` or `unknown`.
    #[schema(required = true)]
    pub avail: String,
    /// `idle`, `ready`, `starting`, `start-failed`, `restarting` or `stopping`.
    #[schema(required = true)]
    pub monitor_state: String,
    /// `started`, `shutdown` or `none`.
    #[schema(required = true)]
    pub local_expect: String,
    /// `C` constraint violated, `F` frozen, `L` natural leader.
    #[schema(required = true)]
    pub flags: String,
    /// True if a user froze the instance or the workload.
    #[schema(required = true)]
    pub frozen: bool,
    /// True if a user chose the node.
    #[schema(required = true)]
    pub pinned: bool,
    /// Slots of its tasks: numbers, or the node.
    #[schema(required = true)]
    pub slots: Vec<SlotName>,
    /// Its newest task.
    pub task_id: Option<String>,
    /// The agreement of that task.
    pub agreement_id: Option<String>,
    /// The service version of that agreement.
    pub version: Option<String>,
    /// Violated constraints.
    #[schema(required = true)]
    pub violations: Vec<Violation>,
    /// Since when the task has its state.
    pub since: Option<String>,
    /// Entry of the blocklist for the service version on the node; none while there is no entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocklisted: Option<String>,
}

/// A constraint of the placement that does not hold on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Violation {
    /// Its name, `PlacementConstraint`.
    #[schema(required = true)]
    pub constraint: String,
    /// The expression.
    #[schema(required = true)]
    pub expression: String,
    /// Human-readable reason why it does not hold.
    #[schema(required = true)]
    pub detail: String,
}

/// Tasks of a deployment policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TasksResponse {
    /// By workload unit and slot, the newest first.
    pub tasks: Vec<Task>,
    /// Value of `after` for the next page; left out on the last one, and in a list that is sent whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of tasks on all pages, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// True if there may be more than `count`.
    #[serde(default, rename = "countIsMinimum", skip_serializing_if = "Option::is_none")]
    pub count_is_minimum: Option<bool>,
}

/// A task: an attempt to run an instance in a slot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    /// Id.
    #[schema(required = true)]
    pub task_id: String,
    /// The deployment policy, `org/policy`.
    #[schema(required = true)]
    pub policy: String,
    /// `all`, or the name of an HA group.
    #[serde(rename = "unit")]
    #[schema(required = true)]
    pub workload_unit: String,
    /// The slot: a number, or the node.
    #[schema(required = true)]
    pub slot: SlotName,
    /// The node; none until one is chosen.
    pub node: Option<String>,
    /// Number of the version that it runs.
    #[schema(required = true)]
    pub spec_version: u64,
    /// Service version of its agreement; before there is one, that of the task spec if it leaves no choice.
    pub version: Option<String>,
    /// `ready`, `running`, `shutdown` or `remove`.
    #[schema(required = true)]
    pub desired_state: String,
    /// From `new` to `orphaned`.
    #[schema(required = true)]
    pub state: String,
    /// Sequence number of the last report.
    #[schema(required = true)]
    pub seq: u64,
    /// Error of an ended task.
    pub err: Option<String>,
    /// Exit code of an ended task.
    pub exit_code: Option<i32>,
    /// Its agreement.
    pub agreement_id: Option<String>,
    /// Cause of its creation.
    #[schema(required = true)]
    pub cause: String,
    /// When it was created.
    #[schema(required = true)]
    pub created_at: String,
    /// When it may start at the earliest.
    #[schema(required = true)]
    pub start_at: String,
    /// When its state changed last, by the hub's clock.
    #[schema(required = true)]
    pub at: String,
    /// When it was first seen running.
    pub running_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
}

/// Events, ordered by sequence number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OrchestrationEvents {
    /// The events.
    pub events: Vec<OrchestrationEvent>,
}

/// Event about a deployment policy, caused by the engine or by a user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OrchestrationEvent {
    /// Its number.
    #[schema(required = true)]
    pub seq: i64,
    /// When.
    #[schema(required = true)]
    pub at: String,
    /// Kind of event, such as `update.started`.
    #[schema(required = true)]
    pub kind: String,
    /// The deployment policy, `org/policy`.
    pub policy: Option<String>,
    /// `all`, or the name of an HA group.
    #[serde(rename = "unit")]
    pub workload_unit: Option<String>,
    /// The slot: a number, or the node.
    pub slot: Option<SlotName>,
    /// The task.
    pub task_id: Option<String>,
    /// The node.
    pub node: Option<String>,
    /// Human-readable reason.
    pub reason: Option<String>,
    /// The user or agbot that did it.
    pub actor: Option<String>,
    /// More, by kind.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// Selection of instances.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct StatusQuery {
    /// Only this workload unit: `all`, or the name of an HA group.
    #[serde(rename = "unit", skip_serializing_if = "Option::is_none")]
    #[param(rename = "unit")]
    pub workload_unit: Option<String>,
    /// Instances of each workload unit, 1 to 1000; 500 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// Instances of each workload unit to leave out: the value of `next`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0)]
    pub offset: Option<u32>,
}

/// Selection of tasks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct TasksQuery {
    /// Only tasks of this workload unit: `all`, or the name of an HA group.
    #[serde(rename = "unit", skip_serializing_if = "Option::is_none")]
    #[param(rename = "unit")]
    pub workload_unit: Option<String>,
    /// Only tasks of this slot: a number, or a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Only tasks of this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only tasks in this state, from `new` to `orphaned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// True for all records; otherwise the newest of each slot and those that have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<bool>,
    /// Only tasks after this one: the value of `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Tasks of a page, 1 to 1000; 100 if left out and a filter or a count is wanted. Without any of them, the list is sent whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// Only tasks whose members satisfy this constraint, in the language of policies, such as `state in "failed,rejected" AND version == 1.2.0`. One request examines at most 2000
    /// of them: a page may have fewer than its limit although `next` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 4096)]
    pub filter: Option<String>,
    /// True to count the tasks of all pages: at most 100000, or those among the first 2000 that satisfy the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<bool>,
}

/// Selection of events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct OrchestrationEventsQuery {
    /// Only events with a greater sequence number, oldest first; without it, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0)]
    pub since: Option<i64>,
    /// Only events of this kind, or, with a trailing `.*`, of all kinds with this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Maximum number of events, 1 to 1000; 500 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
}

/// Selection of streamed events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct EventStreamQuery {
    /// Only events with a greater sequence number; without it, those that happen from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0)]
    pub since: Option<i64>,
    /// Only events of this kind, or, with a trailing `.*`, of all kinds with this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only events about this HA group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Selection of events of an organization.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct OrganizationEventsQuery {
    /// Only events with a greater sequence number, oldest first; without it, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0)]
    pub since: Option<i64>,
    /// Only events of this kind, or, with a trailing `.*`, of all kinds with this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only events about this HA group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Maximum number of events, 1 to 1000; 500 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
}

/// Placement of the instances of a workload unit, with reasons.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementExplanation {
    /// `all`, or the name of an HA group.
    #[serde(rename = "unit")]
    #[schema(required = true)]
    pub workload_unit: String,
    /// `start`.
    #[schema(required = true)]
    pub purpose: String,
    /// Number of the version that tasks are to run; none when the policy has no tasks.
    pub spec_version: Option<u64>,
    /// When.
    #[schema(required = true)]
    pub evaluated_at: String,
    /// Wanted instances.
    #[schema(required = true)]
    pub requested: u32,
    /// Instances that have a node, or would get one.
    #[schema(required = true)]
    pub placed: u32,
    /// Constraints that were left out to place more.
    #[schema(required = true)]
    pub relaxed: Vec<String>,
    /// The nodes, at most 100, or the one that was named.
    #[schema(required = true)]
    pub candidates: Vec<String>,
    /// Number of nodes, listed or not.
    #[schema(required = true)]
    pub candidate_count: u64,
    /// The constraints that removed nodes, in their order.
    #[schema(required = true)]
    pub sequence: Vec<ExplainedConstraint>,
    /// The nodes that have an instance, or would get one, at most 100.
    #[schema(required = true)]
    pub chosen: Vec<String>,
    /// `transient` or `unsatisfiable`; none when everything is placed.
    pub cause: Option<String>,
    /// Human-readable explanation of the cause.
    #[schema(required = true)]
    pub summary: String,
}

/// Nodes removed by one constraint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExplainedConstraint {
    /// Its name, such as `NodeState`.
    #[schema(required = true)]
    pub constraint: String,
    /// The removed nodes, at most 100.
    #[schema(required = true)]
    pub eliminated: Vec<EliminatedNode>,
    /// The nodes that are left, at most 100.
    #[schema(required = true)]
    pub remaining: Vec<String>,
    /// Number of removed nodes, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eliminated_count: Option<u64>,
    /// Number of nodes that are left, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_count: Option<u64>,
}

/// A node that a constraint removed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct EliminatedNode {
    /// The node.
    #[schema(required = true)]
    pub node: String,
    /// Why.
    #[schema(required = true)]
    pub reason: String,
}

/// Subject of an explanation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct ExplainQuery {
    /// The workload unit: `all`, or the name of an HA group; may be left out when there is one, or with a node.
    #[serde(rename = "unit", skip_serializing_if = "Option::is_none")]
    #[param(rename = "unit")]
    pub workload_unit: Option<String>,
    /// Only this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `start`, the only purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// True for constraints that removed nothing, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
}
