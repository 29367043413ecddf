//! Heartbeats: kept in memory, written in batches once a second.
//!
//! The first heartbeat of a node is written before the response, because searches leave out nodes that were
//! never seen; concurrent ones are written together.
//! Source: design 3.4; exchange-api 8.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_exchange_store::heartbeat::{self, Heartbeat};
use evenkeel_exchange_store::node_report::{self, FastReport};
use evenkeel_store::{Batches, Database, StoreError, retry};
use hashbrown::HashMap;
use jiff::Timestamp;

struct Sign {
    at: Timestamp,
    /// Not written yet; then it is in [`Seen::pending`].
    is_pending: bool,
}

#[derive(Default)]
struct Seen {
    /// By organization and id, so that a heartbeat of a known node copies no names.
    latest: HashMap<String, HashMap<String, Sign>>,
    /// May hold those of nodes and agbots that were forgotten since, and times that are not the latest.
    pending: Vec<Heartbeat>,
}

impl Seen {
    fn find(&mut self, org: &str, id: &str) -> Option<&mut Sign> {
        self.latest.get_mut(org)?.get_mut(id)
    }

    fn insert(&mut self, org: &str, id: &str, sign: Sign) {
        self.latest.entry(org.to_owned()).or_default().insert(id.to_owned(), sign);
    }

    /// Records a heartbeat of a known node, to be written later; false when the node is not known.
    fn record(&mut self, org: &str, id: &str, at: Timestamp) -> bool {
        let Some(sign) = self.find(org, id) else { return false };
        sign.at = at;
        if !std::mem::replace(&mut sign.is_pending, true) {
            self.pending.push(Heartbeat { org: org.to_owned(), id: id.to_owned(), seen_at: at });
        }
        true
    }

    fn forget(&mut self, org: &str, id: &str) {
        if id == "*" {
            self.latest.remove(org);
        } else if let Some(ids) = self.latest.get_mut(org) {
            ids.remove(id);
        }
    }
}

/// Last heartbeats of nodes and agbots.
pub struct Heartbeats {
    database: Database,
    nodes: Mutex<Seen>,
    agbots: Mutex<Seen>,
    /// Reports of nodes about themselves that are not written yet, by organization and id.
    reports: Mutex<BTreeMap<(String, String), FastReport>>,
    first: Batches<Heartbeat, ()>,
}

impl Heartbeats {
    pub(crate) fn new(database: Database) -> Heartbeats {
        Heartbeats {
            database,
            nodes: Mutex::default(),
            agbots: Mutex::default(),
            reports: Mutex::default(),
            first: Batches::default(),
        }
    }

    /// Notes that a node was seen.
    ///
    /// # Errors
    /// Only for a node not seen before by this exchange, whose sign is written at once.
    pub async fn touch_node(&self, org: &str, node: &str, at: Timestamp) -> Result<(), StoreError> {
        if lock(&self.nodes).record(org, node, at) {
            return Ok(());
        }
        let heartbeat = Heartbeat { org: org.to_owned(), id: node.to_owned(), seen_at: at };
        Box::pin(self.first.run(heartbeat, |batch| self.write_first(batch))).await
    }

    async fn write_first(&self, batch: Vec<Heartbeat>) -> Result<Vec<()>, StoreError> {
        // One statement may not touch a row twice.
        let heartbeats: BTreeMap<(&str, &str), &Heartbeat> = batch
            .iter()
            .map(|heartbeat| ((heartbeat.org.as_str(), heartbeat.id.as_str()), heartbeat))
            .collect();
        let heartbeats: Vec<Heartbeat> = heartbeats.into_values().cloned().collect();
        let now = heartbeats.iter().map(|heartbeat| heartbeat.seen_at).max().unwrap_or_default();
        retry("heartbeat.first", || async {
            let mut tx = self.database.begin().await?;
            heartbeat::relax_durability(&mut tx).await?;
            heartbeat::upsert_nodes(&mut tx, &heartbeats, now).await?;
            tx.commit().await
        })
        .await?;
        for heartbeat in &batch {
            self.remember_node(&heartbeat.org, &heartbeat.id, heartbeat.seen_at);
        }
        Ok(vec![(); batch.len()])
    }

    /// Remembers a sign that the caller has written itself.
    pub fn remember_node(&self, org: &str, node: &str, at: Timestamp) {
        let mut seen = lock(&self.nodes);
        if !seen.record(org, node, at) {
            seen.insert(org, node, Sign { at, is_pending: false });
        }
    }

    /// Notes what a node reports about itself.
    pub fn note_report(&self, org: &str, node: &str, report: FastReport) {
        let FastReport { statistics, engine } = report;
        if statistics.is_none() && engine.is_none() {
            return;
        }
        let mut reports = self.reports();
        let pending = reports.entry((org.to_owned(), node.to_owned())).or_default();
        pending.statistics = statistics.or_else(|| pending.statistics.take());
        pending.engine = engine.or_else(|| pending.engine.take());
    }

    fn reports(&self) -> MutexGuard<'_, BTreeMap<(String, String), FastReport>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an agbot was seen.
    pub fn touch_agbot(&self, org: &str, agbot: &str, at: Timestamp) {
        let mut seen = lock(&self.agbots);
        if !seen.record(org, agbot, at) {
            seen.insert(org, agbot, Sign { at, is_pending: false });
            seen.record(org, agbot, at);
        }
    }

    /// Returns the later of the stored heartbeat of a node and the one in memory.
    #[must_use]
    pub fn latest_node(&self, org: &str, node: &str, stored: Option<Timestamp>) -> Option<Timestamp> {
        latest(&self.nodes, org, node, stored)
    }

    /// Returns the later of the stored heartbeat of an agbot and the one in memory.
    #[must_use]
    pub fn latest_agbot(&self, org: &str, agbot: &str, stored: Option<Timestamp>) -> Option<Timestamp> {
        latest(&self.agbots, org, agbot, stored)
    }

    /// Forgets a node or agbot that is gone; id `*` forgets the whole organization.
    pub fn forget(&self, org: &str, id: &str) {
        for side in [&self.nodes, &self.agbots] {
            lock(side).forget(org, id);
        }
        self.reports().retain(|(of, node), _| of != org || (id != "*" && node != id));
    }

    /// Writes what is pending; called once a second and before searches that use heartbeats. A heartbeat that was received before the clock was
    /// set back counts as one of `now`.
    ///
    /// # Errors
    /// When the store does not respond; the heartbeats stay pending.
    pub(crate) async fn flush(&self, now: Timestamp) -> Result<(), StoreError> {
        let nodes = drain_pending(&self.nodes, now);
        let agbots = drain_pending(&self.agbots, now);
        let reports = std::mem::take(&mut *self.reports());
        if nodes.is_empty() && agbots.is_empty() && reports.is_empty() {
            return Ok(());
        }
        let reports: Vec<_> = reports.into_iter().map(|((org, node), report)| (org, node, report)).collect();
        let result = retry("heartbeat.flush", || async {
            let mut tx = self.database.begin().await?;
            heartbeat::relax_durability(&mut tx).await?;
            if !nodes.is_empty() {
                heartbeat::upsert_nodes(&mut tx, &nodes, now).await?;
            }
            if !agbots.is_empty() {
                heartbeat::update_agbots(&mut tx, &agbots, now).await?;
            }
            if !reports.is_empty() {
                node_report::upsert_reports(&mut tx, &reports, now).await?;
            }
            tx.commit().await
        })
        .await;
        if result.is_err() {
            let mut pending = self.reports();
            for (org, node, report) in reports {
                let newer = pending.entry((org, node)).or_default();
                newer.statistics = newer.statistics.take().or(report.statistics);
                newer.engine = newer.engine.take().or(report.engine);
            }
            drop(pending);
            put_back(&self.nodes, nodes);
            put_back(&self.agbots, agbots);
        }
        result
    }
}

fn lock(side: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    side.lock().unwrap_or_else(PoisonError::into_inner)
}

fn latest(side: &Mutex<Seen>, org: &str, id: &str, stored: Option<Timestamp>) -> Option<Timestamp> {
    let in_memory = lock(side).find(org, id).map(|sign| sign.at);
    in_memory.max(stored)
}

/// Returns the heartbeats that are not written yet, which count as written from now on.
fn drain_pending(side: &Mutex<Seen>, now: Timestamp) -> Vec<Heartbeat> {
    let mut seen = lock(side);
    let pending = std::mem::take(&mut seen.pending);
    let mut batch: Vec<Heartbeat> = pending
        .into_iter()
        .filter_map(|row| {
            let sign = seen.find(&row.org, &row.id)?;
            // A node that was forgotten and seen again since is listed twice.
            std::mem::replace(&mut sign.is_pending, false)
                .then_some(Heartbeat { seen_at: sign.at.min(now), ..row })
        })
        .collect();
    batch.sort_by(|a, b| (&a.org, &a.id).cmp(&(&b.org, &b.id)));
    batch
}

fn put_back(side: &Mutex<Seen>, batch: Vec<Heartbeat>) {
    let mut seen = lock(side);
    for row in batch {
        if let Some(sign) = seen.find(&row.org, &row.id)
            && !std::mem::replace(&mut sign.is_pending, true)
        {
            seen.pending.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("valid")
    }

    fn ids(batch: &[Heartbeat]) -> Vec<(&str, i64)> {
        batch.iter().map(|heartbeat| (heartbeat.id.as_str(), heartbeat.seen_at.as_second())).collect()
    }

    #[test]
    fn each_sign_is_written_once_with_its_latest_instant() {
        let side = Mutex::new(Seen::default());
        assert!(!lock(&side).record("o", "a", at(1)), "nobody knows it yet");
        for id in ["b", "a"] {
            lock(&side).insert("o", id, Sign { at: at(1), is_pending: false });
        }
        assert!(drain_pending(&side, at(9)).is_empty());
        for second in [2, 3] {
            assert!(lock(&side).record("o", "b", at(second)) && lock(&side).record("o", "a", at(second)));
        }
        let batch = drain_pending(&side, at(9));
        assert_eq!(ids(&batch), [("a", 3), ("b", 3)]);
        assert!(drain_pending(&side, at(9)).is_empty());
        lock(&side).record("o", "a", at(4));
        put_back(&side, batch);
        assert_eq!(ids(&drain_pending(&side, at(9))), [("a", 4), ("b", 3)]);
        assert_eq!(latest(&side, "o", "a", Some(at(9))), Some(at(9)));
    }

    #[test]
    fn a_sign_from_before_the_clock_was_set_back_counts_as_one_of_now() {
        let side = Mutex::new(Seen::default());
        lock(&side).insert("o", "a", Sign { at: at(100), is_pending: false });
        lock(&side).record("o", "a", at(101));
        assert_eq!(ids(&drain_pending(&side, at(9))), [("a", 9)]);
        lock(&side).record("o", "a", at(10));
        assert_eq!(
            latest(&side, "o", "a", None),
            Some(at(10)),
            "the newest sign replaces one that lies in the future"
        );
    }

    #[test]
    fn what_is_forgotten_is_not_written() {
        let side = Mutex::new(Seen::default());
        for (org, id) in [("o", "a"), ("o", "b"), ("p", "a")] {
            lock(&side).insert(org, id, Sign { at: at(1), is_pending: false });
            lock(&side).record(org, id, at(2));
        }
        lock(&side).forget("o", "b");
        lock(&side).forget("p", "*");
        lock(&side).insert("o", "b", Sign { at: at(3), is_pending: false });
        assert_eq!(ids(&drain_pending(&side, at(9))), [("a", 2)]);
        assert_eq!(latest(&side, "p", "a", None), None);
    }
}
