//! The sealed envelope in which agreement messages travel through mailboxes (agreement protocol 1.2).
//!
//! The message is signed by the sender (PSS, SHA3-256), the signed wrapper is encrypted with a fresh AES key, and
//! that key is encrypted for the receiver (OAEP, SHA3-256). Every failure to open is permanent: the receiver drops
//! the message. All private key operations are blinded; run them off the async threads.

use std::collections::{BTreeSet, VecDeque};

use aes_gcm::{
    Aes128Gcm, Aes256Gcm, AesGcm, KeyInit,
    aead::{Aead, consts::U12},
    aes::Aes192,
};
use rand::CryptoRng;
use rsa::{Oaep, traits::PublicKeyParts};
use serde_json::json;
use sha3::{Digest, Sha3_256};

use super::keys::{PrivateKey, PublicKey};
use crate::{
    base64_text,
    json_fields::Fields,
    pss::{self, RsaRng},
};

const NONCE_LEN: usize = 12;

/// Error of sealing or opening an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// A layer is not the expected base64 or JSON.
    #[error("the {0} of the envelope is not in the expected form")]
    Form(&'static str),
    /// A part of the envelope is absent or empty.
    #[error("the envelope has no {0}")]
    Missing(&'static str),
    /// The content key was not encrypted for this receiver, or was tampered with.
    #[error("the content key cannot be decrypted with this receiver's key")]
    KeyDecryption,
    /// The content key or nonce has a length that the cipher does not know.
    #[error("the {0} has an unusable length")]
    Length(&'static str),
    /// The content was tampered with.
    #[error("the content does not match its authentication tag")]
    Content,
    /// The signature was not created with the embedded key over this message.
    #[error("the signature does not match the message")]
    Signature,
    /// The embedded key is not the one that the exchange attached.
    #[error("the signer is not the sender named by the exchange")]
    Sender,
    /// The same envelope was processed before.
    #[error("the envelope was processed before")]
    Replayed,
    /// The sender's or receiver's key cannot be used.
    #[error("the {0} key cannot be used")]
    UnusableKey(&'static str),
}

/// Seals a message for one receiver and returns the text for the mailbox (base64 of the envelope).
///
/// # Errors
/// [`EnvelopeError::UnusableKey`] when a key is too short or inconsistent.
pub fn seal<R: CryptoRng + ?Sized>(
    message: &[u8],
    sender: &PrivateKey,
    receiver: &PublicKey,
    rng: &mut R,
) -> Result<String, EnvelopeError> {
    let signature = pss::sign::<Sha3_256, R>(&sender.rsa, &Sha3_256::digest(message), rng)
        .map_err(|_| EnvelopeError::UnusableKey("sender's"))?;
    let signer = sender.public_key().map_err(|_| EnvelopeError::UnusableKey("sender's"))?;
    let wrapper = json!({
        "msg": base64_text::encode(message),
        "signature": base64_text::encode(&signature),
        "signerPubkey": signer.to_base64(),
    })
    .to_string();
    let mut key = [0; 32];
    let mut nonce = [0; NONCE_LEN];
    rng.fill_bytes(&mut key);
    rng.fill_bytes(&mut nonce);
    let content = Aes256Gcm::new(&key.into())
        .encrypt(&nonce.into(), wrapper.as_bytes())
        .map_err(|_| EnvelopeError::Content)?;
    let values = json!({"key": base64_text::encode(&key), "nonce": base64_text::encode(&nonce)}).to_string();
    let encrypted = receiver
        .rsa
        .encrypt(&mut RsaRng(rng), Oaep::new::<Sha3_256>(), values.as_bytes())
        .map_err(|_| EnvelopeError::UnusableKey("receiver's"))?;
    let envelope = json!({
        "wrappedMessage": base64_text::encode(&content),
        "symmetricValues": base64_text::encode(&encrypted),
    });
    Ok(base64_text::encode(envelope.to_string().as_bytes()))
}

/// Opens the text of a mailbox entry and returns the signed message.
///
/// `attached_sender` is the key (SubjectPublicKeyInfo) that the exchange attached to the entry. `rng` blinds the
/// private key operation.
///
/// # Errors
/// [`EnvelopeError`]: any of them means that the entry must be dropped.
pub fn open<R: CryptoRng + ?Sized>(
    mailbox_text: &str,
    receiver: &PrivateKey,
    attached_sender: &[u8],
    rng: &mut R,
) -> Result<Vec<u8>, EnvelopeError> {
    let text = base64_text::decode(mailbox_text).map_err(|_| EnvelopeError::Form("outer layer"))?;
    let envelope = fields(&text, "outer layer")?;
    let content = part(&envelope, "wrappedMessage")?;
    let encrypted = part(&envelope, "symmetricValues")?;
    let wrapper = decrypt(&content, &encrypted, receiver, rng)?;
    let wrapper = fields(&wrapper, "signed layer")?;
    let signature = part(&wrapper, "signature")?;
    let signer = part(&wrapper, "signerPubkey")?;
    let message = wrapper.text("msg").map_err(|_| EnvelopeError::Form("msg"))?;
    let message = base64_text::decode(&message).map_err(|_| EnvelopeError::Form("msg"))?;
    if wrapper.any("msg").is_none() {
        return Err(EnvelopeError::Missing("msg"));
    }
    let key = PublicKey::from_spki_der(&signer).map_err(|_| EnvelopeError::Form("signerPubkey"))?;
    if !pss::verify::<Sha3_256>(&key.rsa, &Sha3_256::digest(&message), &signature) {
        return Err(EnvelopeError::Signature);
    }
    if signer != attached_sender {
        return Err(EnvelopeError::Sender);
    }
    Ok(message)
}

fn decrypt<R: CryptoRng + ?Sized>(
    content: &[u8],
    encrypted: &[u8],
    receiver: &PrivateKey,
    rng: &mut R,
) -> Result<Vec<u8>, EnvelopeError> {
    if encrypted.len() != receiver.rsa.size() {
        return Err(EnvelopeError::KeyDecryption);
    }
    let values = receiver
        .rsa
        .decrypt_blinded(&mut RsaRng(rng), Oaep::new::<Sha3_256>(), encrypted)
        .map_err(|_| EnvelopeError::KeyDecryption)?;
    let values = fields(&values, "symmetric values")?;
    let key = part(&values, "key")?;
    let nonce: [u8; NONCE_LEN] =
        part(&values, "nonce")?.try_into().map_err(|_| EnvelopeError::Length("nonce"))?;
    decrypt_content(&key, nonce, content)
}

/// Senders use 256 bit keys; the shorter AES keys are accepted as the existing programs do.
fn decrypt_content(key: &[u8], nonce: [u8; NONCE_LEN], content: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
    fn run<C: Aead<NonceSize = U12> + KeyInit>(
        key: &[u8],
        nonce: [u8; NONCE_LEN],
        content: &[u8],
    ) -> Option<Vec<u8>> {
        C::new_from_slice(key).ok()?.decrypt(&nonce.into(), content).ok()
    }
    match key.len() {
        16 => run::<Aes128Gcm>(key, nonce, content),
        24 => run::<AesGcm<Aes192, U12>>(key, nonce, content),
        32 => run::<Aes256Gcm>(key, nonce, content),
        _ => return Err(EnvelopeError::Length("key")),
    }
    .ok_or(EnvelopeError::Content)
}

fn fields(bytes: &[u8], layer: &'static str) -> Result<Fields, EnvelopeError> {
    Fields::parse(&String::from_utf8_lossy(bytes)).map_err(|_| EnvelopeError::Form(layer))
}

fn part(fields: &Fields, name: &'static str) -> Result<Vec<u8>, EnvelopeError> {
    let text = fields.text(name).map_err(|_| EnvelopeError::Form(name))?;
    let bytes = base64_text::decode(&text).map_err(|_| EnvelopeError::Form(name))?;
    if bytes.is_empty() { Err(EnvelopeError::Missing(name)) } else { Ok(bytes) }
}

/// Records the envelopes that were processed, so that a copy of one is distinguished from a new message.
///
/// Two envelopes of the same message differ (fresh key and nonce), so an equal text is always a copy.
///
/// # Shape
/// At most `capacity` digests, the oldest are forgotten first.
#[derive(Debug)]
pub struct ReplayGuard {
    capacity: usize,
    order: VecDeque<[u8; 32]>,
    known: BTreeSet<[u8; 32]>,
}

impl ReplayGuard {
    /// A guard that remembers `capacity` envelopes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, order: VecDeque::new(), known: BTreeSet::new() }
    }

    /// Rejects an envelope that was seen before.
    ///
    /// # Errors
    /// [`EnvelopeError::Replayed`] when [`ReplayGuard::record`] has seen it.
    pub fn check(&self, mailbox_text: &str) -> Result<(), EnvelopeError> {
        if self.known.contains(&digest(mailbox_text)) { Err(EnvelopeError::Replayed) } else { Ok(()) }
    }

    /// Marks an envelope as processed. Call it after the effects, so that a crash in between repeats them.
    pub fn record(&mut self, mailbox_text: &str) {
        let digest = digest(mailbox_text);
        if self.capacity == 0 || !self.known.insert(digest) {
            return;
        }
        self.order.push_back(digest);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha3_256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_message_opens_only_for_its_receiver_and_from_its_sender() {
        let mut rng = rand::rng();
        let sender = PrivateKey::generate(&mut rng, 2048).unwrap();
        let receiver = PrivateKey::generate(&mut rng, 2048).unwrap();
        let from = sender.public_key().unwrap();
        let sealed = seal(b"hello", &sender, &receiver.public_key().unwrap(), &mut rng).unwrap();
        assert_eq!(open(&sealed, &receiver, from.spki_der(), &mut rng).unwrap(), b"hello");
        assert_eq!(open(&sealed, &sender, from.spki_der(), &mut rng), Err(EnvelopeError::KeyDecryption));
        let other = receiver.public_key().unwrap();
        assert_eq!(open(&sealed, &receiver, other.spki_der(), &mut rng), Err(EnvelopeError::Sender));
        assert_ne!(seal(b"hello", &sender, &other, &mut rng).unwrap(), sealed);
    }

    #[test]
    fn duplicate_of_a_processed_envelope_is_recognized() {
        let mut guard = ReplayGuard::new(2);
        assert_eq!(guard.check("a"), Ok(()));
        guard.record("a");
        guard.record("b");
        assert_eq!(guard.check("a"), Err(EnvelopeError::Replayed));
        guard.record("c");
        assert_eq!(guard.check("a"), Ok(()));
        assert_eq!(guard.check("c"), Err(EnvelopeError::Replayed));
    }
}

#[cfg(test)]
mod vectors {
    use super::*;
    use crate::vector_file;

    #[test]
    fn every_envelope_is_judged_and_opened_as_by_the_reference() {
        let mut rng = rand::rng();
        let rng = std::cell::RefCell::new(&mut rng);
        vector_file::for_each("envelopes.jsonl", |line| {
            let receiver =
                PrivateKey::from_pem(line["receiver_private_pem"].as_str().expect("pem")).expect("key");
            let sender = base64_text::decode(line["sender_public_der_b64"].as_str().unwrap_or_default())
                .unwrap_or_default();
            let text = line["envelope_b64"].as_str().expect("envelope_b64");
            let opened = open(text, &receiver, &sender, &mut **rng.borrow_mut());
            assert_eq!(opened.is_ok(), line["accepted"] == true, "{opened:?}");
            match opened {
                Ok(message) => {
                    let expected = base64_text::decode(line["plaintext_b64"].as_str().unwrap_or_default());
                    assert_eq!(message, expected.expect("plaintext_b64"));
                }
                Err(error) => assert_eq!(error == EnvelopeError::Sender, line["decrypts"] == true, "{error}"),
            }
        });
    }
}
