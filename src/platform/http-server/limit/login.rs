//! Limits on failed logins, by client prefix and by the name that was tried.

use std::hash::Hash;
use std::net::IpAddr;
use std::time::Instant;

use super::{Buckets, CAPACITY, Rate, nanoseconds_since, whole_seconds};

/// Rate of a bucket with one token, so that the same wrong secret counts as one guess for ten minutes.
const ONE_GUESS: Rate = Rate { per_second: 1.0 / 600.0, burst: 1 };

/// Counts failed logins.
#[derive(Debug)]
pub struct LoginLimits {
    begun: Instant,
    address: Rate,
    login: Rate,
    failed_addresses: Buckets,
    failed_logins: Buckets,
    guesses: Buckets,
}

impl LoginLimits {
    /// Admits failed logins from a client prefix at rate `address`, and different wrong secrets from one prefix for one name at rate
    /// `login`.
    #[must_use]
    pub fn new(address: Rate, login: Rate) -> Self {
        Self {
            begun: Instant::now(),
            address,
            login,
            failed_addresses: Buckets::new(CAPACITY),
            failed_logins: Buckets::new(CAPACITY),
            guesses: Buckets::new(CAPACITY),
        }
    }

    /// Checks that a login from a client prefix may be tried.
    ///
    /// # Errors
    /// Seconds to wait when too many failed.
    pub fn check(&self, prefix: IpAddr, name: &impl Hash) -> Result<(), u64> {
        let now = nanoseconds_since(self.begun);
        self.failed_addresses
            .peek(&prefix, self.address, now)
            .and_then(|()| self.failed_logins.peek(&(prefix, name), self.login, now))
            .map_err(whole_seconds)
    }

    /// Counts a failed login from a client prefix. The same `secret` within ten minutes does not count as another
    /// guess, because a client with an old secret repeats it forever. Only a hash of it is kept, under a random key.
    pub fn count(&self, prefix: IpAddr, name: &impl Hash, secret: &impl Hash) {
        let now = nanoseconds_since(self.begun);
        // An empty bucket stays empty; this login was admitted before.
        let _ = self.failed_addresses.take_token(&prefix, self.address, now);
        // If the table is full, the same guess counts each time.
        let guess = (prefix, name, secret);
        if self.guesses.peek(&guess, ONE_GUESS, now).is_ok() {
            let _ = self.guesses.take_token(&guess, ONE_GUESS, now);
            let _ = self.failed_logins.take_token(&(prefix, name), self.login, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: f64 = 1.0 / 3600.0;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn guesses_at_a_name_are_stopped_and_repetitions_are_none() {
        let limits = LoginLimits::new(Rate::UNLIMITED, Rate { per_second: NEVER, burst: 2 });
        let here = address("192.0.2.1");
        for _ in 0..10 {
            limits.count(here, &"o/u", &"old");
        }
        assert_eq!(limits.check(here, &"o/u"), Ok(()));
        limits.count(here, &"o/u", &"second");
        assert!(limits.check(here, &"o/u").is_err());
        assert_eq!(limits.check(here, &"o/v"), Ok(()), "another name");
        assert_eq!(limits.check(address("192.0.2.2"), &"o/u"), Ok(()), "another prefix");
    }

    #[test]
    fn all_failures_of_a_prefix_count_together() {
        let limits = LoginLimits::new(Rate { per_second: NEVER, burst: 3 }, Rate::UNLIMITED);
        let here = address("192.0.2.1");
        for name in ["a", "b", "c"] {
            assert_eq!(limits.check(here, &name), Ok(()));
            limits.count(here, &name, &"same");
        }
        assert!(limits.check(here, &"d").is_err());
    }
}
