//! `healthPolicy` of a deployment policy or an HA group: how failures are detected, and what recovers from them.
//!
//! Names and words are those of Senlin's health policy, so that existing specifications can be pasted.
//! Source: orchestration C2 to C8.

mod expected;
mod ratio;
mod read;
mod template;
mod url;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use expected::Expected;
pub use ratio::Ratio;
pub use read::Target;
pub use template::TemplateValues;
pub use url::PollUrl;

use super::MembersError;

/// How failures of the members of a target are detected and recovered.
///
/// # Shape
/// Every member has its value; a document of version 1.0 or 1.1 is read as one of 1.2.
///
/// # Source
/// Orchestration C2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthPolicy {
    /// `1.2`.
    pub version: &'static str,
    /// True if failures are detected.
    pub enabled: bool,
    /// How.
    pub detection: Detection,
    /// Recovery from failures.
    pub recovery: Recovery,
}

/// Detection of failures.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Detection {
    /// Time between two checks of a member.
    pub interval: u64,
    /// Time after a change of a member during which it counts as healthy.
    pub node_update_timeout: u64,
    /// Number of failed modes that a recovery requires: one or all.
    pub recovery_conditional: RecoveryConditional,
    /// The modes, each type at most once.
    pub detection_modes: Vec<DetectionMode>,
}

/// Combination of the results of several modes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RecoveryConditional {
    /// One failed mode is enough.
    #[default]
    AnyFailed,
    /// Every mode must fail.
    AllFailed,
}

/// A mode of detection with its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DetectionMode {
    /// The type.
    #[serde(rename = "type")]
    pub kind: DetectionType,
    /// The URL that is polled, of `NODE_STATUS_POLL_URL`, or of a mode in which peers do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<PollOptions>,
    /// The port that peers connect to when they poll no URL.
    #[serde(rename = "options", skip_serializing_if = "Option::is_none")]
    pub peer_options: Option<PeerOptions>,
}

/// Options of a mode in which peers connect to a port.
///
/// # Source
/// Orchestration C3 (`LB_STATUS_POLLING`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PeerOptions {
    /// The port of the members.
    pub port: u16,
}

/// The type of a mode of detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DetectionType {
    /// The state that is known of the member.
    NodeStatusPolling,
    /// The response of a URL.
    NodeStatusPollUrl,
    /// Events of the container engine.
    LifecycleEvents,
    /// The container engine of the member's node.
    HypervisorStatusPolling,
    /// Peers that probe the member.
    LbStatusPolling,
    /// Peers that report changes of what they see.
    LbStatusEvents,
}

impl DetectionType {
    /// Every type with its word.
    pub const ALL: [(&str, Self); 6] = [
        ("NODE_STATUS_POLLING", Self::NodeStatusPolling),
        ("NODE_STATUS_POLL_URL", Self::NodeStatusPollUrl),
        ("LIFECYCLE_EVENTS", Self::LifecycleEvents),
        ("HYPERVISOR_STATUS_POLLING", Self::HypervisorStatusPolling),
        ("LB_STATUS_POLLING", Self::LbStatusPolling),
        ("LB_STATUS_EVENTS", Self::LbStatusEvents),
    ];

    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(word, _)| word)
    }

    /// Returns whether the other members examine a member.
    #[must_use]
    pub fn is_of_peers(self) -> bool {
        matches!(self, Self::LbStatusPolling | Self::LbStatusEvents)
    }

    /// Returns whether members are checked at intervals.
    #[must_use]
    pub fn is_polling(self) -> bool {
        !matches!(self, Self::LifecycleEvents | Self::LbStatusEvents)
    }
}

/// Options of `NODE_STATUS_POLL_URL`.
///
/// # Source
/// Orchestration C4.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PollOptions {
    /// The URL, with `{nodename}` and `{nodeip}`.
    pub poll_url: PollUrl,
    /// True if the certificate of the server is verified.
    pub poll_url_ssl_verify: bool,
    /// True if a failed connection is a failed check.
    pub poll_url_conn_error_as_unhealthy: bool,
    /// Expected contents of the body of a healthy response.
    pub poll_url_healthy_response: Expected,
    /// Further attempts before the check fails.
    pub poll_url_retry_limit: u32,
    /// Seconds between two attempts.
    pub poll_url_retry_interval: u64,
    /// Longest time of an attempt in seconds.
    pub poll_url_timeout: u64,
    /// Sender of the request.
    pub executor: Executor,
}

/// The sender of the request of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Executor {
    /// The agent of the member's node.
    #[default]
    Agent,
    /// The hub.
    Hub,
}

/// Recovery of a failed member.
///
/// # Units
/// Seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// Actions, tried in order.
    pub actions: Vec<RecoveryAction>,
    /// Resources to fence before a second instance starts.
    pub fencing: Vec<FencedResource>,
    /// Longest wait for the old member to be gone before the new one is created.
    pub node_delete_timeout: u64,
    /// True if the new member is created although the old one may still exist.
    pub node_force_recreate: bool,
    /// Longest time of one action.
    pub action_timeout: u64,
    /// Maximum number of concurrent recoveries of running members; none: the parallelism of updates, at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u32>,
    /// Share of the running members that may fail at once; if more fail, no running member is recovered.
    #[serde(rename = "maxUnhealthyRatio")]
    pub max_unhealthy_ratio: Ratio,
}

impl Recovery {
    /// Returns the maximum number of concurrent recoveries of running members; `update_parallelism`: the number of
    /// slots that an update may change at once.
    #[must_use]
    pub fn limit(&self, update_parallelism: u32) -> u32 {
        self.parallelism.unwrap_or(update_parallelism).max(1)
    }

    /// Returns whether so many of the running members fail at once that a common cause is likely.
    #[must_use]
    pub fn is_common_cause(&self, failing: usize, running: usize) -> bool {
        failing >= 2 && self.max_unhealthy_ratio.is_exceeded(failing, running)
    }

    /// Returns whether the actions are the default, so that hints may add a less disruptive one before them.
    ///
    /// # Source
    /// Orchestration C5.
    #[must_use]
    pub fn has_default_actions(&self) -> bool {
        self.actions == [RecoveryAction::new(ActionKind::Recreate)]
    }

    /// Returns whether the member is fenced before a second instance starts.
    #[must_use]
    pub fn is_fencing(&self) -> bool {
        !self.fencing.is_empty()
    }
}

/// A resource that can be fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FencedResource {
    /// The containers of the member.
    Compute,
}

/// An action that may recover a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryAction {
    /// Its name.
    pub name: String,
    /// The type; none for built-in actions.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowType>,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
}

/// The type of an action that an external system carries out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WorkflowType {
    /// A request to a URL.
    Workflow,
}

/// The effect of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ActionKind {
    /// Ends the agreement and creates another task.
    Recreate,
    /// Restarts the containers.
    Reboot,
    /// Fetches the images and creates the containers again.
    Rebuild,
    /// Starts the existing containers.
    Start,
    /// Lets paused containers continue.
    Unpause,
    /// Places the instance on another node.
    Migrate,
    /// Calls a URL.
    Workflow,
    /// Checks the instance before any other action. A policy cannot name it.
    Check,
}

impl ActionKind {
    /// Every built-in action with its word.
    pub const BUILT_IN: [(&str, Self); 6] = [
        ("RECREATE", Self::Recreate),
        ("REBOOT", Self::Reboot),
        ("REBUILD", Self::Rebuild),
        ("START", Self::Start),
        ("UNPAUSE", Self::Unpause),
        ("MIGRATE", Self::Migrate),
    ];

    /// Returns the word of a built-in action; `WORKFLOW` or `CHECK` for the others.
    #[must_use]
    pub fn word(self) -> &'static str {
        if self == Self::Check {
            return "CHECK";
        }
        Self::BUILT_IN.iter().find(|(_, one)| *one == self).map_or("WORKFLOW", |(word, _)| word)
    }

    /// Returns whether the node carries it out on the existing instance.
    #[must_use]
    pub fn is_in_place(self) -> bool {
        matches!(self, Self::Reboot | Self::Rebuild | Self::Start | Self::Unpause | Self::Check)
    }
}

impl RecoveryAction {
    /// Returns a built-in action without parameters.
    #[must_use]
    pub fn new(kind: ActionKind) -> Self {
        Self { name: kind.word().to_owned(), workflow: None, params: Map::new() }
    }

    /// Returns what it does.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        if self.workflow.is_some() {
            return ActionKind::Workflow;
        }
        let known = ActionKind::BUILT_IN.iter().find(|(word, _)| *word == self.name);
        known.map_or(ActionKind::Recreate, |(_, kind)| *kind)
    }

    /// Returns whether containers are killed instead of stopped with grace.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.params.get("type").and_then(Value::as_str) != Some("SOFT")
    }

    /// Returns whether the machine of the node is rebooted instead of the containers.
    #[must_use]
    pub fn is_of_host(&self) -> bool {
        self.kind() == ActionKind::Reboot && self.params.get("scope").and_then(Value::as_str) == Some("host")
    }
}

impl HealthPolicy {
    /// Returns the policy for a user's recovery of a target without a policy: only the states are known, and instances are recreated.
    ///
    /// # Source
    /// Orchestration C7.
    #[must_use]
    pub fn without_checks() -> Self {
        let mode =
            DetectionMode { kind: DetectionType::NodeStatusPolling, options: None, peer_options: None };
        Self {
            version: "1.2",
            enabled: true,
            detection: Detection {
                interval: 60,
                node_update_timeout: 300,
                recovery_conditional: RecoveryConditional::AnyFailed,
                detection_modes: vec![mode],
            },
            recovery: Recovery {
                actions: vec![RecoveryAction::new(ActionKind::Recreate)],
                fencing: Vec::new(),
                node_delete_timeout: 20,
                node_force_recreate: false,
                action_timeout: 300,
                parallelism: None,
                max_unhealthy_ratio: Ratio::HALF,
            },
        }
    }

    /// Checks the actions against the agents of the current members, of which `capable` carry out commands. `path`: that of the policy.
    ///
    /// # Errors
    /// When there are members and none of them could carry out an action.
    ///
    /// # Source
    /// Orchestration C6.
    pub fn check_commands(&self, path: &str, capable: usize, members: usize) -> Result<(), MembersError> {
        let needs_agent = |kind: &ActionKind| matches!(kind, ActionKind::Reboot | ActionKind::Rebuild);
        let kind = self.recovery.actions.iter().map(RecoveryAction::kind).find(needs_agent);
        match kind.filter(|_| members > 0 && capable == 0) {
            Some(kind) => Err(MembersError {
                path: format!("{path}.recovery.actions"),
                rule: format!("must not be {}: no agent of a member accepts commands", kind.word()),
            }),
            None => Ok(()),
        }
    }

    /// Returns the options of the mode that polls a URL.
    #[must_use]
    pub fn poll_options(&self) -> Option<&PollOptions> {
        let mut modes = self.detection.detection_modes.iter();
        modes.find(|mode| mode.kind == DetectionType::NodeStatusPollUrl)?.options.as_ref()
    }

    /// Returns the mode in which peers examine a member.
    #[must_use]
    pub fn peer_mode(&self) -> Option<&DetectionMode> {
        self.detection.detection_modes.iter().find(|mode| mode.kind.is_of_peers())
    }

    /// Returns the mode in which the peers of a node examine it. That includes polling a URL, unless the hub does that.
    ///
    /// # Source
    /// Orchestration C3, C4.2.
    #[must_use]
    pub fn node_peer_mode(&self) -> Option<&DetectionMode> {
        let is_polled = |mode: &&DetectionMode| {
            let options = mode.options.as_ref().filter(|_| mode.kind == DetectionType::NodeStatusPollUrl);
            options.is_some_and(|options| options.executor == Executor::Agent)
        };
        self.peer_mode().or_else(|| self.detection.detection_modes.iter().find(is_polled))
    }

    /// Returns whether the container engines or the addresses of the members of an HA group must be known.
    #[must_use]
    pub fn needs_machines_of_nodes(&self) -> bool {
        self.needs_machines()
            || self.node_peer_mode().is_some()
            || self.has_mode(DetectionType::LifecycleEvents)
    }

    /// Returns whether a mode of this type is used.
    #[must_use]
    pub fn has_mode(&self, kind: DetectionType) -> bool {
        self.detection.detection_modes.iter().any(|mode| mode.kind == kind)
    }

    /// Returns whether the container engines or the addresses of nodes must be known.
    #[must_use]
    pub fn needs_machines(&self) -> bool {
        let by_hub = self.poll_options().filter(|options| options.executor == Executor::Hub);
        self.has_mode(DetectionType::HypervisorStatusPolling)
            || self.peer_mode().is_some()
            || by_hub.is_some_and(|options| options.poll_url.needs_address())
    }

    /// Checks the interval against the settings of the organization.
    ///
    /// # Errors
    /// When members would be polled more often than permitted.
    ///
    /// # Source
    /// Orchestration C2, 1.6.
    pub fn check_interval(&self, least_secs: u64) -> Result<(), MembersError> {
        let is_polling = self.detection.detection_modes.iter().any(|mode| mode.kind.is_polling());
        if !is_polling || self.detection.interval >= least_secs {
            return Ok(());
        }
        Err(MembersError {
            path: "orchestration.healthPolicy.detection.interval".to_owned(),
            rule: format!("must be at least {least_secs}, healthCheckIntervalMinSeconds of the organization"),
        })
    }
}
