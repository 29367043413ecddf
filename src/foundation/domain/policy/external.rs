//! The pair of properties and constraints of every user policy.
//!
//! Source: agreement-protocol 3.1.

use std::ops::BitOr;

use serde::{Deserialize, Serialize};

use super::constraint::{ConstraintError, ConstraintList};
use super::property::{PropertyError, PropertyList, null_as_default};

/// The reason why a policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A property is invalid.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A constraint is invalid.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The policy of a node has an unknown format.
    #[error("node policies of version \"{version}\" are not supported")]
    UnknownVersion { version: String },
}

/// Properties of one side and its constraints on the other.
///
/// # Shape
/// Missing and null members read as empty lists; both lists are always written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExternalPolicy {
    /// The properties.
    #[serde(default)]
    pub properties: PropertyList,
    /// The constraints on the properties of the other side.
    #[serde(default, deserialize_with = "null_as_default")]
    pub constraints: ConstraintList,
}

impl ExternalPolicy {
    /// Tests properties and constraints, and turns the texts "true" and "false" of the property that allows privileged
    /// services into booleans.
    ///
    /// # Errors
    /// [`PolicyError`] for the first error; the policy may then be partly normalized.
    pub fn validate_and_normalize(&mut self) -> Result<(), PolicyError> {
        self.properties.validate()?;
        self.properties.normalize_allow_privileged()?;
        self.constraints.validate()?;
        Ok(())
    }

    /// Returns whether there are neither properties nor constraints.
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.constraints.is_empty()
    }

    /// Adds another policy: properties by [`PropertyList::merge`], and constraints that are missing here.
    pub fn merge(&mut self, addition: &Self, replaces: bool) {
        self.properties.merge(&addition.properties, replaces);
        self.constraints.merge(&addition.constraints);
    }

    /// Returns the difference between this policy and its replacement.
    pub fn compare(&self, new: &Self) -> PolicyChange {
        let mut change = PolicyChange::NONE;
        if !self.properties.is_same(&new.properties) {
            change = change | PolicyChange::PROPERTIES;
            if self.properties.allows_privileged() != new.properties.allows_privileged() {
                change = change | PolicyChange::ALLOW_PRIVILEGED;
            }
        }
        if !self.constraints.is_same(&new.constraints) {
            change = change | PolicyChange::CONSTRAINTS;
        }
        change
    }
}

/// The set of differences between two policies.
///
/// # Source
/// Agreement-protocol 3.1 (change classes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PolicyChange(u8);

impl PolicyChange {
    /// Nothing changed.
    pub const NONE: Self = Self(0);
    /// The properties changed.
    pub const PROPERTIES: Self = Self(1);
    /// The constraints changed.
    pub const CONSTRAINTS: Self = Self(2);
    /// The policy was deleted.
    pub const DELETED: Self = Self(4);
    /// The property that allows privileged services changed its effective value.
    pub const ALLOW_PRIVILEGED: Self = Self(8);

    /// Returns the set as bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether all of `other` is part of the set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether nothing changed.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl BitOr for PolicyChange {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(value: serde_json::Value) -> ExternalPolicy {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn missing_and_null_members_are_empty_lists() {
        let text = serde_json::to_string(&policy(json!({"properties": null, "constraints": null}))).unwrap();
        assert_eq!(text, r#"{"properties":[],"constraints":[]}"#);
        assert!(policy(json!({})).is_empty());
    }

    #[test]
    fn validation_normalizes_and_names_the_error() {
        let mut valid =
            policy(json!({"properties": [{"name": "openhorizon.allowPrivileged", "value": "false"}]}));
        valid.validate_and_normalize().unwrap();
        assert_eq!(valid.properties[0].value, false);
        let mut wrong = policy(json!({"properties": [{"name": "a"}]}));
        assert!(matches!(wrong.validate_and_normalize(), Err(PolicyError::Property(_))));
        let mut wrong = policy(json!({"constraints": ["a =="]}));
        assert!(matches!(wrong.validate_and_normalize(), Err(PolicyError::Constraint(_))));
    }

    #[test]
    fn changes_are_classed() {
        let old =
            policy(json!({"properties": [{"name": "a", "value": 1}], "constraints": ["a == b", "c == d"]}));
        let same =
            policy(json!({"properties": [{"name": "a", "value": 1.0}], "constraints": ["c == d", "a == b"]}));
        assert!(old.compare(&same).is_none());
        let new = policy(json!({"properties": [{"name": "openhorizon.allowPrivileged", "value": true}]}));
        let change = old.compare(&new);
        assert_eq!(change.bits(), 1 | 2 | 8);
        assert!(change.contains(PolicyChange::ALLOW_PRIVILEGED) && !change.contains(PolicyChange::DELETED));
    }
}
