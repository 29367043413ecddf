//! Supervisors: what drives a workload unit toward its goal over time.
//!
//! They keep no state of their own: restarts are counted in the task records, an update's progress is a row of its workload.
//! Source: orchestration B10 to B13.

pub(crate) mod action;
mod completion;
pub(crate) mod contest;
mod domain_order;
mod failed_tasks;
mod in_work;
mod monitored;
mod reaper;
pub(crate) mod rebalance;
mod restart;
pub(crate) mod rules;
mod set_aside;
pub(crate) mod snapshot;
mod start_order;
mod tickets;
mod unhealthy;
pub(crate) mod update;
mod update_status;

pub(crate) use action::ending_text;
pub use reaper::tasks_to_delete;
pub use restart::{Verdict as RestartVerdict, attempts as count_attempts, judge as judge_restart};
pub(crate) use start_order::shortage;
pub use update_status::{
    Ticket, UnitProgress, UpdateBlocked, UpdateConflict, UpdateEvent, UpdateState, UpdateStatus, next_state,
};

#[cfg(test)]
mod tests;
