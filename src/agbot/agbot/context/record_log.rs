//! The read position of this agbot in the log of changed records.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use evenkeel_agbot_store::change::Position;
use tokio::sync::{Mutex, MutexGuard};

/// The read position of this agbot in the log.
#[derive(Debug, Default)]
pub struct RecordLog {
    /// `None`: the next read is in bulk. The lock serializes reads, so that their events reach the engine in order.
    position: Mutex<Option<Position>>,
    read_at: RwLock<Option<Instant>>,
}

impl RecordLog {
    /// Locks the position for a read.
    pub(crate) async fn position(&self) -> MutexGuard<'_, Option<Position>> {
        self.position.lock().await
    }

    /// Records that the log was read to its end, by a read that began at this instant.
    pub(crate) fn note_read(&self, began: Instant) {
        *self.read_at.write().unwrap_or_else(PoisonError::into_inner) = Some(began);
    }

    /// Returns how long ago the log was read to its end; `None` before the first time.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.read_at.read().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }
}
