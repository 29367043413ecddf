//! Tables of the agbot: leases of partitions, agreements, claims, rollouts, their log of changes, events, outbox.
//!
//! Records are kept as JSON of the planner's types beside the columns that rules and indexes need.

pub mod acknowledgement;
pub mod agreement;
pub mod approval;
pub mod blocklist;
pub mod change;
pub mod claim;
pub mod event;
pub mod health;
pub mod history;
pub mod hub_life;
pub mod node_condition;
pub mod node_lock;
pub mod offered;
pub mod outbox;
pub mod partition;
pub mod registration;
pub mod rollout;
pub mod saved_view;
pub mod task;
pub mod workload;

/// Migrations of the agbot's tables.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../../migrations/agbot");

#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod tests;
