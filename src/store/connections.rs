//! Connections that are used again at once.
//!
//! A connection that comes back to the pool is asked whether it is still alive, a round trip to the server for each use. That is right after
//! a use that was broken off, whose answer may still be on its way, and for nothing after one that ended well. So connections that end well
//! are kept here, and the pool gets back the others, those that nobody needs for a moment, and each from time to time for its age to be looked at.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgConnection, PgPool, Postgres};

use crate::error::StoreError;

/// How long a connection that nobody uses is kept, and how long the pool believes that one is alive.
pub const TRUSTED: Duration = Duration::from_millis(500);
/// Uses of a connection until the pool looks at its age.
const USES: u32 = 1_000;
/// How long a connection that rested may take to show that it is alive.
const TEST_LIMIT: Duration = Duration::from_secs(3);

/// How the connections of a pool are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionUsage {
    /// Connections in use.
    pub used: usize,
    /// Open connections that nobody uses.
    pub idle: usize,
    /// Callers that wait for a connection.
    pub waiting: usize,
}

/// The pool, and the connections that ended well a moment ago.
#[derive(Debug)]
pub struct Connections {
    pool: PgPool,
    kept: Mutex<Vec<Kept>>,
    /// Callers that wait for the pool.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Kept {
    connection: PoolConnection<Postgres>,
    since: Instant,
    uses: u32,
}

/// A connection in use. Dropped it goes to the pool, which tests it; [`Connection::release`] says that the use ended well.
#[derive(Debug)]
pub struct Connection {
    /// Taken only by what ends the use.
    connection: Option<PoolConnection<Postgres>>,
    /// A transaction may have begun that has not been committed.
    is_open: bool,
    uses: u32,
    home: Arc<Connections>,
}

impl Connections {
    pub fn new(pool: PgPool) -> Arc<Connections> {
        Arc::new(Connections { pool, kept: Mutex::default(), waiting: AtomicUsize::new(0) })
    }

    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub fn usage(&self) -> ConnectionUsage {
        let idle = self.pool.num_idle() + self.kept().len();
        let open = self.pool.size() as usize;
        let waiting = self.waiting.load(Ordering::Relaxed);
        ConnectionUsage { used: open.saturating_sub(idle), idle: idle.min(open), waiting }
    }

    /// A connection that ended well a moment ago, or one that rested and is still alive, else one of the pool.
    ///
    /// # Errors
    /// Those of the pool.
    pub async fn acquire(self: &Arc<Connections>) -> Result<Connection, sqlx::Error> {
        if let Some(connection) = self.take().await {
            return Ok(connection);
        }
        let _waits = Waits::new(&self.waiting);
        // One that came back before this caller was known to wait.
        if let Some(connection) = self.take().await {
            return Ok(connection);
        }
        Ok(self.lend(self.pool.acquire().await?, 0))
    }

    /// The connection that came back last. When it has rested it is tested, and the others, which have rested longer, go to the pool.
    async fn take(self: &Arc<Connections>) -> Option<Connection> {
        let (last, rested) = {
            let mut kept = self.kept();
            let last = kept.pop()?;
            let rested = last.since.elapsed() >= TRUSTED;
            (last, rested.then(|| std::mem::take(&mut *kept)))
        };
        let mut connection = self.lend(last.connection, last.uses);
        if rested.is_some() {
            let test = tokio::time::timeout(TEST_LIMIT, connection.ping()).await;
            if !matches!(test, Ok(Ok(()))) {
                connection.close_on_drop();
                return None;
            }
        }
        Some(connection)
    }

    fn lend(self: &Arc<Connections>, connection: PoolConnection<Postgres>, uses: u32) -> Connection {
        Connection { connection: Some(connection), is_open: false, uses, home: self.clone() }
    }

    fn keep(&self, connection: PoolConnection<Postgres>, uses: u32) {
        if uses >= USES {
            return;
        }
        self.kept().push(Kept { connection, since: Instant::now(), uses });
        // Whoever waits for the pool, or closes it, does not look here again.
        if self.waiting.load(Ordering::SeqCst) > 0 || self.pool.is_closed() {
            let last = self.kept().pop();
            drop(last);
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes every connection when it comes back, and waits for that.
    pub async fn close(&self) {
        let closed = self.pool.close();
        drop(std::mem::take(&mut *self.kept()));
        closed.await;
    }
}

/// Counts a caller that waits, for as long as it does.
struct Waits<'w>(&'w AtomicUsize);

impl<'w> Waits<'w> {
    fn new(waiting: &'w AtomicUsize) -> Waits<'w> {
        waiting.fetch_add(1, Ordering::SeqCst);
        Waits(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connection {
    /// Ends a use whose last statement was answered, outside a transaction.
    pub fn release(mut self) {
        if let Some(connection) = self.connection.take() {
            self.home.keep(connection, self.uses + 1);
        }
    }

    /// Has the connection closed when the use ends.
    fn close_on_drop(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.close_on_drop();
        }
    }
}

impl Deref for Connection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("only ending the use takes it")
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("only ending the use takes it")
    }
}

impl Drop for Connection {
    /// Rolls back what was not committed.
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take_if(|_| self.is_open) else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    if sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await.is_err() {
                        connection.close_on_drop();
                    }
                });
            }
            // The runtime is gone, and with it soon the connection: the server rolls back.
            Err(_) => connection.close_on_drop(),
        }
    }
}

/// A transaction; dropped without a commit it is rolled back.
#[derive(Debug)]
pub struct Transaction(Connection);

impl Transaction {
    /// Begins a transaction.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn begin(mut connection: Connection) -> Result<Transaction, StoreError> {
        // Dropped from here on it is rolled back, whether it has begun or not.
        connection.is_open = true;
        sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
        Ok(Transaction(connection))
    }

    /// Commits durably.
    ///
    /// # Errors
    /// A retryable error when it lost against a competing transaction.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        sqlx::raw_sql("COMMIT").execute(&mut *self).await?;
        self.0.is_open = false;
        self.0.release();
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}
