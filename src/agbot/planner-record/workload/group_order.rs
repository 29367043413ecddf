//! A task's record of recoveries of its node that the health policy of an HA group began.
//!
//! Source: orchestration C1, C6.

use evenkeel_ids::GroupId;
use serde::{Deserialize, Serialize};

use super::{Recovery, TaskHealth};

/// The order to recover the instances of a node, as the recovery of one of them names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOrder {
    /// The HA group.
    pub group: GroupId,
    /// The id of the recovery of the node.
    pub id: String,
}

impl TaskHealth {
    /// Returns whether an action of a recovery is in progress.
    pub fn is_recovering(&self) -> bool {
        let is_acting = |one: &Recovery| one.failed_until.is_none() && one.action_since.is_some();
        self.recovery.as_deref().is_some_and(is_acting)
    }

    /// Returns the ids of recoveries of nodes that the task carries out, or has carried out last.
    pub fn group_recoveries(&self) -> impl Iterator<Item = &str> {
        let open = self.recovery.as_ref().and_then(|recovery| recovery.of_group.as_ref());
        let open = open.map(|order| order.id.as_str());
        open.into_iter().chain(self.ended_group_order.as_ref().map(|ended| ended.id.as_str()))
    }

    /// Returns whether the task carries out a recovery of a node.
    pub fn carries_out(&self, recovery: &str) -> bool {
        let open = self.recovery.as_ref().and_then(|one| one.of_group.as_ref());
        open.is_some_and(|order| order.id == recovery)
    }

    /// Returns whether the task has begun a recovery of a node, or is done with it.
    pub fn has_begun_for_group(&self, recovery: &str) -> bool {
        self.group_recoveries().any(|id| id == recovery)
    }
}
