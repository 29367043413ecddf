//! Reason why a rollout is paused, as data and as text.

use std::fmt;

use evenkeel_ids::NodeId;
use serde::{Deserialize, Serialize};

use super::Blocked;
use crate::agreement::CancelReason;

/// The reason a rollout is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "cause")]
pub enum HoldReason {
    /// The new version failed on a member.
    StepFailed {
        /// The member.
        node: NodeId,
        /// The version.
        version: String,
        /// The reason the node reported.
        reason: CancelReason,
        /// The failure, as far as the node reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The new version was not seen running on a member in time.
    StepStalled {
        /// The member.
        node: NodeId,
        /// The version.
        version: String,
        /// The missing condition at the deadline.
        missing: Box<Blocked>,
    },
    /// A user paused it.
    Paused {
        /// The user.
        actor: String,
    },
    /// A user stopped it permanently.
    Aborted {
        /// The user.
        actor: String,
    },
    /// A user requested a rollback.
    #[serde(rename = "rollback-asked")]
    RollbackRequested {
        /// The user.
        actor: String,
    },
}

impl HoldReason {
    /// Returns the member on which a step failed or stalled.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::StepFailed { node, .. } | Self::StepStalled { node, .. } => Some(node),
            Self::Paused { .. } | Self::Aborted { .. } | Self::RollbackRequested { .. } => None,
        }
    }

    /// Returns whether a step failed or stalled, as opposed to a user's decision.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::StepFailed { .. } | Self::StepStalled { .. })
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StepFailed { node, version, reason, detail } => {
                write!(formatter, "{version} failed on {node}: {} ({})", reason.text(), reason.0)?;
                detail.iter().try_for_each(|detail| write!(formatter, ": {detail}"))
            }
            Self::StepStalled { node, version, missing } => {
                write!(formatter, "{version} was not seen running on {node} in time: {missing}")
            }
            Self::Paused { actor } => write!(formatter, "paused by {actor}"),
            Self::Aborted { actor } => write!(formatter, "aborted by {actor}"),
            Self::RollbackRequested { actor } => write!(formatter, "{actor} requested a rollback"),
        }
    }
}
