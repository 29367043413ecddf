//! Health: reports about entities, and how they add up from instances to the organization.
//!
//! People, nodes and the engine report; the newest report of a source about a property is an *event* of the entity. Nothing here is stored
//! as a state: what has expired is seen from the time. Source: orchestration D1, D2; engine 5 and 6.

pub(crate) mod checks;
mod conditions;
mod entity;
mod evaluate;
mod event;
mod records;
mod report;
mod system;
mod tree;

pub use entity::{Entity, EntityKind};
pub use evaluate::{Evaluation, EvaluationRules, Reason};
pub use event::HealthEvent;
pub use records::HealthRecords;
pub use report::{HealthReport, HealthState, MAX_EVENTS, SYSTEM, Stale, StoredReport};
pub use system::{HOSTING, NODE_MONITOR, ORCHESTRATOR, PLACEMENT, SystemReport, stored_reports};

#[cfg(test)]
mod tests;
