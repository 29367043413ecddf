//! The documents of orchestration: what a deployment policy, an HA group, a node and an organization may request from the engine.
//!
//! Reading a document checks every rule that does not depend on other documents, and an error names the member. Members
//! that are left out get their defaults, which depend on the mode; only values that the hub or the nodes decide remain
//! open. [`supported`] refuses what the engine cannot carry out yet. The rules that need other documents are functions
//! of their own: [`relations`]. Source: orchestration 0.3, 0.6, 1.2 to 1.7.

mod blocklist;
mod buffer;
mod ha_group;
mod health_evaluation;
pub mod health_policy;
mod placement;
mod policy;
mod priorities;
mod read;
mod reference;
mod scope;
mod supervisor;
mod task;

pub mod capacity;
pub mod form;
pub mod lifecycle;
pub mod org_settings;
pub mod relations;
pub mod supported;

#[cfg(test)]
mod tests;

pub use crate::object::MembersError;
pub use blocklist::{BlocklistRules, BlocklistSettings};
pub use buffer::{BufferUse, CapacityBuffer};
pub use ha_group::HaGroupOrchestration;
pub use health_evaluation::HealthEvaluationRules;
pub use health_policy::HealthPolicy;
pub use placement::{Affinity, Constraint, Domains, OnViolation, Placement, PlacementPolicy};
pub use policy::{CompatGate, Flex, Ha, Mode, OfflinePeerPolicy, Orchestrate, Orchestration, Timers};
pub use priorities::ConstraintPriorities;
pub use reference::{InstanceReference, WorkloadReference};
pub use scope::Scope;
pub use supervisor::{FailureAction, OnExhausted, Order, Pace, Restart, RestartCondition, Update};
pub use task::{DesiredState, TaskState};
