//! Start and stop of a process: signals become a cancellation token, tasks are tracked, draining has a time limit.
//!
//! The first `SIGTERM` or `SIGINT` starts the shutdown; a second one ends the process at once.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::exit::ExitStatus;

/// The longest time from the first signal to the end of the process.
pub const DRAIN_LIMIT: Duration = Duration::from_millis(9_500);

/// The shutdown token and the tracked tasks of one process.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Lifecycle {
    /// Starts to listen for signals.
    ///
    /// # Errors
    /// When the process cannot install signal handlers.
    pub fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let lifecycle = Self { shutdown: CancellationToken::new(), tasks: TaskTracker::new() };
        tokio::spawn(watch(lifecycle.shutdown.clone(), terminate, interrupt));
        Ok(lifecycle)
    }

    /// The token that is cancelled when the process shall stop. Clones and children of it follow.
    #[must_use]
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// The tasks that must end before the process does.
    #[must_use]
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Waits for every tracked task, at most `limit`; returns whether all ended.
    pub async fn finish_tasks(&self, limit: Duration) -> bool {
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }
}

async fn watch(shutdown: CancellationToken, mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        () = next(&mut terminate, &mut interrupt) => tracing::info!("signal received: draining"),
        // The shutdown was requested inside the process: the same time limit holds.
        () = shutdown.cancelled() => {}
    }
    shutdown.cancel();
    tokio::select! {
        () = next(&mut terminate, &mut interrupt) => tracing::warn!("second signal received: ending at once"),
        () = tokio::time::sleep(DRAIN_LIMIT) => tracing::error!("draining took too long: ending now"),
    }
    std::process::exit(i32::from(ExitStatus::NotDrained.code()));
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
