//! Reads the tasks that the hub's engine has for this node (orchestration 1.8).

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evenkeel_runtime::worker::Worker;
use tokio::sync::Mutex;

use super::{
    FIRST_PAUSE, LONGEST_PAUSE, PassError, SIGNAL_ONLY, Signals, canceled_if_ended, failed, jittered,
};
use crate::{
    contact::Contact,
    hub::Hub,
    order::{Ended, Handle},
    step::Event,
};

/// Interval of reads while the node has tasks, in case a change was missed.
const READ_INTERVAL: Duration = Duration::from_secs(60);

/// Reads the tasks of the node.
pub(super) struct TaskReader {
    hub: Arc<Hub>,
    handle: Handle,
    /// Serializes reads, so that an older list does not replace a newer one.
    turn: Mutex<()>,
    is_supported: AtomicBool,
    has_tasks: AtomicBool,
}

impl TaskReader {
    pub fn new(hub: Arc<Hub>, handle: Handle) -> Self {
        let turn = Mutex::new(());
        Self { hub, handle, turn, is_supported: AtomicBool::new(false), has_tasks: AtomicBool::new(false) }
    }

    /// Reads the tasks; the core has saved them when this returns. A third-party exchange refuses the request.
    pub async fn read(&self) -> Result<(), PassError> {
        let _turn = self.turn.lock().await;
        let tasks = match self.hub.exchange.list_node_tasks(&self.hub.node).await {
            Err(error) if matches!(error.status(), Some(400 | 403 | 405)) => None,
            found => found?,
        };
        self.is_supported.store(tasks.is_some(), Ordering::Relaxed);
        self.has_tasks.store(tasks.as_ref().is_some_and(|tasks| !tasks.is_empty()), Ordering::Relaxed);
        if let Some(tasks) = tasks {
            self.handle.apply(Event::TasksRead(tasks)).await?;
        }
        Ok(())
    }

    /// Returns whether the exchange knew tasks when it was last asked.
    pub fn is_supported(&self) -> bool {
        self.is_supported.load(Ordering::Relaxed)
    }
}

/// Reads the tasks when signaled that they may have changed.
pub(super) struct Tasks {
    contact: Contact,
    reader: Arc<TaskReader>,
    handle: Handle,
    signals: Arc<Signals>,
    pause: Duration,
    backoff: Duration,
}

impl Worker for Tasks {
    type Error = Infallible;
    const NAME: &'static str = "tasks";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let result = self.read_or_retry().await;
        canceled_if_ended(result).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    /// The change feed signals the first read.
    fn first_pause(&self) -> Duration {
        SIGNAL_ONLY
    }

    async fn signaled(&mut self) {
        if self.backoff > FIRST_PAUSE {
            // Further signals must not make it retry without a pause.
            return std::future::pending().await;
        }
        self.signals.tasks.notified().await;
    }
}

impl Tasks {
    pub fn new(contact: Contact, reader: Arc<TaskReader>, handle: Handle, signals: Arc<Signals>) -> Self {
        Self { contact, reader, handle, signals, pause: SIGNAL_ONLY, backoff: FIRST_PAUSE }
    }

    async fn read_or_retry(&mut self) -> Result<(), Ended> {
        match self.reader.read().await {
            Ok(()) => {
                self.contact.restored();
                let has_tasks = self.reader.has_tasks.load(Ordering::Relaxed);
                self.pause = if has_tasks { jittered(READ_INTERVAL) } else { SIGNAL_ONLY };
                self.backoff = FIRST_PAUSE;
                Ok(())
            }
            Err(PassError::Hub(error)) => {
                self.pause = jittered(self.backoff);
                self.backoff = (self.backoff * 2).min(LONGEST_PAUSE);
                failed(&self.contact, &self.handle, &error).await
            }
            Err(PassError::Ended(ended)) => Err(ended),
        }
    }
}
