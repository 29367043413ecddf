//! The edge agent.

mod clock;
pub mod deployment;
pub mod drivers;
mod files;
pub mod step;
