//! Steps: changes of one slot, each with its cause.

use evenkeel_ids::NodeId;
use serde::{Deserialize, Serialize};

use super::{Slot, UnitId};
use crate::settings::UpdateOrder;

/// Reason why a step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "cause")]
pub enum Cause {
    /// A user requested it.
    User {
        /// True if the gates that a user may lift are lifted.
        force: bool,
    },
    /// The node is down, or no longer exists.
    NodeLost,
    /// The task ended by itself.
    TaskFailed,
    /// The policy no longer selects the node.
    Incompatible,
    /// The node is being drained.
    Drain,
    /// Another version is wanted.
    Update,
    /// An earlier version is wanted back.
    Rollback,
    /// The instance runs where the placement does not want it.
    Cure,
    /// The health policy recovers a failed member.
    Health,
    /// The instance goes back to the node that it left during an upgrade.
    Return,
    /// Another node ranks better, or is in the preferred domain.
    Rebalance,
    /// The health policy of an HA group recovers a node that has failed, and the instance runs.
    NodeHealth,
    /// More or fewer instances are wanted.
    Scale,
    /// The user wants no instances: the workload is stopped, scaled to none, or deleted.
    Withdrawn,
}

/// The kind of a cause: the row of the gate table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseKind {
    /// See [`Cause::User`].
    User,
    /// See [`Cause::NodeLost`].
    NodeLost,
    /// See [`Cause::TaskFailed`].
    TaskFailed,
    /// See [`Cause::Incompatible`].
    Incompatible,
    /// See [`Cause::Drain`].
    Drain,
    /// See [`Cause::Update`].
    Update,
    /// See [`Cause::Rollback`].
    Rollback,
    /// See [`Cause::Cure`].
    Cure,
    /// See [`Cause::Health`].
    Health,
    /// See [`Cause::Return`].
    Return,
    /// See [`Cause::Rebalance`].
    Rebalance,
    /// See [`Cause::NodeHealth`].
    NodeHealth,
    /// See [`Cause::Scale`].
    Scale,
    /// See [`Cause::Withdrawn`].
    Withdrawn,
}

impl Cause {
    /// Returns the kind.
    pub fn kind(self) -> CauseKind {
        match self {
            Self::User { .. } => CauseKind::User,
            Self::NodeLost => CauseKind::NodeLost,
            Self::TaskFailed => CauseKind::TaskFailed,
            Self::Incompatible => CauseKind::Incompatible,
            Self::Drain => CauseKind::Drain,
            Self::Update => CauseKind::Update,
            Self::Rollback => CauseKind::Rollback,
            Self::Cure => CauseKind::Cure,
            Self::Health => CauseKind::Health,
            Self::Return => CauseKind::Return,
            Self::Rebalance => CauseKind::Rebalance,
            Self::NodeHealth => CauseKind::NodeHealth,
            Self::Scale => CauseKind::Scale,
            Self::Withdrawn => CauseKind::Withdrawn,
        }
    }

    /// Returns whether a user lifted the gates that may be lifted.
    pub fn is_forced(self) -> bool {
        self == Self::User { force: true }
    }

    /// Returns whether an instance that starts for it is placed by itself, so that another node may contest the start.
    ///
    /// # Source
    /// Orchestration A9.5.
    pub fn is_contested(self) -> bool {
        matches!(self, Self::Scale | Self::NodeLost | Self::TaskFailed | Self::Incompatible)
    }

    /// Returns whether the step belongs to an update or a rollback.
    pub fn is_update(self) -> bool {
        matches!(self, Self::Update | Self::Rollback)
    }
}

/// The effect of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Change {
    /// Starts an instance.
    Start {
        /// Where.
        node: NodeId,
    },
    /// Stops an instance.
    Stop {
        /// Where.
        node: NodeId,
    },
    /// Recovers an instance where it is; it may be away meanwhile.
    Repair {
        /// Where.
        node: NodeId,
        /// True if everything else on the node is down meanwhile, too.
        is_of_host: bool,
    },
    /// Replaces an instance by one of another version.
    Replace {
        /// Node of the old one; none when no node has it.
        node: Option<NodeId>,
        /// True if the old instance may be running, so that availability is lost when it stops.
        may_run: bool,
        /// Order of the two.
        order: UpdateOrder,
    },
    /// Moves an instance.
    Relocate {
        /// From where.
        node: NodeId,
        /// Order of the two.
        order: UpdateOrder,
    },
}

/// A change of one slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The workload unit.
    pub unit_id: UnitId,
    /// The slot.
    pub slot: Slot,
    /// The change.
    pub change: Change,
    /// Why.
    pub cause: Cause,
}

impl Step {
    /// Returns the node that it concerns.
    pub fn node(&self) -> Option<&NodeId> {
        match &self.change {
            Change::Start { node }
            | Change::Stop { node }
            | Change::Repair { node, .. }
            | Change::Relocate { node, .. } => Some(node),
            Change::Replace { node, .. } => node.as_ref(),
        }
    }

    /// Returns whether a user wants the instance to stop.
    ///
    /// # Source
    /// Orchestration A8.2.
    pub fn is_stop_order(&self) -> bool {
        let is_of_user = matches!(self.cause, Cause::User { .. } | Cause::Withdrawn);
        is_of_user && matches!(self.change, Change::Stop { .. })
    }

    /// Returns whether an instance starts.
    pub fn starts_instance(&self) -> bool {
        !matches!(self.change, Change::Stop { .. } | Change::Repair { .. })
    }

    /// Returns the node on which an instance stops before another one is seen running.
    pub fn disrupted_node(&self) -> Option<&NodeId> {
        match &self.change {
            Change::Start { .. } => None,
            Change::Stop { node } | Change::Repair { node, .. } => Some(node),
            Change::Replace { may_run: false, .. }
            | Change::Replace { order: UpdateOrder::StartFirst, .. }
            | Change::Relocate { order: UpdateOrder::StartFirst, .. } => None,
            Change::Replace { node, .. } => node.as_ref(),
            Change::Relocate { node, .. } => Some(node),
        }
    }
}
