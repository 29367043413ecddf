//! Ids: organizations, and ids qualified by an organization (`org/id`).
//!
//! The text form is the one of the compatible API; see its chapter on identifiers. The exchange decides which characters an id
//! may hold, not this module.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The error of an invalid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The organization part is missing or empty.
    #[error("\"{text}\" does not begin with an organization")]
    MissingOrganization { text: String },
    /// Nothing follows the organization.
    #[error("\"{text}\" holds no id after the organization")]
    MissingId { text: String },
}

/// The id of an organization.
///
/// # Shape
/// Never empty, holds no `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct OrgId(String);

impl OrgId {
    /// Creates an organization id from its text.
    ///
    /// # Errors
    /// [`IdError::MissingOrganization`] when the text is empty or holds a `/`.
    pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        if text.is_empty() || text.contains('/') {
            return Err(IdError::MissingOrganization { text });
        }
        Ok(Self(text))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrgId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for OrgId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for OrgId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The qualified id of an object in an organization: a node, an agbot, a policy, a service, a pattern.
///
/// # Shape
/// Text form `org/id`, split at the first slash; the id is not empty and may hold further slashes. Orders by organization
/// first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qualified {
    /// The organization that owns the object.
    pub org: OrgId,
    /// The id inside the organization.
    pub id: String,
}

impl Qualified {
    /// Creates an id from an organization and an id inside it.
    ///
    /// # Errors
    /// [`IdError::MissingOrganization`] or [`IdError::MissingId`] when a part is empty.
    pub fn new(org: impl Into<String>, id: impl Into<String>) -> Result<Self, IdError> {
        let (org, id) = (OrgId::new(org)?, id.into());
        if id.is_empty() {
            return Err(IdError::MissingId { text: format!("{org}/") });
        }
        Ok(Self { org, id })
    }
}

impl fmt::Display for Qualified {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.org, self.id)
    }
}

impl FromStr for Qualified {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            None | Some(("", _)) => Err(IdError::MissingOrganization { text: text.to_owned() }),
            Some((_, "")) => Err(IdError::MissingId { text: text.to_owned() }),
            Some((org, id)) => Self::new(org, id),
        }
    }
}

impl Serialize for Qualified {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Qualified {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The id of a node; a [`Qualified`] id of a separate type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub Qualified);

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for NodeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_id_is_split_at_the_first_slash() {
        let id: Qualified = "plant7/a/b".parse().unwrap();
        assert_eq!((id.org.as_str(), id.id.as_str()), ("plant7", "a/b"));
        assert_eq!(id.to_string(), "plant7/a/b");
    }

    #[test]
    fn incomplete_ids_are_refused_with_their_reason() {
        assert_eq!(
            "plant7".parse::<Qualified>(),
            Err(IdError::MissingOrganization { text: "plant7".into() })
        );
        assert_eq!("/edge".parse::<Qualified>(), Err(IdError::MissingOrganization { text: "/edge".into() }));
        assert_eq!("plant7/".parse::<NodeId>(), Err(IdError::MissingId { text: "plant7/".into() }));
        assert_eq!("".parse::<OrgId>(), Err(IdError::MissingOrganization { text: String::new() }));
    }

    #[test]
    fn ids_travel_as_json_strings() {
        let id: NodeId = serde_json::from_str("\"plant7/edge-03\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"plant7/edge-03\"");
        assert!(serde_json::from_str::<NodeId>("\"edge-03\"").is_err());
    }
}
