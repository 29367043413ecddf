//! Connects to PostgreSQL, migrates it, and runs transactions and batches on it.
//!
//! The tables of the exchange are in `evenkeel-exchange-store`, those of the agbot in `evenkeel-agbot-store`.

pub mod error;

mod batch;
mod connections;
mod database;
mod schema;
mod time;

pub use batch::Batches;
pub use connections::{Connection, ConnectionUsage, Transaction};
pub use database::{AsStoreError, Database, Listener, Notification, listen, retry};
pub use error::StoreError;
pub use schema::Schema;
pub use sqlx::PgConnection;
pub use time::{from_sql, to_sql};
