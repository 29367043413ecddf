//! Reasons for which no lease ensures that an instance on a lost node is killed.
//!
//! Source: orchestration C8.

use serde::{Deserialize, Serialize};

/// Reason for which an instance has no lease, so that it is not killed when its node is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoLease {
    /// Its agent does not know leases.
    Unsupported,
    /// No guardian of its agent ran when the node was heard last.
    NoGuardian,
    /// The guardian of its agent did not respond when the node was heard last.
    SilentGuardian,
    /// Its agent has not reported that the lease is enforced.
    #[default]
    Unconfirmed,
}

impl NoLease {
    /// Returns the cause, in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unsupported => "its agent does not support leases",
            Self::NoGuardian => "no guardian of its agent ran when the node was heard last",
            Self::SilentGuardian => "the guardian of its agent did not respond when the node was heard last",
            Self::Unconfirmed => "its agent had not confirmed a lease",
        }
    }
}
