//! Counts the connections of each client prefix, so that one client cannot take all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limit::client_prefix;

/// Limits how many connections one address may have at the same time.
#[derive(Debug)]
pub struct ConnectionLimit {
    limit: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// The permit of one connection, which is returned when dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    address: Option<IpAddr>,
}

impl ConnectionLimit {
    /// Creates a limit of `limit` connections for each address, 0 for no limit.
    pub fn new(limit: usize) -> Self {
        Self { limit, taken: Mutex::default() }
    }

    /// Takes a permit for a connection; `None` when its address holds all of them.
    pub fn try_acquire(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let address = client_prefix(address.to_canonical());
        if self.limit == 0 || address.is_loopback() {
            return Some(ConnectionPermit { limit: self.clone(), address: None });
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(ConnectionPermit { limit: self.clone(), address: Some(address) })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut taken = self.limit.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_holds_no_more_permits_than_the_limit_and_gives_them_back() {
        let limit = Arc::new(ConnectionLimit::new(2));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let held = [limit.try_acquire(address), limit.try_acquire(address)];
        assert!(held.iter().all(Option::is_some));
        assert!(limit.try_acquire("::ffff:192.0.2.1".parse().unwrap()).is_none(), "written in another way");
        assert!(limit.try_acquire("192.0.2.2".parse().unwrap()).is_some());
        drop(held);
        assert!(limit.try_acquire(address).is_some());
        assert!(limit.taken.lock().unwrap().is_empty(), "nothing stays behind");
    }

    #[test]
    fn addresses_of_one_network_share_the_limit() {
        let limit = Arc::new(ConnectionLimit::new(1));
        let _held = limit.try_acquire("2001:db8::1".parse().unwrap()).expect("the first");
        assert!(limit.try_acquire("2001:db8::2".parse().unwrap()).is_none());
        assert!(limit.try_acquire("2001:db8:0:1::1".parse().unwrap()).is_some());
    }

    #[test]
    fn loopback_addresses_have_no_limit() {
        let limit = Arc::new(ConnectionLimit::new(1));
        let held: Vec<_> = (0..5).map(|_| limit.try_acquire("127.0.0.1".parse().unwrap())).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
