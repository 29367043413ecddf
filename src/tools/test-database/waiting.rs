//! Statements that wait for a lock.

use std::pin::pin;

use sqlx::PgConnection;

use crate::TestDatabase;

/// Returns the id of the server process of a connection, by which its waiting is seen.
pub async fn backend(connection: &mut PgConnection) -> i32 {
    let process = "SELECT pg_backend_pid()";
    sqlx::query_scalar(process).fetch_one(connection).await.expect("a connection has a server process")
}

impl TestDatabase {
    /// Runs `waiter`, whose connection has the server process `backend`, and ends what it waits for by `release` as soon as it waits.
    ///
    /// # Panics
    /// When it ends without waiting for a lock.
    pub async fn release_when_awaited<T>(
        &self,
        backend: i32,
        waiter: impl Future<Output = T>,
        release: impl Future,
    ) -> T {
        let mut observer = self.connection().await;
        let mut waiter = pin!(waiter);
        loop {
            let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)";
            let waits = sqlx::query_scalar::<_, bool>(waits).bind(backend).fetch_one(&mut observer);
            tokio::select! {
                biased;
                _ = &mut waiter => panic!("it did not wait for a lock"),
                waits = waits => if waits.expect("the locks of the server") { break },
            }
        }
        release.await;
        waiter.await
    }
}
