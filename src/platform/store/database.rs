//! Connection pool and named, retried transactions.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection, PgPool};
use tokio::time::Instant;

use crate::connections::{Connection, ConnectionUsage, Connections, TRUSTED, Transaction};
use crate::error::StoreError;
use crate::schema::Schema;

/// Time for which a transaction is retried after conflicts.
const RETRY_LIMIT: Duration = Duration::from_secs(20);

/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Time for which a request waits for a connection when the server does not respond.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);
/// Timeout of the diagnosis. A server that is down refuses the connection at once; one that does not respond gives no reason.
const REASON_AFTER: Duration = Duration::from_secs(1);

/// Limits of all connections of the pool. A process that is suspended, or lost with its machine, in the middle of a
/// transaction must not block others for longer than a process that died.
const LIMITS: [(&str, &str); 2] =
    [("statement_timeout", "45s"), ("idle_in_transaction_session_timeout", "10s")];

/// Multiple of that wait if the server responds but all connections are in use.
const BUSY_WAITS: u32 = 3;

/// A pool of connections to one PostgreSQL database.
#[derive(Clone, Debug)]
pub struct Database {
    connections: Arc<Connections>,
    options: PgConnectOptions,
    orders_by_bytes: bool,
}

impl Database {
    /// Connects, verifying that the server responds.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when it does not, [`StoreError::Database`] for an unusable URL or refused login.
    pub async fn connect(url: &str, max_connections: u32) -> Result<Database, StoreError> {
        let options = PgConnectOptions::from_str(url)?
            .application_name("evenkeel")
            .options(LIMITS)
            .disable_statement_logging();
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .min_connections(1)
            .acquire_timeout(UNREACHABLE_AFTER)
            // A connection is tested when it returns, so that only an idle one needs another test.
            .test_before_acquire(false)
            .before_acquire(|connection, usage| {
                Box::pin(async move { Ok(usage.idle_for < TRUSTED || connection.ping().await.is_ok()) })
            })
            .connect_with(options.clone())
            .await;
        let pool = match pool {
            Err(sqlx::Error::PoolTimedOut) => return Err(why_unreachable(&options).await.into()),
            pool => pool?,
        };
        // The name of a collation does not determine its order.
        let orders_by_bytes = sqlx::query_scalar!(
            r#"-- database.orders_by_bytes
            SELECT 'B' < 'a' AND 'a-b' < 'aa' AND 'z' < 'é' AS "is_so!""#
        )
        .fetch_one(&pool)
        .await?;
        Ok(Database { connections: Connections::new(pool), options, orders_by_bytes })
    }

    /// Returns whether texts are ordered by their bytes, so that all texts with a common prefix are adjacent. True for the embedded server.
    #[must_use]
    pub fn orders_by_bytes(&self) -> bool {
        self.orders_by_bytes
    }

    /// Migrates the schema to the newest version this program knows.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] when a newer program migrated it.
    pub async fn migrate(&self, schema: &Schema) -> Result<(), StoreError> {
        // A separate connection: the pool's statement timeout must not abort a long migration.
        schema.migrate(self.connect_without_limits().await?).await
    }

    /// Opens a connection outside the pool, without a statement timeout.
    pub async fn connect_without_limits(&self) -> Result<PgConnection, StoreError> {
        let limits = [("statement_timeout", "0"), ("idle_in_transaction_session_timeout", "0")];
        Ok(PgConnection::connect_with(&self.options.clone().options(limits)).await?)
    }

    /// Runs reads, or statements that each commit by themselves, on one connection.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no connection is free in time; the error of `work`.
    pub async fn read<T, E: From<StoreError>>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut connection = self.acquire().await?;
        let value = work(&mut connection).await?;
        // Its last statement has completed, so the connection needs no test.
        connection.release();
        Ok(value)
    }

    /// Returns a connection, for uses that [`Database::read`] cannot express; release it after the last statement.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when none is free in time.
    pub async fn acquire(&self) -> Result<Connection, StoreError> {
        let mut waits = 0;
        loop {
            waits += 1;
            match self.connections.acquire().await {
                Err(sqlx::Error::PoolTimedOut) if waits < BUSY_WAITS && self.is_busy() => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Returns whether all permitted connections are open and in use, which means that the server does respond.
    fn is_busy(&self) -> bool {
        let pool = self.pool();
        pool.num_idle() == 0 && pool.size() >= pool.options().get_max_connections()
    }

    /// Returns the pool itself, for listeners.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        self.connections.pool()
    }

    /// Returns how the connections are used.
    #[must_use]
    pub fn usage(&self) -> ConnectionUsage {
        self.connections.usage()
    }

    /// Begins a transaction. It must be short and must not wait for the network; run it inside [`retry`].
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no connection is free in time.
    pub async fn begin(&self) -> Result<Transaction, StoreError> {
        Transaction::begin(self.acquire().await?).await
    }

    /// Closes the pool.
    pub async fn close(&self) {
        self.connections.close().await;
    }
}

/// Runs one named write, and retries it after a conflict with a competing one (serialization failure, deadlock).
///
/// The work may run several times: until its commit it must affect nothing but its transaction.
///
/// # Errors
/// The error of the work, or [`StoreError::Contention`] after 20 seconds of conflicts.
pub async fn retry<T, E, Fut>(name: &'static str, mut work: impl FnMut() -> Fut) -> Result<T, E>
where
    Fut: Future<Output = Result<T, E>>,
    E: From<StoreError> + AsStoreError,
{
    let mut attempts = Attempts { name, started: Instant::now(), count: 0 };
    loop {
        match work().await {
            Err(error) if error.as_store_error().is_some_and(StoreError::is_retryable) => {
                attempts.pause().await?;
            }
            outcome => return outcome,
        }
    }
}

/// The attempts of one write. Separate from [`retry`], which is generic, so that it is compiled once.
struct Attempts {
    name: &'static str,
    started: Instant,
    count: u32,
}

impl Attempts {
    /// Waits before the next attempt.
    async fn pause(&mut self) -> Result<(), StoreError> {
        self.count += 1;
        tracing::debug!(
            transaction = self.name,
            attempt = self.count,
            "transaction conflicted with another one"
        );
        if self.started.elapsed() > RETRY_LIMIT {
            return Err(StoreError::Contention { name: self.name });
        }
        let longest = Duration::from_millis(6).saturating_mul(self.count.saturating_pow(2));
        // Equal pauses would make the same transactions conflict again.
        tokio::time::sleep(longest.min(LONGEST_PAUSE).mul_f64(rand::random::<f64>())).await;
        Ok(())
    }
}

/// Reports to [`retry`] whether an error of the caller's own type is retryable.
pub trait AsStoreError {
    /// The store's error inside, if it is one.
    fn as_store_error(&self) -> Option<&StoreError>;
}

impl AsStoreError for StoreError {
    fn as_store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

/// A connection that waits for notifications.
pub type Listener = sqlx::postgres::PgListener;
/// A received notification.
pub type Notification = sqlx::postgres::PgNotification;

/// Opens a connection that waits for notifications on channels.
///
/// # Errors
/// [`StoreError::Unavailable`] when the server does not respond.
pub async fn listen(database: &Database, channels: &[&str]) -> Result<Listener, StoreError> {
    let mut listener = Listener::connect_with(database.pool()).await?;
    listener.listen_all(channels.iter().copied()).await?;
    Ok(listener)
}

/// Returns why a server cannot be reached, because a pool retries until its timeout and reports only that.
async fn why_unreachable(options: &PgConnectOptions) -> sqlx::Error {
    match tokio::time::timeout(REASON_AFTER, PgConnection::connect_with(options)).await {
        Ok(Err(error)) => error,
        // The server is reachable after all, or does not respond; neither gives a reason.
        Ok(Ok(_)) | Err(_) => sqlx::Error::PoolTimedOut,
    }
}
