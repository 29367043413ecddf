//! The mailbox as the other parts see it: reasons to read it, and what came of its messages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::backlog::Counted;

/// The state of the mailbox that its worker shares.
#[derive(Default)]
pub struct MailboxState {
    /// Notified when the mailbox may hold messages.
    pub(crate) mail: Notify,
    /// Notified when messages that were left in the mailbox are to be handled again.
    pub(crate) retry: Notify,
    dropped: AtomicU64,
    backlog: Mutex<Counted>,
}

impl MailboxState {
    /// Counts a message that could not be used.
    pub(crate) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of messages that could not be used: tampered with, replayed, or from a wrong sender.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn set_backlog(&self, count: u64, oldest_at: Option<Timestamp>) {
        *self.backlog.lock().unwrap_or_else(PoisonError::into_inner) = Counted { count, oldest_at };
    }

    /// Returns the backlog of node messages, as far as the mailbox was read.
    pub(crate) fn backlog(&self) -> Counted {
        *self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
