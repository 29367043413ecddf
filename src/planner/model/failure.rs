//! Why instances do not run, as far as their nodes report it.

use jiff::Timestamp;

use super::{Liveness, Model};
use crate::{
    agreement::Agreement,
    facts::ObservedFailure,
    ids::{NodeId, ServiceKey},
};

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
            return Some(format!("the node is down; last heard {since}"));
        }
        let own = self.failures(&agreement.node).filter(|one| one.agreement.as_ref() == Some(&agreement.id));
        let own: Vec<&str> = own.map(|one| one.text.as_str()).collect();
        if !own.is_empty() {
            return Some(own.join("; "));
        }
        // A service that it needs may be what is missing.
        let needed = self.failures(&agreement.node).filter(|one| one.agreement.is_none());
        let needed: Vec<String> =
            needed.map(|one| format!("{} {}: {}", one.service, one.version, one.text)).collect();
        (!needed.is_empty()).then(|| needed.join("; "))
    }

    /// Returns how a version of a service failed last on a node, also when its agreement is over.
    pub fn failure_text(&self, node: &NodeId, service: &ServiceKey, version: &str) -> Option<String> {
        let is_meant = |one: &&ObservedFailure| one.service == *service && one.version == version;
        self.failures(node).filter(is_meant).last().map(|one| one.text.clone())
    }

    /// Answers whether the instance of an agreement ends again and again: three times within `window_secs`, by the
    /// clock of its node, or within a minute when that is longer.
    pub fn is_crash_looping(&self, agreement: &Agreement, window_secs: u64) -> bool {
        let window = i64::try_from(window_secs.max(SHORTEST_WINDOW_SECS)).unwrap_or(i64::MAX);
        self.failures(&agreement.node)
            .filter(|one| one.agreement.as_ref() == Some(&agreement.id))
            .filter_map(|one| one.recent_exits.last_chunk::<LOOP_EXITS>())
            .any(|[first, .., last]| last.saturating_sub(*first) <= window)
    }

    fn failures(&self, node: &NodeId) -> impl Iterator<Item = &ObservedFailure> {
        self.nodes
            .get(node)
            .and_then(|record| record.status.as_ref())
            .into_iter()
            .flat_map(|one| &one.failures)
    }
}
