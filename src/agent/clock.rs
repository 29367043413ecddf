//! The wall clock, read here and nowhere else in this crate.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970 UTC; 0 on a machine whose clock is before that.
pub fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}
