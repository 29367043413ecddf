//! Errors of the database, as callers need to distinguish them.

use thiserror::Error;

/// An error of the store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A constraint of the schema refused the write; its name identifies the rule.
    #[error("the rule {constraint} refuses the write")]
    Conflict {
        /// Name of the constraint.
        constraint: String,
    },
    /// A row that the write refers to does not exist.
    #[error("the row that {constraint} refers to does not exist")]
    ParentMissing {
        /// Name of the foreign key.
        constraint: String,
    },
    /// The value cannot be stored (for instance a NUL character in a text).
    #[error("the database cannot hold a value of the request")]
    Unstorable(#[source] sqlx::Error),
    /// Competing transactions kept conflicting.
    #[error("the write {name} kept conflicting with others")]
    Contention {
        /// Name of the transaction.
        name: &'static str,
    },
    /// The database is absent or did not respond in time: try again later.
    #[error("the database does not respond")]
    Unavailable(#[source] sqlx::Error),
    /// The database accepts no writes: it is a standby, or set to read only.
    #[error("the database is read-only: it is a standby, or default_transaction_read_only is on")]
    ReadOnly(#[source] sqlx::Error),
    /// A statement was canceled because it took too long, or waited too long for a lock.
    #[error("the database did not finish a statement in time")]
    TimedOut(#[source] sqlx::Error),
    /// The disk of the database is full; the write can be retried when space is available.
    #[error("the disk of the database is full: free space on it")]
    DiskFull(#[source] sqlx::Error),
    /// The database was migrated by a newer version of this program.
    #[error("the database has schema version {found}; this program supports versions up to {known}")]
    NewerSchema {
        /// Version found in the database.
        found: i64,
        /// Newest version of this program.
        known: i64,
    },
    /// A migration failed.
    #[error("the database could not be migrated")]
    Migration(#[source] sqlx::migrate::MigrateError),
    /// A stored value has an invalid shape.
    #[error("the value in {table}.{column} is corrupt")]
    Corrupt {
        /// Table of the value.
        table: &'static str,
        /// Column of the value.
        column: &'static str,
    },
    /// Any other error that the database reports.
    #[error("the database refused a statement")]
    Database(#[source] sqlx::Error),
}

impl StoreError {
    /// Returns whether the whole transaction should be retried.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let StoreError::Database(sqlx::Error::Database(error)) = self else { return false };
        matches!(error.code().as_deref(), Some("40001" | "40P01"))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let sqlx::Error::Database(database) = &error else {
            return match error {
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed => StoreError::Unavailable(error),
                other => StoreError::Database(other),
            };
        };
        let constraint = database.constraint().unwrap_or_default().to_owned();
        match database.code().as_deref() {
            Some("23505") => StoreError::Conflict { constraint },
            Some("23503") => StoreError::ParentMissing { constraint },
            // Untranslatable characters, values out of range, index rows that are too long, a LIKE pattern that ends in
            // its escape character.
            Some("22021" | "22P05" | "22P02" | "22003" | "54000" | "22001" | "22025") => {
                StoreError::Unstorable(error)
            }
            Some("53100") => StoreError::DiskFull(error),
            Some("25006") => StoreError::ReadOnly(error),
            // Canceled by a timeout of statements, transactions or locks.
            Some("57014" | "25P03" | "25P04" | "55P03") => StoreError::TimedOut(error),
            // The class 53 covers memory, connections and configured limits of the server.
            Some(code) if ["57P", "08", "53"].iter().any(|class| code.starts_with(class)) => {
                StoreError::Unavailable(error)
            }
            _ => StoreError::Database(error),
        }
    }
}
