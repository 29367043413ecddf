//! Rate limits of callers and client prefixes, and of failed logins.
//!
//! Buckets are in memory, so each exchange counts for itself. Requests from this machine and from inside the process are not counted,
//! except failed logins: local processes have other ways to load the machine.

mod address;
mod bucket;

use std::net::IpAddr;
use std::time::Instant;

use evenkeel_access::{Caller, Role};

pub(crate) use address::client_prefix;
pub use address::{NoNetwork, TrustedProxies};
pub(crate) use bucket::Buckets;
pub use bucket::Rate;

use crate::ApiError;

/// Maximum number of buckets of each kind.
const CAPACITY: usize = 100_000;
/// Factor of an agbot's limit: it acts for many nodes.
const AGBOT_SHARE: u32 = 10;

/// Reports of one node about its tasks: enough for all tasks of a large node that start at once.
const TASK_REPORTS: Rate = Rate { per_second: 20.0, burst: 1_000 };

/// The limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimits {
    /// Requests of one caller.
    pub caller: Rate,
    /// Requests from one client prefix.
    pub address: Rate,
    /// Failed logins from one client prefix, which limits their cost.
    pub failed_address: Rate,
    /// Different wrong secrets from one client prefix for the same caller, which limits guessing.
    pub failed_login: Rate,
}

impl Default for RateLimits {
    fn default() -> Self {
        RateLimits {
            caller: Rate { per_second: 500.0, burst: 5_000 },
            address: Rate { per_second: 5_000.0, burst: 50_000 },
            failed_address: Rate { per_second: 20.0, burst: 1_000 },
            failed_login: Rate { per_second: 0.5, burst: 100 },
        }
    }
}

/// Counts requests and failed logins.
#[derive(Debug)]
pub(crate) struct Limiter {
    begun: Instant,
    limits: RateLimits,
    callers: Buckets,
    addresses: Buckets,
    failed_addresses: Buckets,
    failed_logins: Buckets,
    task_reports: Buckets,
}

impl Limiter {
    pub(crate) fn new(limits: RateLimits) -> Limiter {
        Limiter {
            begun: Instant::now(),
            limits,
            callers: Buckets::new(CAPACITY),
            addresses: Buckets::new(CAPACITY),
            failed_addresses: Buckets::new(CAPACITY),
            failed_logins: Buckets::new(CAPACITY),
            task_reports: Buckets::new(CAPACITY),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Counts a request from an address.
    ///
    /// # Errors
    /// 429 when there were too many.
    pub(crate) fn count_address(&self, address: Option<IpAddr>) -> Result<(), ApiError> {
        let Some(address) = counted(address) else { return Ok(()) };
        self.addresses
            .take(&client_prefix(address), self.limits.address, self.now())
            .map_err(|wait| too_many("requests from your address", wait))
    }

    /// Counts a request of a caller.
    ///
    /// # Errors
    /// 429 when there were too many.
    pub(crate) fn count_caller(&self, caller: &Caller, address: Option<IpAddr>) -> Result<(), ApiError> {
        if counted(address).is_none() {
            return Ok(());
        }
        let mut rate = self.limits.caller;
        if caller.role == Role::Agbot {
            rate.per_second *= f64::from(AGBOT_SHARE);
            rate.burst = rate.burst.saturating_mul(AGBOT_SHARE);
        }
        self.callers
            .take(&(&caller.org, &caller.id), rate, self.now())
            .map_err(|wait| too_many("requests of this caller", wait))
    }

    /// Counts a report of a node about its tasks, wherever it comes from: a task has at most ten states.
    ///
    /// # Errors
    /// 429 when there were too many.
    pub(crate) fn count_task_report(&self, org: &str, node: &str) -> Result<(), ApiError> {
        self.task_reports
            .take(&(org, node), TASK_REPORTS, self.now())
            .map_err(|wait| too_many("reports about tasks", wait))
    }

    /// Checks that a login from a client prefix may still be tried.
    ///
    /// # Errors
    /// 429 when too many failed.
    pub(crate) fn check_login(&self, prefix: Option<IpAddr>, org: &str, id: &str) -> Result<(), ApiError> {
        let Some(prefix) = prefix else { return Ok(()) };
        let now = self.now();
        self.failed_addresses
            .peek(&prefix, self.limits.failed_address, now)
            .and_then(|()| self.failed_logins.peek(&(prefix, org, id), self.limits.failed_login, now))
            .map_err(|wait| too_many("failed logins", wait))
    }

    /// Counts a failed login from a client prefix. `is_repeated` when the same wrong secret was counted recently: it is no further guess.
    pub(crate) fn count_failed_login(&self, prefix: Option<IpAddr>, org: &str, id: &str, is_repeated: bool) {
        let Some(prefix) = prefix else { return };
        let now = self.now();
        // An empty bucket stays empty; this login was admitted before.
        let _ = self.failed_addresses.take(&prefix, self.limits.failed_address, now);
        if !is_repeated {
            let _ = self.failed_logins.take(&(prefix, org, id), self.limits.failed_login, now);
        }
    }
}

/// Returns the address when requests from it are counted.
fn counted(address: Option<IpAddr>) -> Option<IpAddr> {
    address.filter(|address| !address.is_loopback())
}

fn too_many(what: &str, wait: u64) -> ApiError {
    ApiError::TooMany {
        retry_after: wait.div_ceil(1_000_000_000).max(1),
        message: format!("too many {what}, try again later"),
    }
}
