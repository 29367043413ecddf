//! Signs the texts of services, patterns and policies that nodes verify: deployments and deployment overrides.
//!
//! The signature covers the exact text that is sent (agreement protocol 4.3), so a text that is given as an object is
//! serialized only once, here.

use evenkeel_wire::agreement::keys::PrivateKey;
use evenkeel_wire::signature;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::key::{KeyPaths, now_secs, sign_text};

/// A member that holds a text, with the member that holds its signature.
#[derive(Debug, Clone, Copy)]
pub struct SignedMember {
    /// The text.
    pub text: &'static str,
    /// The signature.
    pub signature: &'static str,
}

/// Signed members of a service.
pub const DEPLOYMENTS: [SignedMember; 2] = [
    SignedMember { text: "deployment", signature: "deploymentSignature" },
    SignedMember { text: "clusterDeployment", signature: "clusterDeploymentSignature" },
];

/// Signed member of each version that a pattern or a deployment policy names.
const OVERRIDES: SignedMember =
    SignedMember { text: "deployment_overrides", signature: "deployment_overrides_signature" };

impl SignedMember {
    /// Serializes an object that is given instead of a text; an empty object becomes an empty text.
    pub fn normalize(self, members: &mut Map<String, Value>) {
        let Some(value) = members.get_mut(self.text) else { return };
        let text = match value.take() {
            Value::Null => String::new(),
            Value::String(text) => text,
            Value::Object(object) if object.is_empty() => String::new(),
            object => object.to_string(),
        };
        *value = Value::String(text);
    }
}

/// Serializes the deployment overrides of a pattern or a deployment policy.
pub fn normalize_overrides(document: &mut Value) {
    versions(document).for_each(|version| OVERRIDES.normalize(version));
}

/// Signs the deployment overrides of a deployment policy, or of changes to one. The key is that of the service, because
/// the exchange stores no key with a policy.
///
/// # Errors
/// With status 4 for unusable keys.
pub fn sign_policy(document: &mut Value, context: &Context) -> Outcome {
    let keys = KeyPaths::choose(None, None, &context.settings);
    sign_overrides(document, &keys).map(drop)
}

/// Signs the deployment overrides of a pattern or a deployment policy; returns the public key of the new signatures.
///
/// # Errors
/// With status 4 for unusable keys, 9 when the public key does not belong to the private one.
pub fn sign_overrides(document: &mut Value, keys: &KeyPaths) -> Outcome<Option<PublicKey>> {
    normalize_overrides(document);
    let mut signer = Signer::new(keys);
    for version in versions(document) {
        signer.sign(version, OVERRIDES)?;
    }
    signer.public_key()
}

/// Returns the versions that a pattern names for its services, or a deployment policy for its service.
fn versions(document: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let members = document.as_object_mut().into_iter().flatten();
    let services = members.flat_map(|(name, value)| match (name.as_str(), value) {
        ("service", one @ Value::Object(_)) => std::slice::from_mut(one),
        ("services", Value::Array(all)) => all.as_mut_slice(),
        _ => &mut [],
    });
    let versions = services.filter_map(|service| service.get_mut("serviceVersions")?.as_array_mut());
    versions.flatten().filter_map(Value::as_object_mut)
}

/// A public key as it is stored with a resource.
#[derive(Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// Name under which it is stored.
    pub name: String,
    /// The key.
    pub pem: String,
}

/// Signs the texts that are not signed yet, or all of them if the user names the private key. The key is read once,
/// when it is first needed.
#[derive(Debug)]
pub struct Signer<'a> {
    keys: &'a KeyPaths,
    private: Option<PrivateKey>,
    /// Texts with their new signatures.
    signed: Vec<(String, String)>,
}

impl<'a> Signer<'a> {
    /// Creates one that has signed nothing.
    pub fn new(keys: &'a KeyPaths) -> Self {
        Self { keys, private: None, signed: Vec::new() }
    }

    /// Signs a text, if there is one.
    ///
    /// # Errors
    /// With status 4 when the private key cannot be used.
    pub fn sign(&mut self, members: &mut Map<String, Value>, member: SignedMember) -> Outcome {
        let given = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (text, existing) = (given(member.text), given(member.signature));
        if text.is_empty() || (!existing.is_empty() && !self.keys.is_explicit) {
            return Ok(());
        }
        let private = match self.private.take() {
            Some(private) => private,
            None => self.keys.read_private()?,
        };
        let signature = sign_text(&text, self.private.insert(private))?;
        members.insert(member.signature.to_owned(), Value::from(signature.as_str()));
        self.signed.push((text, signature));
        Ok(())
    }

    /// Returns the public key of the new signatures; `None` when there are none.
    ///
    /// # Errors
    /// With status 4 when it cannot be read, 9 when it does not verify them, because no node could then use the signed texts.
    pub fn public_key(self) -> Outcome<Option<PublicKey>> {
        let Some(private) = &self.private else { return Ok(None) };
        let (name, pem) = self.keys.read_public(private)?;
        for (text, signature) in &self.signed {
            verify(text, signature, &name, &pem)?;
        }
        Ok(Some(PublicKey { name, pem }))
    }
}

fn verify(text: &str, signature: &str, name: &str, pem: &str) -> Outcome {
    let why = match signature::verify_with_key(text, signature, pem, now_secs()) {
        Ok(true) => return Ok(()),
        Ok(false) => "it does not belong to the private key".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(CliError::new(
        Exit::SignatureInvalid,
        format!("the public key {name} does not verify the signature"),
        why,
        "give the public key that belongs to the private key with -K",
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::settings::Settings;

    /// Writes a private key and returns its paths.
    fn keys(directory: &tempfile::TempDir, name: &str) -> PathBuf {
        let key = PrivateKey::generate(&mut rand::rng(), 2048).expect("a key");
        let path = directory.path().join(name);
        std::fs::write(&path, key.to_pkcs1_pem().expect("PEM")).expect("a file");
        path
    }

    #[test]
    fn overrides_of_every_version_are_sent_and_signed_as_the_same_text() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = keys(&directory, "private.key");
        let keys = KeyPaths::choose(Some(&path), None, &Settings::default());
        let overrides = json!({"services": {"z": {"environment": ["A=1"]}, "a": {}}});
        let version = json!({"version": "1.0.0", "deployment_overrides": overrides});
        let plain = json!({"version": "2.0.0"});
        for mut document in [
            json!({"label": "p", "services": [{"serviceUrl": "s", "serviceVersions": [plain, version]}]}),
            json!({"label": "p", "service": {"name": "s", "serviceVersions": [plain, version]}}),
        ] {
            let key = sign_overrides(&mut document, &keys).expect("signed").expect("a key");
            assert_eq!(key.name, "private.public.pem");
            let service = document.pointer("/services/0").unwrap_or(&document["service"]);
            assert_eq!(service["serviceVersions"][0], plain);
            let signed = &service["serviceVersions"][1];
            let text = r#"{"services":{"z":{"environment":["A=1"]},"a":{}}}"#;
            assert_eq!(signed["deployment_overrides"], text);
            let signature = signed["deployment_overrides_signature"].as_str().expect("text");
            assert_eq!(signature::verify_with_key(text, signature, &key.pem, now_secs()), Ok(true));
        }
    }

    #[test]
    fn document_without_overrides_and_one_that_is_signed_need_no_key() {
        let mut missing = KeyPaths::choose(None, None, &Settings::default());
        missing.private = PathBuf::from("/nowhere/key");
        let signed = json!({"deployment_overrides": "{}", "deployment_overrides_signature": "s"});
        for version in [json!({"version": "1.0.0", "deployment_overrides": {}}), signed] {
            let mut document = json!({"service": {"serviceVersions": [version]}});
            assert_eq!(sign_overrides(&mut document, &missing).map_err(|error| error.exit), Ok(None));
        }
        let mut document = json!({"services": [{"serviceVersions": [{"deployment_overrides": "{}"}]}]});
        let failed = sign_overrides(&mut document, &missing).map_err(|error| error.exit);
        assert_eq!(failed, Err(Exit::File));
        let mut odd = json!({"services": 1, "service": [], "label": "x"});
        assert_eq!(sign_overrides(&mut odd, &missing).map_err(|error| error.exit), Ok(None));
    }

    #[test]
    fn public_key_of_another_pair_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = keys(&directory, "private.key");
        let other = PrivateKey::generate(&mut rand::rng(), 2048).expect("a key");
        let public = directory.path().join("other.pem");
        std::fs::write(&public, other.public_key().expect("a public key").to_pem()).expect("a file");
        let keys = KeyPaths::choose(Some(&path), Some(&public), &Settings::default());
        let mut document = json!({"service": {"serviceVersions": [{"deployment_overrides": "{}"}]}});
        let refused = sign_overrides(&mut document, &keys).map_err(|error| error.exit);
        assert_eq!(refused, Err(Exit::SignatureInvalid));
    }
}
