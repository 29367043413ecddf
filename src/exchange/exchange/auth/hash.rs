//! Hashes of secrets at rest.
//!
//! Secrets chosen by clients are kept as Argon2id; secrets with 256 random bits, made by us, as a keyed hash that costs nothing to
//! check. Slow hashes wait in a queue, so that logins cannot take the processor away from requests.

use std::sync::Arc;

use evenkeel_metrics::Counter;
use subtle::ConstantTimeEq;

use super::argon::Argon;
use super::hash_queue::{HashQueue, PriorityClass};
use crate::ApiError;

const KEYED_PREFIX: &str = "keyed:";

/// Creates and verifies hashes of secrets.
#[derive(Clone)]
pub struct SecretHasher {
    key: Arc<[u8; 32]>,
    queue: HashQueue,
    argon: Arc<Argon>,
}

impl SecretHasher {
    /// Creates a hasher; `key` is shared by all exchanges of a database, `parallel` limits concurrent Argon2id computations.
    #[must_use]
    pub fn new(key: [u8; 32], parallel: usize) -> SecretHasher {
        SecretHasher { key: Arc::new(key), queue: HashQueue::new(parallel), argon: Arc::default() }
    }

    /// Returns the number of slow hashes so far.
    #[must_use]
    pub fn computed(&self) -> &Counter {
        self.queue.computed()
    }

    /// Returns the hash of a generated secret: equal secrets give equal hashes, so that it can be looked up.
    #[must_use]
    pub fn keyed(&self, secret: &str) -> String {
        format!("{KEYED_PREFIX}{}", blake3::keyed_hash(&self.key, secret.as_bytes()).to_hex())
    }

    /// Returns the hash of a secret for storing.
    ///
    /// # Errors
    /// 500 when Argon2id refuses its parameters (a broken build).
    pub async fn hash(&self, secret: &str) -> Result<String, ApiError> {
        if is_generated_token(secret) {
            return Ok(self.keyed(secret));
        }
        let (secret, argon) = (secret.to_owned(), self.argon.clone());
        let hash = move || argon.hash(&secret).map_err(|error| error.to_string());
        let outcome = self.queue.run(PriorityClass::Known, || Ok(()), hash, |_| false).await?;
        outcome.map_err(|error| ApiError::internal(format!("a secret could not be hashed: {error}")))
    }

    /// Returns whether the secret belongs to the stored hash: keyed, Argon2id, or bcrypt of an import.
    ///
    /// # Errors
    /// 429 when a slow hash gets no permit in time.
    pub async fn verify(&self, secret: &str, stored: &str) -> Result<bool, ApiError> {
        self.verify_in(PriorityClass::Known, secret, stored, || Ok(())).await
    }

    /// Like [`Self::verify`], for a login of a priority class. `check` runs just before a slow hash: logins may have failed during the wait.
    ///
    /// A wrong secret costs a slow hash whatever is stored, so that the time does not reveal what is.
    ///
    /// # Errors
    /// The error of `check`, too.
    pub(super) async fn verify_in(
        &self,
        class: PriorityClass,
        secret: &str,
        stored: &str,
        check: impl FnOnce() -> Result<(), ApiError>,
    ) -> Result<bool, ApiError> {
        if stored.starts_with(KEYED_PREFIX) {
            if bool::from(self.keyed(secret).as_bytes().ct_eq(stored.as_bytes())) {
                return Ok(true);
            }
            self.refuse_in(class, secret, check).await?;
            return Ok(false);
        }
        let (secret, stored, argon) = (secret.to_owned(), stored.to_owned(), self.argon.clone());
        let verify = move || match is_outdated(&stored) {
            true => bcrypt::verify(&secret, &stored).unwrap_or(false),
            false => argon.verify(&secret, &stored),
        };
        self.queue.run(class, check, verify, |is_right| !is_right).await
    }

    /// Takes the time of a wrong secret for a login that has none or does not exist.
    ///
    /// # Errors
    /// See [`Self::verify_in`].
    pub(super) async fn refuse_in(
        &self,
        class: PriorityClass,
        secret: &str,
        check: impl FnOnce() -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let (secret, argon) = (secret.to_owned(), self.argon.clone());
        self.queue.run(class, check, move || drop(argon.hash(&secret)), |()| true).await
    }
}

/// Returns whether a stored hash should be replaced by one of today's kind after the next good login.
#[must_use]
pub fn is_outdated(stored: &str) -> bool {
    stored.starts_with("$2")
}

/// Returns whether our own tools generated a token: `ek1.` and 64 hexadecimal digits, 256 random bits.
fn is_generated_token(secret: &str) -> bool {
    secret.strip_prefix("ek1.").is_some_and(|digits| {
        digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher() -> SecretHasher {
        SecretHasher::new([7; 32], 2)
    }

    #[tokio::test]
    async fn chosen_secrets_are_kept_as_argon2id_and_verify() {
        let hash = hasher().hash("pässword").await.expect("hash");
        assert!(hash.starts_with("$argon2id$v=19$m=7168,t=5,p=1$"), "{hash}");
        assert!(hasher().verify("pässword", &hash).await.expect("verify"));
        assert!(!hasher().verify("password", &hash).await.expect("verify"));
    }

    #[tokio::test]
    async fn generated_tokens_are_kept_as_a_keyed_hash() {
        let token = format!("ek1.{}", "0f".repeat(32));
        let hash = hasher().hash(&token).await.expect("hash");
        assert!(hash.starts_with(KEYED_PREFIX));
        assert!(hasher().verify(&token, &hash).await.expect("verify"));
        assert!(!hasher().verify("ek1.", &hash).await.expect("verify"));
        assert!(!SecretHasher::new([8; 32], 1).verify(&token, &hash).await.expect("verify"));
    }

    #[tokio::test]
    async fn bcrypt_hashes_of_an_import_verify() {
        let hash = bcrypt::hash("secret", 4).expect("hash");
        assert!(hasher().verify("secret", &hash).await.expect("verify"));
        assert!(is_outdated(&hash));
    }
}
