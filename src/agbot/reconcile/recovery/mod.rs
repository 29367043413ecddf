//! Recoveries: what is done about a member of a workload unit that has failed by its health policy, or by a user's order.
//!
//! Source: orchestration C5 to C8, C10.

mod actions;
pub(crate) mod check;
mod fence;
mod order;
mod peers;
pub mod recover;
pub mod retry;
mod workflow;

pub(crate) use fence::note;
pub(crate) use recover::{follow, supervise};
