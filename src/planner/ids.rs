//! Names used by the planner: short shared texts that are cheap to copy by the million.
//!
//! The domain's `NodeId` and `Qualified` check texts at the edge; the replica copies ids so often that it keeps them as
//! shared text and one type per kind of thing. See design, "The agbot".

use std::{fmt, sync::Arc};

use evenkeel_domain::id;
use serde::{Deserialize, Serialize};

macro_rules! qualified_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// # Shape
        /// Text `org/name`, split at the first slash. Orders as text. Cloning copies a pointer.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Puts an organisation and a name together.
            pub fn new(org: &str, name: &str) -> Self {
                Self(format!("{org}/{name}").into())
            }

            /// Takes a text that already has the form `org/name`.
            ///
            /// A text without a slash becomes a name in the empty organisation, which nothing else refers to.
            pub fn from_text(text: &str) -> Self {
                if text.contains('/') { Self(text.into()) } else { Self::new("", text) }
            }

            /// Returns the organisation.
            pub fn org(&self) -> &str {
                self.0.split_once('/').map_or("", |(org, _)| org)
            }

            /// Returns the name inside the organisation.
            pub fn name(&self) -> &str {
                self.0.split_once('/').map_or(&self.0, |(_, name)| name)
            }

            /// Returns the whole text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl From<&id::Qualified> for $name {
            fn from(id: &id::Qualified) -> Self {
                Self::new(id.org.as_str(), &id.id)
            }
        }
    };
}

qualified_id! {
    /// Names a node.
    NodeId
}
qualified_id! {
    /// Names a deployment policy.
    PolicyId
}
qualified_id! {
    /// Names one service definition: `org/url_version_arch`.
    ServiceId
}
qualified_id! {
    /// Names a service whatever its version: `org/url`. "Intended for" is computed per such key.
    ServiceKey
}
qualified_id! {
    /// Names an HA group.
    GroupId
}
qualified_id! {
    /// Names a node management policy.
    NmpId
}

/// Begins the names of patterns' services among policies.
const PATTERN: &str = "pattern";

impl PolicyId {
    /// Names what a pattern says about one of its services: `org/pattern/PATTERN/SERVICE`.
    ///
    /// `service`: the name of the internal policy (agreement protocol 3.1). The pattern's name stands apart from it, because
    /// two patterns can come to the same internal name.
    pub fn of_pattern(org: &str, pattern: &str, service: &str) -> Self {
        Self::new(org, &format!("{PATTERN}/{pattern}/{service}"))
    }

    /// Returns the pattern (without its organisation) if this names a service of one.
    pub fn pattern(&self) -> Option<&str> {
        self.of_pattern_parts().map(|(pattern, _)| pattern)
    }

    /// Returns the name of the internal policy if this names a service of a pattern.
    pub fn pattern_service(&self) -> Option<&str> {
        self.of_pattern_parts().map(|(_, service)| service)
    }

    fn of_pattern_parts(&self) -> Option<(&str, &str)> {
        self.name().strip_prefix(PATTERN)?.strip_prefix('/')?.split_once('/')
    }
}

impl From<&id::NodeId> for NodeId {
    fn from(id: &id::NodeId) -> Self {
        Self::from(&id.0)
    }
}

/// Names an agreement.
///
/// # Shape
/// 64 lower-case hexadecimal digits when made by us; kept as received otherwise.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgreementId(Arc<str>);

impl AgreementId {
    /// Takes the text as it is.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgreementId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for AgreementId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.get(..8).unwrap_or(&self.0))
    }
}

/// Hashes a text to 64 bits, the same on every machine and in every build (FNV-1a).
///
/// Used for partitions and for noticing changed policies; never where an enemy gains by a collision.
pub fn stable_hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain(std::iter::once(0xff)) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
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
    fn service_of_a_pattern_is_named_apart_from_policies() {
        let id = PolicyId::of_pattern("o", "p", "p_s_o_amd64");
        assert_eq!(id.as_str(), "o/pattern/p/p_s_o_amd64");
        assert_eq!((id.pattern(), id.pattern_service()), (Some("p"), Some("p_s_o_amd64")));
        assert_eq!(PolicyId::new("o", "pattern").pattern(), None);
        assert_eq!(PolicyId::new("o", "patterns/p/s").pattern(), None);
    }

    #[test]
    fn stable_hash_keeps_parts_apart() {
        assert_ne!(stable_hash(&["ab", "c"]), stable_hash(&["a", "bc"]));
        assert_eq!(stable_hash(&["a"]), stable_hash(&["a"]));
    }
}
