//! The decision about one workload unit under construction: its facts, its tasks as they will be, and the gates that its steps pass.
//!
//! [`UnitFacts`] are the input, [`UnitPass`] collects the changes. Decisions about a workload unit work on it
//! ([`crate::reconcile`], [`crate::supervise`], [`crate::recovery`], [`crate::user_action`]). Source: engine 3, 4.

mod common_cause;
mod contest;
pub(crate) mod examine;
mod facts;
pub(crate) mod failed_start;
mod fence;
mod gate_facts;
mod pass;
mod placing;
mod recovery_facts;
mod restart;
mod restart_policy;
pub(crate) mod snapshot;
mod stored_plan;
mod version_loads;

pub use common_cause::{HealthSurvey, NoSurvey};
pub use common_cause::{ModelSurvey, common_cause, exhausted_recoveries, running_member};
pub(crate) use examine::{InstanceHealth, instance_health};
pub use facts::{ReportedError, UnitFacts};
pub(crate) use fence::{is_confirmed, lease_secs, may_run, unfenced};
pub(crate) use pass::{Circle, UnitPass};
pub(crate) use placing::{has_stayed, ready_at};
pub use recovery_facts::{CoveredNode, RecoveryFacts};
pub use restart_policy::{Verdict as RestartVerdict, attempts as count_attempts, judge as judge_restart};
pub use stored_plan::stored_plan;
pub(crate) use version_loads::shortage;

#[cfg(test)]
pub(crate) mod restart_tests;
