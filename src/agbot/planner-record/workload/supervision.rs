//! Supervision of a task: what its node checks, what the node reported, and the recovery in progress.
//!
//! Source: orchestration C4 to C6, C8.

use std::{collections::BTreeMap, sync::Arc};

use evenkeel_domain::orchestration::RestartCondition;
use evenkeel_domain::orchestration::health_policy::{
    ActionKind, DetectionType, Executor, HealthPolicy, PollOptions, RecoveryAction,
};
use evenkeel_ids::{NodeId, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::statistics::EngineReport;

use super::{GroupOrder, NodeRestarts};

/// Supervision of a task by the agent of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervision {
    /// The URL that the agent polls.
    pub probe: Option<Box<Probe>>,
    /// The URL that the hub polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_probe: Option<Box<Probe>>,
    /// The other members that the agent examines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Box<PeerWatch>>,
    /// True if the agent reports the end of a container and keeps the agreement.
    pub lifecycle: bool,
    /// Seconds without contact after which the agent kills the containers.
    pub lease_secs: Option<u32>,
    /// Restart rule of the task while the node has no contact to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartRule>,
}

/// Restart rule that a node without contact to the hub applies to a task that has ended.
///
/// # Source
/// Orchestration B10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartRule {
    /// After which ends.
    pub condition: RestartCondition,
    /// Time between the end and the start, in seconds.
    pub delay_secs: u64,
    /// Maximum number of restarts; 0 is unlimited.
    pub max_attempts: u32,
    /// Age up to which restarts count, in seconds; 0 counts all.
    pub window_secs: u64,
    /// Restarts that counted when the task was started.
    pub attempts: u32,
}

impl RestartRule {
    /// Returns whether another rule is the same, apart from what counted when it was made.
    pub fn is_like(&self, other: &Self) -> bool {
        *self == Self { attempts: self.attempts, ..*other }
    }
}

/// The members that the agent of another one examines.
///
/// # Source
/// Orchestration C3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerWatch {
    /// The members.
    pub members: Vec<Peer>,
    /// The port to connect to; without it and without `probe` the one that the service publishes.
    pub port: Option<u16>,
    /// The URL to poll.
    pub probe: Option<Probe>,
    /// Seconds between two checks of a member.
    pub interval_secs: u32,
}

/// A member that another one examines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its task.
    pub task: TaskId,
    /// Its node.
    pub node: NodeId,
    /// Address of its node; none when that is not known.
    pub address: Option<Arc<str>>,
}

/// Reports of the other members about one member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerVotes {
    /// Members that examine it and have reported.
    pub reports: u32,
    /// Tasks that do not reach it.
    pub offline: u32,
    /// True if there is only one other member.
    pub is_pair: bool,
}

impl PeerVotes {
    /// Returns whether a majority of enough members does not reach it.
    ///
    /// # Source
    /// Orchestration C3 (`LB_STATUS_POLLING`).
    pub fn is_offline(self) -> bool {
        let are_enough = self.reports >= 2 || (self.is_pair && self.reports == 1);
        are_enough && self.offline * 2 > self.reports
    }
}

/// A URL that is polled.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The URL, with parameters for the node.
    pub url: String,
    /// Expected contents of the body of a healthy response.
    pub healthy_response: String,
    /// True if the certificate is verified.
    pub ssl_verify: bool,
    /// True if a failed connection is a failed check.
    pub connection_error_is_unhealthy: bool,
    /// Further attempts.
    pub retry_limit: u32,
    /// Time between attempts.
    pub retry_interval_secs: u32,
    /// Time between checks.
    pub interval_secs: u32,
    /// Longest time of an attempt.
    #[serde(default = "usual_timeout_secs")]
    pub timeout_secs: u32,
}

/// The timeout of an attempt in records that name none.
fn usual_timeout_secs() -> u32 {
    5
}

impl Probe {
    /// Returns what is polled by the options of a policy.
    pub fn of(options: &PollOptions, interval_secs: u32) -> Self {
        Self {
            url: options.poll_url.as_str().to_owned(),
            healthy_response: options.poll_url_healthy_response.as_str().to_owned(),
            ssl_verify: options.poll_url_ssl_verify,
            connection_error_is_unhealthy: options.poll_url_conn_error_as_unhealthy,
            retry_limit: options.poll_url_retry_limit,
            retry_interval_secs: u32::try_from(options.poll_url_retry_interval).unwrap_or(u32::MAX),
            interval_secs,
            timeout_secs: u32::try_from(options.poll_url_timeout).unwrap_or(u32::MAX),
        }
    }
}

impl Supervision {
    /// Returns what the agents of a workload do; `node_down_after_secs`: silence after which a node counts as down; `interval_max_secs`: longest
    /// time between two checks.
    ///
    /// # Source
    /// Orchestration C4.2, C8.3.
    pub fn of(policy: &HealthPolicy, node_down_after_secs: u64, interval_max_secs: u64) -> Self {
        let seconds = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let options = policy.poll_options().filter(|_| policy.enabled);
        let executor = options.map(|options| options.executor);
        let interval_secs = seconds(policy.detection.interval.min(interval_max_secs));
        let probe = options.map(|options| Box::new(Probe::of(options, interval_secs)));
        Self {
            probe: probe.clone().filter(|_| executor == Some(Executor::Agent)),
            hub_probe: probe.filter(|_| executor == Some(Executor::Hub)),
            peers: None,
            lifecycle: policy.enabled && policy.has_mode(DetectionType::LifecycleEvents),
            lease_secs: policy.recovery.is_fencing().then(|| Self::lease_secs(node_down_after_secs)),
            restart: None,
        }
    }
}

impl Supervision {
    /// Returns whether the URL of a policy is the one that the hub polls.
    pub fn is_polled_for(&self, policy: &HealthPolicy) -> bool {
        let polled = self.hub_probe.as_ref().zip(policy.poll_options());
        polled.is_some_and(|(probe, options)| probe.url == options.poll_url.as_str())
    }

    /// Returns how long an agent without contact lets containers run that are fenced.
    ///
    /// # Source
    /// Orchestration C8.3.
    pub fn lease_secs(node_down_after_secs: u64) -> u32 {
        u32::try_from(node_down_after_secs.saturating_sub(10).max(60)).unwrap_or(u32::MAX)
    }
}

/// A node's report about the health of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedHealth {
    /// True if the last check succeeded; none before the first report.
    pub healthy: Option<bool>,
    /// Message of the last check.
    pub message: Option<String>,
    /// Reason why the last check was broken itself, so that it has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_error: Option<String>,
    /// Number of life-cycle events.
    pub events: u64,
    /// The last life-cycle event.
    pub lifecycle: Option<LifecycleEvent>,
    /// The last command that has ended.
    pub command: Option<EndedCommand>,
    /// The container engine of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineReport>,
    /// True for each examined member that responds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<TaskId, bool>,
    /// Reports of the other members about it.
    #[serde(default)]
    pub votes: PeerVotes,
    /// Seconds without contact after which the guardian of its agent has killed it; none before that is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_secs: Option<u32>,
    /// Its restarts by its node.
    #[serde(default, skip_serializing_if = "NodeRestarts::is_none")]
    pub restarts: NodeRestarts,
}

/// A finding of the hub itself about a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HubReport {
    /// A check was made.
    Checked {
        /// True if the check succeeded.
        healthy: bool,
        /// Message of the check.
        message: Option<String>,
    },
    /// A check was broken itself.
    Broken {
        /// Why.
        error: String,
    },
    /// A call ended.
    Ended(EndedCommand),
}

impl ReportedHealth {
    /// Takes over what the hub found.
    pub fn add(&mut self, report: &HubReport) {
        match report {
            HubReport::Checked { healthy, message } => {
                (self.healthy, self.message, self.check_error) = (Some(*healthy), message.clone(), None);
            }
            HubReport::Broken { error } => {
                (self.healthy, self.message, self.check_error) = (None, None, Some(error.clone()));
            }
            HubReport::Ended(ended) => self.command = Some(ended.clone()),
        }
    }
}

/// A life-cycle event of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleEvent {
    /// The event.
    pub event: String,
    /// The state of the container.
    pub state: String,
    /// The container.
    pub instance_id: String,
    /// Time, by the node's clock.
    pub timestamp: String,
    /// Driver and node.
    pub publisher: String,
}

impl LifecycleEvent {
    /// Returns whether the event is a failure.
    ///
    /// # Source
    /// Orchestration C5.
    pub fn is_failure(&self) -> bool {
        matches!(self.event.as_str(), "PAUSE" | "POWER_OFF" | "REBUILD" | "SHUTDOWN" | "SOFT_DELETE")
    }

    /// Returns the kind under which it is in the event log.
    pub fn kind(&self) -> &'static str {
        match self.event.as_str() {
            "PAUSE" => "lifecycle.pause",
            "POWER_OFF" => "lifecycle.power-off",
            "REBUILD" => "lifecycle.rebuild",
            "SHUTDOWN" => "lifecycle.shutdown",
            "SOFT_DELETE" => "lifecycle.soft-delete",
            _ => "lifecycle.other",
        }
    }

    /// Returns the light action that undoes it.
    pub fn light_action(&self) -> Option<ActionKind> {
        match self.event.as_str() {
            "POWER_OFF" => Some(ActionKind::Start),
            "PAUSE" => Some(ActionKind::Unpause),
            _ => None,
        }
    }
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedCommand {
    /// Its id.
    pub id: String,
    /// True if the command was carried out.
    pub is_ok: bool,
    /// Message.
    pub message: Option<String>,
}

/// Stored health of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskHealth {
    /// Supervision by its node.
    pub supervision: Supervision,
    /// The recovery in progress, or the last one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Box<Recovery>>,
    /// Number of life-cycle events that were examined.
    pub events_seen: u64,
    /// True if the last of these events is a failure that was reported while recovery was suspended, or while
    /// the member was not examined.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_missed: bool,
    /// Reason why its check is broken, as far as that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_error: Option<String>,
    /// True if the event was emitted that its recovery waits because most running members fail at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_withheld: bool,
    /// Number of commands so far.
    pub commands: u64,
    /// The last recovery that a user ordered and that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_order: Option<Box<EndedOrder>>,
    /// The last recovery that the health policy of an HA group ordered and that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_group_order: Option<Box<EndedOrder>>,
    /// True if the event was emitted that the task waits until an instance on a lost node is fenced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_fence_requested: bool,
    /// True if the event was emitted that an instance for which the task waits cannot be fenced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unfenced_reported: bool,
}

impl TaskHealth {
    /// Returns whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether nothing is left of a policy: what the node does when it is alone belongs to none.
    pub fn is_unsupervised(&self) -> bool {
        let supervision = Supervision { restart: self.supervision.restart, ..Supervision::default() };
        *self == Self { supervision, ..Self::default() }
    }

    /// Returns whether the recovery that an action of a user ordered is over.
    pub fn is_over(&self, order: &str) -> bool {
        self.ended_order.as_ref().is_some_and(|ended| ended.id == order)
    }

    /// Returns whether the recovery that an action of a user ordered has begun.
    pub fn has_begun(&self, order: &str) -> bool {
        let is_open = self.recovery.as_ref().is_some_and(|one| one.order.as_deref() == Some(order));
        is_open || self.is_over(order)
    }

    /// Returns the command that is being carried out or was carried out last, by the node or by the hub.
    pub fn command(&self) -> Option<&RecoveryCommand> {
        self.recovery.as_ref()?.command.as_ref()
    }

    /// Returns whether the hub itself has something to do.
    pub fn has_hub_work(&self) -> bool {
        let calls = self.command().is_some_and(|command| command.call.is_some());
        calls || self.supervision.hub_probe.is_some()
    }
}

/// A recovery that was ordered and that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedOrder {
    /// The user's action, or the recovery of the node.
    pub id: String,
    /// Reason why it failed; none when the instance was recovered.
    pub failure: Option<String>,
    /// True if the check that the order began with found the instance healthy, so that nothing was done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_checked: bool,
}

/// A recovery of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Reason why it began, in words.
    pub reason: String,
    /// The life-cycle event that began it.
    pub hint: Option<LifecycleEvent>,
    /// The prepared actions.
    pub actions: Vec<PreparedAction>,
    /// Number of the action in progress.
    pub step: usize,
    /// When it began.
    pub since: Timestamp,
    /// When the action in progress began; none while it waits.
    pub action_since: Option<Timestamp>,
    /// The command of the action in progress.
    pub command: Option<RecoveryCommand>,
    /// True if another task replaced the failed one.
    pub is_recreated: bool,
    /// When it may begin again, after all actions failed.
    pub failed_until: Option<Timestamp>,
    /// Recoveries that did not help since the instance was last healthy, this one included.
    #[serde(default)]
    pub failures: u32,
    /// The action of the user who ordered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The recovery of the node that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_group: Option<GroupOrder>,
}

impl Recovery {
    /// Returns a recovery of which no action was carried out.
    pub fn new(reason: String, actions: Vec<PreparedAction>, since: Timestamp) -> Self {
        Self {
            reason,
            hint: None,
            actions,
            step: 0,
            since,
            action_since: None,
            command: None,
            is_recreated: false,
            failed_until: None,
            failures: 0,
            order: None,
            of_group: None,
        }
    }
}

/// An action of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedAction {
    /// Kind of the action.
    pub kind: ActionKind,
    /// True if containers are killed instead of stopped with grace.
    pub hard: bool,
    /// True if the machine of the node is rebooted instead of the containers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_host: bool,
    /// The workflow to call; none for built-in actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Box<Workflow>>,
}

/// An external workflow, as the policy names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// Name of the action.
    pub name: String,
    /// Its parameters, with templates.
    pub params: Map<String, Value>,
}

impl PreparedAction {
    /// Returns a built-in action without parameters.
    pub fn new(kind: ActionKind) -> Self {
        Self { kind, hard: false, is_of_host: false, workflow: None }
    }

    /// Returns its name: the word of a built-in action.
    pub fn name(&self) -> &str {
        self.workflow.as_ref().map_or(self.kind.word(), |workflow| &workflow.name)
    }
}

impl From<&RecoveryAction> for PreparedAction {
    fn from(action: &RecoveryAction) -> Self {
        let kind = action.kind();
        let workflow = || Workflow { name: action.name.clone(), params: action.params.clone() };
        let workflow = (kind == ActionKind::Workflow).then(|| Box::new(workflow()));
        Self { kind, hard: action.is_hard(), is_of_host: action.is_of_host(), workflow }
    }
}

/// A command to a node, or a call that the hub makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryCommand {
    /// Its id.
    pub id: String,
    /// Kind of the action.
    pub kind: ActionKind,
    /// True if containers are killed instead of stopped with grace.
    pub hard: bool,
    /// True if the machine of the node is rebooted instead of the containers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_host: bool,
    /// The call of a workflow, which the hub makes; none for commands to the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<WorkflowCall>>,
}

/// The request that calls a workflow.
///
/// # Source
/// Orchestration C6.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowCall {
    /// The URL that gets the request.
    pub url: String,
    /// Longest time until the response, in seconds.
    pub timeout_secs: u64,
    /// The body.
    pub body: Value,
}

impl Recovery {
    /// Returns the action in progress.
    pub fn action(&self) -> Option<&PreparedAction> {
        self.actions.get(self.step)
    }
}
