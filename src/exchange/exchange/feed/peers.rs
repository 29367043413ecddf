//! The exchanges on one database: a write is acknowledged when each of them has seen it, so that none serves
//! from stale memory.
//!
//! Each holds a lease. While it lasts, writers wait for its confirmation that it has seen their change; an
//! exchange whose lease has expired serves no request before it has joined again and read what it missed.
//! Confirmations are sent as notifications, and stored in a table in case those are lost. A single exchange
//! does not wait. Source: docs/adr/0011-writes-wait-for-every-exchange.md.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_exchange_store::{change, instance};
use evenkeel_store::{Database, StoreError, retry};
use tokio::sync::watch;
use uuid::Uuid;

/// Time for which an exchange serves from memory after its last contact with the database. Longer than
/// scheduling delays of a busy machine; a write waits as long for an exchange that was killed.
const LEASE: Duration = Duration::from_secs(3);
/// Age at which the lease is renewed.
const RENEWAL: Duration = Duration::from_secs(1);
/// Time for which a writer relies on notifications before it reads the table.
const RECHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Time for which a request waits for an exchange that has to join again.
const RETRY_LIMIT: Duration = Duration::from_secs(10);
/// Other exchanges remembered at most; those that ended are forgotten with the rest.
const REMEMBERED: usize = 1_000;

/// This exchange's lease, and what it knows of the others.
pub struct Peers {
    database: Database,
    instance: Uuid,
    begun: Instant,
    /// End of the time in which this exchange may serve from memory, in nanoseconds since `begun`: every
    /// request reads it without a lock.
    current_nanos: AtomicU64,
    /// The same instant, for waiters for a later one.
    current_until: watch::Sender<Instant>,
    /// Position of each other exchange in the feed.
    seen: watch::Sender<HashMap<Uuid, i64>>,
}

impl Peers {
    /// Joins the exchanges of a database. Changes numbered from now on wait for this one; also returns the
    /// last number assigned before.
    pub async fn join(database: Database) -> Result<(Peers, i64), StoreError> {
        let asked_at = Instant::now();
        let instance = Uuid::new_v4();
        let last = register(&database, instance, None).await?;
        let peers = Peers {
            database,
            instance,
            begun: asked_at,
            current_nanos: AtomicU64::new(0),
            current_until: watch::Sender::new(asked_at),
            seen: watch::Sender::default(),
        };
        peers.resume(asked_at);
        Ok((peers, last))
    }

    /// Id of this exchange.
    pub fn instance(&self) -> Uuid {
        self.instance
    }

    /// Keeps the lease of an exchange that has seen the feed up to `seen_id`. Returns the time of the request
    /// if the lease had expired and was acquired again: then everything in memory may be stale until the feed is read to
    /// its end, and [`Peers::resume`] must be called.
    pub async fn keep(&self, seen_id: i64) -> Result<Option<Instant>, StoreError> {
        let asked_at = Instant::now();
        let until = *self.current_until.borrow();
        if until > asked_at + LEASE.saturating_sub(RENEWAL) {
            return Ok(None);
        }
        if until > asked_at {
            let is_renewed = self
                .database
                .read(async |connection| {
                    instance::renew_instance(connection, self.instance, seen_id, LEASE).await
                })
                .await?;
            // A late confirmation does not count: another exchange may have found the old lease expired
            // meanwhile.
            if is_renewed && Instant::now() < until {
                self.resume(asked_at);
                return Ok(None);
            }
        }
        register(&self.database, self.instance, Some(seen_id)).await?;
        Ok(Some(asked_at))
    }

    /// Serves from memory again, with the lease that was requested at an instant.
    pub fn resume(&self, asked_at: Instant) {
        self.set_current_until(asked_at + LEASE);
    }

    fn set_current_until(&self, until: Instant) {
        let nanos = until.saturating_duration_since(self.begun).as_nanos();
        self.current_nanos.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Release);
        self.current_until.send_replace(until);
    }

    /// Returns whether this exchange may serve from memory.
    pub fn is_current(&self) -> bool {
        self.begun.elapsed() < Duration::from_nanos(self.current_nanos.load(Ordering::Acquire))
    }

    /// Notifies the other exchanges of the position in the feed that this one has seen.
    pub async fn notify(&self, seen_id: i64) -> Result<(), StoreError> {
        self.database
            .read(async |connection| instance::notify_seen(connection, self.instance, seen_id).await)
            .await
    }

    /// Takes another one's word from a notification.
    pub fn hear(&self, payload: &str) {
        let Some((instance, seen_id)) = payload.split_once(' ') else { return };
        let (Ok(instance), Ok(seen_id)) = (instance.parse(), seen_id.parse()) else { return };
        if instance == self.instance {
            return;
        }
        self.seen.send_modify(|seen| {
            if seen.len() >= REMEMBERED {
                seen.clear();
            }
            let known = seen.entry(instance).or_insert(seen_id);
            *known = (*known).max(seen_id);
        });
    }

    /// Waits until the given exchanges have seen the feed up to `wanted_id`, or no longer serve requests.
    pub async fn wait(&self, peers: &[Uuid], wanted_id: i64) -> Result<(), StoreError> {
        let mut behind = peers.to_vec();
        let mut seen = self.seen.subscribe();
        while !behind.is_empty() {
            let all_have_seen = seen.wait_for(|seen| {
                behind.iter().all(|peer| seen.get(peer).is_some_and(|seen_id| *seen_id >= wanted_id))
            });
            if tokio::time::timeout(RECHECK_INTERVAL, all_have_seen).await.is_ok() {
                return Ok(());
            }
            behind = self
                .database
                .read(async |connection| instance::list_behind(connection, &behind, wanted_id).await)
                .await?;
        }
        Ok(())
    }

    /// Waits until this exchange may serve from memory; at once while its lease lasts.
    pub async fn current(&self) -> Result<(), StoreError> {
        if self.is_current() {
            return Ok(());
        }
        // Rare and large: it must not make the path of every request large, too.
        Box::pin(self.renewed()).await
    }

    async fn renewed(&self) -> Result<(), StoreError> {
        let mut current_until = self.current_until.subscribe();
        let renewed = current_until.wait_for(|until| *until > Instant::now());
        match tokio::time::timeout(RETRY_LIMIT, renewed).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StoreError::Contention { name: "exchange.lease" }),
        }
    }

    /// Leaves: no exchange waits for this one any longer, and it serves no request.
    pub async fn leave(&self) -> Result<(), StoreError> {
        self.set_current_until(Instant::now());
        self.database
            .read(async |connection| instance::delete_instance(connection, self.instance).await)
            .await
    }
}

/// Registers between two passes of the sequencer, and returns the last assigned number, up to which an
/// exchange without state reads.
async fn register(database: &Database, instance: Uuid, seen_id: Option<i64>) -> Result<i64, StoreError> {
    retry("instance.register", || async {
        let mut tx = database.begin().await?;
        let last = change::lock_sequence(&mut tx).await?;
        instance::upsert_instance(&mut tx, instance, seen_id.unwrap_or(last), LEASE).await?;
        tx.commit().await?;
        Ok(last)
    })
    .await
}
