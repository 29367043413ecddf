//! Changes: every step has a cause, and passes the gates of that cause.
//!
//! Rolling updates, drains, moves and restarts differ only in the causes of their steps. Source: engine 1, 3; orchestration P.

mod claim;
mod dependency;
mod gates;
mod group;
mod permit;

pub use claim::lock_of;
pub use claim::{Grant, check_parallelism, may_take};
pub use dependency::{DependencyFacts, Independent};
pub use gates::{FORCED, GATES, Gate, GateFacts, check_gates, gates_of, permit};
pub use group::GroupState;
pub use group::may_stop;
pub use permit::{CommittedRows, GroupClaim, Permit};

#[cfg(test)]
mod tests;
