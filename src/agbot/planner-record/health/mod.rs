//! Health: reports about entities, the registry of what is checked, and the rules by which an instance has failed.
//!
//! Users, nodes and the engine report; the newest report of a source about a property is an *event* of the
//! entity. Nothing here is stored as a state: what has expired is seen from the time. How events add up from instances to the
//! organization is in `model/health`, what recovers a failed member in `recovery`, and what the engine reports in
//! the crate `evenkeel_health`. Source: orchestration C1 to C10, D1, D2; engine 3, 5, 6.

pub mod detect;
mod entity;
mod event;
mod fence;
mod records;
mod registration;
mod report;
mod scheduled_checks;
pub mod system;

pub use detect::is_unhealthy_member;
pub use entity::{Entity, EntityKind};
pub use event::HealthEvent;
pub use fence::fenced_at;
pub use records::HealthRecords;
pub use registration::{GroupAction, GroupCheck, HealthRound, MemberRecovery, Registration};
pub use report::{HealthReport, HealthState, MAX_EVENTS, SYSTEM, Stale, StoredReport};
pub use system::{
    HEALTH, HOSTING, NODE_MONITOR, ORCHESTRATOR, PLACEMENT, SystemReport, kind_of_news, stored_reports,
};
