//! The wall clock, read only here in this crate.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns seconds since 1970 UTC; 0 on a machine whose clock is before that.
pub fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}
