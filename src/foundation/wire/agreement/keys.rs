//! RSA keys of agents, agbots and publishers: generating, reading and writing them (agreement protocol 1.1, 4.3).

use std::fmt;

use rand::CryptoRng;
use rsa::{
    RsaPrivateKey, RsaPublicKey,
    pkcs1::{DecodeRsaPrivateKey, EncodeRsaPrivateKey},
    pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePublicKey},
};

use crate::{base64_text, pem_block, pss::RsaRng};

/// Modulus length of messaging keys, in bits.
pub const MESSAGING_KEY_BITS: usize = 2048;

/// Error of creating or reading a key. Never quotes key material.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text holds no PEM block or no base64.
    #[error("the text holds no PEM block or no base64")]
    Text,
    /// The bytes are not an RSA key in the expected form.
    #[error("the bytes are not an RSA key in the expected form")]
    Format,
    /// No key of this length could be created.
    #[error("no RSA key of {0} bits could be created")]
    Generation(usize),
}

/// A private RSA key; its `Debug` form shows only its length.
#[derive(Clone)]
pub struct PrivateKey {
    pub(crate) rsa: RsaPrivateKey,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use rsa::traits::PublicKeyParts;
        write!(formatter, "PrivateKey({} bits)", self.rsa.n().bits())
    }
}

impl PrivateKey {
    /// Generates a key of `bits` bits. Takes a large part of a second: call it off the async threads.
    ///
    /// # Errors
    /// [`KeyError::Generation`] for lengths that RSA cannot have.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R, bits: usize) -> Result<Self, KeyError> {
        if !(1024..=8192).contains(&bits) {
            return Err(KeyError::Generation(bits));
        }
        let rsa = RsaPrivateKey::new(&mut RsaRng(rng), bits).map_err(|_| KeyError::Generation(bits))?;
        Ok(Self { rsa })
    }

    /// Reads the first PEM block of a text as PKCS#1 or PKCS#8.
    ///
    /// # Errors
    /// [`KeyError::Text`] without a block, [`KeyError::Format`] when it is no RSA key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let (_, der) = pem_block::first_block(text).ok_or(KeyError::Text)?;
        let rsa = RsaPrivateKey::from_pkcs1_der(&der)
            .or_else(|_| RsaPrivateKey::from_pkcs8_der(&der))
            .map_err(|_| KeyError::Format)?;
        rsa.validate().map_err(|_| KeyError::Format)?;
        Ok(Self { rsa })
    }

    /// The key as a PEM block `RSA PRIVATE KEY` (PKCS#1).
    ///
    /// # Errors
    /// [`KeyError::Format`] when the key cannot be encoded.
    pub fn to_pkcs1_pem(&self) -> Result<String, KeyError> {
        let der = self.rsa.to_pkcs1_der().map_err(|_| KeyError::Format)?;
        Ok(pem_block::write_block("RSA PRIVATE KEY", der.as_bytes()))
    }

    /// The public half.
    ///
    /// # Errors
    /// [`KeyError::Format`] when it cannot be encoded.
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        let rsa = self.rsa.to_public_key();
        let der = rsa.to_public_key_der().map_err(|_| KeyError::Format)?.as_bytes().to_vec();
        Ok(PublicKey { rsa, der })
    }
}

/// A public RSA key together with the exact bytes it was read from.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    pub(crate) rsa: RsaPublicKey,
    der: Vec<u8>,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PublicKey({})", self.to_base64())
    }
}

impl PublicKey {
    /// Reads DER SubjectPublicKeyInfo without trailing bytes.
    ///
    /// # Errors
    /// [`KeyError::Format`] for everything else, other algorithms included.
    pub fn from_spki_der(der: &[u8]) -> Result<Self, KeyError> {
        let rsa = RsaPublicKey::from_public_key_der(der).map_err(|_| KeyError::Format)?;
        Ok(Self { rsa, der: der.to_vec() })
    }

    /// Reads the form that travels in exchange records: base64 of SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`KeyError::Text`] for wrong base64, [`KeyError::Format`] for wrong content.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        Self::from_spki_der(&base64_text::decode(text).map_err(|_| KeyError::Text)?)
    }

    /// DER SubjectPublicKeyInfo.
    pub fn spki_der(&self) -> &[u8] {
        &self.der
    }

    /// The form that travels in exchange records.
    pub fn to_base64(&self) -> String {
        base64_text::encode(&self.der)
    }

    /// The key as a PEM block `PUBLIC KEY`.
    pub fn to_pem(&self) -> String {
        pem_block::write_block("PUBLIC KEY", &self.der)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_key_survives_writing_and_reading() {
        let key = PrivateKey::generate(&mut rand::rng(), MESSAGING_KEY_BITS).unwrap();
        let again = PrivateKey::from_pem(&key.to_pkcs1_pem().unwrap()).unwrap();
        let public = again.public_key().unwrap();
        assert_eq!(public, key.public_key().unwrap());
        assert_eq!(public.spki_der().len(), 294);
        assert_eq!(PublicKey::from_base64(&public.to_base64()), Ok(public));
    }

    #[test]
    fn keys_do_not_show_their_secret_in_debug_output() {
        let key = PrivateKey::generate(&mut rand::rng(), 1024).unwrap();
        assert_eq!(format!("{key:?}"), "PrivateKey(1024 bits)");
    }

    #[test]
    fn absurd_lengths_are_refused() {
        assert_eq!(PrivateKey::generate(&mut rand::rng(), 0).unwrap_err(), KeyError::Generation(0));
    }
}
