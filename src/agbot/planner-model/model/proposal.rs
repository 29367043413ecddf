//! Proposals in flight: how often each was sent, and whether the node accepted it.
//!
//! Kept in memory only. After a restart a proposal counts as sent once and not accepted: at worst it is repeated, which the node drops, and
//! its reply is read again, because a reply stays in the mailbox until it is acknowledged.

use evenkeel_ids::{AgreementId, NodeId};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, STOP_CONFIRMATION_SECS},
    time::secs_since,
};
use jiff::Timestamp;

use super::Model;

/// Number of times a proposal is sent at once after a cancel. Nodes process the two messages concurrently and drop a proposal
/// that overtakes the cancel of the previous agreement; the second one comes after the work on the first.
const SENDS_AFTER_CANCEL: u32 = 2;

/// The status of one proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProposalStatus {
    sent_count: u32,
    sent_at: Timestamp,
    /// True if the node accepted.
    pub is_accepted: bool,
}

impl Model {
    /// Returns how often a proposal was sent, and whether the node accepted it.
    pub fn proposal_status(&self, agreement: &Agreement) -> ProposalStatus {
        let unknown = ProposalStatus { sent_count: 1, sent_at: agreement.created_at, is_accepted: false };
        self.proposals.get(&agreement.id).copied().unwrap_or(unknown)
    }

    pub(super) fn note_proposal_sent(&mut self, agreement: &Agreement, now: Timestamp) {
        if self.agreement(&agreement.id).is_some_and(|known| known.state == AgreementState::Proposed) {
            let status = self.proposals.entry(agreement.id.clone()).or_insert(ProposalStatus {
                sent_count: 0,
                sent_at: now,
                is_accepted: false,
            });
            status.sent_count += 1;
            status.sent_at = now;
        }
    }

    pub(super) fn note_proposal_accepted(&mut self, agreement: &AgreementId, from: &NodeId) {
        let proposed = self
            .agreement(agreement)
            .filter(|known| known.node == *from && known.state == AgreementState::Proposed);
        if let Some(agreement) = proposed {
            let status = ProposalStatus { is_accepted: true, ..self.proposal_status(agreement) };
            self.proposals.insert(agreement.id.clone(), status);
        }
    }

    /// Returns whether a proposal may have been dropped because it met the previous agreement, so that it is to be sent again: at
    /// once after a cancel, and when the node reports after the proposal that the previous agreement is gone.
    pub fn is_proposal_to_repeat(&self, agreement: &Agreement) -> bool {
        let status = self.proposal_status(agreement);
        let Some(ended_at) = self.predecessor_ended_at(agreement).filter(|_| !status.is_accepted) else {
            return false;
        };
        if status.sent_count < SENDS_AFTER_CANCEL {
            return true;
        }
        let report = self.node(&agreement.node).and_then(|record| record.status.as_ref());
        report.and_then(|report| report.reported_at) > Some(status.sent_at.max(ended_at))
            && self.lingering(&agreement.node, &agreement.policy).is_none()
    }

    /// Returns when the agbot ended the pair's previous agreement, if that was just before this one.
    fn predecessor_ended_at(&self, agreement: &Agreement) -> Option<Timestamp> {
        let of_pair = self.lately_ended_on(&agreement.node).filter(|ended| ended.policy == agreement.policy);
        let ended_at = of_pair.filter_map(|ended| match ended.state {
            AgreementState::Ended { at, reason, .. } if reason.is_of_agbot() => Some(at),
            _ => None,
        });
        ended_at.filter(|at| secs_since(*at, agreement.created_at) < STOP_CONFIRMATION_SECS).max()
    }
}
