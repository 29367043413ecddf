//! Assigns sequence numbers to committed changes and follows the feed.
//!
//! The exchange that holds the row lock of `change_sequence` assigns numbers; the lock is released with the
//! short transaction, so any exchange can be the sequencer and no election is needed. Numbers are committed
//! durably: a reader must never see a number that a crash reverts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_exchange_store::change::{self, SequencedBatch, SequencedChange};
use evenkeel_exchange_store::instance;
use evenkeel_runtime::worker::Worker;
use evenkeel_store::{Listener, Notification, StoreError, retry};
use uuid::Uuid;

use super::{Feed, Observer};

const BATCH: i64 = 5_000;
/// Interval at which the feed is read when there was no notification.
const IDLE_PERIOD: Duration = Duration::from_secs(1);
/// Pause after a failure.
const RETRY: Duration = Duration::from_millis(200);
/// Longest time between two passes of the listener without a notification.
const LISTEN_PERIOD: Duration = Duration::from_secs(60);
/// Pause before the listener connects again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(2);

/// Sequences committed changes; the observer sees every new row, also internal ones, before polls are woken.
pub(crate) struct Sequencer<O> {
    feed: Arc<Feed>,
    observer: O,
    has_failed: bool,
}

impl<O: Observer> Sequencer<O> {
    pub(crate) fn new(feed: Arc<Feed>, observer: O) -> Self {
        Self { feed, observer, has_failed: false }
    }
}

impl<O: Observer> Worker for Sequencer<O> {
    type Error = StoreError;
    const NAME: &'static str = "change_sequencer";

    async fn pass(&mut self) -> Result<(), StoreError> {
        let result = round(&self.feed, &self.observer).await;
        self.has_failed = result.is_err();
        result
    }

    fn pause(&self) -> Duration {
        if self.has_failed { RETRY } else { IDLE_PERIOD }
    }

    fn first_pause(&self) -> Duration {
        IDLE_PERIOD
    }

    async fn signaled(&mut self) {
        if self.has_failed {
            // Writes that arrive meanwhile must not make it retry without a pause.
            return std::future::pending().await;
        }
        self.feed.wake.notified().await;
    }

    async fn finish(&mut self) {
        if let Err(error) = self.feed.peers.leave().await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the lease of this exchange has to run out"
            );
        }
    }
}

/// Assigns numbers, follows the feed, notifies the other exchanges, and renews the lease that allows this one
/// to serve from memory.
async fn round(feed: &Feed, observer: &impl Observer) -> Result<(), StoreError> {
    // Read before the pass: requests up to now have committed their changes.
    let ticket = feed.requested.load(Ordering::SeqCst);
    let is_asked = ticket > feed.done.borrow().ticket;
    let passed = pass(feed, is_asked, observer).await?;
    let last = feed.tail.last();
    feed.done.send_if_modified(|done| done.advance(ticket, last, &passed.peers));
    if passed.has_company {
        feed.peers.notify(last).await?;
    }
    if let Some(asked_at) = feed.peers.keep(last).await? {
        tracing::warn!("this exchange was cut off from its database for a while and reads the changes again");
        observer.start_anew();
        follow(feed, observer).await?;
        feed.peers.resume(asked_at);
    }
    Ok(())
}

/// Facts about other exchanges that a pass found.
#[derive(Default)]
struct Passed {
    /// Those that must see what this pass numbered.
    peers: Vec<Uuid>,
    /// True if another exchange waits for these numbers.
    has_company: bool,
}

async fn pass(feed: &Feed, is_asked: bool, observer: &impl Observer) -> Result<Passed, StoreError> {
    let mut passed = Passed::default();
    loop {
        let SequencedBatch { rows, peers } = number(feed, is_asked).await?;
        let count = rows.len() as i64;
        let known = feed.tail.last();
        passed.has_company |= !peers.is_empty() && count > 0;
        passed.peers = peers;
        if rows.first().is_some_and(|first| first.change_id == known + 1) {
            append(feed, rows, known, observer);
        } else {
            // Other exchanges have numbered too.
            passed.has_company |= follow(feed, observer).await?;
        }
        if count < BATCH {
            return Ok(passed);
        }
    }
}

/// Numbers one batch. Without a request, it first checks without a lock whether there are rows.
async fn number(feed: &Feed, is_asked: bool) -> Result<SequencedBatch, StoreError> {
    if !is_asked && !feed.database.read(async |connection| change::has_outbox_rows(connection).await).await? {
        return Ok(SequencedBatch::default());
    }
    retry("change.number", || async {
        let sequenced = feed
            .database
            .read(async |connection| change::sequence_outbox(connection, BATCH, feed.peers.instance()).await)
            .await?;
        Ok(sequenced)
    })
    .await
}

/// Appends rows that follow on what is known, and wakes the polls that wait for them.
fn append(feed: &Feed, rows: Vec<SequencedChange>, known: i64, observer: &impl Observer) {
    rows.iter().for_each(|row| observer.observe(row));
    let rows = feed.tail.append(rows, known);
    feed.waiters.wake(&rows);
}

/// Takes the rows that are new in the numbered feed, no matter which exchange numbered them; returns true if
/// there were any.
async fn follow(feed: &Feed, observer: &impl Observer) -> Result<bool, StoreError> {
    let mut has_news = false;
    loop {
        let known = feed.tail.last();
        let rows =
            feed.database.read(async |connection| change::list_after(connection, known, BATCH).await).await?;
        let count = rows.len() as i64;
        if rows.is_empty() {
            return Ok(has_news);
        }
        has_news = true;
        append(feed, rows, known, observer);
        if count < BATCH {
            return Ok(has_news);
        }
    }
}

/// Listens for notifications of other exchanges: that there are new sequence numbers, and how far they have seen them. A lost one costs only
/// time: the idle period of the sequencer finds the numbers, and the table of exchanges the rest.
pub(crate) struct NotificationListener {
    feed: Arc<Feed>,
    listener: Option<Listener>,
    received: Option<Result<Notification, StoreError>>,
}

impl NotificationListener {
    pub(crate) fn new(feed: Arc<Feed>) -> Self {
        Self { feed, listener: None, received: None }
    }

    fn handle(&self, notification: &Notification) {
        if notification.channel() == instance::CHANNEL {
            return self.feed.peers.hear(notification.payload());
        }
        // A notification of this exchange itself is no news.
        if notification.payload().parse().is_ok_and(|last: i64| last <= self.feed.last()) {
            return;
        }
        self.feed.nudge();
    }
}

impl Worker for NotificationListener {
    type Error = StoreError;
    const NAME: &'static str = "notification_listener";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), StoreError> {
        match self.received.take() {
            Some(Ok(notification)) => self.handle(&notification),
            Some(Err(error)) => {
                self.listener = None;
                return Err(error);
            }
            None => {}
        }
        if self.listener.is_none() {
            let channels = [change::CHANNEL, instance::CHANNEL];
            self.listener = Some(evenkeel_store::listen(&self.feed.database, &channels).await?);
            // Notifications may have been lost meanwhile.
            self.feed.nudge();
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        if self.listener.is_some() { LISTEN_PERIOD } else { RECONNECT_PAUSE }
    }

    async fn signaled(&mut self) {
        match &mut self.listener {
            Some(listener) => self.received = Some(listener.recv().await.map_err(StoreError::from)),
            None => std::future::pending().await,
        }
    }
}
