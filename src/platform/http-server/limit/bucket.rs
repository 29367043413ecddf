//! Token buckets. Pure: the time is an argument, in nanoseconds since a fixed instant.
//!
//! A bucket is one number, the instant at which it is full again (the generic cell rate algorithm), so a table of them is small.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};

/// A rate limit: average and burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Tokens that are added each second; 0 disables the limit.
    pub per_second: f64,
    /// Tokens of a full bucket.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Rate = Rate { per_second: 0.0, burst: 0 };

    fn is_limited(self) -> bool {
        self.per_second > 0.0
    }

    /// Nanoseconds in which one token comes back.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and saturating is meant"
    )]
    fn interval(self) -> u64 {
        (1e9 / self.per_second) as u64
    }

    /// Nanoseconds in which an empty bucket fills.
    fn capacity(self) -> u64 {
        self.interval().saturating_mul(u64::from(self.burst.max(1)))
    }

    /// Returns the time until a token is available, from the instant at which the bucket is full again; 0 if one is
    /// available.
    fn wait(self, full_at: u64, now: u64) -> u64 {
        full_at.max(now).saturating_add(self.interval()).saturating_sub(now.saturating_add(self.capacity()))
    }
}

/// A bounded number of buckets by key. Keys are kept as hashes under a random key.
#[derive(Debug)]
pub struct Buckets {
    hasher: RandomState,
    capacity: usize,
    shards: Vec<Mutex<Shard>>,
}

#[derive(Debug, Default)]
struct Shard {
    full_at: HashMap<u64, u64>,
    /// Shared by the keys beyond the capacity.
    overflow: u64,
    /// When full buckets were removed last.
    cleaned_at: u64,
}

/// Nanoseconds between removals of full buckets.
const CLEANUP_PERIOD: u64 = 250_000_000;

const SHARDS: usize = 16;

impl Buckets {
    /// Creates a table for at most `capacity` buckets that are not full.
    #[must_use]
    pub fn new(capacity: usize) -> Buckets {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Buckets { hasher: RandomState::new(), capacity: capacity.div_ceil(SHARDS), shards }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// Nanoseconds until there is one.
    pub fn take_token(&self, key: &impl Hash, rate: Rate, now: u64) -> Result<(), u64> {
        self.change(key, rate, now, |full_at| match rate.wait(*full_at, now) {
            0 => {
                *full_at = (*full_at).max(now).saturating_add(rate.interval());
                Ok(())
            }
            wait => Err(wait),
        })
    }

    /// Checks that a token is available, without taking it.
    ///
    /// # Errors
    /// Nanoseconds until there is one.
    pub fn peek(&self, key: &impl Hash, rate: Rate, now: u64) -> Result<(), u64> {
        if !rate.is_limited() {
            return Ok(());
        }
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash);
        let full_at = shard.full_at.get(&hash).copied().unwrap_or_default();
        match rate.wait(full_at, now) {
            0 => Ok(()),
            wait => Err(wait),
        }
    }

    fn change<T>(
        &self,
        key: &impl Hash,
        rate: Rate,
        now: u64,
        act: impl FnOnce(&mut u64) -> Result<T, u64>,
    ) -> Result<(), u64> {
        if !rate.is_limited() {
            return Ok(());
        }
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash);
        let is_crowded = shard.full_at.len() >= self.capacity && !shard.full_at.contains_key(&hash);
        if is_crowded && now.saturating_sub(shard.cleaned_at) >= CLEANUP_PERIOD {
            // Full buckets need no entry.
            shard.full_at.retain(|_, full_at| *full_at > now);
            shard.cleaned_at = now;
        }
        let has_room = shard.full_at.contains_key(&hash) || shard.full_at.len() < self.capacity;
        let Shard { full_at, overflow, .. } = &mut *shard;
        let bucket = if has_room { full_at.entry(hash).or_default() } else { overflow };
        act(bucket).map(drop)
    }

    fn shard(&self, hash: u64) -> std::sync::MutexGuard<'_, Shard> {
        self.shards[(hash >> 32) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const RATE: Rate = Rate { per_second: 2.0, burst: 3 };

    #[test]
    fn burst_passes_at_once_and_then_the_rate_holds() {
        let buckets = Buckets::new(100);
        for _ in 0..3 {
            assert_eq!(buckets.take_token(&"a", RATE, SECOND), Ok(()));
        }
        assert_eq!(buckets.take_token(&"a", RATE, SECOND), Err(SECOND / 2));
        assert_eq!(buckets.take_token(&"b", RATE, SECOND), Ok(()), "another key has a bucket of its own");
        assert_eq!(buckets.take_token(&"a", RATE, SECOND + SECOND / 2), Ok(()));
        assert_eq!(buckets.take_token(&"a", RATE, SECOND + SECOND / 2), Err(SECOND / 2));
        for _ in 0..3 {
            assert_eq!(
                buckets.take_token(&"a", RATE, 60 * SECOND),
                Ok(()),
                "it is full again, not more than that"
            );
        }
        assert!(buckets.take_token(&"a", RATE, 60 * SECOND).is_err());
    }

    #[test]
    fn peek_takes_nothing() {
        let buckets = Buckets::new(100);
        let once = Rate { per_second: 1.0, burst: 1 };
        assert_eq!(buckets.peek(&1, once, 0), Ok(()));
        assert_eq!(buckets.peek(&1, once, 0), Ok(()));
        assert_eq!(buckets.take_token(&1, once, 0), Ok(()));
        assert_eq!(buckets.peek(&1, once, 0), Err(SECOND));
    }

    #[test]
    fn rate_of_zero_is_no_limit() {
        let buckets = Buckets::new(100);
        assert!((0..1000).all(|_| buckets.take_token(&1, Rate::UNLIMITED, 0).is_ok()));
    }

    #[test]
    fn table_is_bounded_and_keys_beyond_the_capacity_share_a_bucket() {
        let buckets = Buckets::new(160);
        let passed = (0..100_000).filter(|key| buckets.take_token(key, RATE, SECOND).is_ok()).count();
        let kept: usize = buckets.shards.iter().map(|shard| shard.lock().unwrap().full_at.len()).sum();
        assert!(kept <= 160, "{kept}");
        assert!(passed <= 160 + SHARDS * 3, "{passed}");
        // Later there is room again.
        assert_eq!(buckets.take_token(&"new", RATE, 100 * SECOND), Ok(()));
        let kept: usize = buckets.shards.iter().map(|shard| shard.lock().unwrap().full_at.len()).sum();
        assert!(kept <= 160, "{kept}");
    }
}
