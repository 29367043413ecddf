//! Logins that were withdrawn or changed lately, so that what a request was allowed before is not carried out after.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use evenkeel_access::Caller;

/// Number of withdrawals that are kept. A request that has missed more counts as concerned.
const KEPT: usize = 1_024;

/// The latest withdrawals, in the order in which this exchange learned of them.
///
/// Each is recorded before the login is removed from the caches and once more after that. So a login that was read or found in a cache before
/// the removal has a position before its last record.
#[derive(Default)]
pub(crate) struct Withdrawals {
    count: AtomicU64,
    latest: Mutex<VecDeque<Withdrawn>>,
}

/// An organization and the id of its login, `*` for all.
struct Withdrawn {
    org: String,
    id: String,
}

impl Withdrawn {
    fn concerns(&self, caller: &Caller) -> bool {
        self.org == "*" || (self.org == caller.org && (self.id == "*" || self.id == caller.id))
    }
}

impl Withdrawals {
    /// Records a login; `id` `*` stands for all of the organization, and `org` `*` for all logins.
    pub(crate) fn record(&self, org: &str, id: &str) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.len() == KEPT {
            latest.pop_front();
        }
        latest.push_back(Withdrawn { org: org.to_owned(), id: id.to_owned() });
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of withdrawals until now, to be read before a login is identified.
    pub(super) fn position(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Returns whether the login of a caller was withdrawn after a position.
    pub(super) fn concern(&self, caller: &Caller, since: u64) -> bool {
        if self.position() == since {
            return false;
        }
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let missed = usize::try_from(self.position().saturating_sub(since)).unwrap_or(usize::MAX);
        missed > latest.len() || latest.iter().rev().take(missed).any(|withdrawn| withdrawn.concerns(caller))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_access::Role;

    use super::*;

    fn caller(org: &str, id: &str) -> Caller {
        Caller::new(Role::User, org, id)
    }

    #[test]
    fn withdrawal_concerns_its_login_and_later_requests_of_it_no_more() {
        let withdrawals = Withdrawals::default();
        let before = withdrawals.position();
        withdrawals.record("o", "a");
        assert!(withdrawals.concern(&caller("o", "a"), before));
        assert!(!withdrawals.concern(&caller("o", "b"), before));
        assert!(!withdrawals.concern(&caller("p", "a"), before));
        assert!(!withdrawals.concern(&caller("o", "a"), withdrawals.position()));
    }

    #[test]
    fn withdrawal_of_an_organization_or_of_all_concerns_each_login_in_it() {
        let withdrawals = Withdrawals::default();
        withdrawals.record("o", "*");
        assert!(withdrawals.concern(&caller("o", "a"), 0));
        assert!(!withdrawals.concern(&caller("p", "a"), 0));
        let between = withdrawals.position();
        withdrawals.record("*", "*");
        assert!(withdrawals.concern(&caller("p", "a"), between));
    }

    #[test]
    fn request_that_missed_more_withdrawals_than_are_kept_counts_as_concerned() {
        let withdrawals = Withdrawals::default();
        for _ in 0..KEPT {
            withdrawals.record("o", "a");
        }
        assert!(!withdrawals.concern(&caller("p", "b"), 0));
        withdrawals.record("o", "a");
        assert!(withdrawals.concern(&caller("p", "b"), 0));
        assert!(!withdrawals.concern(&caller("p", "b"), 1));
        assert_eq!(withdrawals.latest.lock().expect("not poisoned").len(), KEPT);
    }
}
