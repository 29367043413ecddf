//! Leaders: the nodes on which instances belong.
//!
//! Source: orchestration A1; engine 6 (a frozen natural leader stays one, and is not available).

use super::{Goal, StartMode};

/// The leaders of a workload unit, as numbers of its node table, the best one first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leaders {
    /// The first nodes of the ranking of all nodes that are selected.
    pub natural: Vec<u32>,
    /// The first nodes of the ranking of those that are available now.
    pub available: Vec<u32>,
}

impl Leaders {
    /// Returns the nodes that a giveback moves instances to.
    pub fn of_giveback(&self, goal: &Goal) -> &[u32] {
        match goal.start {
            StartMode::Never | StartMode::NaturalLeader => &self.natural,
            StartMode::BestAvailable => &self.available,
        }
    }
}

/// Returns the leaders.
///
/// # Shape
/// `selected`: the ranking of all nodes that are selected, the best first; `available`: the ranking of those that are available.
pub fn leaders(goal: &Goal, selected: &[u32], available: &[u32]) -> Leaders {
    let first = |ranking: &[u32]| {
        let count = goal.leader_count().map_or(usize::MAX, |count| count as usize);
        ranking.iter().take(count).copied().collect()
    };
    Leaders { natural: first(selected), available: first(available) }
}
