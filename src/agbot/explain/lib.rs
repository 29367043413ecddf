//! Why something is as it is, and what a change would do.
//!
//! [`explain`] repeats the decision about one pair or workload unit without carrying anything out, and [`preview`] the decisions that would follow a
//! write, so that what is shown is what would be done: this crate lies above those that decide. Source: design 1.5; orchestration D3, D11.

pub mod explain;
pub mod placements;
pub mod preview;
