//! Compares the agreements that nodes report with the records.

use evenkeel_ids::{AgreementId, NodeId, PolicyId};
use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, CancelReason, STOP_CONFIRMATION_SECS},
    node_record::NodeRecord,
    time::later,
};
use jiff::Timestamp;

use super::{Liveness, Model};

/// Longest interval between two repetitions of a cancel.
const LONGEST_PAUSE_SECS: u64 = 600;

/// When the cancel of an agreement was repeated last, and how often so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repetition {
    pub count: u32,
    pub at: Timestamp,
}

/// State of the final agreement of a node in the exchange, where the policy requires one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// It has, or the policy does not require it.
    Fine,
    /// The node still has time to record it.
    DueAt(Timestamp),
    /// The list was read too early to decide.
    NotRead,
    /// It has not.
    Missing,
}

impl Model {
    /// Returns the agreements that nodes report without a known record.
    pub fn unknown_agreements(&self) -> impl Iterator<Item = &AgreementId> {
        self.nodes.values().flat_map(NodeRecord::reported).filter(|id| !self.agreements.contains_key(*id))
    }

    /// Returns the agreements that one node reports without a known record.
    pub fn unknown_agreements_of(&self, node: &NodeId) -> impl Iterator<Item = &AgreementId> {
        let reported = self.nodes.get(node).into_iter().flat_map(NodeRecord::reported);
        reported.filter(|id| !self.agreements.contains_key(*id))
    }

    /// Returns the ended agreements of a pair that its node still reports, with reason and the time of the next cancel.
    ///
    /// The first repetition is due after half of [`STOP_CONFIRMATION_SECS`], or when a node that was down is back; then the interval doubles.
    pub fn reported_after_end(
        &self,
        node: &NodeId,
        policy: &PolicyId,
    ) -> Vec<(&AgreementId, CancelReason, Timestamp)> {
        let Some(record) = self.nodes.get(node) else { return Vec::new() };
        let ended = self.lately_ended_on(node).filter(|agreement| agreement.policy == *policy);
        let still_there = ended.filter(|agreement| record.reports(&agreement.id));
        let due = still_there.filter_map(|agreement| match agreement.state {
            AgreementState::Ended { at, reason, .. } => {
                Some((&agreement.id, reason, self.repetition_due_at(&agreement.id, at, reason)))
            }
            _ => None,
        });
        due.collect()
    }

    fn repetition_due_at(
        &self,
        agreement: &AgreementId,
        ended_at: Timestamp,
        reason: CancelReason,
    ) -> Timestamp {
        const FIRST_SECS: u64 = STOP_CONFIRMATION_SECS / 2;
        match self.repetitions.get(agreement) {
            // A message to a node that was down may have expired, and another node has taken its place.
            None if reason == CancelReason::HEARTBEAT_MISSING => ended_at,
            None => later(ended_at, FIRST_SECS),
            Some(last) => {
                let pause = FIRST_SECS.saturating_mul(1 << last.count.min(16)).min(LONGEST_PAUSE_SECS);
                later(last.at, pause)
            }
        }
    }

    /// Returns whether the exchange has an agreement, by a list that was read after the node's time to record it.
    pub fn listing(&self, agreement: &Agreement, now: Timestamp) -> Listing {
        let check_secs = self.policy(&agreement.policy).map_or(0, |policy| policy.agreement_check_secs);
        let listed = self.nodes.get(&agreement.node).and_then(|record| record.agreements.as_ref());
        let Some(final_at) = agreement.finalized_at().filter(|_| check_secs > 0) else {
            return Listing::Fine;
        };
        let due_at = later(final_at, check_secs);
        match listed {
            _ if agreement.pending_update.is_some() => Listing::Fine,
            Some(listed) if listed.ids.contains(&agreement.id) => Listing::Fine,
            _ if now < due_at => Listing::DueAt(due_at),
            Some(listed) if listed.read_at >= due_at => Listing::Missing,
            _ => Listing::NotRead,
        }
    }

    /// Returns whether a decision about an agreement of a node waits for the list of its agreements.
    pub fn needs_agreements(&self, node: &NodeId, now: Timestamp) -> bool {
        self.live_on(node).any(|agreement| self.listing(agreement, now) == Listing::NotRead)
    }

    /// Returns whether the node of an agreement still reports it.
    pub(super) fn is_reported(&self, agreement: &Agreement) -> bool {
        self.nodes.get(&agreement.node).is_some_and(|record| record.reports(&agreement.id))
    }

    /// Returns since when a live node reports without a final agreement, as if it did not know it.
    pub fn missing_since(&self, agreement: &Agreement, now: Timestamp) -> Option<Timestamp> {
        let final_at = agreement.finalized_at()?;
        let record = self.nodes.get(&agreement.node)?;
        if self.liveness(&agreement.node, now) != Liveness::Alive || record.reports(&agreement.id) {
            return None;
        }
        match (&record.status, &record.agreements) {
            (Some(status), _) => Some(status.reported_at.map_or(final_at, |at| at.max(final_at))),
            (None, Some(_)) => Some(final_at),
            (None, None) => None,
        }
    }
}
