//! Version choice by rank, and the count of attempts behind it.
//!
//! Source: agreement-protocol 3.9; agbot 1.6.

use super::internal::{Workload, WorkloadPriority};

/// The error that there is no version to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the policy names no version of a service")]
pub struct NoWorkloads;

/// The attempts with the version that was chosen last.
///
/// # Units
/// `first_try_at`: seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tries {
    /// The rank of that version; 0 before the first choice.
    pub priority: i64,
    /// Number of attempts, including the next one.
    pub count: i64,
    /// Start of the window.
    pub first_try_at: u64,
}

/// Chooses the version to try: the current one while it has attempts left or its window is over, else the next lower rank,
/// else the current or last one again.
///
/// # Shape
/// Ranks may be unsorted and have gaps. Before the first choice pass [`Tries::default`]: it yields the highest rank.
/// # Units
/// `now`: seconds since 1970; a `now` before the window's begin counts as long after it, as in the reference.
/// # Errors
/// [`NoWorkloads`] when the list is empty.
pub fn choose_workload(workloads: &[Workload], tries: Tries, now: u64) -> Result<&Workload, NoWorkloads> {
    let first = workloads.first().ok_or(NoWorkloads)?;
    if workloads.len() == 1 {
        return Ok(first);
    }
    let elapsed = now.wrapping_sub(tries.first_try_at);
    let mut exhausted = first;
    let mut next: Option<(i64, &Workload)> = None;
    for workload in workloads {
        let priority = workload.priority;
        if priority.value == tries.priority {
            if priority.retries > tries.count || elapsed > priority.retry_secs.cast_unsigned() {
                return Ok(workload);
            }
            exhausted = workload;
        }
        let distance = priority.value.wrapping_sub(tries.priority);
        if priority.value > tries.priority && next.is_none_or(|(nearest, _)| distance < nearest) {
            next = Some((distance, workload));
        }
    }
    Ok(next.map_or(exhausted, |(_, workload)| workload))
}

/// Returns the version with the best rank above the current one.
///
/// # Shape
/// A rank of -1 means "no limit". `None` when nothing is better.
pub fn best_above(workloads: &[Workload], current_priority: i64) -> Option<&Workload> {
    let mut best: Option<&Workload> = None;
    for workload in workloads {
        let value = workload.priority.value;
        let is_better = best.is_none_or(|best| best.priority.value == -1 || value < best.priority.value);
        if (current_priority == -1 || value < current_priority) && is_better {
            best = Some(workload);
        }
    }
    // A rank of -1 means "nothing yet" in this function, in the reference as here.
    best.filter(|workload| workload.priority.value != -1)
}

/// Returns the first version with exactly that rank.
pub fn with_priority(workloads: &[Workload], priority: i64) -> Option<&Workload> {
    workloads.iter().find(|workload| workload.priority.value == priority)
}

/// The record of attempts of one node with one policy; it survives the agreements.
///
/// # Units
/// Instants: seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryRecord {
    /// The rank of the version in use; 0 when the policy has no ranks.
    pub priority: i64,
    /// Attempts counted in the current window, without the first one.
    pub retry_count: i64,
    /// The length of the window, seconds.
    pub retry_secs: i64,
    /// Start of the window.
    pub first_try_at: u64,
    /// The last attempt; 0 before the second one.
    pub latest_retry_at: u64,
}

impl RetryRecord {
    /// Creates the record when a node has agreed to a version for the first time.
    pub fn begin(priority: WorkloadPriority, now: u64) -> Self {
        Self {
            priority: priority.value,
            retry_count: 0,
            retry_secs: priority.retry_secs,
            first_try_at: now,
            latest_retry_at: 0,
        }
    }

    /// Records that the node has agreed again: another rank starts over, the same rank counts one more attempt or, when its window
    /// is over, starts a window with one attempt used.
    #[must_use]
    pub fn note_agreement(self, priority: WorkloadPriority, now: u64) -> Self {
        if priority.value != self.priority {
            return Self { latest_retry_at: self.latest_retry_at, ..Self::begin(priority, now) };
        }
        let window_end = self.first_try_at.wrapping_add(self.retry_secs.cast_unsigned());
        if window_end < now {
            return Self { retry_count: 1, first_try_at: now, latest_retry_at: now, ..self };
        }
        Self { retry_count: self.retry_count.saturating_add(1), latest_retry_at: now, ..self }
    }

    /// Returns the input of [`choose_workload`] for the next proposal.
    pub fn next_tries(&self) -> Tries {
        let count = self.retry_count.saturating_add(1);
        Tries { priority: self.priority, count, first_try_at: self.first_try_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(value: i64, retries: i64, retry_secs: i64) -> Workload {
        let priority = WorkloadPriority { value, retries, retry_secs, verified_secs: 0 };
        Workload { priority, ..Workload::default() }
    }

    fn chosen(workloads: &[Workload], tries: Tries, now: u64) -> i64 {
        choose_workload(workloads, tries, now).unwrap().priority.value
    }

    #[test]
    fn failing_version_is_followed_by_the_next_rank_and_the_last_one_stays() {
        let workloads = [workload(30, 1, 60), workload(10, 2, 60)];
        let mut record = RetryRecord::begin(workloads[1].priority, 100);
        let mut seen = vec![chosen(&workloads, Tries::default(), 100)];
        for now in [101, 102, 103, 104] {
            let next = choose_workload(&workloads, record.next_tries(), now).unwrap();
            seen.push(next.priority.value);
            record = record.note_agreement(next.priority, now);
        }
        assert_eq!(seen, [10, 10, 30, 30, 30]);
    }

    #[test]
    fn window_that_is_over_gives_the_version_new_tries() {
        let workloads = [workload(1, 1, 60), workload(2, 1, 60)];
        let tries = Tries { priority: 1, count: 9, first_try_at: 100 };
        assert_eq!(chosen(&workloads, tries, 160), 2);
        assert_eq!(chosen(&workloads, tries, 161), 1);
        assert_eq!(chosen(&workloads, tries, 99), 1);
    }

    #[test]
    fn empty_list_is_refused_and_extreme_ranks_do_no_harm() {
        assert_eq!(choose_workload(&[], Tries::default(), 0), Err(NoWorkloads));
        let workloads = [workload(i64::MIN, 1, -1), workload(i64::MAX, i64::MAX, i64::MIN)];
        let tries = Tries { priority: i64::MIN, count: i64::MAX, first_try_at: u64::MAX };
        assert_eq!(chosen(&workloads, tries, 0), i64::MAX);
    }

    #[test]
    fn better_rank_is_found_only_above_the_present_one() {
        let workloads = [workload(20, 1, 1), workload(10, 1, 1)];
        assert_eq!(best_above(&workloads, -1).map(|workload| workload.priority.value), Some(10));
        assert_eq!(best_above(&workloads, 10), None);
        assert_eq!(with_priority(&workloads, 20), Some(&workloads[0]));
    }
}
