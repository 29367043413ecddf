//! Rate limits of callers, of clients whose agbots ask for them, and of failed logins.
//!
//! Buckets are in memory, so each exchange counts for itself. Requests from this machine and from inside the process are not counted,
//! except failed logins: local processes have other ways to load the machine. The address of a connection is counted before, by the middleware
//! of the listener.

use std::net::IpAddr;
use std::time::Instant;

use evenkeel_access::{Caller, Role};
use evenkeel_http_server::limit::{
    AddressLimit, Buckets, CAPACITY, LoginLimits, Rate, nanoseconds_since, whole_seconds,
};

use crate::ApiError;

/// Factor of an agbot's limit: it acts for many nodes.
const AGBOT_SHARE: u32 = 10;

/// Reports of one node about its tasks: enough for all tasks of a large node that start at once.
const TASK_REPORTS: Rate = Rate { per_second: 20.0, burst: 1_000 };

/// Writes of one node that are recorded: more than it needs in an hour, and then one in two seconds.
const NODE_RECORDS: Rate = Rate { per_second: 0.5, burst: 2_000 };
/// Records about the agent runs of one node: an agent that is restarted every five seconds.
const AGENT_RUNS: Rate = Rate { per_second: 0.2, burst: 20 };
/// Refused requests of one caller that are recorded.
const REFUSALS: Rate = Rate { per_second: 0.2, burst: 100 };

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
    forwarded: AddressLimit,
    logins: LoginLimits,
    task_reports: Buckets,
    node_records: Buckets,
    agent_runs: Buckets,
    refusals: Buckets,
}

impl Limiter {
    pub(crate) fn new(limits: RateLimits) -> Limiter {
        Limiter {
            begun: Instant::now(),
            limits,
            callers: Buckets::new(CAPACITY),
            forwarded: AddressLimit::new(limits.address),
            logins: LoginLimits::new(limits.failed_address, limits.failed_login),
            task_reports: Buckets::new(CAPACITY),
            node_records: Buckets::new(CAPACITY),
            agent_runs: Buckets::new(CAPACITY),
            refusals: Buckets::new(CAPACITY),
        }
    }

    fn now(&self) -> u64 {
        nanoseconds_since(self.begun)
    }

    /// Counts a request that an agbot makes for a client at an address.
    ///
    /// # Errors
    /// 429 when there were too many.
    pub(crate) fn count_forwarded(&self, address: IpAddr) -> Result<(), ApiError> {
        self.forwarded.count(address).map_err(|wait| too_many("requests from your address", wait))
    }

    /// Counts a request of a caller.
    ///
    /// # Errors
    /// 429 when there were too many.
    pub(crate) fn count_caller(&self, caller: &Caller, address: Option<IpAddr>) -> Result<(), ApiError> {
        if address.is_none_or(|address| address.is_loopback()) {
            return Ok(());
        }
        let mut rate = self.limits.caller;
        if caller.role == Role::Agbot {
            rate.per_second *= f64::from(AGBOT_SHARE);
            rate.burst = rate.burst.saturating_mul(AGBOT_SHARE);
        }
        self.callers
            .take_token(&(&caller.org, &caller.id), rate, self.now())
            .map_err(|wait| too_many("requests of this caller", whole_seconds(wait)))
    }

    /// Counts a report of a node about its tasks, wherever it comes from: a task has at most ten states.
    ///
    /// # Errors
    /// 429 when there were too many.
    pub(crate) fn count_task_report(&self, org: &str, node: &str) -> Result<(), ApiError> {
        self.task_reports
            .take_token(&(org, node), TASK_REPORTS, self.now())
            .map_err(|wait| too_many("reports about tasks", whole_seconds(wait)))
    }

    /// Counts a record about the runs of a node's agent, wherever the request comes from: reads write it, too.
    ///
    /// # Errors
    /// 429 when there were too many.
    pub(crate) fn count_agent_run(&self, org: &str, node: &str) -> Result<(), ApiError> {
        self.agent_runs
            .take_token(&(org, node), AGENT_RUNS, self.now())
            .map_err(|wait| too_many("different agent runs of this node", whole_seconds(wait)))
    }

    /// Returns whether a write of a caller is recorded: of a node that writes without end only some are, so that it fills no table.
    pub(crate) fn admits_record(&self, caller: &Caller) -> bool {
        caller.role != Role::Node
            || self.node_records.take_token(&(&caller.org, &caller.id), NODE_RECORDS, self.now()).is_ok()
    }

    /// Returns whether a refusal of a caller is recorded.
    pub(crate) fn admits_refusal(&self, caller: &Caller) -> bool {
        self.refusals.take_token(&(&caller.org, &caller.id), REFUSALS, self.now()).is_ok()
    }

    /// Checks that a login from a client prefix may still be tried.
    ///
    /// # Errors
    /// 429 when too many failed.
    pub(crate) fn check_login(&self, prefix: Option<IpAddr>, org: &str, id: &str) -> Result<(), ApiError> {
        let Some(prefix) = prefix else { return Ok(()) };
        self.logins.check(prefix, &(org, id)).map_err(|wait| too_many("failed logins", wait))
    }

    /// Counts a failed login from a client prefix; `verifier` stands for its secret.
    pub(crate) fn count_failed_login(
        &self,
        prefix: Option<IpAddr>,
        (org, id): (&str, &str),
        verifier: &[u8; 32],
    ) {
        if let Some(prefix) = prefix {
            self.logins.count(prefix, &(org, id), verifier);
        }
    }
}

fn too_many(what: &str, seconds: u64) -> ApiError {
    ApiError::too_many(seconds, format!("too many {what}, try again later"))
}

#[cfg(test)]
mod tests {
    use evenkeel_api::Refusal;

    use super::*;

    #[test]
    fn runs_of_one_node_are_limited_and_those_of_others_are_not() {
        let limiter = Limiter::new(RateLimits::default());
        for run in 0..AGENT_RUNS.burst {
            assert!(limiter.count_agent_run("o", "n").is_ok(), "run {run}");
        }
        let refused = limiter.count_agent_run("o", "n");
        let is_limited =
            matches!(refused, Err(ApiError::Refused(Refusal::TooMany { retry_after: 1..=5, .. })));
        assert!(is_limited, "{refused:?}");
        assert!(limiter.count_agent_run("o", "m").is_ok());
    }
}
