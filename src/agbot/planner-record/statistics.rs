//! The statistics of nodes, as rankings use them.
//!
//! Source: orchestration A3.2, A3.4.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time::secs_since;

/// Memory or swap space of a node.
///
/// # Units
/// The same for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free space.
    pub available: u64,
    /// All of it; 0 counts as entirely free.
    pub total: u64,
}

impl Space {
    fn available_percent(self) -> f64 {
        if self.total == 0 {
            return 100.0;
        }
        self.available.min(self.total) as f64 / self.total as f64 * 100.0
    }
}

/// A node's report about its container engine.
///
/// # Source
/// Orchestration 1.7, C3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineReport {
    /// True if the engine responds and is meant to be used.
    pub is_usable: bool,
    /// When the exchange received it.
    pub at: Timestamp,
}

/// A node's report about its machine, besides the statistics; values that it leaves out keep their last known
/// state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMachine {
    /// Its container engine.
    pub engine: Option<EngineReport>,
    /// The address by which other nodes reach it.
    pub address: Option<Arc<str>>,
}

/// The statistics of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatistics {
    /// Load average over 15 minutes, in thousandths; none when the node did not report it.
    pub load15: Option<u64>,
    /// Score of free memory, free swap space and load; greater is better.
    pub score: u64,
    /// When the exchange received them.
    pub at: Timestamp,
}

impl NodeStatistics {
    /// Returns the statistics that a node reported. Values that it did not report count as 0 in the score.
    pub fn new(load15: Option<f64>, memory: Option<Space>, swap: Option<Space>, at: Timestamp) -> Self {
        let load15 = load15.filter(|load| load.is_finite() && *load >= 0.0);
        let percent = |space: Option<Space>| space.map_or(0.0, Space::available_percent);
        let idleness = load15.map_or(0.0, |load| 100.0 / load.max(1.0));
        let score = (2.0 * (100.0 + percent(swap)) + (100.0 + percent(memory)) + idleness) / 7.0;
        Self { load15: load15.map(|load| (load * 1000.0).round() as u64), score: score as u64, at }
    }

    /// Returns whether they are recent enough to rank by.
    pub fn is_current(&self, now: Timestamp, max_age_secs: u64) -> bool {
        secs_since(self.at, now) <= max_age_secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(load15: f64, memory: u64, swap: u64) -> NodeStatistics {
        let space = |available| Some(Space { available, total: 100 });
        NodeStatistics::new(Some(load15), space(memory), space(swap), Timestamp::UNIX_EPOCH)
    }

    /// A3-S4.
    #[test]
    fn score_weighs_swap_memory_and_load() {
        assert_eq!(statistics(0.5, 50, 100).score, 92);
        assert_eq!(statistics(4.0, 80, 100).score, 86);
    }

    #[test]
    fn machine_without_swap_counts_as_one_whose_swap_is_free() {
        let none = Some(Space { available: 0, total: 0 });
        let memory = Some(Space { available: 50, total: 100 });
        let found = NodeStatistics::new(Some(0.5), memory, none, Timestamp::UNIX_EPOCH);
        assert_eq!(found, statistics(0.5, 50, 100));
    }

    #[test]
    fn what_is_missing_counts_as_nothing() {
        let found = NodeStatistics::new(None, None, None, Timestamp::UNIX_EPOCH);
        assert_eq!((found.load15, found.score), (None, 42));
        assert_eq!(NodeStatistics::new(Some(f64::NAN), None, None, Timestamp::UNIX_EPOCH), found);
    }
}
