//! Supervisors: what drives a workload unit toward its goal over time.
//!
//! They keep no state of their own: restarts are counted in the task records, an update's progress is a row of its workload.
//! Source: orchestration B10 to B13.

mod completion;
mod domain_order;
mod failed_tasks;
mod in_work;
mod monitored;
mod reaper;
pub mod rules;
mod set_aside;
mod start_order;
mod tickets;
mod unhealthy;
pub(crate) mod update;

pub use reaper::tasks_to_delete;

#[cfg(test)]
mod tests;
