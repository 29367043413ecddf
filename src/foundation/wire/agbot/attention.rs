//! Acknowledgements of problems that a person has to resolve.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Longest reason of an acknowledgement, in bytes.
pub const LONGEST_REASON: usize = 512;

/// Acknowledges a problem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutAcknowledgement {
    /// Reason for others to read.
    #[schema(required = true, min_length = 1, max_length = 512)]
    pub reason: String,
}

/// Acknowledgement of a problem: somebody knows of it. It ends with the problem, when the cause of the problem changes, and after 7 days.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Acknowledgement {
    /// The account, `org/user`.
    #[schema(required = true)]
    pub by: String,
    /// Time of the acknowledgement.
    #[schema(required = true)]
    pub at: String,
    /// Its reason.
    #[schema(required = true)]
    pub reason: String,
    /// Time at which it ends at the latest.
    #[schema(required = true)]
    pub until: String,
}
