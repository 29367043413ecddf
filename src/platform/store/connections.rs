//! Connections that are reused without a test.
//!
//! The pool tests a returned connection with a round trip to the server after each use. After an aborted use, whose
//! response may still be in flight, that is necessary; after a normal one it is wasted. Therefore connections whose use
//! ended normally are kept here. The others return to the pool, and so do idle ones, and each connection from time to
//! time, so that the pool can check its age.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgConnection, PgPool, Postgres};

use crate::error::StoreError;

/// Time for which an idle connection is kept, and assumed alive by the pool.
pub const TRUSTED: Duration = Duration::from_millis(500);
/// Number of uses after which a connection returns to the pool, which checks its age.
const USES: u32 = 1_000;
/// Timeout of the test of an idle connection.
const TEST_LIMIT: Duration = Duration::from_secs(3);

/// Usage of a pool's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionUsage {
    /// Connections in use.
    pub used: usize,
    /// Open connections that are idle.
    pub idle: usize,
    /// Callers that wait for a connection.
    pub waiting: usize,
}

/// The pool, and the connections whose last use ended normally a moment ago.
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

/// A connection in use. A drop returns it to the pool, which tests it; [`Connection::release`] marks the use as ended normally.
#[derive(Debug)]
pub struct Connection {
    /// Taken only when the use ends.
    connection: Option<PoolConnection<Postgres>>,
    /// True if a transaction may have begun that has not been committed.
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

    /// Returns a connection whose last use ended normally a moment ago, or an idle one that is still alive, else one of the pool.
    ///
    /// # Errors
    /// Those of the pool.
    pub async fn acquire(self: &Arc<Connections>) -> Result<Connection, sqlx::Error> {
        if let Some(connection) = self.reuse_last().await {
            return Ok(connection);
        }
        let _waits = Waits::new(&self.waiting);
        // A connection may have returned before this caller was registered as waiting.
        if let Some(connection) = self.reuse_last().await {
            return Ok(connection);
        }
        Ok(self.lend(self.pool.acquire().await?, 0))
    }

    /// Returns the connection that was used last. If it was idle, it is tested, and the others, which have been idle
    /// for longer, return to the pool.
    async fn reuse_last(self: &Arc<Connections>) -> Option<Connection> {
        let (last, idle) = {
            let mut kept = self.kept();
            let last = kept.pop()?;
            let is_idle = last.since.elapsed() >= TRUSTED;
            (last, is_idle.then(|| std::mem::take(&mut *kept)))
        };
        let mut connection = self.lend(last.connection, last.uses);
        if idle.is_some() {
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
        // Callers that wait for the pool, or close it, do not check this list again.
        if self.waiting.load(Ordering::SeqCst) > 0 || self.pool.is_closed() {
            let last = self.kept().pop();
            drop(last);
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes every connection as it returns, and waits until all are closed.
    pub async fn close(&self) {
        let closed = self.pool.close();
        drop(std::mem::take(&mut *self.kept()));
        closed.await;
    }
}

/// Counts a waiting caller while it exists.
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
    /// Ends a use whose last statement has completed, outside a transaction.
    pub fn release(mut self) {
        if let Some(connection) = self.connection.take() {
            self.home.keep(connection, self.uses + 1);
        }
    }

    /// Closes the connection when the use ends.
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
            // Without a runtime the connection is closed soon, and the server rolls back.
            Err(_) => connection.close_on_drop(),
        }
    }
}

/// A transaction; a drop without a commit rolls it back.
#[derive(Debug)]
pub struct Transaction(Connection);

impl Transaction {
    /// Begins a transaction.
    ///
    /// # Errors
    /// When the server does not respond.
    pub async fn begin(mut connection: Connection) -> Result<Transaction, StoreError> {
        // From here on a drop rolls back, whether or not the transaction has begun.
        connection.is_open = true;
        sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
        Ok(Transaction(connection))
    }

    /// Commits durably.
    ///
    /// # Errors
    /// A retryable error after a conflict with a competing transaction.
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
