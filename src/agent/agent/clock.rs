//! The clocks, read only here in this crate.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Returns seconds since 1970 UTC; 0 on a machine whose clock is before that.
pub fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

/// Returns the milliseconds since the boot of the machine, including time in which it was suspended. This clock cannot
/// be set.
pub fn uptime_ms() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every supported kernel has this clock");
    u64::try_from(Duration::from(time).as_millis()).unwrap_or(u64::MAX)
}

/// Returns the id of the current boot; empty if the system has none.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
