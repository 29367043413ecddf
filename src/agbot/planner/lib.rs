//! The pure core of the agbot: a model of what it serves, and every decision about it.
//!
//! `evenkeel_planner_model::model::Model` is built from events; [`decide::decide`] takes it, one event, the time and a seed, and returns commands
//! and a report. No async, no input or output, no clock, no randomness of its own: the simulator (a crate of its own)
//! drives exactly this code through faulty schedules. Read [`decide`] first.
//!
//! The modules form layers, and each uses only those of its own row and above, in one direction:
//!
//! - what is reported and shown: [`health_checks`], [`outdated`]
//!
//! Source: design 4; orchestration B11, E3, E4, E5.

pub mod decide;
pub mod health_checks;
pub mod outdated;
