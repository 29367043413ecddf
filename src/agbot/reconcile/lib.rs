//! Decisions about one workload unit: how many instances, on which nodes, and which of them changes next.
//!
//! [`reconcile::plan_unit`] is the entry. It works on a [`unit_pass::UnitPass`]: [`supervise`] sets the pace of updates, [`recovery`] repairs what
//! failed, [`user_action`] works toward what a user ordered. The outcome is a plan of tasks; what follows from it for agreements is decided by the
//! crates above. Source: engine 2.

pub mod reconcile;
pub mod recovery;
pub mod supervise;
pub mod unit_pass;
pub mod user_action;
