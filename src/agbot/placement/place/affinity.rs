//! Relation of a node to the affinity of a workload unit.
//!
//! Source: orchestration A4.

use std::sync::Arc;

use super::sparse::Usual;

/// The affinity of a workload unit on one node.
///
/// # Shape
/// The default satisfies every list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeAffinity {
    /// Reason why `hard` or `hardAnti` is violated, in words.
    pub hard: Option<Arc<str>>,
    /// Violations of `softAnti` and `soft`.
    pub soft: SoftViolations,
    /// The violated entries of both, in words; none when nothing is violated.
    pub soft_text: Option<Arc<str>>,
}

impl Usual for NodeAffinity {
    const USUAL: &'static Self =
        &Self { hard: None, soft: SoftViolations { anti: 0, missing: 0 }, soft_text: None };
}

/// Numbers of violated entries.
///
/// # Shape
/// Ordered by preference: fewer violated entries of `softAnti` first, then fewer of `soft`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SoftViolations {
    /// Of `softAnti`.
    pub anti: u32,
    /// Of `soft`.
    pub missing: u32,
}

impl SoftViolations {
    /// Returns whether nothing is violated.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}
