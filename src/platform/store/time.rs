//! Conversions between the instants of the domain and those of the database.

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as SqlTimestamp, ToSqlx};

/// Converts an instant into a parameter of a statement.
///
/// # Units
/// The database keeps microseconds.
#[must_use]
pub fn to_sql(at: Timestamp) -> SqlTimestamp {
    at.to_sqlx()
}

/// Converts a column into an instant.
#[must_use]
pub fn from_sql(at: SqlTimestamp) -> Timestamp {
    at.to_jiff()
}
