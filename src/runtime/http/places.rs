//! Counts the connections of each address, so that one address cannot take all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// How many connections each address has.
#[derive(Debug)]
pub struct Places {
    limit: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// The place of one connection, free again when dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: Option<IpAddr>,
}

impl Places {
    /// At most `limit` for each address, 0 for any number.
    pub fn new(limit: usize) -> Places {
        Places { limit, taken: Mutex::default() }
    }

    /// Takes a place for a connection; `None` when its address has taken all.
    pub fn take(self: &Arc<Places>, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        if self.limit == 0 || address.is_loopback() {
            return Some(Place { places: self.clone(), address: None });
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Place { places: self.clone(), address: Some(address) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn an_address_takes_no_more_than_its_places_and_gives_them_back() {
        let places = Arc::new(Places::new(2));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let held = [places.take(address), places.take(address)];
        assert!(held.iter().all(Option::is_some));
        assert!(places.take("::ffff:192.0.2.1".parse().unwrap()).is_none(), "written in another way");
        assert!(places.take("192.0.2.2".parse().unwrap()).is_some());
        drop(held);
        assert!(places.take(address).is_some());
        assert!(places.taken.lock().unwrap().is_empty(), "nothing stays behind");
    }

    #[test]
    fn this_machine_has_no_limit() {
        let places = Arc::new(Places::new(1));
        let held: Vec<_> = (0..5).map(|_| places.take("127.0.0.1".parse().unwrap())).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
