//! Arithmetic of instants and seconds that neither overflows nor becomes negative.

use jiff::{SignedDuration, Timestamp};

/// Adds seconds to an instant, saturating.
pub fn later(at: Timestamp, secs: u64) -> Timestamp {
    let secs = i64::try_from(secs).unwrap_or(i64::MAX);
    at.checked_add(SignedDuration::from_secs(secs)).unwrap_or(Timestamp::MAX)
}

/// Returns the seconds from `earlier` to `now`, 0 if `now` is earlier.
pub fn secs_since(earlier: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.duration_since(earlier).as_secs()).unwrap_or(0)
}

/// Largest accepted difference between the clocks of the machines of a hub.
const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// Returns whether an instant was recorded by a clock that was ahead.
pub fn is_ahead(at: Timestamp, now: Timestamp) -> bool {
    at.duration_since(now) > SKEW
}
