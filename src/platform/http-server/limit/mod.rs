//! Rate limits of clients: token buckets by client prefix, and the address of a client behind trusted proxies.
//!
//! Buckets are in memory, so each process has its own.

mod address;
mod bucket;
mod failed;
mod login;

use std::net::IpAddr;
use std::time::Instant;

pub use address::{NoNetwork, TrustedProxies, client_prefix};
pub use bucket::{Buckets, Rate};
pub use failed::{FailedLoginReporter, FailedLogins, LoginFailure};
pub use login::LoginLimits;

/// Maximum number of buckets of each kind.
pub const CAPACITY: usize = 100_000;

/// Counts requests by client prefix.
#[derive(Debug)]
pub struct AddressLimit {
    begun: Instant,
    rate: Rate,
    addresses: Buckets,
}

impl AddressLimit {
    /// Admits requests from each client prefix at `rate`.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { begun: Instant::now(), rate, addresses: Buckets::new(CAPACITY) }
    }

    /// Counts a request. Requests from this machine are not counted, because local processes can overload it in other ways.
    ///
    /// # Errors
    /// Seconds to wait when there were too many.
    pub fn count(&self, address: IpAddr) -> Result<(), u64> {
        if address.is_loopback() {
            return Ok(());
        }
        let now = nanoseconds_since(self.begun);
        self.addresses.take_token(&client_prefix(address), self.rate, now).map_err(whole_seconds)
    }
}

/// Returns the nanoseconds since a fixed instant, for the buckets.
#[must_use]
pub fn nanoseconds_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a wait in whole seconds, at least one, for `Retry-After`.
#[must_use]
pub fn whole_seconds(nanoseconds: u64) -> u64 {
    nanoseconds.div_ceil(1_000_000_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_prefix_share_a_bucket_and_this_machine_has_none() {
        let limit = AddressLimit::new(Rate { per_second: 1.0 / 3600.0, burst: 1 });
        let address = |text: &str| text.parse().expect("an address");
        assert_eq!(limit.count(address("2001:db8::1")), Ok(()));
        assert!(limit.count(address("2001:db8::2")).is_err());
        assert_eq!(limit.count(address("2001:db8:0:1::1")), Ok(()));
        assert!((0..10).all(|_| limit.count(address("127.0.0.1")).is_ok()));
    }

    #[test]
    fn waits_are_rounded_up() {
        assert_eq!((whole_seconds(0), whole_seconds(1), whole_seconds(1_000_000_001)), (1, 1, 2));
    }
}
