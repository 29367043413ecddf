//! Connection pool, migrations and named, retried transactions.

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::{Migrate, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool};

use crate::error::StoreError;

static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

/// How often a transaction that lost against another one is tried again.
const ATTEMPTS: u32 = 8;

/// The future of one attempt of a transaction.
pub type Write<'c, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>;

/// A pool of connections to one PostgreSQL database.
#[derive(Clone, Debug)]
pub struct Database {
    pool: PgPool,
    options: PgConnectOptions,
}

impl Database {
    /// Connects, proving that the server answers.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when it does not, [`StoreError::Database`] for an unusable URL or refused login.
    pub async fn connect(url: &str, max_connections: u32) -> Result<Database, StoreError> {
        let options = PgConnectOptions::from_str(url)?
            .application_name("evenkeel")
            .options([("statement_timeout", "45s"), ("idle_in_transaction_session_timeout", "60s")])
            .disable_statement_logging();
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .min_connections(1)
            .acquire_timeout(Duration::from_secs(10))
            .connect_with(options.clone())
            .await?;
        Ok(Database { pool, options })
    }

    /// Brings the schema to the newest version this program knows.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] when a newer program was here before.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let known = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
        // A connection of its own: the pool's statement limit must not cut a long migration.
        let mut connection = PgConnection::connect_with(&self.options.clone().options([("statement_timeout", "0")])).await?;
        connection.ensure_migrations_table("_sqlx_migrations").await.map_err(StoreError::Migration)?;
        let applied = connection.list_applied_migrations("_sqlx_migrations").await.map_err(StoreError::Migration)?;
        if let Some(found) = applied.iter().map(|migration| migration.version).max().filter(|found| *found > known) {
            return Err(StoreError::NewerSchema { found, known });
        }
        MIGRATOR.run(&mut connection).await.map_err(StoreError::Migration)?;
        connection.close().await?;
        Ok(())
    }

    /// The newest schema version that this program knows.
    #[must_use]
    pub fn schema_version() -> i64 {
        MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0)
    }

    /// A connection for reads.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when none is free in time.
    pub async fn acquire(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Postgres>, StoreError> {
        Ok(self.pool.acquire().await?)
    }

    /// The pool itself, for listeners.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Runs one short transaction and commits it; tries again when it lost against a competing one.
    ///
    /// The closure may run several times: it must have no effect but on the connection. It must not wait for the network.
    ///
    /// # Errors
    /// Whatever the closure returns (the transaction is rolled back), or [`StoreError::Contention`] after the last attempt.
    pub async fn run_tx<T, E, F>(&self, name: &'static str, work: F) -> Result<T, E>
    where
        F: for<'c> Fn(&'c mut PgConnection) -> Write<'c, T, E>,
        E: From<StoreError> + AsStoreError,
    {
        for attempt in 1..=ATTEMPTS {
            let mut transaction = self.pool.begin().await.map_err(StoreError::from)?;
            let error = match work(&mut transaction).await {
                Ok(value) => match transaction.commit().await.map_err(StoreError::from) {
                    Ok(()) => return Ok(value),
                    Err(error) if error.is_retryable() => E::from(error),
                    Err(error) => return Err(error.into()),
                },
                Err(error) => {
                    // A rollback that fails means a broken connection, which the pool drops anyway.
                    let _ = transaction.rollback().await;
                    error
                }
            };
            if !error.as_store_error().is_some_and(StoreError::is_retryable) {
                return Err(error);
            }
            tracing::debug!(transaction = name, attempt, "transaction lost against another one");
            tokio::time::sleep(Duration::from_millis(u64::from(attempt * attempt) * 3)).await;
        }
        Err(StoreError::Contention { name }.into())
    }

    /// Closes the pool.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Lets [`Database::run_tx`] see whether an error of the caller's own type is worth another attempt.
pub trait AsStoreError {
    /// The store's error inside, if it is one.
    fn as_store_error(&self) -> Option<&StoreError>;
}

impl AsStoreError for StoreError {
    fn as_store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}
