//! Instances: what is remembered of a workload on one node beyond its tasks.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The row of a workload on one node; there is one only if something differs from the default.
///
/// # Source
/// Orchestration 1.10, A5.6, A11, A12, B10; engine 5.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Instance {
    /// True if a user froze the instance.
    pub is_frozen: bool,
    /// The number of the version for which a user chose its node; another version may leave it.
    pub pinned: Option<u64>,
    /// Reason why the last start or stop failed for good.
    pub failed: Option<Failure>,
    /// When a user last cleared its failures.
    pub cleared_at: Option<Timestamp>,
    /// When it last started.
    pub last_start_at: Option<Timestamp>,
    /// When a user confirmed that no instance of it runs on the node; valid until the next heartbeat of the
    /// node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fenced_at: Option<Timestamp>,
}

/// A start or stop that failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Why, in words.
    pub message: Arc<str>,
    /// The number of the version that was current then: another version is tried on the node again after a failed start.
    pub version: u64,
    /// True if the stop failed; false for the start.
    #[serde(default)]
    pub is_of_stop: bool,
}
