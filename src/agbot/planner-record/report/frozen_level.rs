//! Levels at which a user can freeze.

use serde::{Deserialize, Serialize};

/// The object that a user froze.
///
/// # Source
/// Orchestration A12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrozenLevel {
    /// The workload on one node.
    Instance,
    /// The workload.
    Workload,
    /// The node.
    Node,
}
