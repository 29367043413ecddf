//! Actions of users that last: request, acceptance, goal, progress and end.
//!
//! A user requests an action on a workload ([`RequestedAction`]). [`accept`] says whether it may begin, and what it is to reach. The row of the
//! workload then holds it ([`evenkeel_planner_record::workload::UserAction`]); every decision about one of the workload's units works toward its goal, until it
//! is reached or cannot be. Recoveries of the members of an HA group are requested in the same way. What takes effect at once is a method of the
//! rows themselves ([`evenkeel_planner_record::workload::WorkloadAction`]). Source: orchestration A6, A11, C7.

mod accept;
mod end;
mod goal;
mod group;
mod progress;
mod request;

pub use accept::accept;
pub use end::end;
pub(crate) use goal::{end_marks, plan};
pub use group::{checked_by, members_to_recover};
#[cfg(test)]
pub(crate) use progress::{Progress, UnitView, progress};
pub use request::{ActionRefusal, RequestedAction, RequestedRecovery};
