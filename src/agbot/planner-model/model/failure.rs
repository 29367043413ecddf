//! Failures of instances, as reported by their nodes.

use std::collections::BTreeSet;

use evenkeel_ids::{AgreementId, NodeId, PolicyId, ServiceKey};
use evenkeel_planner_record::{agreement::Agreement, facts::ObservedFailure, report::Blocked};
use jiff::Timestamp;

use super::{Liveness, Model};

/// Exits that make a crash loop.
const LOOP_EXITS: usize = 3;
/// Shortest window in which these exits count: restarts are delayed more and more, so that the monitoring time alone may
/// be too short for a third one.
const SHORTEST_WINDOW_SECS: u64 = 60;

impl Model {
    /// Returns why the instance of an agreement does not run; none when its node reports no reason.
    pub fn why_not_running(&self, agreement: &Agreement, now: Timestamp) -> Option<String> {
        if self.is_stopped(&agreement.node) {
            return Some("the agent of the node was stopped, and its services with it".to_owned());
        }
        if let Liveness::Down { since } = self.liveness(&agreement.node, now) {
            return Some(Blocked::NodeDown { since }.to_string());
        }
        let own = self.failures(&agreement.node).filter(|one| one.agreement.as_ref() == Some(&agreement.id));
        let own: Vec<&str> = own.map(|one| one.text.as_str()).collect();
        if !own.is_empty() {
            return Some(own.join("; "));
        }
        // A required service may be what is missing.
        let needed = self.failures(&agreement.node).filter(|one| one.agreement.is_none());
        let needed: Vec<String> =
            needed.map(|one| format!("{} {}: {}", one.service, one.version, one.text)).collect();
        (!needed.is_empty()).then(|| needed.join("; "))
    }

    /// Returns how a version of a service failed last on a node, even if its agreement has ended.
    pub fn failure_text(&self, node: &NodeId, service: &ServiceKey, version: &str) -> Option<String> {
        let is_meant = |one: &&ObservedFailure| one.service == *service && one.version == version;
        self.failures(node).filter(is_meant).last().map(|one| one.text.clone())
    }

    /// Returns whether the node of an agreement reports that its instance exited.
    pub(crate) fn has_exited(&self, agreement: &Agreement) -> bool {
        let own = self.failures(&agreement.node).filter(|one| one.agreement.as_ref() == Some(&agreement.id));
        own.into_iter().any(|one| !one.recent_exits.is_empty())
    }

    /// Returns whether the instance of an agreement keeps exiting: three times within `window_secs` by the clock of its node, or
    /// within a minute when that is longer.
    pub fn is_crash_looping(&self, agreement: &Agreement, window_secs: u64) -> bool {
        let window = i64::try_from(window_secs.max(SHORTEST_WINDOW_SECS)).unwrap_or(i64::MAX);
        self.failures(&agreement.node)
            .filter(|one| one.agreement.as_ref() == Some(&agreement.id))
            .filter_map(|one| one.recent_exits.last_chunk::<LOOP_EXITS>())
            .any(|[first, .., last]| last.saturating_sub(*first) <= window)
    }

    /// Returns how the instance of an agreement keeps exiting; none when it does not, or has recovered.
    ///
    /// # Shape
    /// Nodes report exits until the service has run for a while without another one, so that the times between them do not matter.
    /// # Source
    /// Orchestration A9.3.
    pub fn repeated_exit(&self, agreement: &Agreement) -> Option<&str> {
        let own = self.failures(&agreement.node).filter(|one| one.agreement.as_ref() == Some(&agreement.id));
        own.filter(|one| one.recent_exits.len() >= LOOP_EXITS).last().map(|one| one.text.as_str())
    }

    /// Returns the policy of each agreement without a task whose instance keeps exiting.
    pub fn crash_looping_policies(&self, now: Timestamp) -> impl Iterator<Item = PolicyId> {
        let failing = self.nodes.values().filter_map(|record| record.status.as_ref());
        let ids = failing.flat_map(|status| &status.failures).filter_map(|one| one.agreement.as_ref());
        let ids: BTreeSet<&AgreementId> = ids.collect();
        let agreements = ids.into_iter().filter_map(|id| self.agreement(id)).filter(|one| one.is_live());
        let is_exiting = move |one: &&Agreement| {
            self.liveness(&one.node, now) == Liveness::Alive && self.repeated_exit(one).is_some()
        };
        let without_task = agreements.filter(|one| self.workload(&one.policy).is_none());
        without_task.filter(is_exiting).map(|one| one.policy.clone())
    }

    fn failures(&self, node: &NodeId) -> impl Iterator<Item = &ObservedFailure> {
        self.nodes
            .get(node)
            .and_then(|record| record.status.as_ref())
            .into_iter()
            .flat_map(|one| &one.failures)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_planner_record::facts::NodeStatusFacts;

    use super::*;
    use crate::{event::Event, group_fixture::running_group, model::Observed};

    fn failure(agreement: &Agreement, recent_exits: &[i64]) -> ObservedFailure {
        ObservedFailure {
            agreement: Some(agreement.id.clone()),
            service: ServiceKey::new("o", "s"),
            version: agreement.version.clone(),
            recent_exits: recent_exits.to_vec(),
            text: "exit code 1".to_owned(),
        }
    }

    #[test]
    fn three_exits_within_the_window_are_a_crash_loop() {
        let (mut model, now) = running_group(&["a", "b"]);
        let agreement = model.agreements().next().unwrap().clone();
        for (exits, window, expected) in [
            (&[100, 101][..], 300, false),
            (&[100, 101, 103], 5, true),
            (&[100, 130, 160], 5, true),
            (&[100, 130, 161], 5, false),
            (&[100, 130, 161], 300, true),
        ] {
            let failures = vec![failure(&agreement, exits)];
            let status = NodeStatusFacts { failures, reported_at: Some(now), ..NodeStatusFacts::default() };
            let status = Some(Box::new(status));
            model.apply(&Event::NodeStatusChanged { node: agreement.node.clone(), status }, now);
            assert_eq!(model.is_crash_looping(&agreement, window), expected, "{exits:?} in {window} s");
        }
        assert_eq!(model.why_not_running(&agreement, now).as_deref(), Some("exit code 1"));
        let key = ServiceKey::new("o", "s");
        assert!(model.failure_text(&agreement.node, &key, &agreement.version).is_some());
        assert_eq!(model.failure_text(&agreement.node, &key, "0.0.0"), None);
    }

    /// Status that an agbot read before it took a partition over does not cover the time when it did not read.
    #[test]
    fn agbot_that_takes_over_reads_again_what_does_not_run() {
        let (mut model, now) = running_group(&["a", "b"]);
        let agreement = model.agreements().next().unwrap().clone();
        let (node, after) =
            (agreement.node.clone(), |secs: u64| evenkeel_planner_record::time::later(now, secs));
        let status = NodeStatusFacts { reported_at: Some(after(1)), ..NodeStatusFacts::default() };
        let read = Event::NodeStatusChanged { node: node.clone(), status: Some(Box::new(status.clone())) };
        let broken_after = model.settings.update.broken_after_secs;
        let observe = |model: &mut Model, secs: u64| {
            model.apply(&Event::HeartbeatsSeen { at: [(node.clone(), after(secs))].into() }, after(secs));
            (model.observed(&agreement, after(secs)), model.is_broken(&agreement, after(secs)))
        };
        model.apply(&read, after(1));
        assert_eq!(observe(&mut model, 1 + broken_after), (Observed::Absent, true));
        let leases = [(model.partition_of(&node), 1)].into();
        model.apply(&Event::PartitionsChanged { leases }, after(1 + broken_after));
        assert_eq!(
            observe(&mut model, 1 + broken_after),
            (Observed::Unknown, false),
            "another one may have seen it run"
        );
        assert!(
            model.nodes[&node].is_news(Some(&status))
                && model.awaited_nodes(after(1 + broken_after)).contains(&node)
        );
        model.apply(&read, after(2 + broken_after));
        assert!(!model.nodes[&node].is_news(Some(&status)));
        assert_eq!(observe(&mut model, 1 + 2 * broken_after), (Observed::Absent, false));
        assert_eq!(observe(&mut model, 2 + 2 * broken_after), (Observed::Absent, true));
    }

    #[test]
    fn nothing_runs_on_a_node_whose_agent_was_stopped() {
        let (mut model, now) = running_group(&["a", "b"]);
        let agreement = model.agreements().next().unwrap().clone();
        let facts = model.nodes[&agreement.node].facts.clone();
        let node = Box::new(evenkeel_planner_record::facts::NodeFacts { is_stopped: true, ..facts });
        model.apply(&Event::NodeChanged { node }, now);
        assert_eq!(model.observed(&agreement, now), Observed::Absent);
        assert!(matches!(model.liveness(&agreement.node, now), Liveness::Down { .. }));
        assert!(model.why_not_running(&agreement, now).is_some_and(|why| why.contains("stopped")));
    }
}
