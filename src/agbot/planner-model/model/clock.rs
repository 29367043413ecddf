//! Correction of recorded times after the hub's clock was set back: a time from a clock that was ahead must
//! not delay anything.
//!
//! Durations stay as they are, as far as they are known: a record whose newest past instant lies in the
//! future is moved back as a whole, so that this instant is now. A clock that was set ahead needs no
//! correction: no heartbeat could be received in the skipped time.
//! Source: orchestration 0.4.

use std::borrow::Cow;

use evenkeel_planner_record::{
    agreement::{Agreement, AgreementState},
    blocklist::{BlocklistEntry, BlocklistKey},
    claims::Claim,
    health::HealthEvent,
    rollout::{Rollout, RolloutState},
    time::is_ahead,
    usage::Backoff,
    workload::{SlotTasks, Task, UpdateStatus, WorkloadRecord},
};
use jiff::Timestamp;

use super::{Model, WorkloadRecords, blocklist::Blocklist};

/// The instants of a record.
type Instants<'r> = Vec<&'r mut Timestamp>;

/// A record with instants.
pub(super) trait Dated: Clone {
    /// Returns those that were in the past when they were recorded, and the others.
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>);
}

/// Moves a record back until no past instant of it is ahead of the clock; none when it is as it should be.
fn moved_back<T: Dated>(record: &T, now: Timestamp) -> Option<T> {
    let mut moved = record.clone();
    let (past, future) = moved.instants();
    let newest = past.iter().map(|at| **at).max().filter(|newest| is_ahead(*newest, now))?;
    let by = newest.duration_since(now);
    for at in past.into_iter().chain(future).filter(|at| **at > now) {
        *at = at.checked_sub(by).unwrap_or(now);
    }
    Some(moved)
}

/// Returns a record of which no past instant is ahead of the clock.
pub(super) fn not_ahead<T: Dated>(record: &T, now: Timestamp) -> Cow<'_, T> {
    moved_back(record, now).map_or(Cow::Borrowed(record), Cow::Owned)
}

impl Dated for Task {
    // The times that its node reports are never ahead of those.
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        let reported = [&mut self.desired_at, &mut self.running_at, &mut self.ended_at];
        let past = [&mut self.created_at, &mut self.state_at].into_iter();
        (past.chain(reported.into_iter().flatten()).collect(), vec![&mut self.start_at])
    }
}

impl Dated for UpdateStatus {
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        let own =
            [&mut self.started_at, &mut self.completed_at, &mut self.counts_from, &mut self.last_step_at];
        let tickets = self.parts.iter_mut().flat_map(|(_, part)| part.tickets.values_mut());
        let tickets = tickets.flat_map(|ticket| [Some(&mut ticket.since), ticket.done_at.as_mut()]);
        let blocked = self.blocked.as_mut().map(|blocked| &mut blocked.since);
        let past = own.into_iter().map(Option::as_mut).chain(tickets).chain([blocked]);
        (past.flatten().collect(), Vec::new())
    }
}

impl Dated for WorkloadRecord {
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        self.update.instants()
    }
}

impl Dated for BlocklistEntry {
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        let failures = self.failures.iter_mut().map(|failure| &mut failure.at);
        let past = failures.chain(self.since.as_mut()).chain(self.failed_at.as_mut());
        let probe = self.probing.as_mut().and_then(|probing| probing.until.as_mut());
        let future = [&mut self.kept_until].into_iter().chain(self.until.as_mut()).chain(probe);
        (past.collect(), future.collect())
    }
}

impl Dated for Backoff {
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        (vec![&mut self.failed_at], vec![&mut self.not_before])
    }
}

impl Dated for Claim {
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        (vec![&mut self.since, &mut self.phase_since], vec![&mut self.deadline])
    }
}

impl Dated for Rollout {
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        let state = match &mut self.state {
            RolloutState::Updating => None,
            RolloutState::Held { since, .. } => Some(since),
            RolloutState::Abandoned { at, .. } | RolloutState::Completed { at } => Some(at),
        };
        let rollback = self.rollback.as_mut().map(|rollback| &mut rollback.since);
        let past = [Some(&mut self.started_at), self.last_step_at.as_mut(), state, rollback];
        (past.into_iter().flatten().collect(), Vec::new())
    }
}

impl Dated for HealthEvent {
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        (vec![&mut self.since, &mut self.received_at], self.expires_at.iter_mut().collect())
    }
}

impl Dated for Agreement {
    fn instants(&mut self) -> (Instants<'_>, Instants<'_>) {
        let state = match &mut self.state {
            AgreementState::Proposed => None,
            AgreementState::Finalized { at } | AgreementState::Ended { at, .. } => Some(at),
        };
        let sent = self.pending_update.as_mut().map(|update| &mut update.sent_at);
        let past = [Some(&mut self.created_at), self.verified_at.as_mut(), state, sent];
        (past.into_iter().flatten().collect(), vec![&mut self.reply_by])
    }
}

impl Model {
    /// Follows the clock: when it was set back, everything is reconciled again.
    pub(super) fn follow_clock(&mut self, now: Timestamp) {
        let Some(last) = self.last_at.replace(now).filter(|last| is_ahead(*last, now)) else { return };
        let clamp = |at: &mut Timestamp| *at = now.min(*at);
        // A node that was silent when the clock was set back is still silent, for as long.
        let by = last.duration_since(now);
        let move_back = |at: &mut Timestamp| *at = at.checked_sub(by).map_or(now, |moved| now.min(moved));
        self.began_at.iter_mut().for_each(clamp);
        self.hearings.values_mut().for_each(|hearing| hearing.set_back(now));
        for record in self.nodes.values_mut() {
            let facts = &mut record.facts;
            let instants = [&mut facts.last_heartbeat, &mut facts.monitor_state_since, &mut record.back_at];
            let reported_at = record.status.as_mut().and_then(|status| status.reported_at.as_mut());
            instants.into_iter().flatten().chain(reported_at).for_each(move_back);
        }
        self.not_running_since.values_mut().chain(self.removed_nmps.values_mut()).for_each(clamp);
        self.repetitions.values_mut().map(|repetition| &mut repetition.at).for_each(clamp);
        self.watches = std::mem::take(&mut self.watches)
            .into_iter()
            .map(|(at, node, policy)| (now.min(at), node, policy))
            .collect();
        // They may be issued twice.
        self.pending.clear();
        self.claim_requests.clear();
        self.move_back_records(now);
        self.engine.set_back(now);
        self.health.set_back(now);
        self.health.change_events(|event| {
            if let Some(moved) = moved_back(event, now) {
                *event = moved;
            }
        });
        self.touched.extend(self.nodes.keys().cloned());
    }

    fn move_back_records(&mut self, now: Timestamp) {
        let of_agreements = self.agreements.values().filter_map(|one| moved_back(one, now));
        let agreements: Vec<Agreement> = of_agreements.collect();
        self.agreements.extend(agreements.into_iter().map(|one| (one.id.clone(), one)));
        move_back_all(self.claims.values_mut(), now);
        move_back_all(self.rollouts.values_mut(), now);
        move_back_all(self.backoff.values_mut(), now);
    }
}

fn move_back_all<'r, T: Dated + 'r>(records: impl Iterator<Item = &'r mut T>, now: Timestamp) {
    for record in records {
        if let Some(moved) = moved_back(record, now) {
            *record = moved;
        }
    }
}

impl WorkloadRecords {
    fn set_back(&mut self, now: Timestamp) {
        move_back_all(self.workloads.values_mut().map(|known| &mut known.record), now);
        let tasks: Vec<Task> = self.all_tasks().filter_map(|task| moved_back(task, now)).collect();
        tasks.into_iter().for_each(|task| self.put_task(task));
        for unit in self.workload_units.values_mut() {
            unit.drains.values_mut().for_each(|since| *since = now.min(*since));
        }
        self.blocklist.set_back(now);
        self.watches = std::mem::take(&mut self.watches)
            .into_iter()
            .map(|(at, unit_id, slot)| (now.min(at), unit_id, slot))
            .collect();
        self.in_flight.clear();
        self.touched.append(&mut self.deferred);
        self.silence.clear();
        self.stale.extend(self.workloads.keys().cloned());
        self.stale.extend(self.workload_units.keys().map(|unit_id| unit_id.policy.clone()));
    }

    fn all_tasks(&self) -> impl Iterator<Item = &Task> {
        self.workload_units.values().flat_map(|unit| unit.slots.values().flat_map(SlotTasks::iter))
    }
}

impl Blocklist {
    fn set_back(&mut self, now: Timestamp) {
        let keys: Vec<BlocklistKey> = self.keys().cloned().collect();
        for key in keys {
            if let Some(moved) = self.get(&key).and_then(|entry| moved_back(entry, now)) {
                self.put(&key, Some(&moved));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_ids::NodeId;
    use evenkeel_planner_record::{agreement::CancelReason, facts::NodeFacts, settings::PlannerSettings};

    use super::*;
    use crate::{event::Event, model::Liveness};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).expect("a valid time")
    }

    fn backoff(failed_at: i64, not_before: i64) -> Backoff {
        let (reason, version) = (CancelReason::HEARTBEAT_MISSING, "1.0.0".to_owned());
        let (failed_at, not_before) = (at(failed_at), at(not_before));
        Backoff { failure_count: 1, failed_at, reason, version, not_before }
    }

    #[test]
    fn records_of_a_clock_that_was_ahead_are_moved_back_with_their_delays() {
        let now = at(1_000);
        for known in [backoff(990, 1_010), backoff(1_004, 1_024)] {
            assert!(matches!(not_ahead(&known, now), Cow::Borrowed(_)), "clocks may differ by seconds");
        }
        assert_eq!(*not_ahead(&backoff(4_600, 4_620), now), backoff(1_000, 1_020));
    }

    /// Returns a model with nodes that were heard now; without agbots it decides nothing.
    fn model(names: &[&str], now: Timestamp) -> Model {
        let mut model = Model::new(PlannerSettings::default());
        for name in names {
            let facts = NodeFacts { last_heartbeat: Some(now), ..NodeFacts::new(NodeId::new("o", name)) };
            model.apply(&Event::NodeChanged { node: Box::new(facts) }, now);
        }
        model
    }

    fn hear(model: &mut Model, heartbeats: &[(&str, i64)], now: i64) {
        let seen = heartbeats.iter().map(|(name, second)| (NodeId::new("o", name), at(*second)));
        model.apply(&Event::HeartbeatsSeen { at: seen.collect() }, at(now));
    }

    fn is_alive(model: &Model, name: &str, now: i64) -> bool {
        model.liveness(&NodeId::new("o", name), at(now)) == Liveness::Alive
    }

    #[test]
    fn clock_that_is_set_back_makes_no_node_silent_and_keeps_no_dead_one_alive() {
        let mut model = model(&["up", "dead"], at(3_600));
        let limit = i64::try_from(model.settings.node_down_after_secs).expect("small");
        hear(&mut model, &[("up", 3_605), ("dead", 3_600)], 3_606);
        // The exchange replaces what lies in its future with the next heartbeat.
        hear(&mut model, &[("up", 3_605), ("dead", 3_600)], 1);
        assert!(is_alive(&model, "up", 1) && is_alive(&model, "dead", 1));
        for second in (10..=limit + 10).step_by(5) {
            hear(&mut model, &[("up", second - 2), ("dead", 3_600)], second);
            assert!(is_alive(&model, "up", second));
        }
        assert!(matches!(model.liveness(&NodeId::new("o", "dead"), at(limit + 10)), Liveness::Down { .. }));
    }

    #[test]
    fn clock_that_is_set_back_revives_nobody_who_was_silent() {
        let mut model = model(&["up", "dead"], at(3_600));
        let limit = i64::try_from(model.settings.node_down_after_secs).expect("small");
        let mut last = 3_600;
        for second in (3_605..=3_610 + limit).step_by(5) {
            hear(&mut model, &[("up", second), ("dead", 3_600)], second);
            last = second;
        }
        assert!(matches!(model.liveness(&NodeId::new("o", "dead"), at(last)), Liveness::Down { .. }));
        hear(&mut model, &[("up", last), ("dead", 3_600)], 1);
        assert!(is_alive(&model, "up", 1));
        assert!(matches!(model.liveness(&NodeId::new("o", "dead"), at(1)), Liveness::Down { .. }));
    }

    #[test]
    fn heartbeat_that_lies_in_the_future_proves_no_life_when_the_agbot_starts() {
        let mut model = Model::new(PlannerSettings::default());
        for name in ["up", "dead"] {
            let facts =
                NodeFacts { last_heartbeat: Some(at(3_600)), ..NodeFacts::new(NodeId::new("o", name)) };
            model.apply(&Event::NodeChanged { node: Box::new(facts) }, at(0));
            assert!(matches!(model.liveness(&NodeId::new("o", name), at(0)), Liveness::Unheard { .. }));
        }
        let limit = i64::try_from(model.settings.node_down_after_secs).expect("small");
        for second in (5..=limit + 5).step_by(5) {
            hear(&mut model, &[("up", second - 2), ("dead", 3_600)], second);
            assert!(is_alive(&model, "up", second) && !is_alive(&model, "dead", second));
        }
        let dead = NodeId::new("o", "dead");
        assert!(matches!(model.liveness(&dead, at(limit + 5)), Liveness::Down { .. }));
    }

    #[test]
    fn clock_that_is_set_ahead_makes_no_node_silent() {
        let mut model = model(&["a"], at(0));
        hear(&mut model, &[("a", 0)], 1);
        hear(&mut model, &[("a", 0)], 7_200);
        assert!(!matches!(model.liveness(&NodeId::new("o", "a"), at(7_200)), Liveness::Down { .. }));
        hear(&mut model, &[("a", 7_203)], 7_204);
        assert!(is_alive(&model, "a", 7_204));
    }

    #[test]
    fn clock_of_the_exchange_does_not_matter() {
        for offset in [-3_600, 3_600] {
            let mut model = model(&["a", "dead"], at(offset));
            let limit = i64::try_from(model.settings.node_down_after_secs).expect("small");
            let last = 2 * limit;
            for second in (0..=last).step_by(5) {
                hear(&mut model, &[("a", second + offset), ("dead", offset)], second);
            }
            assert!(is_alive(&model, "a", last), "{offset}");
            assert!(!is_alive(&model, "dead", last), "{offset}");
        }
    }
}
