//! The end of a lease: when an instance on a node without contact no longer runs.
//!
//! Source: orchestration C8.

use jiff::Timestamp;

use crate::time::later;

/// Time that agent and guardian may need to kill containers after the end of the lease, in seconds.
const MARGIN_SECS: u64 = 10;

/// Returns the time at which the instance under a lease no longer runs.
pub fn fenced_at(lease_secs: u32, last_heartbeat: Timestamp) -> Timestamp {
    later(last_heartbeat, u64::from(lease_secs) + MARGIN_SECS)
}
