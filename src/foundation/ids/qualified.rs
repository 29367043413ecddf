//! Ids of objects in an organization: `org/name`.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{IdError, text::text_id};

macro_rules! qualified_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// # Shape
        /// Text `org/name`, split at the first slash; the name may contain further slashes. Orders as text. Cloning copies a pointer.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        text_id!($name);

        impl $name {
            /// Puts an organization and a name together.
            pub fn new(org: &str, name: &str) -> Self {
                Self(format!("{org}/{name}").into())
            }

            /// Creates an id from a text that already has the form `org/name`, which is not checked here but by parsing.
            ///
            /// A text without a slash becomes a name in the empty organization, to which nothing else refers.
            pub fn from_text(text: &str) -> Self {
                if text.contains('/') { Self(text.into()) } else { Self::new("", text) }
            }

            /// Returns the organization.
            pub fn org(&self) -> &str {
                self.0.split_once('/').map_or("", |(org, _)| org)
            }

            /// Returns the name inside the organization.
            pub fn name(&self) -> &str {
                self.0.split_once('/').map_or(&self.0, |(_, name)| name)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text.split_once('/') {
                    None | Some(("", _)) => Err(IdError::MissingOrganization { text: text.to_owned() }),
                    Some((_, "")) => Err(IdError::MissingName { text: text.to_owned() }),
                    Some(_) => Ok(Self(text.into())),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

qualified_id! {
    /// The id of a node.
    NodeId
}
qualified_id! {
    /// The id of an agbot.
    AgbotId
}
qualified_id! {
    /// The id of a deployment policy.
    PolicyId
}
qualified_id! {
    /// The id of a pattern.
    PatternId
}
qualified_id! {
    /// The id of a service definition: `org/url_version_arch`.
    ServiceId
}
qualified_id! {
    /// The key of a service regardless of its version: `org/url`. "Intended for" is computed per key.
    ServiceKey
}
qualified_id! {
    /// The id of an HA group.
    GroupId
}
qualified_id! {
    /// The id of a node management policy.
    NmpId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_split_at_the_first_slash() {
        let id = NodeId::from_text("plant7/a/b");
        assert_eq!((id.org(), id.name(), id.as_str()), ("plant7", "a/b", "plant7/a/b"));
        assert_eq!(NodeId::from_text("edge").org(), "");
    }

    #[test]
    fn incomplete_ids_are_rejected_with_their_reason() {
        let missing_org = |text: &str| IdError::MissingOrganization { text: text.into() };
        assert_eq!("plant7".parse::<ServiceId>(), Err(missing_org("plant7")));
        assert_eq!("/edge".parse::<NodeId>(), Err(missing_org("/edge")));
        assert_eq!("plant7/".parse::<NodeId>(), Err(IdError::MissingName { text: "plant7/".into() }));
        assert_eq!("plant7/a/b".parse::<NodeId>(), Ok(NodeId::new("plant7", "a/b")));
    }

    #[test]
    fn ids_are_json_strings() {
        let id: NodeId = serde_json::from_str("\"plant7/edge-03\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"plant7/edge-03\"");
    }

    /// The planner holds millions of ids.
    #[test]
    fn id_is_two_words() {
        assert_eq!(size_of::<Option<NodeId>>(), 2 * size_of::<usize>());
    }
}
