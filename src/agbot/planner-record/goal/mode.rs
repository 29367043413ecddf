//! The goals of the modes.
//!
//! Source: orchestration A1, A2, B1.

use evenkeel_domain::orchestration::{Mode, Orchestrate, Orchestration};

use super::{Goal, StartMode};

impl Goal {
    /// Returns the goal of a document; `ready_secs`: seconds between the choice of another node and the start on it.
    pub fn of(document: &Orchestration, ready_secs: u64) -> Self {
        let start = match document.orchestrate {
            Orchestrate::No => StartMode::Never,
            Orchestrate::Start => StartMode::NaturalLeader,
            Orchestrate::Ha => StartMode::BestAvailable,
        };
        let goal = match document.mode {
            Mode::Global => Self::global(),
            Mode::Replicated => Self::replicated(document.replicas.unwrap_or(1)),
            Mode::Failover => Self::failover(start, ready_secs),
            Mode::Flex => {
                let flex = document.flex.unwrap_or_default();
                // There is at most one instance on each node, so that their number is not a limit of its own.
                Self::flex((flex.min, flex.max.unwrap_or(0), flex.target), start, ready_secs)
            }
        };
        Self { start, ready_secs, ..goal }
    }
}
