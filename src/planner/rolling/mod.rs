//! The update supervisor: one engine that replaces the copies of a unit step by step.
//!
//! A unit is a policy inside an HA group. The defaults are one at a time, stop first, floor one; other modes are settings
//! of the same engine. Sources: orchestration B11, E3 to E5; design "Rolling service upgrade".

pub mod action;
mod drain;
pub(crate) mod floor;
mod gates;
pub mod history;
mod progress;
mod rollback;
mod step;
pub(crate) mod sweep;
pub(crate) mod unit;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    claims::{Purpose, ReleaseReason, Scope},
    ids::{GroupId, NodeId, PolicyId},
    model::Model,
    report::HoldReason,
};

pub(crate) use rollback::wanted_versions;

/// Answers whether a node is the one that the rollout of a policy is changing now.
pub(crate) fn holds_claim(model: &Model, node: &NodeId, policy: &PolicyId) -> bool {
    let key = |group: &GroupId| (group.clone(), Scope::Policy(policy.clone()));
    let claim = model.group_of.get(node).and_then(|group| model.claims.get(&key(group)));
    claim.is_some_and(|claim| claim.node == *node && claim.purpose == Purpose::ServiceUpgrade)
}

/// Is where a rollout stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum RolloutState {
    /// Slots are being replaced.
    Updating,
    /// No further slot is touched until somebody acts, or the stalled member catches up.
    Held {
        /// Why.
        hold: Box<HoldReason>,
        /// Since when.
        since: Timestamp,
    },
    /// Its reason is gone: the policy, the group, or the target.
    Abandoned {
        /// When.
        at: Timestamp,
        /// Why.
        why: ReleaseReason,
    },
    /// Every slot has the wanted version.
    Completed {
        /// When.
        at: Timestamp,
    },
}

/// The return of a rollout to the version that ran before.
///
/// # Shape
/// It holds until the policy names another service or version, or a user retries the version that failed. Other changes of
/// the policy do not end it.
/// # Source
/// Orchestration B11.7, B11.9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The version it leads back to.
    pub version: String,
    /// Why: what failed, or who asked for it.
    pub why: HoldReason,
    /// When it was decided.
    pub since: Timestamp,
    /// Slots to be replaced when the rollout began.
    #[serde(default)]
    pub slots: u32,
}

/// Is the rollout of one policy through one group.
///
/// # Shape
/// One row per (group, policy): the newest target. `revision` grows by one with every write; a write that is not based on
/// the newest one is refused, so that the agbot never undoes what a user asked for meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// The group.
    pub group: GroupId,
    /// The policy.
    pub policy: PolicyId,
    /// Wanted service and version, for people.
    pub target: String,
    /// Digest of the policy's service and version list; another digest is another rollout.
    pub target_digest: u64,
    /// When it began.
    pub started_at: Timestamp,
    /// Slots to be replaced when it began.
    pub total: u32,
    /// Slots done.
    pub done: u32,
    /// Members on which a step failed.
    pub failed: Vec<NodeId>,
    /// When the last slot was finished or given up.
    pub last_step_at: Option<Timestamp>,
    /// Member of that slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_node: Option<NodeId>,
    /// Version that all slots had before; none when they had several, or another service.
    #[serde(default)]
    pub previous_version: Option<String>,
    /// Set when it leads back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// How many times the row was written.
    #[serde(default)]
    pub revision: u64,
    /// Where it stands.
    #[serde(flatten)]
    pub state: RolloutState,
}

impl Rollout {
    /// Answers whether a write may replace what is stored: it is based on it, or was carried out before.
    ///
    /// # Source
    /// Style 4: commands are safe to repeat.
    pub fn may_replace(&self, stored: Option<&Self>) -> bool {
        match stored {
            None => true,
            Some(stored) => stored.revision + 1 == self.revision || stored == self,
        }
    }

    /// Returns the service and the version that it leads to now: after a rollback the one that ran before.
    pub fn effective_target(&self) -> String {
        match (&self.rollback, self.target.rsplit_once(' ')) {
            (Some(back), Some((service, _))) => format!("{service} {}", back.version),
            _ => self.target.clone(),
        }
    }

    /// Returns whether both are rows of one rollout, whichever way it leads.
    fn is_same_rollout(&self, other: &Self) -> bool {
        self.target_digest == other.target_digest && self.started_at == other.started_at
    }

    /// Returns the rollout turned back to a version: as many slots are to be changed as were changed, or failed.
    pub(crate) fn turned_back(self, version: &str, why: HoldReason, now: Timestamp) -> Self {
        // A group has far fewer members than a u32 counts.
        let failed = u32::try_from(self.failed.len()).unwrap_or(u32::MAX);
        Self {
            state: RolloutState::Updating,
            rollback: Some(Rollback { version: version.to_owned(), why, since: now, slots: self.total }),
            total: self.done.saturating_add(failed).clamp(1, self.total.max(1)),
            done: 0,
            ..self
        }
    }

    /// Says in words how it stands.
    pub fn text(&self) -> String {
        self.text_with(&format!(", {} of {} done", self.done, self.total))
    }

    /// Says in words how it stands, for callers who may not learn how many members there are.
    pub fn text_without_numbers(&self) -> String {
        self.text_with("")
    }

    fn text_with(&self, numbers: &str) -> String {
        let Some(back) = &self.rollback else {
            return match &self.state {
                RolloutState::Updating => format!("updating{numbers}"),
                RolloutState::Held { hold, .. } => format!("held: {hold}"),
                RolloutState::Completed { .. } => "completed".to_owned(),
                RolloutState::Abandoned { why, .. } => format!("abandoned: {why}"),
            };
        };
        let (version, why) = (&back.version, &back.why);
        match &self.state {
            RolloutState::Updating => format!("rolling back to {version}{numbers}: {why}"),
            RolloutState::Held { hold, .. } => {
                format!("held: {hold}; rolling back to {version}{numbers}: {why}")
            }
            RolloutState::Completed { .. } => format!("rolled back to {version}{numbers}: {why}"),
            RolloutState::Abandoned { why, .. } => format!("abandoned: {why}"),
        }
    }

    /// Returns whether the rollout leads to this target and has not been abandoned.
    pub(crate) fn is_for(&self, target_digest: u64) -> bool {
        self.target_digest == target_digest && !matches!(self.state, RolloutState::Abandoned { .. })
    }

    /// Returns whether the row remembers a version that failed, so that it is not tried again by itself.
    ///
    /// Such a row must be kept as long as its policy and its group exist.
    pub fn remembers_failure(&self) -> bool {
        self.rollback.is_some() && !matches!(self.state, RolloutState::Abandoned { .. })
    }

    /// Answers whether slots are still to be replaced, or somebody is waited for.
    pub fn is_open(&self) -> bool {
        matches!(self.state, RolloutState::Updating | RolloutState::Held { .. })
    }
}
