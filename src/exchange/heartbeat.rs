//! Signs of life: kept in memory, written in batches once a second.
//!
//! The very first sign of a node is written at once, because searches leave out nodes that were never seen.
//! Source: design, "Heartbeats"; exchange contract section 8.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use evenkeel_store::exchange::heartbeat::{self, SignOfLife};
use evenkeel_store::{Database, StoreError, retry};
use jiff::Timestamp;

type Key = (String, String);

#[derive(Default)]
struct Seen {
    latest: HashMap<Key, Timestamp>,
    pending: HashSet<Key>,
}

/// Last signs of life of nodes and agbots.
pub struct Heartbeats {
    database: Database,
    nodes: Mutex<Seen>,
    agbots: Mutex<Seen>,
}

impl Heartbeats {
    pub(crate) fn new(database: Database) -> Heartbeats {
        Heartbeats { database, nodes: Mutex::default(), agbots: Mutex::default() }
    }

    /// Notes that a node was seen.
    ///
    /// # Errors
    /// Only for a node not seen before by this exchange, whose sign is written at once.
    pub async fn touch_node(&self, org: &str, node: &str, at: Timestamp) -> Result<(), StoreError> {
        if note(&self.nodes, org, node, at) {
            return Ok(());
        }
        let beat = SignOfLife { org: org.to_owned(), id: node.to_owned(), seen_at: at };
        let mut connection = self.database.acquire().await?;
        heartbeat::upsert_nodes(&mut connection, &[beat]).await?;
        self.remember_node(org, node, at);
        Ok(())
    }

    /// Remembers a sign that the caller has written itself.
    pub fn remember_node(&self, org: &str, node: &str, at: Timestamp) {
        lock(&self.nodes).latest.insert((org.to_owned(), node.to_owned()), at);
    }

    /// Notes that an agbot was seen.
    pub fn touch_agbot(&self, org: &str, agbot: &str, at: Timestamp) {
        let key = (org.to_owned(), agbot.to_owned());
        let mut seen = lock(&self.agbots);
        seen.latest.insert(key.clone(), at);
        seen.pending.insert(key);
    }

    /// The later of the stored sign of life of a node and the one in memory.
    #[must_use]
    pub fn latest_node(&self, org: &str, node: &str, stored: Option<Timestamp>) -> Option<Timestamp> {
        latest(&self.nodes, org, node, stored)
    }

    /// The later of the stored sign of life of an agbot and the one in memory.
    #[must_use]
    pub fn latest_agbot(&self, org: &str, agbot: &str, stored: Option<Timestamp>) -> Option<Timestamp> {
        latest(&self.agbots, org, agbot, stored)
    }

    /// Forgets a node or agbot that is gone; id `*` forgets the whole organization.
    pub fn forget(&self, org: &str, id: &str) {
        for side in [&self.nodes, &self.agbots] {
            let mut seen = lock(side);
            if id == "*" {
                seen.latest.retain(|key, _| key.0 != org);
                seen.pending.retain(|key| key.0 != org);
            } else {
                let key = (org.to_owned(), id.to_owned());
                seen.latest.remove(&key);
                seen.pending.remove(&key);
            }
        }
    }

    /// Writes what is pending; called once a second and before searches that look at signs of life.
    ///
    /// # Errors
    /// When the store does not answer; the signs stay pending.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let nodes = take(&self.nodes);
        let agbots = take(&self.agbots);
        if nodes.is_empty() && agbots.is_empty() {
            return Ok(());
        }
        let result = retry("heartbeat.flush", || async {
            let mut tx = self.database.begin().await?;
            heartbeat::relax_durability(&mut tx).await?;
            if !nodes.is_empty() {
                heartbeat::upsert_nodes(&mut tx, &nodes).await?;
            }
            if !agbots.is_empty() {
                heartbeat::update_agbots(&mut tx, &agbots).await?;
            }
            tx.commit().await
        })
        .await;
        if result.is_err() {
            put_back(&self.nodes, nodes);
            put_back(&self.agbots, agbots);
        }
        result
    }
}

fn lock(side: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    side.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a sign of somebody already known; false when it is new.
fn note(side: &Mutex<Seen>, org: &str, id: &str, at: Timestamp) -> bool {
    let key = (org.to_owned(), id.to_owned());
    let mut seen = lock(side);
    match seen.latest.get_mut(&key) {
        Some(latest) => {
            *latest = at;
            seen.pending.insert(key);
            true
        }
        None => false,
    }
}

fn latest(side: &Mutex<Seen>, org: &str, id: &str, stored: Option<Timestamp>) -> Option<Timestamp> {
    let in_memory = lock(side).latest.get(&(org.to_owned(), id.to_owned())).copied();
    in_memory.max(stored)
}

fn take(side: &Mutex<Seen>) -> Vec<SignOfLife> {
    let mut seen = lock(side);
    let pending = std::mem::take(&mut seen.pending);
    let mut batch: Vec<SignOfLife> = pending
        .into_iter()
        .filter_map(|key| {
            let seen_at = *seen.latest.get(&key)?;
            Some(SignOfLife { org: key.0, id: key.1, seen_at })
        })
        .collect();
    batch.sort_by(|a, b| (&a.org, &a.id).cmp(&(&b.org, &b.id)));
    batch
}

fn put_back(side: &Mutex<Seen>, batch: Vec<SignOfLife>) {
    let mut seen = lock(side);
    for beat in batch {
        seen.pending.insert((beat.org, beat.id));
    }
}
