//! The only place with SQL: connects to PostgreSQL, migrates it and reads and writes the tables of the exchange and the agbot.
//!
//! Functions take a connection, return plain rows, and leave meaning to their callers. See the design, section 3.

pub mod agbot;
pub mod error;
pub mod exchange;
pub mod import;

mod batch;
mod connections;
mod database;
mod time;

pub use batch::Batches;
pub use connections::{Connection, ConnectionUsage, Transaction};
pub use database::{AsStoreError, Database, Listener, listen, retry};
pub use error::StoreError;
pub use sqlx::PgConnection;
pub use time::{from_sql, to_sql};
