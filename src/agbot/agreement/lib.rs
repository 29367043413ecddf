//! Decisions about agreements and HA groups: which are proposed, confirmed, verified and ended, and when an agent may upgrade.
//!
//! - [`engine`] turns the plan of a workload unit into tasks, and the tasks into agreements
//! - [`pair`] decides about one node and policy, [`rolling`] about rollouts, drains and claims of HA groups
//! - [`messages`] and what it uses handle the messages of nodes
//! - [`agent_upgrade`] grants upgrades of agents
//!
//! Source: design 4; engine 2.

mod acknowledgement;
pub mod agent_upgrade;
pub mod agent_wait;
mod agreement_end;
pub mod engine;
mod group_members;
pub mod messages;
pub mod pair;
pub mod rolling;
