//! Responses other than success.

use serde::{Deserialize, Serialize};

/// Reason why the agent refused a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusalResponse {
    /// Human-readable message.
    pub error: String,
    /// Part of the input that it is about.
    pub input: String,
}
