//! The change feed: assigns sequence numbers to committed changes, keeps the recent ones in memory, serves
//! and parks polls.
//!
//! Source: design 3.3; exchange-api 5.

mod peers;
pub(crate) mod row;
mod sequencer;
mod tail;
pub mod visibility;
mod waiters;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_access::Caller;
use evenkeel_exchange_store::change::{self, SequencedChange};
use evenkeel_runtime::worker::Workers;
use evenkeel_store::{Database, StoreError};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use peers::Peers;
use sequencer::{NotificationListener, Sequencer};
use tail::Tail;
use waiters::Waiters;

/// Category of rows that only invalidate caches of other exchanges.
pub const INTERNAL: &str = "internal";
/// Subject of an internal row: cached credentials to invalidate.
pub(crate) const CREDENTIAL: &str = "credential";
/// Limit of concurrent reads of changes that are not in memory: each holds a page or two of them. Clients
/// that begin at 0 wait for each other.
const STORED_READS: usize = 4;
/// Changes of one page of such a read.
const STORED_PAGE: i64 = 5_000;
/// Changes that such a read examines for those that its caller sees; the next read continues where it ended.
const MOST_SEARCHED: i64 = 50_000;

/// Number of changes that are kept in memory for polls.
const KEPT_IN_MEMORY: usize = 20_000;
/// Time for which a write waits for its number before it is acknowledged without one (then it flushes its
/// rows itself).
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a poll.
#[derive(Debug, Default)]
pub struct Selection {
    /// Visible changes, ascending.
    pub changes: Vec<Arc<SequencedChange>>,
    /// Last number this exchange knows.
    pub last: i64,
}

/// Progress of the writes of this exchange.
#[derive(Debug, Clone, Default)]
struct Published {
    /// Requests up to this one have their numbers, and are visible here.
    ticket: u64,
    /// Their last number.
    last: i64,
    /// The other exchanges that must see it before it is acknowledged.
    peers: Arc<[Uuid]>,
}

impl Published {
    /// Takes the result of a round; returns true if it had been requested. A round that was not requested
    /// knows nothing of the peers, and the writers of the round before may not have looked yet.
    fn advance(&mut self, ticket: u64, last: i64, peers: &[Uuid]) -> bool {
        let is_asked = ticket > self.ticket;
        if is_asked {
            *self = Published { ticket, last, peers: peers.into() };
        }
        is_asked
    }
}

/// The feed of one exchange.
pub struct Feed {
    database: Database,
    tail: Tail,
    waiters: Waiters,
    parked: AtomicUsize,
    requested: AtomicU64,
    wake: Notify,
    done: watch::Sender<Published>,
    peers: Peers,
    draining: CancellationToken,
    /// Permits for reads of changes that are not in memory.
    stored_reads: Semaphore,
}

impl Feed {
    /// Reads the recent changes of the database.
    ///
    /// # Errors
    /// When the store does not respond.
    pub(crate) async fn load(database: Database) -> Result<Feed, StoreError> {
        let (peers, last) = Peers::join(database.clone()).await?;
        let lower_bound = (last - KEPT_IN_MEMORY as i64).max(0);
        let tail = Tail::new(lower_bound, KEPT_IN_MEMORY);
        let rows = database
            .read(async |connection| change::list_after(connection, lower_bound, KEPT_IN_MEMORY as i64).await)
            .await?;
        tail.append(rows, last);
        Ok(Feed {
            database,
            tail,
            waiters: Waiters::default(),
            parked: AtomicUsize::new(0),
            requested: AtomicU64::new(0),
            wake: Notify::new(),
            done: watch::Sender::default(),
            peers,
            draining: CancellationToken::new(),
            stored_reads: Semaphore::new(STORED_READS),
        })
    }

    /// Waits until every change committed before this call has its number and is visible on every exchange; false when that takes too
    /// long.
    pub async fn publish(&self) -> bool {
        let ticket = self.requested.fetch_add(1, Ordering::SeqCst) + 1;
        let mut done = self.done.subscribe();
        self.wake.notify_one();
        let visible = async {
            let Ok(published) = done.wait_for(|done| done.ticket >= ticket).await.map(|done| done.clone())
            else {
                return false;
            };
            self.peers.wait(&published.peers, published.last).await.is_ok()
        };
        let is_visible = tokio::time::timeout(PUBLISH_TIMEOUT, visible).await.unwrap_or(false);
        if !is_visible {
            tracing::warn!(
                "changes wait for their numbers longer than expected; they are stored and will follow"
            );
        }
        is_visible
    }

    /// Waits until what is in memory here holds every write that was acknowledged anywhere; at once but for an exchange that was cut off.
    ///
    /// # Errors
    /// When the database does not respond for long.
    pub(crate) async fn current(&self) -> Result<(), StoreError> {
        self.peers.current().await
    }

    /// Returns whether [`Feed::current`] need not wait.
    pub(crate) fn is_current(&self) -> bool {
        self.peers.is_current()
    }

    /// Reads news of other exchanges without waiting.
    pub fn nudge(&self) {
        self.wake.notify_one();
    }

    /// The last number this exchange knows.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.tail.last()
    }

    /// Selects the first `limit` changes from number `from` on that `allowed` lets through.
    ///
    /// # Errors
    /// When the wanted changes are older than those in memory and the store does not respond.
    pub async fn select(
        &self,
        from: i64,
        limit: usize,
        allowed: impl Fn(&SequencedChange) -> bool,
    ) -> Result<Selection, StoreError> {
        if let Some(selection) = self.tail.select(from, limit, &allowed) {
            return Ok(selection);
        }
        // Rare and large: it must not make the path of every poll large, too.
        Box::pin(self.select_stored(from, limit, allowed)).await
    }

    async fn select_stored(
        &self,
        from: i64,
        limit: usize,
        allowed: impl Fn(&SequencedChange) -> bool,
    ) -> Result<Selection, StoreError> {
        let unavailable = |_| StoreError::Contention { name: "feed.select_stored" };
        let _permit = self.stored_reads.acquire().await.map_err(unavailable)?;
        let begin = from.max(1) - 1;
        let mut after = begin;
        let mut changes = Vec::new();
        while changes.len() < limit && after - begin < MOST_SEARCHED {
            let page = self
                .database
                .read(async |connection| change::list_after(connection, after, STORED_PAGE).await)
                .await?;
            let Some(newest) = page.last() else {
                return Ok(Selection { changes, last: self.last().max(after) });
            };
            after = newest.change_id;
            changes.extend(page.into_iter().filter(|change| allowed(change)).map(Arc::new));
        }
        changes.truncate(limit);
        // The reader continues from here.
        Ok(Selection { changes, last: after })
    }

    /// Number of the first change at or after an instant; past the end when there is none.
    ///
    /// # Errors
    /// When the store does not respond.
    pub async fn first_since(&self, since: jiff::Timestamp) -> Result<i64, StoreError> {
        let first =
            self.database.read(async |connection| change::find_first_since(connection, since).await).await?;
        Ok(first.unwrap_or(self.last() + 1))
    }

    /// Returns true if a recent change in memory concerns this resource, so that it existed not long ago.
    #[must_use]
    pub fn remembers(&self, org: &str, id: &str, resource: &str) -> bool {
        self.tail.any(|row| row.id == id && row.org == org && row.resource == resource)
    }

    /// Drops the rows kept in memory, after a removal by hand.
    pub fn forget_rows(&self) {
        self.tail.forget_rows();
    }

    /// Waits until something that may concern the caller happens after `seen`, or the time is over.
    pub async fn park(&self, caller: &Caller, org: &str, seen: i64, timeout: Duration) {
        let woken = self.waiters.wait(caller, org);
        if self.last() > seen {
            // Something came between the poll and the registration: read again at once, but only once per number.
            return;
        }
        let _parked = Parked::new(&self.parked);
        let _ = tokio::time::timeout(timeout, self.draining.run_until_cancelled(woken)).await;
    }

    /// Returns how many callers wait for something to happen.
    #[must_use]
    pub fn parked_count(&self) -> usize {
        self.parked.load(Ordering::Relaxed)
    }

    /// Ends every wait, now and later: the process is about to stop.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Returns true if waits have been ended and no new ones may begin.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }
}

/// Counts a caller as parked while it lives.
struct Parked<'a>(&'a AtomicUsize);

impl<'a> Parked<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A consumer of feed records inside the exchange that runs before clients see them.
pub(crate) trait Observer: Send + Sync + 'static {
    /// Takes a new row, internal ones too.
    fn observe(&self, row: &SequencedChange);

    /// Drops what is in memory: this exchange was cut off from the others for a while.
    fn start_anew(&self);
}

/// Starts the workers of the feed.
pub(crate) fn sequencer_tasks(
    feed: Arc<Feed>,
    observer: impl Observer,
    (workers, tasks): (&Workers, &TaskTracker),
    shutdown: CancellationToken,
) {
    tasks.spawn(workers.run(NotificationListener::new(feed.clone()), shutdown.clone()));
    tasks.spawn(workers.run(Sequencer::new(feed, observer), shutdown));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_that_nobody_asked_for_does_not_hide_whom_a_write_waits_for() {
        let peer = Uuid::from_u128(1);
        let mut done = Published::default();
        assert!(done.advance(1, 7, &[peer]));
        assert!(!done.advance(1, 9, &[]));
        assert_eq!((done.ticket, done.last, &done.peers[..]), (1, 7, &[peer][..]));
    }
}
