//! The update supervisor: one engine that replaces the copies of a unit step by step.
//!
//! A unit is a policy inside an HA group. The defaults are one at a time, stop first, floor one; other modes are settings
//! of the same engine. Sources: orchestration B11, E3 to E5; design "Rolling service upgrade".

pub(crate) mod floor;
pub(crate) mod sweep;
pub(crate) mod unit;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    claims::ReleaseReason,
    ids::{GroupId, NodeId, PolicyId},
    report::HoldReason,
};

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

/// Is the rollout of one policy through one group.
///
/// # Shape
/// One row per (group, policy): the newest target.
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
    /// Where it stands.
    #[serde(flatten)]
    pub state: RolloutState,
}
