//! Gives numbers to committed changes and follows the numbered feed.
//!
//! Whoever holds the row lock of `change_sequence` numbers; the lock is released with the short transaction, so any exchange can be
//! the sequencer and none must be elected. The numbering commits durably: a reader must never see a number that a crash takes back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_store::exchange::change::{self, NumberedChange};
use evenkeel_store::{StoreError, retry};
use tokio_util::sync::CancellationToken;

use super::Feed;

const BATCH: i64 = 5_000;
/// How often the feed is looked at when nobody says that something happened.
const IDLE_PERIOD: Duration = Duration::from_secs(1);

/// Runs until shutdown; `observe` sees every new row, also internal ones, before polls are woken.
pub(crate) async fn run(feed: Arc<Feed>, observe: impl Fn(&NumberedChange), shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = feed.wake.notified() => {}
            () = tokio::time::sleep(IDLE_PERIOD) => {}
            () = shutdown.cancelled() => return,
        }
        // Read before the pass: whoever asked by now has committed by now.
        let ticket = feed.requested.load(Ordering::SeqCst);
        let is_asked = ticket > *feed.done.borrow();
        match pass(&feed, is_asked, &observe).await {
            Ok(()) => {
                feed.done.send_replace(ticket);
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "changes could not be numbered, trying again"
                );
                tokio::time::sleep(Duration::from_millis(200)).await;
                feed.wake.notify_one();
            }
        }
    }
}

async fn pass(feed: &Feed, is_asked: bool, observe: &impl Fn(&NumberedChange)) -> Result<(), StoreError> {
    loop {
        let rows = number(feed, is_asked).await?;
        let count = rows.len() as i64;
        let known = feed.tail.last();
        if rows.first().is_some_and(|first| first.change_id == known + 1) {
            take(feed, rows, known, observe);
        } else {
            // Other exchanges have numbered too.
            follow(feed, observe).await?;
        }
        if count < BATCH {
            return Ok(());
        }
    }
}

/// Numbers one batch and returns its rows. When nobody asked, it first looks whether there is something, without a lock.
async fn number(feed: &Feed, is_asked: bool) -> Result<Vec<NumberedChange>, StoreError> {
    if !is_asked && !change::has_outbox_rows(&mut *feed.database.acquire().await?).await? {
        return Ok(Vec::new());
    }
    retry("change.number", || async {
        let mut tx = feed.database.begin().await?;
        let last = change::lock_sequence(&mut tx).await?;
        let numbered = change::number_outbox(&mut tx, last, BATCH).await?;
        tx.commit().await?;
        Ok(numbered)
    })
    .await
}

/// Shows rows that follow on what is known.
fn take(feed: &Feed, rows: Vec<NumberedChange>, known: i64, observe: &impl Fn(&NumberedChange)) {
    rows.iter().for_each(observe);
    let rows = feed.tail.append(rows, known);
    feed.waiters.wake(&rows);
}

/// Takes the rows that are new in the numbered feed, whoever numbered them.
async fn follow(feed: &Feed, observe: &impl Fn(&NumberedChange)) -> Result<(), StoreError> {
    loop {
        let known = feed.tail.last();
        let rows = change::list_after(&mut *feed.database.acquire().await?, known, BATCH).await?;
        let count = rows.len() as i64;
        if rows.is_empty() {
            return Ok(());
        }
        take(feed, rows, known, observe);
        if count < BATCH {
            return Ok(());
        }
    }
}

/// Listens for the hint of other exchanges that there are new numbers. Only a hint: without it the idle period finds them.
pub(crate) async fn listen(feed: Arc<Feed>, shutdown: CancellationToken) {
    loop {
        let listening = async {
            let mut listener = sqlx_listener(&feed).await?;
            loop {
                let hint = listener.recv().await.map_err(StoreError::from)?;
                // The echo of this exchange's own numbers tells nothing new.
                if hint.payload().parse().is_ok_and(|last: i64| last <= feed.last()) {
                    continue;
                }
                feed.nudge();
            }
        };
        let outcome: Result<(), StoreError> = tokio::select! {
            outcome = listening => outcome,
            () = shutdown.cancelled() => return,
        };
        if let Err(error) = outcome {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "listening for changes was interrupted"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(2)) => feed.nudge(),
            () = shutdown.cancelled() => return,
        }
    }
}

async fn sqlx_listener(feed: &Feed) -> Result<evenkeel_store::Listener, StoreError> {
    evenkeel_store::listen(&feed.database, change::CHANNEL).await
}
