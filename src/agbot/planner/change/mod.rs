//! Changes: every step has a cause, and passes the gates of that cause.
//!
//! Rolling updates, drains, moves and restarts differ only in the causes of their steps. Source: engine 1, 3; orchestration P.

mod dependency;
mod gates;
mod group;
mod members;
mod permit;
mod step;

pub use dependency::{DependencyFacts, Independent};
pub use gates::{FORCED, GATES, Gate, GateFacts, check_gates, gates_of, permit};
pub use group::GroupState;
pub(crate) use group::may_disrupt;
pub(crate) use members::{group_state, is_lost, missing_successor, missing_without};
pub use permit::{CommittedRows, GroupClaim, Permit};
pub use step::{Cause, CauseKind, Change, Step};

#[cfg(test)]
mod tests;
