//! The written form of orchestration: what a deployment policy, an HA group, a node and an organization may ask of the engine.
//!
//! Reading a document applies every rule that it must keep by itself and names the member that breaks one.
//! Members that are left out have their defaults, which depend on the mode; only what the hub or the nodes
//! decide stays open. [`supported`] refuses what the engine cannot carry out yet. The rules that need other
//! documents are functions of their own: [`relations`].
//! Source: orchestration 0.3, 0.6, 1.2 to 1.7.

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
