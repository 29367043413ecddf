//! The state of the planner, built from events, with the input and output of a decision.
//!
//! [`model::Model`] holds what the agbot serves. An [`event::Event`] changes it, and a decision about it is a list of [`command::Command`]s.
//! [`pass`] is a decision under construction, and [`focus`] what it is about. Nothing here decides. Source: design 4; engine 2.

pub mod command;
pub mod event;
pub mod focus;
pub mod model;
pub mod pass;
pub mod plan;
pub mod terms;

#[cfg(any(test, feature = "fixture"))]
pub mod group_fixture;

#[cfg(test)]
mod vectors;
