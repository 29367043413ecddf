//! The agreement protocols that a policy accepts.
//!
//! There is only `Basic`; lists of ledgers come from former protocols and are only compared.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::is_zero;

/// The one protocol.
pub const BASIC_PROTOCOL: &str = "Basic";

/// The error that two policies have no agreement protocol in common.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("one side accepts the agreement protocols [{}], the other [{}]", left.join(", "), right.join(", "))]
pub struct NoCommonProtocol {
    /// The names on one side.
    pub left: Vec<String>,
    /// The names on the other side.
    pub right: Vec<String>,
}

/// A protocol that a policy accepts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgreementProtocol {
    /// The name.
    pub name: String,
    /// The highest version; 0 when not given. Exchanges keep it as a text.
    #[serde(
        rename = "protocolVersion",
        skip_serializing_if = "is_zero",
        deserialize_with = "number_or_digits"
    )]
    pub version: i64,
    /// Ledgers of a former protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blockchains: Vec<Blockchain>,
}

fn number_or_digits<'de, D: Deserializer<'de>>(input: D) -> Result<i64, D::Error> {
    let value = Value::deserialize(input)?;
    let number = match &value {
        Value::Null => Some(0),
        Value::String(digits) if digits.is_empty() => Some(0),
        Value::String(digits) => digits.parse().ok(),
        other => other.as_i64(),
    };
    number.ok_or_else(|| D::Error::custom(format!("{value} is not a version of a protocol")))
}

impl AgreementProtocol {
    /// Creates a protocol in version 1.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: 1, blockchains: Vec::new() }
    }

    /// Returns whether two entries are equal; versions 0 and 1 are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        let version = |protocol: &Self| if protocol.version == 0 { 1 } else { protocol.version };
        let ledgers_agree = self.blockchains.iter().all(|ledger| other.blockchains.contains(ledger));
        self.name == other.name && ledgers_agree && version(self) == version(other)
    }

    /// Returns whether the protocol is known and needs no ledger.
    pub fn is_supported(&self) -> bool {
        self.name == BASIC_PROTOCOL && self.blockchains.iter().all(|ledger| ledger.kind.is_empty())
    }
}

/// A ledger of a former protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Blockchain {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its organization.
    #[serde(rename = "organization")]
    pub org: String,
}

/// Returns the protocols common to two lists: of two empty lists the basic protocol, of one empty list the other list.
///
/// # Shape
/// Never empty.
/// # Errors
/// [`NoCommonProtocol`] when no name is in both lists, or the ledgers of a common name have nothing in common.
pub fn common_protocols(
    left: &[AgreementProtocol],
    right: &[AgreementProtocol],
) -> Result<Vec<AgreementProtocol>, NoCommonProtocol> {
    match (left, right) {
        ([], []) => return Ok(vec![AgreementProtocol::named(BASIC_PROTOCOL)]),
        ([], only) | (only, []) => return Ok(only.to_vec()),
        _ => {}
    }
    let names = |list: &[AgreementProtocol]| list.iter().map(|protocol| protocol.name.clone()).collect();
    let nothing = || NoCommonProtocol { left: names(left), right: names(right) };
    let mut common = Vec::new();
    for one in left {
        for two in right.iter().filter(|two| two.name == one.name) {
            let blockchains = common_ledgers(&one.blockchains, &two.blockchains).ok_or_else(nothing)?;
            common.push(AgreementProtocol { blockchains, ..AgreementProtocol::named(&one.name) });
        }
    }
    if common.is_empty() { Err(nothing()) } else { Ok(common) }
}

fn common_ledgers(left: &[Blockchain], right: &[Blockchain]) -> Option<Vec<Blockchain>> {
    if left.is_empty() || right.is_empty() {
        return Some([left, right].concat());
    }
    let repeat =
        |one: &Blockchain| right.iter().filter(|two| one == *two).map(|_| one.clone()).collect::<Vec<_>>();
    let common: Vec<_> = left.iter().flat_map(repeat).collect();
    (!common.is_empty()).then_some(common)
}
