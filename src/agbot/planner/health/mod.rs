//! Health: reports about entities, and how they add up from instances to the organization.
//!
//! Users, nodes and the engine report; the newest report of a source about a property is an *event* of the
//! entity. Nothing here is stored as a state: what has expired is seen from the time. Health policies add
//! which instances have failed, what recovers them, and what makes sure that they no longer run.
//! Source: orchestration C1 to C10, D1, D2; engine 3, 5, 6.

mod actions;
mod check;
pub(crate) mod checks;
mod common_cause;
mod conditions;
mod detect;
mod entity;
mod evaluate;
mod event;
mod fence;
mod group;
mod group_action;
mod member_recovery;
mod node;
mod node_check;
mod order;
mod org;
mod peers;
mod records;
mod recover;
mod recovery_facts;
mod registration;
mod registry;
mod report;
mod retry;
mod system;
mod tree;
mod workflow;

pub(crate) use common_cause::{ModelSurvey, common_cause, exhausted_recoveries};
pub(crate) use detect::{InstanceHealth, instance_health, is_unhealthy_member};
pub(crate) use fence::{fenced_at, note, unfenced};
pub(crate) use peers::Circle;
pub(crate) use recover::{follow, supervise};

pub use common_cause::{HealthSurvey, NoSurvey};
pub use entity::{Entity, EntityKind};
pub use evaluate::{Evaluation, EvaluationRules, Reason};
pub use event::HealthEvent;
pub use group::GroupFindings;
pub use group_action::{checked_by, members_to_recover};
pub use node_check::NodeVerdict;
pub use records::HealthRecords;
pub use recovery_facts::{CoveredNode, RecoveryFacts};
pub use registration::{GroupAction, GroupCheck, MemberRecovery, Registration};
pub use report::{HealthReport, HealthState, MAX_EVENTS, SYSTEM, Stale, StoredReport};
pub use system::{
    HEALTH, HOSTING, NODE_MONITOR, ORCHESTRATOR, PLACEMENT, SystemReport, kind_of_news, stored_reports,
};

#[cfg(test)]
mod tests;
