//! Organizations that could not be read: what is known of them stays in force, and they are read again after a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_client::ClientError;

/// Time until an organization is read again, after the first failure; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_secs(5);
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// The organizations whose newest state is not known.
#[derive(Debug, Default)]
pub struct UnreadOrgs(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    unread: BTreeMap<String, Failure>,
    /// Organizations that were read completely at least once.
    read: BTreeSet<String>,
}

#[derive(Debug)]
struct Failure {
    reason: String,
    attempts: u32,
    retry_at: Instant,
}

impl UnreadOrgs {
    /// Records that an organization was read completely.
    pub(crate) fn note_read(&self, org: &str) {
        let mut known = self.lock();
        known.read.insert(org.to_owned());
        if known.unread.remove(org).is_some() {
            tracing::info!(org, "organization `{org}` is read again");
        }
    }

    /// Records that an organization, or one of its objects, could not be read.
    pub(crate) fn note_failed(&self, org: &str, error: &ClientError, now: Instant) {
        let reason = error.to_string();
        let mut known = self.lock();
        let before = known.unread.get(org);
        if before.is_none_or(|before| before.reason != reason) {
            tracing::warn!(
                org,
                "organization `{org}` cannot be read, its last known state stays in force: {reason}"
            );
        }
        // What fails while a retry is waited for does not delay the retry.
        let waiting = before.filter(|before| before.retry_at > now);
        let failure = match waiting {
            Some(before) => Failure { reason, attempts: before.attempts, retry_at: before.retry_at },
            None => {
                let attempts = before.map_or(0, |before| before.attempts);
                let delay = FIRST_DELAY.saturating_mul(1 << attempts.min(16)).min(LONGEST_DELAY);
                Failure { reason, attempts: attempts + 1, retry_at: now + delay }
            }
        };
        known.unread.insert(org.to_owned(), failure);
    }

    /// Forgets the organizations that are no longer served.
    pub(crate) fn retain(&self, orgs: &BTreeSet<String>) {
        let mut known = self.lock();
        known.unread.retain(|org, _| orgs.contains(org));
        known.read.retain(|org| orgs.contains(org));
    }

    /// Returns the organizations that are to be read again now.
    pub(crate) fn due(&self, now: Instant) -> BTreeSet<String> {
        let known = self.lock();
        let due = known.unread.iter().filter(|(_, failure)| failure.retry_at <= now);
        due.map(|(org, _)| org.clone()).collect()
    }

    /// Returns whether the newest state of the organization is not known.
    pub(crate) fn contains(&self, org: &str) -> bool {
        self.lock().unread.contains_key(org)
    }

    /// Returns whether the organization was never read completely.
    pub(crate) fn is_unknown(&self, org: &str) -> bool {
        !self.lock().read.contains(org)
    }

    /// Returns the organizations whose newest state is not known.
    pub fn names(&self) -> Vec<String> {
        self.lock().unread.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> ClientError {
        ClientError::Decode("too large".to_owned())
    }

    #[test]
    fn organization_that_fails_again_is_read_less_often() {
        let (unread, now) = (UnreadOrgs::default(), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        unread.note_failed("a", &failure(), now);
        unread.note_failed("a", &failure(), after(4));
        assert!(unread.due(after(4)).is_empty());
        assert_eq!(
            unread.due(after(5)),
            BTreeSet::from(["a".to_owned()]),
            "the second failure delays nothing"
        );
        unread.note_failed("a", &failure(), after(5));
        assert!(unread.due(after(14)).is_empty() && !unread.due(after(15)).is_empty(), "10 s later");
        for _ in 0..40 {
            unread.note_failed("a", &failure(), after(10_000));
        }
        assert!(!unread.due(after(10_300)).is_empty());
    }

    #[test]
    fn organization_that_was_read_once_stays_known() {
        let (unread, now) = (UnreadOrgs::default(), Instant::now());
        unread.note_failed("a", &failure(), now);
        assert!(unread.is_unknown("a") && unread.contains("a"));
        unread.note_read("a");
        unread.note_failed("a", &failure(), now);
        assert!(!unread.is_unknown("a"));
        assert_eq!(unread.names(), ["a"]);
        unread.retain(&BTreeSet::new());
        assert!(unread.is_unknown("a") && unread.names().is_empty(), "it is no longer served");
    }
}
