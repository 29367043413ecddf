//! Signatures over deployment texts: RSASSA-PSS with SHA-256 (agreement protocol 4.3).
//!
//! A text is accepted when any trusted key verifies it. A trusted key is a bare public key or a self-signed
//! certificate that meets the rules in [`verify_with_key`].

use rand::CryptoRng;
use rsa::{RsaPublicKey, pkcs8::DecodePublicKey};
use sha2::{Digest, Sha256};
use x509_cert::{
    Certificate,
    der::{
        Decode, Encode,
        asn1::{PrintableStringRef, Utf8StringRef},
        oid::ObjectIdentifier,
    },
    ext::pkix::{BasicConstraints, KeyUsage, KeyUsages},
    name::Name,
};

use crate::{agreement::keys::PrivateKey, base64_text, pem_block, pss};

const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const LONGEST_LIFE_SECS: u64 = 3653 * 24 * 60 * 60;

/// Error of creating a signature or querying a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The signature is not base64.
    #[error("the signature is not base64")]
    Encoding,
    /// The key text holds no PEM block.
    #[error("the key holds no PEM block")]
    NoBlock,
    /// The PEM block is neither a public key nor a certificate.
    #[error("the block is neither a public key nor a certificate")]
    NoKey,
    /// The key is of another algorithm than RSA.
    #[error("the key is not an RSA key")]
    Algorithm,
    /// The certificate breaks a rule, named here.
    #[error("the certificate is not usable: {0}")]
    Certificate(&'static str),
    /// The private key cannot sign.
    #[error("the private key cannot sign")]
    Signing,
}

/// Signs a text with the longest salt that fits and returns base64 in one line.
///
/// # Errors
/// [`SignatureError::Signing`] when the key is too short or inconsistent.
pub fn sign<R: CryptoRng + ?Sized>(
    text: &str,
    key: &PrivateKey,
    rng: &mut R,
) -> Result<String, SignatureError> {
    pss::sign::<Sha256, R>(&key.rsa, &Sha256::digest(text.as_bytes()), rng)
        .map(|signature| base64_text::encode(&signature))
        .map_err(|_| SignatureError::Signing)
}

/// Returns true if one key file verifies the signature.
///
/// The first PEM block counts, by its content and not by its label. A certificate must be valid at `now_secs`, live
/// at most 3653 days, have a positive serial number, basic constraints without CA, key usage digital signature
/// only, and an issuer with a common name that is also its subject.
///
/// # Units
/// `now_secs`: seconds since 1970 UTC.
/// # Errors
/// [`SignatureError`] when the signature is no base64 or the key cannot be used at all.
pub fn verify_with_key(
    text: &str,
    signature: &str,
    key_file: &str,
    now_secs: u64,
) -> Result<bool, SignatureError> {
    let key = read_key(key_file, now_secs)?;
    let signature = base64_text::decode(signature).map_err(|_| SignatureError::Encoding)?;
    Ok(pss::verify::<Sha256>(&key, &Sha256::digest(text.as_bytes()), &signature))
}

/// The index of the first key file that verifies the signature.
///
/// Unreadable key files are passed over; a key of another algorithm ends the search without success, so that a
/// directory with a foreign key is noticed instead of silently trusted in part.
pub fn verify<K: AsRef<str>>(text: &str, signature: &str, key_files: &[K], now_secs: u64) -> Option<usize> {
    for (index, file) in key_files.iter().enumerate() {
        match verify_with_key(text, signature, file.as_ref(), now_secs) {
            Ok(true) => return Some(index),
            Err(SignatureError::Algorithm) => return None,
            Ok(false) | Err(_) => {}
        }
    }
    None
}

/// The node's test of a deployment text: an empty text needs no signature, any other must be verified by a key.
pub fn is_accepted<K: AsRef<str>>(text: &str, signature: &str, key_files: &[K], now_secs: u64) -> bool {
    text.is_empty() || verify(text, signature, key_files, now_secs).is_some()
}

fn read_key(key_file: &str, now_secs: u64) -> Result<RsaPublicKey, SignatureError> {
    let (_, der) = pem_block::first_block(key_file).ok_or(SignatureError::NoBlock)?;
    if let Ok(spki) = x509_cert::spki::SubjectPublicKeyInfoRef::from_der(&der) {
        if spki.algorithm.oid != RSA_ENCRYPTION {
            return Err(SignatureError::Algorithm);
        }
        return RsaPublicKey::from_public_key_der(&der).map_err(|_| SignatureError::NoKey);
    }
    let certificate = Certificate::from_der(&der).map_err(|_| SignatureError::NoKey)?;
    check_certificate(&certificate, now_secs)?;
    let spki = &certificate.tbs_certificate.subject_public_key_info;
    if spki.algorithm.oid != RSA_ENCRYPTION {
        return Err(SignatureError::Algorithm);
    }
    let der = spki.to_der().map_err(|_| SignatureError::NoKey)?;
    RsaPublicKey::from_public_key_der(&der).map_err(|_| SignatureError::NoKey)
}

fn check_certificate(certificate: &Certificate, now_secs: u64) -> Result<(), SignatureError> {
    let body = &certificate.tbs_certificate;
    let ensure = |holds: bool, rule| if holds { Ok(()) } else { Err(SignatureError::Certificate(rule)) };
    let from = body.validity.not_before.to_unix_duration().as_secs();
    let until = body.validity.not_after.to_unix_duration().as_secs();
    ensure((from..=until).contains(&now_secs), "it is not valid now")?;
    ensure(until - from <= LONGEST_LIFE_SECS, "it is valid for more than 3653 days")?;
    let serial = body.serial_number.as_bytes();
    let positive =
        serial.first().is_some_and(|byte| byte & 0x80 == 0) && serial.iter().any(|byte| *byte != 0);
    ensure(positive, "its serial number is not positive")?;
    let constraints = body.get::<BasicConstraints>().ok().flatten();
    ensure(constraints.is_some_and(|(_, constraints)| !constraints.ca), "it must state that it is not a CA")?;
    let usage = body.get::<KeyUsage>().ok().flatten().map(|(_, usage)| usage.0);
    ensure(
        usage.is_some_and(|usage| usage == KeyUsages::DigitalSignature),
        "its key usage must be digital signature only",
    )?;
    ensure(has_common_name(&body.issuer), "its issuer has no common name")?;
    ensure(body.issuer == body.subject, "its issuer is not its subject")
}

fn has_common_name(name: &Name) -> bool {
    !first_text(name, COMMON_NAME).is_empty()
}

/// The first text of a name that is not empty, such as its common name; empty when there is none.
fn first_text(name: &Name, part: ObjectIdentifier) -> String {
    let texts = name.0.iter().flat_map(|set| set.0.iter()).filter(|one| one.oid == part).filter_map(|one| {
        let utf8 = one.value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
        let printable =
            || one.value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned());
        utf8.or_else(|_| printable()).ok()
    });
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

/// The human-readable content of a key's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateFacts {
    /// Serial number in hexadecimal bytes, separated by colons.
    pub serial_number: String,
    /// Common name of the subject.
    pub common_name: String,
    /// Organization of the subject.
    pub organization: String,
    /// Start of its validity, seconds since 1970.
    pub not_before_secs: u64,
    /// End of its validity, seconds since 1970.
    pub not_after_secs: u64,
}

/// Reads the certificate in a key file; `None` for a bare key or an unreadable file.
pub fn certificate_facts(key_file: &str) -> Option<CertificateFacts> {
    let (_, der) = pem_block::first_block(key_file)?;
    let body = Certificate::from_der(&der).ok()?.tbs_certificate;
    let bytes = body.serial_number.as_bytes().iter().map(|byte| format!("{byte:02x}"));
    Some(CertificateFacts {
        serial_number: bytes.collect::<Vec<String>>().join(":"),
        common_name: first_text(&body.subject, COMMON_NAME),
        organization: first_text(&body.subject, ORGANIZATION),
        not_before_secs: body.validity.not_before.to_unix_duration().as_secs(),
        not_after_secs: body.validity.not_after.to_unix_duration().as_secs(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_signed_with_a_new_key_verifies_with_its_public_half_only() {
        let mut rng = rand::rng();
        let key = PrivateKey::generate(&mut rng, 2048).unwrap();
        let other = PrivateKey::generate(&mut rng, 2048).unwrap().public_key().unwrap().to_pem();
        let public = key.public_key().unwrap().to_pem();
        let signature = sign("{\"services\":{}}", &key, &mut rng).unwrap();
        assert_eq!(verify("{\"services\":{}}", &signature, &[other.as_str(), &public], 0), Some(1));
        assert_eq!(verify("{\"services\":{} }", &signature, &[public.as_str()], 0), None);
        assert_eq!(verify::<&str>("{\"services\":{}}", &signature, &[], 0), None);
    }
}

#[cfg(test)]
mod vectors {
    use super::*;
    use crate::vector_file;

    /// The certificates of the vectors are valid from 2024-03-01 to 2033-03-01.
    const NOW: u64 = 1_760_000_000;

    #[test]
    fn every_signature_is_judged_as_by_the_reference() {
        vector_file::for_each("signatures.jsonl", |line| {
            let keys: Vec<&str> = line["public_keys"]
                .as_array()
                .expect("keys")
                .iter()
                .map(|key| key.as_str().expect("text"))
                .collect();
            let text = line["deployment"].as_str().expect("deployment");
            let signature = line["signature"].as_str().expect("signature");
            let index = verify(text, signature, &keys, NOW);
            assert_eq!(index.is_some(), line["verified"] == true);
            assert_eq!(index.map(|index| index as u64), line["verified_by"].as_u64());
            assert_eq!(is_accepted(text, signature, &keys, NOW), line["agent_accepts"] == true);
            let verdict = match verify_with_key(text, signature, keys.first().unwrap_or(&""), NOW) {
                Ok(true) => "verified",
                Ok(false) => "not verified",
                Err(_) => "error",
            };
            if let Some(expected) = line["single_key_verdict"].as_str().filter(|_| line["fault"].is_null()) {
                assert_eq!(verdict, expected);
            }
        });
    }
}
