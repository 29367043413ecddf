//! Proof that the instance of an ended agreement has stopped.
//!
//! Source: orchestration A2, P1; engine 6 (P1 against B10).

use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState, STOP_CONFIRMATION_SECS},
    time::secs_since,
};
use jiff::Timestamp;

use super::Model;

impl Model {
    /// Returns when an agreement ended whose instance may still run, however long ago that was.
    ///
    /// The stop is confirmed by a report of the node from after the end that does not list the instance; by the node's denial of
    /// the agreement, if its last report does not list the instance either and it had time to report; by a user; or by the
    /// removal of the node. A node that never got the acknowledgement started nothing, so for an agreement that was not final
    /// the elapsed time suffices.
    pub fn unconfirmed_stop(&self, agreement: &Agreement, now: Timestamp) -> Option<Timestamp> {
        let AgreementState::Ended { at, was_final, .. } = agreement.state else { return None };
        let record = self.nodes.get(&agreement.node)?;
        if agreement.is_single && was_final && !agreement.awaits_stop {
            return None;
        }
        let status = record.status.as_ref();
        let is_listed = self.is_listed(agreement);
        let is_reported = status.is_some_and(|status| status.reported_at >= Some(at));
        let had_time = secs_since(at, now) >= STOP_CONFIRMATION_SECS;
        let is_confirmed =
            !is_listed && (is_reported || had_time && (!was_final || self.denied.contains(&agreement.id)));
        (!is_confirmed).then_some(at)
    }

    /// Returns whether the status of its node lists the instance of an agreement.
    pub(crate) fn is_listed(&self, agreement: &Agreement) -> bool {
        let status = self.node(&agreement.node).and_then(|record| record.status.as_ref());
        status.is_some_and(|status| {
            status.services.iter().any(|one| one.agreement.as_ref() == Some(&agreement.id))
        })
    }

    /// Returns the ended agreements whose instances must have stopped before another one starts and are not recorded as stopped.
    pub fn awaiting_stop(&self) -> impl Iterator<Item = &Agreement> {
        self.awaiting_stop.iter().filter_map(|id| self.agreements.get(id))
    }
}
