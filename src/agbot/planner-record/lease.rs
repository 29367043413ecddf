//! Leases on partitions: who decides about what.
//!
//! Source: design 4.2; agbot 1.3.

use serde::{Deserialize, Serialize};

/// The right to act on a partition: the executor refuses when the lease row has another fencing number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lease {
    /// The partition.
    pub partition: u32,
    /// Fencing number; grows with every change of owner.
    pub fencing: u64,
}
