//! Nodes that an agbot is talking to.
//!
//! An agent that does not park its polls receives every message of a negotiation at its next poll. While an agbot talks to a node that has no
//! shortest heartbeat interval of its own or of its organization, the exchange names one in the node's own record. Agents read their record
//! when it changes, which every negotiation does, and return to the longest interval of their configuration afterwards.
//!
//! When such a node reports its status, the agbot's next message usually goes to another member of its HA group. For a short while the
//! exchange parks the polls of the other members although they did not ask for it. Nothing is parked during a node's own negotiation:
//! agents send everything over one connection, and a parked poll would delay their reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_ids::NodeId;
use evenkeel_wire::exchange::node::HeartbeatIntervals;
use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};

/// The shortest interval that is named.
const SHORTEST_INTERVAL_SECS: i64 = 1;
/// Time for which a conversation lasts after a message to the node.
const LASTING: SignedDuration = SignedDuration::from_secs(60);
/// Limit of simultaneous conversations with short intervals; beyond it, nodes keep their own, so that a change of a whole fleet does not
/// become a burst of polls.
const CAPACITY: usize = 1_000;

/// Time after the status report of a member for which the polls of the others are parked: longer than a new
/// version is monitored by default, and far below the timeouts of clients.
const EXPECTED_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// Time after a message for which a node is busy with it.
const BUSY: SignedDuration = SignedDuration::from_secs(10);

type Times = HashMap<NodeId, Timestamp>;

/// Nodes that an agbot sent a message to, and nodes that it will probably send one to.
#[derive(Default)]
pub(crate) struct Conversations {
    last_message_at: Mutex<Times>,
    /// Until when a message is expected.
    expected_until: Mutex<Times>,
    /// True if messages may be expected; while it is false, other polls take no lock.
    is_expecting: AtomicBool,
}

impl Conversations {
    /// Notes that a message was sent to a node.
    pub(crate) fn note_message(&self, org: &str, node: &str, now: Timestamp) {
        let key = NodeId::new(org, node);
        lock(&self.expected_until).remove(&key);
        let mut last_message_at = lock(&self.last_message_at);
        if last_message_at.len() >= CAPACITY && !last_message_at.contains_key(&key) {
            last_message_at.retain(|_, at| is_recent(*at, now));
            if last_message_at.len() >= CAPACITY {
                return;
            }
        }
        last_message_at.insert(key, now);
    }

    /// Returns whether an agbot sent a message to a node a short while ago.
    pub(crate) fn is_active(&self, org: &str, node: &str, now: Timestamp) -> bool {
        let key = NodeId::new(org, node);
        lock(&self.last_message_at).get(&key).is_some_and(|at| is_recent(*at, now))
    }

    /// Expects messages to those of the nodes soon that are not busy with one.
    pub(crate) fn expect(&self, org: &str, nodes: Vec<String>, now: Timestamp) {
        let Ok(until) = now.checked_add(EXPECTED_WITHIN) else { return };
        let mut nodes: Vec<NodeId> = nodes.iter().map(|node| NodeId::new(org, node)).collect();
        {
            let last_message_at = lock(&self.last_message_at);
            let is_busy = |at: &Timestamp| now.duration_since(*at) < BUSY;
            nodes.retain(|node| !last_message_at.get(node).is_some_and(is_busy));
        }
        let mut expected_until = lock(&self.expected_until);
        expected_until.retain(|_, until| *until > now);
        let room = CAPACITY.saturating_sub(expected_until.len());
        expected_until.extend(nodes.into_iter().take(room).map(|node| (node, until)));
        self.is_expecting.store(!expected_until.is_empty(), Ordering::Relaxed);
    }

    /// Returns how long a poll of a node waits for a message that is expected; zero when there is none.
    pub(crate) fn expected_wait(&self, org: &str, node: &str, now: impl FnOnce() -> Timestamp) -> Duration {
        if !self.is_expecting.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let now = now();
        let mut expected_until = lock(&self.expected_until);
        expected_until.retain(|_, until| *until > now);
        self.is_expecting.store(!expected_until.is_empty(), Ordering::Relaxed);
        let until = expected_until.get(&NodeId::new(org, node));
        until.and_then(|until| Duration::try_from(until.duration_since(now)).ok()).unwrap_or_default()
    }
}

fn lock(times: &Mutex<Times>) -> std::sync::MutexGuard<'_, Times> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < LASTING
}

/// Returns the intervals of a node during a conversation; `None` when those it has hold.
pub(crate) fn shortened(node: HeartbeatIntervals, org: HeartbeatIntervals) -> Option<HeartbeatIntervals> {
    let is_set = node.min_interval != 0 || org.min_interval != 0;
    (!is_set).then_some(HeartbeatIntervals { min_interval: SHORTEST_INTERVAL_SECS, ..node })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("valid")
    }

    #[test]
    fn conversation_ends_a_minute_after_the_last_message() {
        let conversations = Conversations::default();
        assert!(!conversations.is_active("o", "n", at(0)));
        conversations.note_message("o", "n", at(0));
        conversations.note_message("o", "n", at(30));
        assert!(conversations.is_active("o", "n", at(89)) && !conversations.is_active("o", "n", at(90)));
        assert!(!conversations.is_active("o", "other", at(30)));
    }

    #[test]
    fn nodes_beyond_the_capacity_keep_their_intervals() {
        let conversations = Conversations::default();
        (0..=CAPACITY).for_each(|number| conversations.note_message("o", &number.to_string(), at(0)));
        assert!(conversations.is_active("o", "0", at(1)));
        assert!(!conversations.is_active("o", &CAPACITY.to_string(), at(1)));
        conversations.note_message("o", "late", at(60));
        assert!(conversations.is_active("o", "late", at(61)), "older conversations made room");
    }

    #[test]
    fn poll_waits_until_the_expected_message_or_the_end_of_the_expectation() {
        let conversations = Conversations::default();
        let wait = |node: &str, second| conversations.expected_wait("o", node, || at(second)).as_secs();
        assert_eq!(wait("a", 0), 0);
        conversations.expect("o", vec!["a".to_owned(), "b".to_owned()], at(0));
        assert_eq!((wait("a", 0), wait("b", 3), wait("c", 0)), (10, 7, 0));
        conversations.note_message("o", "a", at(4));
        assert_eq!((wait("a", 4), wait("b", 4), wait("b", 10)), (0, 6, 0), "its own negotiation has begun");
        conversations.expect("o", vec!["a".to_owned(), "b".to_owned()], at(5));
        assert_eq!((wait("a", 5), wait("b", 5)), (0, 10), "it is busy");
    }

    #[test]
    fn intervals_of_the_node_or_its_organization_hold() {
        let none = HeartbeatIntervals::default();
        let ten = HeartbeatIntervals { min_interval: 10, ..none };
        let longest = HeartbeatIntervals { max_interval: 60, ..none };
        assert_eq!(shortened(ten, none), None);
        assert_eq!(shortened(none, ten), None);
        assert_eq!(shortened(longest, none), Some(HeartbeatIntervals { min_interval: 1, ..longest }));
    }
}
