//! Databases for tests, and the plans of the statements that read lists. No product code uses this crate.

mod database;
mod plan;
mod waiting;

pub use database::TestDatabase;
pub use plan::assert_plans;
pub use waiting::backend;
