//! Actions of users on a workload, as data: those that take effect at once, and those that last until their goal is reached.
//!
//! What becomes of one that lasts is decided in `user_action`. Source: orchestration A6, A11, A12, B12.

mod immediate;
mod lasting;

pub use immediate::{InstanceSummary, Requester, RolloutAction, WorkloadAction};
pub use lasting::{ActionEnd, ActionGoal, ActionGoals, LastingAction, UserAction};
