//! Support code of the integration tests: scratch directories, a PostgreSQL server with a fresh database per
//! test, hub processes.
//!
//! Everything is fresh and on loopback, so that tests run side by side, and goes away with the test or, at the latest, with
//! the test process, however that ends.
#![allow(dead_code, reason = "each test module uses its own part")]

pub mod account;
pub mod database;
pub mod disk;
#[path = "../../../src/agent/agent/tests/engine.rs"]
pub mod engine;
pub mod fleet;
pub mod identity_provider;
pub mod link;
pub mod machine;
pub mod prepared;
pub mod process;
pub mod promql;
pub mod scratch;
pub mod wait;

pub use database::TestDatabase;
pub use machine::Machine;
pub use process::{Hub, Program, free_address};
pub use scratch::Scratch;
pub use wait::eventually;
