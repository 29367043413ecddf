//! Agreements as the agbot records them, and their state transitions.
//!
//! Source: agreement-protocol 2.4, 2.7. A state carries its data; a transition consumes the state and returns the next one
//! or an error.

use evenkeel_ids::{AgreementId, NodeId, PolicyId, ServiceId, ServiceKey, TaskId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::facts::DeploymentOverrides;

/// Time a node has to stop the instance of an ended agreement before the next one may start; the cancel is repeated after half of it.
pub const STOP_CONFIRMATION_SECS: u64 = 60;

/// The reason an agreement ended; the number is the one on the wire.
///
/// # Source
/// Agreement-protocol 2.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CancelReason(pub u32);

impl CancelReason {
    /// No reply to the proposal.
    pub const NO_REPLY: Self = Self(201);
    /// The node refused.
    pub const NEGATIVE_REPLY: Self = Self(202);
    /// A policy, the pattern or the wanted version changed.
    pub const POLICY_CHANGED: Self = Self(204);
    /// A user asked the agbot to cancel.
    pub const USER_REQUESTED: Self = Self(206);
    /// The node's heartbeat is missing.
    pub const HEARTBEAT_MISSING: Self = Self(208);
    /// The node does not have the agreement.
    pub const AGREEMENT_MISSING: Self = Self(209);
    /// The node refused an update of the agreement.
    pub const UPDATE_REJECTED: Self = Self(210);
    /// The node was unregistered.
    pub const NODE_SHUT_DOWN: Self = Self(116);

    /// Returns the human-readable sentence.
    pub fn text(self) -> &'static str {
        match self.0 {
            101 => "node policy changed",
            103 => "service terminated",
            104 => "service did not start in time",
            105 => "canceled by a user of the node",
            106 => "canceled by the agbot, or it does not know the agreement",
            107 => "the agbot never acknowledged the reply",
            108 => "a dependency failed",
            109 | 110 => "an image could not be loaded",
            111 => "a dependency had to be upgraded",
            112..=115 | 117 => "an image could not be fetched or verified",
            116 => "node unregistered",
            118 => "a dependency failed and requires a downgrade",
            119 => "service suspended on the node",
            120 => "user input of the node changed",
            121 => "pattern of the node changed",
            122 => "agreement verification failed repeatedly",
            201 => "no reply to the proposal",
            202 => "the node refused the proposal",
            204 => "policy or wanted version changed",
            206 => "no longer wanted on the node, or canceled by a user of the agbot",
            207 => "forced upgrade",
            208 => "node heartbeat missing",
            209 => "agreement missing on the node",
            210 => "the node refused an update of the agreement",
            _ => "unknown reason code, device might be downlevel",
        }
    }

    /// Returns whether the service itself failed on the node.
    ///
    /// Only these count as a failed step of a rollout; a lost message or a changed policy does not.
    pub fn is_service_failure(self) -> bool {
        matches!(self.0, 103 | 104 | 108..=115 | 117 | 118 | 202)
    }

    /// Returns whether the agbot ended the agreement, rather than the node.
    pub fn is_of_agbot(self) -> bool {
        (200..300).contains(&self.0)
    }

    /// Returns whether the rollback record is dropped with the agreement (agreement protocol 2.7, last lines).
    pub fn forgets_usage(self) -> bool {
        matches!(self.0, 116 | 204 | 207)
    }
}

/// The state of an agreement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum AgreementState {
    /// The proposal was recorded and sent, or is about to be.
    Proposed,
    /// The node accepted and got its acknowledgement.
    Finalized {
        /// When the acknowledgement was recorded.
        at: Timestamp,
    },
    /// Ended; kept as history.
    Ended {
        /// When it ended.
        at: Timestamp,
        /// The reason.
        reason: CancelReason,
        /// True if the agreement had become final, so that the node may have started the service.
        #[serde(default)]
        was_final: bool,
    },
}

/// A transition that the state of the agreement does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agreement {id} cannot go from {from} to {to}")]
pub struct InvalidTransition {
    /// The agreement.
    pub id: AgreementId,
    /// Its state.
    pub from: &'static str,
    /// The requested state.
    pub to: &'static str,
}

/// An update of the terms to which the node has not replied yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingUpdate {
    /// Digest of the new terms.
    pub terms_digest: u64,
    /// When it was sent last.
    pub sent_at: Timestamp,
}

/// An agreement.
///
/// # Shape
/// At most one that is not ended per (node, policy), except those that are side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// Its id.
    pub id: AgreementId,
    /// The node.
    pub node: NodeId,
    /// The deployment policy.
    pub policy: PolicyId,
    /// The service definition that was proposed.
    pub service: ServiceId,
    /// The service's key.
    pub service_key: ServiceKey,
    /// The service's version.
    pub version: String,
    /// Priority of the version in the policy; 0 means none.
    pub priority: u32,
    /// Version that was the policy's best when this was proposed.
    pub best_version: String,
    /// Digest of the terms the node holds.
    pub terms_digest: u64,
    /// The deployment overrides that were proposed. A rollback to the version needs them after the policy has changed.
    #[serde(default, skip_serializing_if = "DeploymentOverrides::is_empty")]
    pub overrides: DeploymentOverrides,
    /// Update of the terms in flight.
    pub pending_update: Option<PendingUpdate>,
    /// Group of the node at the time of the proposal: joining or leaving a group later never ends the agreement.
    pub ha_group: Option<String>,
    /// When the proposal was recorded.
    pub created_at: Timestamp,
    /// Deadline of the reply.
    pub reply_by: Timestamp,
    /// When the node last confirmed that it has the agreement.
    pub verified_at: Option<Timestamp>,
    /// The task that it carries out, if its policy has tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// True if the node of the agreement may hold other agreements of the policy: an agent that reads tasks
    /// distinguishes them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_side_by_side: bool,
    /// True if the service may run once in the group of the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_single: bool,
    /// Set when such an agreement ends, until it is known that its instance has stopped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_stop: bool,
    /// Its state.
    #[serde(flatten)]
    pub state: AgreementState,
}

impl Agreement {
    /// Returns whether the agreement is neither ended nor archived.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, AgreementState::Ended { .. })
    }

    /// Returns when the agreement became final, if it did.
    pub fn finalized_at(&self) -> Option<Timestamp> {
        match self.state {
            AgreementState::Finalized { at } => Some(at),
            _ => None,
        }
    }

    fn state_name(&self) -> &'static str {
        match self.state {
            AgreementState::Proposed => "proposed",
            AgreementState::Finalized { .. } => "finalized",
            AgreementState::Ended { .. } => "ended",
        }
    }

    /// Records that the node accepted and was acknowledged.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless the agreement is proposed.
    pub fn finalize(self, at: Timestamp) -> Result<Self, InvalidTransition> {
        match self.state {
            AgreementState::Proposed => Ok(Self { state: AgreementState::Finalized { at }, ..self }),
            _ => Err(self.refuse("finalized")),
        }
    }

    /// Records that the agreement ended.
    ///
    /// # Errors
    /// [`InvalidTransition`] when it already ended.
    pub fn end(self, at: Timestamp, reason: CancelReason) -> Result<Self, InvalidTransition> {
        if self.is_live() {
            let was_final = self.finalized_at().is_some();
            let awaits_stop = self.is_single && was_final;
            Ok(Self { state: AgreementState::Ended { at, reason, was_final }, awaits_stop, ..self })
        } else {
            Err(self.refuse("ended"))
        }
    }

    /// Records that its instance has stopped, as confirmed by the node or a user.
    ///
    /// # Errors
    /// [`InvalidTransition`] unless the agreement has ended.
    pub fn confirm_stop(self) -> Result<Self, InvalidTransition> {
        if self.is_live() {
            return Err(self.refuse("stopped"));
        }
        Ok(Self { is_single: true, awaits_stop: false, ..self })
    }

    fn refuse(&self, to: &'static str) -> InvalidTransition {
        InvalidTransition { id: self.id.clone(), from: self.state_name(), to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement() -> Agreement {
        Agreement {
            id: AgreementId::from_text("a1"),
            node: NodeId::from_text("o/n"),
            policy: PolicyId::from_text("o/p"),
            service: ServiceId::from_text("o/s_1.0.0_amd64"),
            service_key: ServiceKey::from_text("o/s"),
            version: "1.0.0".into(),
            priority: 0,
            best_version: "1.0.0".into(),
            terms_digest: 0,
            overrides: DeploymentOverrides::default(),
            pending_update: None,
            ha_group: None,
            created_at: Timestamp::UNIX_EPOCH,
            reply_by: Timestamp::UNIX_EPOCH,
            verified_at: None,
            task: None,
            is_side_by_side: false,
            is_single: false,
            awaits_stop: false,
            state: AgreementState::Proposed,
        }
    }

    #[test]
    fn proposed_agreement_becomes_final_once_and_ends_once() {
        let at = Timestamp::UNIX_EPOCH;
        let done = agreement().finalize(at).unwrap();
        assert_eq!(done.finalized_at(), Some(at));
        assert_eq!(done.clone().finalize(at).unwrap_err().from, "finalized");
        let over = done.end(at, CancelReason::POLICY_CHANGED).unwrap();
        assert!(!over.is_live());
        assert_eq!(over.end(at, CancelReason::POLICY_CHANGED).unwrap_err().to, "ended");
    }

    #[test]
    fn single_instance_awaits_its_stop_only_after_it_was_final() {
        let at = Timestamp::UNIX_EPOCH;
        let single = Agreement { is_single: true, ..agreement() };
        assert!(!single.clone().end(at, CancelReason::NO_REPLY).unwrap().awaits_stop);
        assert!(!agreement().finalize(at).unwrap().end(at, CancelReason(103)).unwrap().awaits_stop);
        let over = single.finalize(at).unwrap().end(at, CancelReason::USER_REQUESTED).unwrap();
        assert!(over.awaits_stop);
        assert!(!over.confirm_stop().unwrap().awaits_stop);
        assert!(agreement().confirm_stop().is_err());
    }

    #[test]
    fn only_failures_of_the_service_count_against_a_rollout() {
        assert!(CancelReason(103).is_service_failure());
        assert!(CancelReason::NEGATIVE_REPLY.is_service_failure());
        assert!(!CancelReason::NO_REPLY.is_service_failure());
        assert!(!CancelReason::POLICY_CHANGED.is_service_failure());
        assert!(!CancelReason(101).is_service_failure());
    }
}
