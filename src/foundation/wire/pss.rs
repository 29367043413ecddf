//! RSASSA-PSS with maximal salt on signing and any salt length on verifying (agreement protocol 1.2, 4.3).
//!
//! The verifier of the `rsa` crate requires one salt length, so EMSA-PSS-VERIFY (RFC 8017, 9.1.2) is implemented here.

use rand::CryptoRng;
use rsa::{BigUint, Pss, RsaPrivateKey, RsaPublicKey, traits::PublicKeyParts};
use sha2::digest::{Digest, DynDigest};

/// Adapts a generator of the workspace's `rand` to the older traits of the `rsa` crate.
pub(crate) struct RsaRng<'a, R: ?Sized>(pub &'a mut R);

impl<R: CryptoRng + ?Sized> rsa::rand_core::RngCore for RsaRng<'_, R> {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rsa::rand_core::Error> {
        self.0.fill_bytes(bytes);
        Ok(())
    }
}

impl<R: CryptoRng + ?Sized> rsa::rand_core::CryptoRng for RsaRng<'_, R> {}

/// Signs `digest` (the output of `D`) with the longest salt that fits.
///
/// # Errors
/// When the key is too small for the digest or inconsistent.
pub(crate) fn sign<D, R>(key: &RsaPrivateKey, digest: &[u8], rng: &mut R) -> Result<Vec<u8>, rsa::Error>
where
    D: 'static + Digest + DynDigest + Send + Sync,
    R: CryptoRng + ?Sized,
{
    let encoded_len = (key.n().bits() - 1).div_ceil(8);
    let salt_len =
        encoded_len.checked_sub(<D as Digest>::output_size() + 2).ok_or(rsa::Error::MessageTooLong)?;
    key.sign_with_rng(&mut RsaRng(rng), Pss::new_blinded_with_salt::<D>(salt_len), digest)
}

/// Returns true if `signature` over `digest` (the output of `D`) was created by the owner of `key`, with any
/// salt length.
pub(crate) fn verify<D: Digest>(key: &RsaPublicKey, digest: &[u8], signature: &[u8]) -> bool {
    encoded_message(key, signature)
        .is_some_and(|encoded| encoding_matches::<D>(&encoded, key.n().bits() - 1, digest))
}

/// The signature raised to the public exponent, as wide as the encoded message.
fn encoded_message(key: &RsaPublicKey, signature: &[u8]) -> Option<Vec<u8>> {
    if signature.len() != key.size() {
        return None;
    }
    let number = BigUint::from_bytes_be(signature);
    if number >= *key.n() {
        return None;
    }
    let bytes = number.modpow(key.e(), key.n()).to_bytes_be();
    let width = (key.n().bits() - 1).div_ceil(8);
    let mut encoded = vec![0; width.checked_sub(bytes.len())?];
    encoded.extend_from_slice(&bytes);
    Some(encoded)
}

fn encoding_matches<D: Digest>(encoded: &[u8], encoded_bits: usize, digest: &[u8]) -> bool {
    let hash_len = <D as Digest>::output_size();
    let (Some((&0xbc, body)), true) = (encoded.split_last(), encoded.len() >= hash_len + 2) else {
        return false;
    };
    let (masked, hash) = body.split_at(body.len() - hash_len);
    let unused_bits = 8 * encoded.len() - encoded_bits;
    let keep = 0xffu8 >> unused_bits;
    if masked[0] & !keep != 0 {
        return false;
    }
    let mut block = unmask::<D>(masked, hash);
    block[0] &= keep;
    let Some(salt) = block.iter().position(|byte| *byte != 0).filter(|at| block[*at] == 1) else {
        return false;
    };
    let expected =
        D::new().chain_update([0u8; 8]).chain_update(digest).chain_update(&block[salt + 1..]).finalize();
    expected.as_slice() == hash
}

/// Exclusive-or of `masked` with the mask generated from `seed` by MGF1.
fn unmask<D: Digest>(masked: &[u8], seed: &[u8]) -> Vec<u8> {
    let mut output = masked.to_vec();
    for (counter, chunk) in output.chunks_mut(<D as Digest>::output_size()).enumerate() {
        // A key of 2^32 digests cannot exist, so the counter never wraps.
        let mask = D::new().chain_update(seed).chain_update((counter as u32).to_be_bytes()).finalize();
        chunk.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
    output
}
