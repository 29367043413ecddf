//! Goals: how many instances a workload unit is to have, and which slots are missing or surplus.
//!
//! The only place that knows the modes; everything else works with [`Goal`]. Source: engine 1, 3; orchestration A1, A2, B1, B2, B6, B7.

mod avail;
mod leaders;
mod mode;

pub use avail::{Avail, InstanceState, PlacementState, avail_of, placement_state, workload_avail};
pub use leaders::{Leaders, leaders};

/// Number of instances that a workload unit is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// One on every node that is selected.
    PerNode,
    /// This number.
    Exactly(u32),
    /// A number within limits.
    Between {
        /// Fewer are a warning.
        min: u32,
        /// More are a warning; none means no limit.
        max: Option<u32>,
        /// The number that the engine works toward.
        target: u32,
    },
}

/// Instances that are started without a user's request.
///
/// # Source
/// Orchestration A1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartMode {
    /// Nothing.
    Never,
    /// Instances on natural leaders.
    NaturalLeader,
    /// Instances on the best nodes available.
    BestAvailable,
}

/// Order of the start and the stop when an instance moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveOrder {
    /// The old one is confirmed stopped before the new one starts: there is never a second instance.
    StopFirst,
    /// The new one is seen running before the old one stops.
    StartFirst,
}

/// Treatment of instances beyond the wanted number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surplus {
    /// They stay, and are a warning; a user decides.
    Keep,
    /// Those on the nodes with the most instances stop.
    Balance,
    /// Those on the nodes of the lowest rank stop.
    LowestRank,
}

/// Number of instances that a workload unit is to have, and the rules for their starts and moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// Number of instances.
    pub count: Count,
    /// Instances that are started.
    pub start: StartMode,
    /// Order of moves.
    pub move_order: MoveOrder,
    /// Treatment of surplus instances.
    pub surplus: Surplus,
    /// True if a restart stays on its node.
    pub is_sticky: bool,
    /// Seconds between the choice of another node and the start on it.
    pub ready_secs: u64,
    /// True if a user stopped the workload unit.
    pub is_stopped: bool,
}

impl Goal {
    /// Returns the goal of mode `global`: one instance on every node that is selected.
    pub fn global() -> Self {
        Self {
            count: Count::PerNode,
            start: StartMode::BestAvailable,
            move_order: MoveOrder::StartFirst,
            surplus: Surplus::Keep,
            is_sticky: true,
            ready_secs: 0,
            is_stopped: false,
        }
    }

    /// Returns the goal of mode `replicated`.
    pub fn replicated(count: u32) -> Self {
        Self { count: Count::Exactly(count), surplus: Surplus::Balance, is_sticky: false, ..Self::global() }
    }

    /// Returns the goal of mode `failover`.
    pub fn failover(start: StartMode, ready_secs: u64) -> Self {
        Self {
            count: Count::Exactly(1),
            start,
            move_order: MoveOrder::StopFirst,
            ready_secs,
            ..Self::global()
        }
    }

    /// Returns the goal of mode `flex`; `max` 0 means no limit.
    pub fn flex((min, max, target): (u32, u32, u32), start: StartMode, ready_secs: u64) -> Self {
        let max = (max > 0).then_some(max);
        let count = Count::Between { min, max, target };
        Self { count, start, surplus: Surplus::LowestRank, ready_secs, ..Self::global() }
    }

    /// Returns the goal while a user wants nothing to run.
    pub fn stopped(self) -> Self {
        Self { surplus: Surplus::LowestRank, is_stopped: true, ..self }
    }

    /// Returns whether there is one instance on every selected node.
    pub fn is_per_node(&self) -> bool {
        self.count == Count::PerNode
    }

    /// Returns whether there must never be a second instance.
    pub fn is_exclusive(&self) -> bool {
        self.move_order == MoveOrder::StopFirst
    }

    /// Returns whether an instance stays wanted on a node that is down, because none is started elsewhere by itself.
    pub fn stays_on_lost_node(&self) -> bool {
        self.start == StartMode::Never && !self.is_per_node() && !self.is_stopped
    }

    /// Returns whether an instance whose node fails it is placed on another node.
    pub fn moves_by_itself(&self) -> bool {
        self.start == StartMode::BestAvailable && !self.is_per_node() && !self.is_stopped
    }

    /// Returns the wanted number of instances; `selected`: the number of nodes that are selected.
    pub fn wanted(&self, selected: u32) -> u32 {
        match self.count {
            _ if self.is_stopped => 0,
            Count::PerNode => selected,
            Count::Exactly(count) => count,
            Count::Between { target, .. } => target,
        }
    }

    /// Returns the number of natural leaders; none when every node is one.
    pub fn leader_count(&self) -> Option<u32> {
        (!self.is_per_node()).then(|| Self { is_stopped: false, ..*self }.wanted(0))
    }

    /// Returns the name of the operation that makes the wanted number smaller.
    ///
    /// # Source
    /// Orchestration C10.
    pub fn scale_down_name(&self) -> &'static str {
        match self.count {
            Count::Between { .. } => "resize",
            Count::PerNode | Count::Exactly(_) => "scale-in",
        }
    }

    /// Returns whether instances beyond the wanted number are stopped.
    pub fn removes_surplus(&self) -> bool {
        self.is_stopped || self.surplus != Surplus::Keep && self.start == StartMode::BestAvailable
    }
}

#[cfg(test)]
mod tests;
