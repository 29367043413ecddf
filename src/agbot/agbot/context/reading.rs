//! What was read so far, of the exchange and of the records of all agbots.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::lookup::Lookup;
use super::record_log::RecordLog;
use super::unread::UnreadOrgs;

/// What was read so far.
#[derive(Default)]
pub struct Reading {
    /// Organizations whose newest state is not known.
    pub unread: UnreadOrgs,
    /// The log of the records of all agbots.
    pub(crate) records: RecordLog,
    /// Records to be read.
    pub(crate) lookup: Lookup,
    /// When all heartbeats were read last.
    heartbeats_read_at: RwLock<Option<Instant>>,
    is_loaded: AtomicBool,
}

impl Reading {
    /// Records that all heartbeats were read, by requests that began at this instant.
    pub(crate) fn note_heartbeats(&self, began: Instant) {
        *self.heartbeats_read_at.write().unwrap_or_else(PoisonError::into_inner) = Some(began);
    }

    /// Returns how long ago all heartbeats were read; `None` before the first time.
    pub(crate) fn age_of_heartbeats(&self) -> Option<Duration> {
        self.heartbeats_read_at.read().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    pub(crate) fn set_loaded(&self) {
        self.is_loaded.store(true, Ordering::Release);
    }

    /// Returns whether everything it serves has been read at least once.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }
}
