//! The environment of every long-running role: settings, files, life cycle, telemetry, workers.
//!
//! Independent of nodes, policies and agreements. See the design, sections 2 and 6.

pub mod browser;
pub mod exit;
pub mod files;
pub mod health;
pub mod lifecycle;
pub mod memory;
pub mod process;
mod program_pages;
pub mod request_id;
pub mod settings;
pub mod telemetry;
pub mod worker;

pub use evenkeel_metrics as metrics;
pub use exit::{ExitStatus, Failure};
pub use lifecycle::Lifecycle;
pub use settings::Secret;
