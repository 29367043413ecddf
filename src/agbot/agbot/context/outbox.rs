//! The state of the outbox that commands and the deliverer share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::backlog::Counted;

/// The state shared by commands and the deliverer.
#[derive(Default)]
pub(crate) struct Outbox {
    wake: Notify,
    commands: Mutex<Commands>,
    counted: Mutex<Counted>,
    /// The exchange no longer has the fencing numbers of the leases: they must be acquired again.
    are_leases_refused: AtomicBool,
}

/// The commands that are being carried out.
#[derive(Default)]
struct Commands {
    running: usize,
    /// True if any of them may have enqueued an effect. It stays set until the last command ends, because a
    /// command that ends cannot distinguish its own effect from that of another one that has not committed yet.
    have_enqueued: bool,
}

/// A command that is being carried out. The deliverer is woken at its end if it may have enqueued effects.
pub(crate) struct RunningCommand<'a>(&'a Outbox);

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        let mut commands = self.0.commands();
        commands.running -= 1;
        if commands.have_enqueued {
            self.0.wake.notify_one();
        }
        commands.have_enqueued &= commands.running > 0;
    }
}

impl Outbox {
    /// Returns what is to be kept until the command that begins has committed.
    pub(crate) fn begin_command(&self) -> RunningCommand<'_> {
        self.commands().running += 1;
        RunningCommand(self)
    }

    /// Notes that a command has enqueued effects.
    pub(crate) fn note_enqueued(&self) {
        self.commands().have_enqueued = true;
    }

    fn commands(&self) -> MutexGuard<'_, Commands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the deliverer after a change of the partitions.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until the deliverer is woken.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Notes that the exchange no longer has the fencing numbers of the leases.
    pub(crate) fn refuse_leases(&self) {
        self.are_leases_refused.store(true, Ordering::Relaxed);
    }

    /// Returns whether that has happened since the last call.
    pub(crate) fn take_refusal(&self) -> bool {
        self.are_leases_refused.swap(false, Ordering::Relaxed)
    }

    /// Sets the length of the outbox of all agbots.
    pub(crate) fn set_counted(&self, counted: Counted) {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = counted;
    }

    /// Returns the length of the outbox of all agbots when it was last counted.
    pub(crate) fn counted(&self) -> Counted {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn is_woken(outbox: &Outbox) -> bool {
        pin!(outbox.wake.notified()).enable()
    }

    #[test]
    fn command_that_commits_after_another_one_ended_wakes_the_deliverer_again() {
        let outbox = Outbox::default();
        let slow = outbox.begin_command();
        let quick = outbox.begin_command();
        outbox.note_enqueued();
        drop(quick);
        assert!(is_woken(&outbox));
        drop(slow);
        assert!(is_woken(&outbox));
        drop(outbox.begin_command());
        assert!(!is_woken(&outbox));
    }
}
