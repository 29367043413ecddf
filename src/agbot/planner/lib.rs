//! The pure core of the agbot: a model of what it serves, and every decision about it.
//!
//! `evenkeel_planner_model::model::Model` is built from events; [`decide::decide`] takes it, one event, the time and a seed, and returns commands
//! and a report. No async, no input or output, no clock, no randomness of its own: the simulator (a crate of its own)
//! drives exactly this code through faulty schedules. Read [`decide`] first.
//!
//! The modules form layers, and each uses only those of its own row and above, in one direction:
//!
//! - decisions about a workload unit: [`engine`]
//! - decisions about agreements and groups: `group_members`, `agreement_end`, `acknowledgement`, `messages`, [`rolling`], `pair`, [`agent_upgrade`]
//! - what is reported and shown: [`health_checks`], [`explain`], [`placements`], [`preview`], [`outdated`]
//!
//! Source: design 4; orchestration B11, E3, E4, E5.

mod acknowledgement;
pub mod agent_upgrade;
pub mod agent_wait;
mod agreement_end;
pub mod decide;
pub mod engine;
pub mod explain;
mod group_members;
pub mod health_checks;
mod messages;
pub mod outdated;
mod pair;
pub mod placements;
pub mod preview;
pub mod rolling;
