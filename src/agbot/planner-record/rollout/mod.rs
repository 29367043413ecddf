//! Rollouts: the state of the update of one policy through one HA group, as its row holds it.
//!
//! What is decided about it is in `rolling`. Source: orchestration B11, B12, E3 to E5.

mod action;
mod durations;
pub mod history;

pub use action::act;
pub use durations::StepDurations;

use evenkeel_ids::{GroupId, NodeId, PolicyId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    claims::ReleaseReason,
    facts::{DeploymentOverrides, DeploymentPolicyFacts, VersionChoice},
    report::HoldReason,
    stable_hash::stable_hash,
    workload::UpdateState,
};

/// The rollout of one policy through one group.
///
/// # Shape
/// One row per (group, policy): the newest target. `revision` grows by one with every write; a write that is not based on
/// the newest one is refused, so that the agbot never overwrites what a user requested meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// The group.
    pub group: GroupId,
    /// The policy.
    pub policy: PolicyId,
    /// Wanted service and version, human-readable.
    pub target: String,
    /// Digest of the policy's service and version list; another digest is another rollout.
    pub target_digest: u64,
    /// Start of the rollout.
    pub started_at: Timestamp,
    /// Slots to be replaced at the start.
    pub total: u32,
    /// Slots done.
    pub done: u32,
    /// Members on which a step failed; none of them is done before it runs the version.
    pub failed: Vec<NodeId>,
    /// When the last slot was finished or given up.
    pub last_step_at: Option<Timestamp>,
    /// Member of that slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_node: Option<NodeId>,
    /// Version that all slots had before; none when they had several, or another service.
    #[serde(default)]
    pub previous_version: Option<String>,
    /// The deployment overrides of that version.
    #[serde(default, skip_serializing_if = "DeploymentOverrides::is_empty")]
    pub previous_overrides: DeploymentOverrides,
    /// The rollback, if one was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// Durations of its steps, and of those of the rollouts before it.
    #[serde(default, skip_serializing_if = "StepDurations::is_empty")]
    pub durations: StepDurations,
    /// Number of writes of the row.
    #[serde(default)]
    pub revision: u64,
    /// The state.
    #[serde(flatten)]
    pub state: RolloutState,
}

impl Rollout {
    /// Returns whether a write may replace the stored row: it is based on that row, or was carried out before.
    ///
    /// # Source
    /// Design 4.1 (commands are safe to repeat).
    pub fn may_replace(&self, stored: Option<&Self>) -> bool {
        match stored {
            None => true,
            Some(stored) => stored.revision + 1 == self.revision || stored == self,
        }
    }

    /// Returns the service and version the rollout currently leads to: after a rollback, the previous version.
    pub fn effective_target(&self) -> String {
        match (&self.rollback, self.target.rsplit_once(' ')) {
            (Some(back), Some((service, _))) => format!("{service} {}", back.version),
            _ => self.target.clone(),
        }
    }

    /// Returns whether both are rows of one rollout, forward or rolling back.
    fn is_same_rollout(&self, other: &Self) -> bool {
        self.target_digest == other.target_digest && self.started_at == other.started_at
    }

    /// Returns the rollout turned into a rollback: its slots are those that were changed or failed.
    pub fn into_rollback(self, version: &str, why: HoldReason, now: Timestamp) -> Self {
        let failed = u32::try_from(self.failed.len()).unwrap_or(u32::MAX);
        Self {
            state: RolloutState::Updating,
            rollback: Some(Rollback {
                version: version.to_owned(),
                overrides: self.previous_overrides.clone(),
                why,
                since: now,
                slots: self.total,
            }),
            total: self.done.saturating_add(failed).clamp(1, self.total.max(1)),
            done: 0,
            ..self
        }
    }

    /// Returns a human-readable description of the state.
    pub fn text(&self) -> String {
        let failed = match self.failed.len() {
            // Of a rollback they are what it returns from.
            0 => String::new(),
            _ if self.rollback.is_some() => String::new(),
            count => format!(", {count} failed"),
        };
        self.text_with(&format!(", {} of {} done{failed}", self.done, self.total))
    }

    /// Returns the description of the state for callers that may not learn the number of members.
    pub fn text_without_numbers(&self) -> String {
        self.text_with("")
    }

    fn text_with(&self, numbers: &str) -> String {
        let Some(back) = &self.rollback else {
            return match &self.state {
                RolloutState::Updating => format!("updating{numbers}"),
                RolloutState::Held { hold, .. } => paused_text(hold),
                RolloutState::Completed { .. } if self.failed.is_empty() => "completed".to_owned(),
                RolloutState::Completed { .. } => {
                    format!("completed{numbers}: failed on {}", node_list(&self.failed))
                }
                RolloutState::Abandoned { why, .. } => format!("abandoned: {why}"),
            };
        };
        let (version, why) = (&back.version, &back.why);
        match &self.state {
            RolloutState::Updating => format!("rolling back to {version}{numbers}: {why}"),
            RolloutState::Held { hold, .. } => {
                format!("{}; rolling back to {version}{numbers}: {why}", paused_text(hold))
            }
            RolloutState::Completed { .. } => format!("rolled back to {version}{numbers}: {why}"),
            RolloutState::Abandoned { why, .. } => format!("abandoned: {why}"),
        }
    }

    /// Returns the state as one of an update; none when the rollout was abandoned.
    pub fn update_state(&self) -> Option<UpdateState> {
        Some(match (&self.state, self.rollback.is_some()) {
            (RolloutState::Updating, false) => UpdateState::Updating,
            (RolloutState::Updating, true) => UpdateState::RollbackStarted,
            (RolloutState::Held { .. }, false) => UpdateState::Paused,
            (RolloutState::Held { .. }, true) => UpdateState::RollbackPaused,
            (RolloutState::Completed { .. }, false) => UpdateState::Completed,
            (RolloutState::Completed { .. }, true) => UpdateState::RollbackCompleted,
            (RolloutState::Abandoned { .. }, _) => return None,
        })
    }

    /// Returns whether the rollout leads to this target and has not been abandoned.
    pub fn is_for(&self, target_digest: u64) -> bool {
        self.target_digest == target_digest && !matches!(self.state, RolloutState::Abandoned { .. })
    }

    /// Returns whether the row remembers a failed version, so that it is not tried again automatically.
    ///
    /// Such a row must be kept as long as its policy and its group exist.
    pub fn remembers_failure(&self) -> bool {
        self.rollback.is_some() && !matches!(self.state, RolloutState::Abandoned { .. })
    }

    /// Returns whether slots are still to be replaced or a member is being waited for.
    pub fn is_open(&self) -> bool {
        matches!(self.state, RolloutState::Updating | RolloutState::Held { .. })
    }
}

/// The state of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum RolloutState {
    /// Slots are being replaced.
    Updating,
    /// No further slot is changed until a user acts or the stalled member catches up.
    Held {
        /// The reason.
        hold: Box<HoldReason>,
        /// Start of the hold.
        since: Timestamp,
    },
    /// The policy, group or target of the rollout no longer exists.
    Abandoned {
        /// When it was abandoned.
        at: Timestamp,
        /// The reason.
        why: ReleaseReason,
    },
    /// Every slot has the wanted version.
    Completed {
        /// When it completed.
        at: Timestamp,
    },
}

/// The rollback of a rollout to the version that ran before.
///
/// # Shape
/// It holds until the policy names another service or version, or a user retries the version that failed. Other changes of
/// the policy do not end it.
/// # Source
/// Orchestration B11.7, B11.9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The version to return to.
    pub version: String,
    /// The deployment overrides with which it ran.
    #[serde(default, skip_serializing_if = "DeploymentOverrides::is_empty")]
    pub overrides: DeploymentOverrides,
    /// The failure or the user that caused it.
    pub why: HoldReason,
    /// When it was decided.
    pub since: Timestamp,
    /// Slots to be replaced when the rollout began.
    #[serde(default)]
    pub slots: u32,
}

impl Rollback {
    /// Returns the version list of a policy that names only the version to return to.
    pub fn choice(&self) -> VersionChoice {
        let (version, overrides) = (self.version.clone(), self.overrides.clone());
        VersionChoice { version, overrides, ..VersionChoice::default() }
    }
}

/// Returns the description of a paused rollout.
fn paused_text(hold: &HoldReason) -> String {
    match hold {
        HoldReason::Paused { .. } => hold.to_string(),
        _ => format!("paused: {hold}"),
    }
}

fn node_list(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::as_str).collect::<Vec<&str>>().join(", ")
}

/// Returns a digest of a rollout's target: service and version list with its deployment overrides.
pub fn target_digest(policy: &DeploymentPolicyFacts) -> u64 {
    let text = |entry: &VersionChoice| match entry.overrides.text.as_str() {
        "" => format!("{} {}", entry.version, entry.priority),
        overrides => format!("{} {} {}", entry.version, entry.priority, stable_hash(&[overrides])),
    };
    let versions: Vec<String> = policy.versions.iter().map(text).collect();
    stable_hash(&[policy.service.as_str(), &versions.join(",")])
}
