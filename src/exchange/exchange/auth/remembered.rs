//! A bounded cache with expiry that evicts the least recently used values.

use std::hash::Hash;
use std::time::{Duration, Instant};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, UnitWeighter};

/// Capacity allocated at first; more is allocated as needed.
const INITIAL_CAPACITY: usize = 1_000;

/// Values by key, each for a limited time.
pub(super) struct Remembered<K, V> {
    cache: Cache<K, (Instant, V)>,
    lifetime: Duration,
}

impl<K: Eq + Hash + Clone, V: Clone> Remembered<K, V> {
    /// Remembers at most `capacity` values for `lifetime` each.
    pub(super) fn new(capacity: u32, lifetime: Duration) -> Self {
        let cache = Cache::with(
            INITIAL_CAPACITY,
            u64::from(capacity),
            UnitWeighter,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        );
        Remembered { cache, lifetime }
    }

    /// The value of a key, unless it is too old.
    pub(super) fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        let (since, value) = self.cache.get(key)?;
        (since.elapsed() < self.lifetime).then_some(value)
    }

    /// Remembers a value from now on.
    pub(super) fn insert(&self, key: K, value: V) {
        self.cache.insert(key, (Instant::now(), value));
    }

    /// Forgets one value.
    pub(super) fn forget<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) {
        self.cache.remove(key);
    }

    /// Forgets the values of which this is true.
    pub(super) fn forget_where(&self, is_concerned: impl Fn(&V) -> bool) {
        self.cache.retain(|_, (_, value)| !is_concerned(value));
    }

    /// Forgets everything.
    pub(super) fn forget_all(&self) {
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_or_too_old_is_gone() {
        let known = Remembered::new(1_000, Duration::from_secs(60));
        for number in 0..100 {
            known.insert(number.to_string(), number);
        }
        assert_eq!(known.get("7"), Some(7));
        known.forget("7");
        known.forget_where(|number| *number % 2 == 0);
        assert_eq!((known.get("7"), known.get("8"), known.get("9")), (None, None, Some(9)));
        known.forget_all();
        assert_eq!(known.get("9"), None);
        let old = Remembered::new(10, Duration::ZERO);
        old.insert("a".to_owned(), ());
        assert_eq!(old.get("a"), None);
    }

    #[test]
    fn number_of_values_is_bounded() {
        let known = Remembered::new(100, Duration::from_secs(60));
        for number in 0..10_000 {
            known.insert(number, ());
        }
        let kept = (0..10_000).filter(|number| known.get(number).is_some()).count();
        assert!((1..=200).contains(&kept), "{kept} are remembered");
    }
}
