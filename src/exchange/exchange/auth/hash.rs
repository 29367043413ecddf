//! Hashes of secrets at rest.
//!
//! Secrets chosen by clients are kept as Argon2id; secrets with 256 random bits, made by us, as a keyed hash that costs nothing to
//! check. Slow hashes wait in a queue, so that logins cannot take the processor away from requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_metrics::Counter;
use subtle::ConstantTimeEq;

use super::argon::Argon;
use super::hash_queue::{HashQueue, PriorityClass};
use crate::ApiError;

const KEYED_PREFIX: &str = "keyed:";
/// Cost of the bcrypt hashes that the reference stores.
const IMPORTED_COST: u32 = 10;
/// Salt and hash of a bcrypt hash that belongs to no secret.
const NO_SECRET: &str = "......................ooooooooooooooooooooooooooooooO";

/// Creates and verifies hashes of secrets.
#[derive(Clone)]
pub struct SecretHasher {
    key: Arc<[u8; 32]>,
    queue: HashQueue,
    algorithms: Arc<Algorithms>,
}

/// The slow hashes.
#[derive(Debug, Default)]
struct Algorithms {
    argon: Argon,
    /// Highest cost of the stored bcrypt hashes; 0 while there are none. Then a failure costs one more hash, of bcrypt, whatever is
    /// stored for the name: the time does not reveal which names were imported, nor which exist.
    bcrypt_cost: AtomicU32,
    /// Computations of Argon2id and bcrypt.
    computed: [Counter; 2],
}

impl Algorithms {
    fn verify(&self, secret: &str, stored: &str) -> bool {
        let is_right = match is_outdated(stored) {
            true => self.verify_bcrypt(secret, stored),
            false => self.verify_argon(secret, stored),
        };
        if !is_right {
            match is_outdated(stored) {
                true => self.spend_argon(secret),
                false => self.spend_bcrypt(secret),
            }
        }
        is_right
    }

    /// Takes the time of a wrong secret.
    fn refuse(&self, secret: &str) {
        self.spend_argon(secret);
        self.spend_bcrypt(secret);
    }

    fn hash(&self, secret: &str) -> Result<String, String> {
        self.computed[0].increment();
        self.argon.hash(secret).map_err(|error| error.to_string())
    }

    fn verify_argon(&self, secret: &str, stored: &str) -> bool {
        self.computed[0].increment();
        self.argon.verify(secret, stored)
    }

    fn verify_bcrypt(&self, secret: &str, stored: &str) -> bool {
        self.computed[1].increment();
        bcrypt::verify(secret, stored).unwrap_or(false)
    }

    fn spend_argon(&self, secret: &str) {
        drop(self.hash(secret));
    }

    fn spend_bcrypt(&self, secret: &str) {
        let cost = self.bcrypt_cost.load(Ordering::Relaxed);
        if cost > 0 {
            self.verify_bcrypt(secret, &format!("$2b${cost:02}${NO_SECRET}"));
        }
    }

    /// Notes that a bcrypt hash is stored.
    fn note_bcrypt(&self, cost: u32) {
        self.bcrypt_cost.fetch_max(cost, Ordering::Relaxed);
    }
}

impl SecretHasher {
    /// Creates a hasher; `key` is shared by all exchanges of a database, `parallel` limits concurrent Argon2id computations.
    #[must_use]
    pub fn new(key: [u8; 32], parallel: usize) -> SecretHasher {
        SecretHasher { key: Arc::new(key), queue: HashQueue::new(parallel), algorithms: Arc::default() }
    }

    /// Expects bcrypt hashes of an import: from now on failures take the time of one in addition.
    pub fn expect_imported(&self) {
        self.algorithms.note_bcrypt(IMPORTED_COST);
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
        let (secret, algorithms) = (secret.to_owned(), self.algorithms.clone());
        let hash = move || algorithms.hash(&secret);
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
        if let Some(cost) = bcrypt_cost(stored) {
            self.algorithms.note_bcrypt(cost);
        }
        let (secret, stored, algorithms) = (secret.to_owned(), stored.to_owned(), self.algorithms.clone());
        let verify = move || algorithms.verify(&secret, &stored);
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
        let (secret, algorithms) = (secret.to_owned(), self.algorithms.clone());
        self.queue.run(class, check, move || algorithms.refuse(&secret), |()| true).await
    }
}

/// Returns whether a stored hash should be replaced by one of today's kind after the next good login.
#[must_use]
pub fn is_outdated(stored: &str) -> bool {
    stored.starts_with("$2")
}

/// Returns the cost of a bcrypt hash; none of another kind of hash.
fn bcrypt_cost(stored: &str) -> Option<u32> {
    is_outdated(stored).then(|| stored.split('$').nth(2)?.parse().ok()).flatten()
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
        assert_eq!(bcrypt_cost(&hash), Some(4));
    }

    #[tokio::test]
    async fn failures_cost_the_same_hashes_whatever_is_stored() {
        let hasher = hasher();
        let stored = [
            hasher.hash("secret").await.expect("hash"),
            hasher.keyed("secret"),
            bcrypt::hash("secret", 4).expect("hash"),
        ];
        // As at the start of an exchange with an import; with hashes that a test has time for.
        hasher.algorithms.note_bcrypt(4);
        let computed = || hasher.algorithms.computed.each_ref().map(Counter::value);
        for stored in stored.iter().map(Some).chain([None]) {
            let before = computed();
            match stored {
                Some(stored) => assert!(!hasher.verify("wrong", stored).await.expect("verify")),
                None => {
                    let refused = hasher.refuse_in(PriorityClass::Known, "wrong", || Ok(())).await;
                    refused.expect("refuse");
                }
            }
            let after = computed();
            assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 1], "{stored:?}");
        }
    }

    #[tokio::test]
    async fn failures_cost_no_bcrypt_where_nothing_was_imported() {
        let hasher = hasher();
        let stored = hasher.hash("secret").await.expect("hash");
        assert!(!hasher.verify("wrong", &stored).await.expect("verify"));
        assert_eq!(hasher.algorithms.computed[1].value(), 0);
    }

    #[test]
    fn hash_that_belongs_to_no_secret_is_read_and_takes_its_time() {
        let text = format!("$2b$04${NO_SECRET}");
        assert!(matches!(bcrypt::verify("secret", &text), Ok(false)), "an error would take no time");
    }
}
