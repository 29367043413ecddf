//! Limits on failed logins at an agbot whose exchange is elsewhere.
//!
//! Inside `up` the exchange of the same process counts failed logins by the client's address. An agbot on its own may ask an exchange
//! that sees only the agbot's address, or that counts nothing, so it counts as well.

use std::net::IpAddr;
use std::time::Instant;

use evenkeel_http_server::limit::{
    Buckets, CAPACITY, FailedLogins, LoginFailure, LoginLimits, Rate, nanoseconds_since,
};

/// Time for which credentials that were good are tried although others from the same address fail, as the
/// rate of a bucket with one token: a day.
const PROVEN: Rate = Rate { per_second: 1.0 / 86_400.0, burst: 1 };

/// Counts and limits failed logins.
#[derive(Debug)]
pub struct LoginGuard {
    begun: Instant,
    limits: LoginLimits,
    failed: FailedLogins,
    /// Recently accepted credentials, as hashes under a random key.
    proven: Buckets,
}

impl LoginGuard {
    /// Limits failed logins; `failed` counts and logs them.
    #[must_use]
    pub fn new(limits: LoginLimits, failed: FailedLogins) -> Self {
        Self { begun: Instant::now(), limits, failed, proven: Buckets::new(CAPACITY) }
    }

    /// Returns the counts of failed logins.
    #[must_use]
    pub fn failed(&self) -> &FailedLogins {
        &self.failed
    }

    /// Checks that credentials from a client prefix may be tried.
    ///
    /// # Errors
    /// The seconds to wait, when too many failed from there.
    pub(crate) fn check(&self, prefix: IpAddr, name: &str, credentials: &[u8]) -> Result<(), u64> {
        let now = nanoseconds_since(self.begun);
        let is_proven = self.proven.peek(&credentials, PROVEN, now).is_err();
        match self.limits.check(prefix, &name) {
            Err(wait) if !is_proven => {
                self.failed.record(LoginFailure::Limited, Some(prefix), name);
                Err(wait)
            }
            _ => Ok(()),
        }
    }

    /// Counts credentials that were accepted.
    pub(crate) fn count_accepted(&self, credentials: &[u8]) {
        let now = nanoseconds_since(self.begun);
        // Credentials that were good before are good already.
        let _ = self.proven.take_token(&credentials, PROVEN, now);
    }

    /// Counts credentials that were refused.
    pub(crate) fn count_refused(&self, prefix: IpAddr, name: &str, credentials: &[u8]) {
        self.limits.count(prefix, &name, &credentials);
        self.failed.record(LoginFailure::Refused, Some(prefix), name);
    }
}
