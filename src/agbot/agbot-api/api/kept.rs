//! Responses about very large fleets, kept for a moment: what many readers with the same rights ask for at once is computed once.
//!
//! Only callers who may read every node of an organization share responses: nothing in them depends on who they are. And only those who say
//! that a response of a moment ago will do (`Cache-Control: max-age`): a caller that has just changed something sees the change. A response
//! that is computed in no time is never kept, so that small hubs show every change at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_wire::agbot::common::CommonCauses;
use evenkeel_wire::agbot::fleet::{FleetNodes, FleetOverview, FleetPolicies};
use evenkeel_wire::agbot::orchestration::WorkloadStatus;
use evenkeel_wire::agbot::rollout_detail::RolloutDetail;

use http::{HeaderMap, header};

use crate::shown::SeenNodes;

/// Duration of a computation from which its result is kept.
const COSTLY: Duration = Duration::from_millis(2);
/// A result is kept for this many times the duration of its computation: a twentieth of a processor is spent on it at most.
const FACTOR: u32 = 20;
const LONGEST: Duration = Duration::from_secs(5);
/// Results that are kept at a time.
const MOST: usize = 64;

/// The kept responses of an agbot.
#[derive(Default)]
pub(super) struct KeptResponses {
    pub(super) overview: Kept<FleetOverview>,
    pub(super) nodes: Kept<FleetNodes>,
    pub(super) policies: Kept<FleetPolicies>,
    pub(super) common: Kept<CommonCauses>,
    pub(super) rollout: Kept<RolloutDetail>,
    /// With whether the workload unit that was asked for is unknown.
    pub(super) status: Kept<(WorkloadStatus, bool)>,
}

/// Returns whether a caller takes responses that are as old as the oldest that is kept.
pub(super) fn are_accepted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let ages = values.flat_map(|value| value.split(',')).filter_map(|directive| {
        let (name, secs) = directive.trim().split_once('=')?;
        name.eq_ignore_ascii_case("max-age").then(|| secs.parse::<u64>().ok())?
    });
    ages.min().is_some_and(|secs| secs >= LONGEST.as_secs())
}

/// Responses of one operation, by what was asked.
pub(super) struct Kept<T>(Mutex<BTreeMap<String, Entry<T>>>);

struct Entry<T> {
    response: T,
    until: Instant,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<T: Clone> Kept<T> {
    /// Returns the response to a question, which a caller who sees these nodes may have; `make` computes it.
    ///
    /// # Errors
    /// Those of `make`; they are not kept.
    pub(super) fn get<E>(
        &self,
        seen: &SeenNodes,
        question: String,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if !seen.is_all() {
            return make();
        }
        if let Some(found) = self.find(&question) {
            return Ok(found);
        }
        let begun = Instant::now();
        let response = make()?;
        let duration = begun.elapsed();
        if duration >= COSTLY {
            self.keep(question, response.clone(), (duration * FACTOR).min(LONGEST));
        }
        Ok(response)
    }

    fn find(&self, question: &str) -> Option<T> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(question).filter(|entry| entry.until > Instant::now()).map(|entry| entry.response.clone())
    }

    fn keep(&self, question: String, response: T, time: Duration) {
        let now = Instant::now();
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| entry.until > now);
        if entries.len() < MOST {
            entries.insert(question, Entry { response, until: now + time });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use super::*;

    /// Asks three times; returns how often the response was computed.
    fn computed(kept: &Kept<u8>, seen: &SeenNodes, question: &str, duration: Duration) -> u8 {
        let count = Cell::new(0);
        let make = || {
            std::thread::sleep(duration);
            count.set(count.get() + 1);
            Ok::<_, Infallible>(1)
        };
        for _ in 0..3 {
            assert_eq!(kept.get(seen, question.to_owned(), make), Ok(1));
        }
        count.get()
    }

    #[test]
    fn costly_response_is_computed_once_for_those_who_see_everything() {
        let kept = Kept::default();
        let costly = 20 * COSTLY;
        assert_eq!(computed(&kept, &SeenNodes::All, "a", costly), 1);
        assert_eq!(computed(&kept, &SeenNodes::All, "b", costly), 1, "another question");
        assert_eq!(computed(&kept, &SeenNodes::All, "c", Duration::ZERO), 3);
        // The response to an administrator is none for a user who sees less.
        assert_eq!(computed(&kept, &SeenNodes::Only(BTreeSet::new()), "a", costly), 3);
    }

    #[test]
    fn caller_says_that_a_response_of_a_moment_ago_will_do() {
        let are_accepted = |value: &str| {
            let value = http::HeaderValue::from_str(value).expect("a header");
            are_accepted(&HeaderMap::from_iter([(header::CACHE_CONTROL, value)]))
        };
        assert!(are_accepted("max-age=5") && are_accepted("no-transform, Max-Age=60"));
        assert!(!are_accepted("max-age=0") && !are_accepted("max-age=4") && !are_accepted("no-cache"));
        assert!(!are_accepted("max-age=60, max-age=0") && !are_accepted("max-age=x"));
        assert!(!super::are_accepted(&HeaderMap::new()));
    }

    #[test]
    fn failures_are_not_kept_and_results_end() {
        let kept: Kept<u8> = Kept::default();
        let failed = kept.get(&SeenNodes::All, "a".to_owned(), || {
            std::thread::sleep(2 * COSTLY);
            Err("failed")
        });
        assert_eq!(failed, Err("failed"));
        assert_eq!(kept.find("a"), None);
        kept.keep("a".to_owned(), 1, Duration::from_millis(20));
        assert_eq!(kept.find("a"), Some(1));
        std::thread::sleep(Duration::from_millis(25));
        assert_eq!(kept.find("a"), None);
        kept.keep("b".to_owned(), 1, LONGEST);
        assert_eq!(kept.0.lock().map(|entries| entries.len()).ok(), Some(1), "what has ended is removed");
    }
}
