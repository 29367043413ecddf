//! Signing keys that the node trusts.

use serde::{Deserialize, Serialize};

/// Keys that the node trusts, of which each is a `K`, such as a [`ListedKey`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedKeys<K> {
    /// The keys.
    #[serde(default = "Vec::new")]
    pub pem: Vec<K>,
}

/// A key in a list, in the level of detail that the query asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ListedKey {
    /// File name.
    Name(String),
    /// The key with its certificate.
    Described(Box<TrustedKey>),
}

/// A key and the certificate around it.
///
/// Clients need both names and both instants even for a key without a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrustedKey {
    /// File name.
    pub id: String,
    /// `KeyPairSimple`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Serial number of the certificate.
    pub serial_number: String,
    /// Subject of the certificate.
    pub subject_names: SubjectNames,
    /// Always false.
    pub have_private_key: bool,
    /// Start of the certificate's validity.
    pub not_valid_before: String,
    /// End of the certificate's validity.
    pub not_valid_after: String,
    /// PEM text.
    pub public_key: String,
}

/// Subject of a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubjectNames {
    /// Common name.
    #[serde(rename = "commonName (CN)")]
    pub common_name: String,
    /// Organization.
    #[serde(rename = "organizationName (O)")]
    pub organization: String,
}
