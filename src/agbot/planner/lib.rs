//! The pure core of the agbot: a model of what it serves, and every decision about it.
//!
//! [`model::Model`] is built from events; [`decide::decide`] takes it, one event, the time and a seed, and returns commands
//! and a report. No async, no input or output, no clock, no randomness of its own: the simulator (a crate of its own)
//! drives exactly this code through faulty schedules. Read [`decide`] first. Source: design 4; orchestration B11, E3, E4, E5.

pub mod agent_upgrade;
mod agent_wait;
pub mod agreement;
pub mod blocklist;
pub mod change;
pub mod claims;
pub mod command;
pub mod decide;
pub mod engine;
pub mod event;
pub mod explain;
pub mod facts;
mod failed_clause;
mod focus;
mod frozen_level;
pub mod goal;
pub mod health;
mod hold_reason;
pub mod matching;
mod messages;
pub mod model;
mod no_lease;
pub mod other_agbots;
pub mod outdated;
mod pair;
mod pass;
pub mod place;
mod placement;
pub mod placements;
pub mod preview;
pub mod reconcile;
pub mod report;
mod report_text;
pub mod rolling;
pub mod settings;
mod stable_hash;
pub mod statistics;
pub mod status;
pub mod supervise;
pub mod terms;
pub mod time;
mod unread;
pub mod usage;
pub mod workload;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod vectors;
