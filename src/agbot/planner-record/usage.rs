//! Version choice after failures, and the back-off of the next attempt.
//!
//! Source: agreement-protocol 3.9 (priority choice); agbot 1.6 (bookkeeping). The back-off per (node, policy) is an addition:
//! the reference proposes again without limit (agbot 6.12).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agreement::CancelReason,
    facts::VersionChoice,
    settings::PlannerSettings,
    time::{later, secs_since},
};

/// The rollback state of one (node, policy).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadUsage {
    /// Priority in use.
    pub priority: u32,
    /// Attempts with that priority.
    pub retry_count: u32,
    /// Length of the window in which attempts are counted.
    pub retry_secs: u64,
    /// Begin of the window.
    pub first_try_at: Timestamp,
    /// Last attempt.
    pub latest_retry_at: Option<Timestamp>,
    /// True when the node does not meet this priority's requirements.
    pub has_unmet_requirements: bool,
    /// Number of the task spec whose versions were tried; 0 without tasks. Nothing of it counts for another one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spec: u64,
}

/// Serde calls it with a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The back-off of one (node, policy).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Consecutive failed attempts.
    pub failure_count: u32,
    /// When the last one failed.
    pub failed_at: Timestamp,
    /// Why.
    pub reason: CancelReason,
    /// Version that was tried.
    pub version: String,
    /// Earliest time of the next proposal.
    pub not_before: Timestamp,
}

impl Backoff {
    /// Creates the record after one more failure.
    ///
    /// The delay doubles from the base up to the maximum; another version, or a long time without failure, resets it.
    pub fn after(
        previous: Option<&Self>,
        version: &str,
        reason: CancelReason,
        now: Timestamp,
        settings: &PlannerSettings,
    ) -> Self {
        let is_recent = |earlier: &&Self| {
            earlier.version == version
                && secs_since(earlier.failed_at, now) <= settings.backoff_max_secs.saturating_mul(2)
        };
        let failure_count = previous.filter(is_recent).map_or(0, |earlier| earlier.failure_count) + 1;
        let pause = settings
            .backoff_base_secs
            .saturating_mul(1_u64 << (failure_count - 1).min(20))
            .min(settings.backoff_max_secs);
        Self {
            failure_count,
            failed_at: now,
            reason,
            version: version.to_owned(),
            not_before: later(now, pause),
        }
    }
}

/// Chooses the version to propose.
///
/// A single version is always chosen. Of several, the entry in use stays while it has attempts left or its window is over;
/// otherwise the next lower one follows, and when there is none the last one tried stays.
/// # Shape
/// None only for an empty list. Smaller `priority` is better.
/// # Source
/// Agreement-protocol 3.9.
pub fn choose_version<'a>(
    versions: &'a [VersionChoice],
    usage: Option<&WorkloadUsage>,
    now: Timestamp,
) -> Option<&'a VersionChoice> {
    if versions.len() == 1 {
        return versions.first();
    }
    let (current, tries, first) = usage.map_or((0, 0, Timestamp::UNIX_EPOCH), |usage| {
        (usage.priority, usage.retry_count + 1, usage.first_try_at)
    });
    let has_tries_left = |entry: &&VersionChoice| {
        entry.priority == current && (entry.retries > tries || secs_since(first, now) > entry.retry_secs)
    };
    let next_lower =
        || versions.iter().filter(|entry| entry.priority > current).min_by_key(|entry| entry.priority);
    let last_tried = || versions.iter().rfind(|entry| entry.priority == current);
    versions.iter().find(has_tries_left).or_else(next_lower).or_else(last_tried).or(versions.first())
}

/// Returns whether a version list has more attempts for a node: of the entry in use, or of a lower one.
pub fn has_attempts_left(versions: &[VersionChoice], usage: &WorkloadUsage) -> bool {
    let has_more = |entry: &VersionChoice| {
        entry.priority > usage.priority
            || entry.priority == usage.priority && entry.retries > usage.retry_count + 1
    };
    versions.iter().any(has_more)
}

/// Returns the best entry of a version list.
pub fn best_version(versions: &[VersionChoice]) -> Option<&VersionChoice> {
    versions.iter().min_by_key(|entry| entry.priority)
}

/// Creates the usage record after the node accepted a proposal.
///
/// # Source
/// Agbot 1.6 (on a positive reply).
pub fn usage_after_reply(
    previous: Option<&WorkloadUsage>,
    entry: &VersionChoice,
    spec: u64,
    now: Timestamp,
) -> Option<WorkloadUsage> {
    let fresh = WorkloadUsage {
        priority: entry.priority,
        retry_count: 0,
        retry_secs: entry.retry_secs,
        first_try_at: now,
        latest_retry_at: None,
        has_unmet_requirements: false,
        spec,
    };
    match previous {
        None if entry.priority == 0 => None,
        None => Some(fresh),
        Some(usage) if usage.priority != entry.priority => Some(fresh),
        Some(usage) if secs_since(usage.first_try_at, now) > usage.retry_secs => {
            Some(WorkloadUsage { retry_count: 1, latest_retry_at: Some(now), ..fresh })
        }
        Some(usage) => Some(WorkloadUsage {
            retry_count: usage.retry_count + 1,
            latest_retry_at: Some(now),
            has_unmet_requirements: false,
            ..usage.clone()
        }),
    }
}

/// Returns what remains of the usage record when an agreement ends.
///
/// # Source
/// Agbot 1.6 (on cancel).
pub fn usage_after_cancel(previous: Option<&WorkloadUsage>, reason: CancelReason) -> Option<WorkloadUsage> {
    previous
        .filter(|usage| !usage.has_unmet_requirements && usage.priority != 0 && !reason.forgets_usage())
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<VersionChoice> {
        [("2.0.0", 1, 2, 60), ("1.0.0", 2, 1, 60)]
            .map(|(version, priority, retries, retry_secs)| VersionChoice {
                version: version.into(),
                priority,
                retries,
                retry_secs,
                ..VersionChoice::default()
            })
            .into()
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + secs).unwrap()
    }

    #[test]
    fn first_choice_is_the_best_priority() {
        assert_eq!(choose_version(&list(), None, at(0)).unwrap().version, "2.0.0");
    }

    #[test]
    fn failures_move_to_the_next_priority_and_the_window_brings_the_best_back() {
        let versions = list();
        let usage = usage_after_reply(None, &versions[0], 0, at(0)).unwrap();
        assert_eq!(choose_version(&versions, Some(&usage), at(1)).unwrap().version, "2.0.0");
        let usage = usage_after_reply(Some(&usage), &versions[0], 0, at(2)).unwrap();
        assert_eq!((usage.retry_count, usage.priority), (1, 1));
        assert_eq!(choose_version(&versions, Some(&usage), at(3)).unwrap().version, "1.0.0");
        assert_eq!(choose_version(&versions, Some(&usage), at(100)).unwrap().version, "2.0.0");
    }

    #[test]
    fn usage_survives_a_failure_and_is_forgotten_by_a_policy_change() {
        let usage = usage_after_reply(None, &list()[0], 0, at(0));
        assert!(usage_after_cancel(usage.as_ref(), CancelReason(103)).is_some());
        assert!(usage_after_cancel(usage.as_ref(), CancelReason::POLICY_CHANGED).is_none());
        assert!(usage_after_cancel(usage.as_ref(), CancelReason::NODE_SHUT_DOWN).is_none());
    }

    #[test]
    fn backoff_doubles_to_its_maximum_and_starts_anew_with_another_version() {
        let settings = PlannerSettings::default();
        let mut backoff = None;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let next = Backoff::after(backoff.as_ref(), "1.0.0", CancelReason(103), at(0), &settings);
            pauses.push(secs_since(at(0), next.not_before));
            backoff = Some(next);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600]);
        let other = Backoff::after(backoff.as_ref(), "2.0.0", CancelReason(103), at(0), &settings);
        assert_eq!(other.failure_count, 1);
    }
}
