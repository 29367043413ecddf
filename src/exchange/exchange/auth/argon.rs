//! Argon2id in memory that does not stay with the process.
//!
//! A computation needs 7 MiB. Left to the allocator, each thread keeps its own blocks for ever, and they grow in number. Here blocks are
//! reused while computations overlap, and the system gets all of them back when the last one ends.

use std::sync::{Mutex, MutexGuard, PoisonError};

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::password_hash::{self, Error};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use subtle::ConstantTimeEq;

/// Memory in KiB, passes and parallelism of Argon2id.
///
/// # Source
/// Exchange-api 2.4.
const COST: (u32, u32, u32) = (7168, 5, 1);
const HASH_BYTES: usize = 32;
/// Number of blocks that are allocated; unused ones are never backed by memory. The C library maps allocations of
/// more than 32 MiB separately and unmaps them when they are freed; it may keep smaller ones (mallopt(3),
/// `M_MMAP_THRESHOLD`).
const RESERVED_BLOCKS: usize = 40 * 1024;

/// Computes Argon2id hashes, several at a time.
#[derive(Debug, Default)]
pub(super) struct Argon {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// Computations under way.
    running: usize,
    /// Blocks of computations that have ended while others run.
    free: Vec<Vec<Block>>,
}

/// The blocks of one computation.
struct Lease<'a> {
    argon: &'a Argon,
    blocks: Vec<Block>,
}

impl Argon {
    /// Returns the hash of a secret as a PHC string.
    ///
    /// # Errors
    /// When Argon2id refuses its parameters (a broken build).
    pub(super) fn hash(&self, secret: &str) -> Result<String, Error> {
        let (memory, passes, parallelism) = COST;
        let params = Params::new(memory, passes, parallelism, Some(HASH_BYTES))?;
        let salt = Salt::generate();
        let mut output = [0; HASH_BYTES];
        self.compute(Algorithm::Argon2id, Version::V0x13, &params, (secret, &salt), &mut output)?;
        let hash = PasswordHash {
            algorithm: Algorithm::Argon2id.ident(),
            version: Some(Version::V0x13.into()),
            params: ParamsString::try_from(&params)?,
            salt: Some(salt),
            hash: Some(Output::new(&output)?),
        };
        Ok(hash.to_string())
    }

    /// Returns whether a secret belongs to a hash, whatever its parameters are; false for hashes that cannot be understood.
    pub(super) fn verify(&self, secret: &str, stored: &str) -> bool {
        self.recompute(secret, stored).unwrap_or(false)
    }

    fn recompute(&self, secret: &str, stored: &str) -> Result<bool, Error> {
        let stored = PasswordHash::new(stored)?;
        let (Some(salt), Some(expected)) = (&stored.salt, &stored.hash) else { return Ok(false) };
        let algorithm = Algorithm::try_from(stored.algorithm.as_str())?;
        let version = stored.version.map(Version::try_from).transpose()?.unwrap_or_default();
        let params = Params::try_from(&stored)?;
        let mut output = vec![0; expected.len()];
        self.compute(algorithm, version, &params, (secret, salt), &mut output)?;
        Ok(bool::from(output.ct_eq(expected.as_bytes())))
    }

    fn compute(
        &self,
        algorithm: Algorithm,
        version: Version,
        params: &Params,
        (secret, salt): (&str, &Salt),
        output: &mut [u8],
    ) -> password_hash::Result<()> {
        let mut lease = self.lease(params.block_count());
        let argon = Argon2::new(algorithm, version, params.clone());
        argon.hash_password_into_with_memory(secret.as_bytes(), salt, output, lease.blocks.as_mut_slice())?;
        Ok(())
    }

    /// Blocks for one computation; what is in them does not matter.
    fn lease(&self, count: usize) -> Lease<'_> {
        let mut blocks = {
            let mut memory = self.lock();
            memory.running += 1;
            memory.free.pop()
        }
        .unwrap_or_else(|| Vec::with_capacity(RESERVED_BLOCKS.max(count)));
        if blocks.len() < count {
            blocks.resize(count, Block::new());
        }
        Lease { argon: self, blocks }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        let unused = {
            let mut memory = self.argon.lock();
            memory.running -= 1;
            if memory.running > 0 && blocks.capacity() == RESERVED_BLOCKS {
                memory.free.push(blocks);
                return;
            }
            if memory.running == 0 { std::mem::take(&mut memory.free) } else { Vec::new() }
        };
        // Giving memory back takes a while: not under the lock.
        drop((blocks, unused));
    }
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordHasher;

    use super::*;

    #[test]
    fn hashes_are_those_of_the_library() {
        let argon = Argon::default();
        let hash = argon.hash("pässword").expect("hash");
        assert!(hash.starts_with("$argon2id$v=19$m=7168,t=5,p=1$"), "{hash}");
        assert!(argon.verify("pässword", &hash));
        assert!(!argon.verify("password", &hash));
        let (memory, passes, parallelism) = (64, 2, 2);
        let params = Params::new(memory, passes, parallelism, Some(24)).expect("valid");
        let other = Argon2::new(Algorithm::Argon2i, Version::V0x10, params);
        let hash = other.hash_password(b"secret").expect("hash").to_string();
        assert!(argon.verify("secret", &hash), "{hash}");
        assert!(!argon.verify("Secret", &hash));
        for odd in ["", "$argon2id$", "$argon2id$v=19$m=7168,t=5,p=1$", "keyed:x"] {
            assert!(!argon.verify("secret", odd), "{odd}");
        }
    }

    fn counts(argon: &Argon) -> (usize, usize) {
        let memory = argon.lock();
        (memory.running, memory.free.len())
    }

    #[test]
    fn memory_is_reused_while_others_compute_and_returned_after_the_last() {
        let argon = Argon::default();
        let first = argon.lease(10);
        let second = argon.lease(10);
        drop(first);
        assert_eq!(counts(&argon), (1, 1));
        let third = argon.lease(20);
        assert_eq!(third.blocks.len(), 20);
        assert_eq!(counts(&argon), (2, 0));
        drop(third);
        drop(second);
        assert_eq!(counts(&argon), (0, 0));
    }

    #[test]
    fn blocks_beyond_the_usual_size_are_not_kept() {
        let argon = Argon::default();
        let usual = argon.lease(1);
        drop(argon.lease(RESERVED_BLOCKS + 1));
        assert_eq!(argon.lock().free.len(), 0);
        drop(usual);
    }
}
