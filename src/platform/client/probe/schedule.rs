//! When which target is checked next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time at which the last check of each target ended; none while a check is in progress.
type InFlight<K> = Arc<Mutex<BTreeMap<K, Option<Instant>>>>;

/// The checks that are scheduled or in progress, at most one for each target. A new target is checked at once.
#[derive(Debug)]
pub struct ProbeSchedule<K> {
    due: BTreeMap<K, Instant>,
    in_flight: InFlight<K>,
}

impl<K> Default for ProbeSchedule<K> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), in_flight: InFlight::default() }
    }
}

impl<K: Ord + Clone> ProbeSchedule<K> {
    /// Starts the check of a target if it is due. The pause starts at the end of the last check, whose outcome
    /// determines its length.
    pub fn begin_due(&mut self, key: &K, now: Instant, pause: Duration) -> Option<ProbeGuard<K>> {
        let mut in_flight = lock(&self.in_flight);
        match in_flight.get(key) {
            Some(None) => return None,
            Some(Some(ended)) => {
                self.due.insert(key.clone(), *ended + pause);
                in_flight.remove(key);
            }
            None => {}
        }
        if self.due.get(key).is_some_and(|due| *due > now) {
            return None;
        }
        in_flight.insert(key.clone(), None);
        Some(ProbeGuard { in_flight: self.in_flight.clone(), key: key.clone() })
    }

    /// Forgets targets that are no longer checked.
    pub fn retain(&mut self, is_checked: impl Fn(&K) -> bool) {
        self.due.retain(|key, _| is_checked(key));
        lock(&self.in_flight).retain(|key, ended| ended.is_none() || is_checked(key));
    }
}

/// Ends a check when it is dropped; the pause before the next one starts.
#[derive(Debug)]
pub struct ProbeGuard<K: Ord> {
    in_flight: InFlight<K>,
    key: K,
}

impl<K: Ord> Drop for ProbeGuard<K> {
    fn drop(&mut self) {
        if let Some(ended) = lock(&self.in_flight).get_mut(&self.key) {
            *ended = Some(Instant::now());
        }
    }
}

/// The data of a poisoned lock is consistent: every change is a single insertion or removal.
fn lock<K>(in_flight: &Mutex<BTreeMap<K, Option<Instant>>>) -> MutexGuard<'_, BTreeMap<K, Option<Instant>>> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    #[test]
    fn next_check_follows_a_pause_after_the_end_of_the_last_one() {
        let mut schedule = ProbeSchedule::default();
        let began = Instant::now();
        let guard = schedule.begin_due(&"a", began, PAUSE).expect("a new target is due");
        assert!(schedule.begin_due(&"a", began + PAUSE * 2, PAUSE).is_none(), "one check at a time");
        assert!(schedule.begin_due(&"b", began, PAUSE).is_some(), "targets do not wait for each other");
        drop(guard);
        assert!(schedule.begin_due(&"a", began + PAUSE / 2, PAUSE).is_none(), "the pause began with the end");
        // The pause is that of the outcome, not of a later check.
        assert!(schedule.begin_due(&"a", Instant::now() + PAUSE, Duration::ZERO).is_some());
    }

    #[test]
    fn target_that_is_checked_again_is_due_at_once_but_never_twice_at_a_time() {
        let mut schedule = ProbeSchedule::default();
        let now = Instant::now();
        let guard = schedule.begin_due(&"a", now, PAUSE).expect("a new target is due");
        schedule.retain(|_| false);
        assert!(schedule.begin_due(&"a", now, PAUSE).is_none(), "its check is still being made");
        drop(guard);
        schedule.retain(|_| false);
        assert!(schedule.begin_due(&"a", now, PAUSE).is_some());
    }
}
