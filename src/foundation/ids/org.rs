//! Ids of organizations.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize};

use crate::{IdError, text::text_id};

/// The id of an organization.
///
/// # Shape
/// Never empty, without a slash. Orders as text. Cloning copies a pointer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct OrgId(Arc<str>);

text_id!(OrgId);

/// A set of organizations is searched by the organization of another id.
impl Borrow<str> for OrgId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for OrgId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text.contains('/') {
            return Err(IdError::MissingOrganization { text: text.to_owned() });
        }
        Ok(Self(text.into()))
    }
}

impl<'de> Deserialize<'de> for OrgId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Debug for OrgId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn organization_is_neither_empty_nor_qualified() {
        for text in ["", "plant7/edge"] {
            assert_eq!(text.parse::<OrgId>(), Err(IdError::MissingOrganization { text: text.into() }));
            assert!(serde_json::from_value::<OrgId>(text.into()).is_err());
        }
        assert_eq!("plant7".parse::<OrgId>().unwrap().as_str(), "plant7");
    }
}
