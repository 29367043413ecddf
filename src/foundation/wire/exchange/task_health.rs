//! Supervision of the tasks of a node: checks, life-cycle events and commands.
//!
//! Source: orchestration 1.8, C4, C5, C6, C8.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::RestartCondition;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Supervision of a task by the agent of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TaskSupervision {
    /// The URL to poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<TaskProbe>,
    /// True if the agent reports the end of a container and leaves the agreement as it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lifecycle: bool,
    /// Seconds without contact to the hub after which the agent kills the containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u32>,
    /// The command that the agent carries out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<TaskCommand>,
    /// The other members that the agent examines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers: Option<PeerWatch>,
    /// Restart rule of the task while the agent has no contact to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<TaskRestart>,
}

/// Restart rule that an agent without contact to the hub applies to a task that has ended.
///
/// # Source
/// Orchestration B10.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskRestart {
    /// After which ends: `none`, `on-failure` or `any`.
    #[schema(value_type = String)]
    pub condition: RestartCondition,
    /// Seconds between the end and the start.
    pub delay_seconds: u64,
    /// Maximum number of restarts; 0 is unlimited.
    pub max_attempts: u32,
    /// Age up to which restarts count, in seconds; 0 counts all.
    pub window_seconds: u64,
    /// Restarts that counted when the task was started.
    pub attempts: u32,
}

/// The restarts of a task by its node, which had no contact to the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeRestarts {
    /// Their number.
    pub count: u64,
    /// The times of the latest by the node's clock, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latest: Vec<String>,
    /// Error with which the task had ended before the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<String>,
}

/// Most times of restarts in a report.
pub const MOST_RESTART_TIMES: usize = 32;

impl TaskSupervision {
    /// Returns whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A URL that the agent of a node polls to check a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskProbe {
    /// The URL, with `{nodename}` and `{nodeip}`.
    pub url: String,
    /// Expected contents of the body of a healthy response; `re:` marks a regular expression.
    pub healthy_response: String,
    /// True if the certificate of the server is verified.
    pub ssl_verify: bool,
    /// True if a failed connection is a failed check.
    pub connection_error_is_unhealthy: bool,
    /// Further attempts before the check fails.
    pub retry_limit: u32,
    /// Seconds between two attempts.
    pub retry_interval_seconds: u32,
    /// Seconds between two checks.
    pub interval_seconds: u32,
    /// Longest time of an attempt, in seconds.
    #[serde(default = "usual_timeout")]
    pub timeout_seconds: u32,
}

/// The timeout of an attempt if a task names none.
fn usual_timeout() -> u32 {
    5
}

/// The members of a workload unit that the agent of another member examines.
///
/// # Source
/// Orchestration C3 (`LB_STATUS_POLLING`, `LB_STATUS_EVENTS`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PeerWatch {
    /// The members.
    pub members: Vec<PeerMember>,
    /// The port to connect to; without it and without `probe` the one that the service publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The URL to poll, with the name and the address of the member's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<TaskProbe>,
    /// Seconds between two checks of a member.
    pub interval_seconds: u32,
}

/// A member that another one examines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PeerMember {
    /// Its task.
    pub task_id: String,
    /// Name of its node.
    pub node: String,
    /// Address of its node; none when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// The command that reboots the machine of a node.
pub const REBOOT_HOST: &str = "REBOOT_HOST";

/// The command that checks a task at once, by the URL that the agent polls.
pub const CHECK: &str = "CHECK";

/// A command on the containers of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskCommand {
    /// Id.
    pub id: String,
    /// `START`, `UNPAUSE`, `REBOOT`, `REBOOT_HOST`, `REBUILD` or `CHECK`.
    pub op: String,
    /// True if containers are killed instead of stopped gracefully.
    #[serde(default)]
    pub hard: bool,
}

response! {
    /// A command of a node.
    pub struct NodeCommand {
        /// Id.
        id: String,
        /// `START`, `UNPAUSE`, `REBOOT`, `REBOOT_HOST`, `REBUILD` or `CHECK`.
        op: String,
        /// The task whose containers the command concerns.
        task_id: String,
        /// Parameters.
        #[schema(value_type = Object)]
        params: serde_json::Value,
    }
}

/// The outcome of a check of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCheck {
    /// True if the task is healthy.
    pub healthy: bool,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// True if the check itself is broken, for the reason in the message: it proves nothing about the task,
    /// which counts as healthy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_broken: bool,
}

impl TaskCheck {
    /// Creates the outcome of a check that is broken itself.
    #[must_use]
    pub fn broken(error: String) -> Self {
        Self { healthy: true, message: Some(error), is_broken: true }
    }

    /// Returns whether the task is healthy; none when the check is broken.
    #[must_use]
    pub fn found(&self) -> Option<bool> {
        (!self.is_broken).then_some(self.healthy)
    }
}

/// Maximum number of members in a report.
pub const MOST_PEERS: usize = 16;

/// Reports the outcome of a check, or the other members that the task reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutTaskHealth {
    /// True if the task is healthy; left out when there is no news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Error of the check itself, instead of `healthy`; left out when nothing has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_error: Option<String>,
    /// True for each examined member that responds, by task; left out when there is no news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<BTreeMap<String, bool>>,
    /// Seconds without contact after which the guardian of the agent kills the task; left out when there is
    /// no news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u32>,
    /// Restarts of the task by its node; left out when there is no news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<NodeRestarts>,
}

impl From<TaskCheck> for PutTaskHealth {
    fn from(check: TaskCheck) -> Self {
        match check.is_broken {
            true => Self { check_error: Some(check.message.unwrap_or_default()), ..Self::default() },
            false => Self { healthy: Some(check.healthy), message: check.message, ..Self::default() },
        }
    }
}

/// Reports the outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutNodeCommand {
    /// `ok` or `failed`.
    pub result: CommandResult,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandResult {
    /// It was carried out.
    Ok,
    /// It was not.
    Failed,
}

/// Reports a life-cycle event of a container.
///
/// # Source
/// Orchestration C5.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostLifecycle {
    /// `PAUSE`, `POWER_OFF`, `REBUILD`, `SHUTDOWN` or `SOFT_DELETE`; others are recorded and ignored.
    pub event: String,
    /// The state of the container.
    pub state: String,
    /// The container.
    pub instance_id: String,
    /// The agreement.
    #[serde(default, rename = "agreementId", skip_serializing_if = "Option::is_none")]
    pub agreement_id: Option<String>,
    /// The task.
    #[serde(default, rename = "taskId", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Time of the event, by the node's clock.
    pub timestamp: String,
    /// Driver and node, such as `docker:n1`.
    pub publisher: String,
}

/// Health of a task, as a node reported it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskHealth {
    /// True if the last check succeeded; none before the first report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Human-readable message of the last check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Error of the last check itself; none when it produced a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_error: Option<String>,
    /// True for each examined member that responds, by task.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, bool>,
    /// Seconds without contact after which the guardian of the agent has killed the task; none without a guardian.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u32>,
    /// Restarts of the task by its node, which had no contact to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<NodeRestarts>,
    /// Number of life-cycle events.
    pub events: u64,
    /// The last life-cycle event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<PostLifecycle>,
    /// The last command that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<EndedCommand>,
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedCommand {
    /// Id.
    pub id: String,
    /// Its outcome.
    pub result: CommandResult,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
