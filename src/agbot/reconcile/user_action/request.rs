//! Requests of users for actions that last, and why one is not accepted.

use evenkeel_ids::NodeId;
use evenkeel_planner_record::workload::{LastingAction, PreparedAction};

/// An action that a user requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestedAction<'a> {
    /// Kind of the action.
    pub kind: LastingAction,
    /// Only this workload unit.
    pub part: Option<&'a str>,
    /// Only this node, or the node to move to.
    pub node: Option<&'a NodeId>,
    /// The nodes to move to.
    pub destinations: &'a [NodeId],
    /// True if the gates that a user may lift are lifted.
    pub is_forced: bool,
    /// Parameters of a recovery.
    pub recovery: Option<&'a RequestedRecovery>,
}

/// Parameters of the action `recover`.
///
/// # Source
/// Orchestration C7.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedRecovery {
    /// True if running instances are examined, too; otherwise they count as healthy.
    pub examines: bool,
    /// True if missing instances are created afterwards.
    pub fills_up: bool,
    /// The action to take; none takes those of the health policy.
    pub operation: Option<PreparedAction>,
}

/// Reason why an action is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionRefusal {
    /// The request is not complete, or names what the action has no use for.
    Malformed(String),
    /// The policy has no such workload unit.
    NoPart(String),
    /// The node does not belong to the policy, or not to the workload unit that is named.
    NoNode {
        /// The node.
        node: NodeId,
        /// The workload unit.
        part: Option<String>,
    },
    /// The present state does not allow it.
    Conflict(String),
}
