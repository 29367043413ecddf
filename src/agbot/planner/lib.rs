//! The single entry of the agbot's decisions.
//!
//! [`decide::decide`] takes the model, one event, the time and a seed, and returns commands and a report. No async, no input or output, no clock, no
//! randomness of its own: the simulator (a crate of its own) drives exactly this code through faulty schedules. Read [`decide`] first.
//!
//! The planner is a room of crates with one direction, from the lowest up:
//!
//! - `planner-record`: values, reasons as data and as text, records
//! - `change`: the gates that a step passes, and the permits of those that pass
//! - `placement`: elimination and ranking of nodes
//! - `planner-model`: the model, events, commands, a decision under construction
//! - `reconcile`: decisions about a workload unit
//! - `status`: what users see of the model
//! - `agreement`: decisions about agreements and HA groups
//! - `explain`: reasons and previews, which repeat a decision
//! - `health`: what the engine reports, and checks of health policies
//!
//! Source: design 4; orchestration B11, E3, E4, E5.

pub mod decide;
pub mod outdated;
