//! The audit record: who did what, from where, with which outcome; one for each write, in the transaction of the write.
//!
//! [`request`] knows what a request is about, [`seal`] gives records their numbers and hashes afterwards. Source:
//! docs/adr/0012-audit-records-are-sealed-afterwards.md.

pub(crate) mod reason;
pub(crate) mod request;
pub(crate) mod seal;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use evenkeel_exchange_store::audit::{self, NewAuditRecord};
use evenkeel_metrics::Counter;
use evenkeel_store::{Database, StoreError, retry};

/// Name of the operation with whose success the chain of an organization begins.
pub(crate) const CHAIN_OPENER: &str = "create_organization";

/// Refused requests that are recorded within a second, at most: a caller who is refused again and again must not fill the database.
const REFUSED_PER_FLUSH: usize = 200;

/// State of the audit record that is kept in memory.
#[derive(Default)]
pub(crate) struct Auditor {
    /// Records of refused requests, which have no transaction that could hold them.
    refused: Mutex<Vec<NewAuditRecord>>,
    left_out: AtomicU64,
    left_out_total: Counter,
    has_written: AtomicBool,
}

impl Auditor {
    /// Notes a refused request; it is written within a second.
    pub(crate) fn note_refused(&self, record: NewAuditRecord) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() < REFUSED_PER_FLUSH {
            refused.push(record);
        } else {
            self.note_left_out();
        }
    }

    /// Notes a request of a caller who has too many to record all of them.
    pub(crate) fn note_left_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
        self.left_out_total.increment();
    }

    /// Returns the number of requests that were not recorded.
    pub(crate) fn left_out_total(&self) -> &Counter {
        &self.left_out_total
    }

    /// Notes that there is something to seal.
    pub(crate) fn note_written(&self) {
        self.has_written.store(true, Ordering::Relaxed);
    }

    /// Returns true if this exchange has written records since the last call.
    pub(crate) fn take_written(&self) -> bool {
        self.has_written.swap(false, Ordering::Relaxed)
    }

    /// Writes the records of refused requests.
    ///
    /// # Errors
    /// When the store does not respond; then the records are lost, as the requests themselves were.
    pub(crate) async fn flush(&self, database: &Database) -> Result<(), StoreError> {
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "requests have no audit record: writes of a node that writes without end, or refused requests that were too many"
            );
        }
        let records = std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner));
        if records.is_empty() {
            return Ok(());
        }
        self.write(database, &records).await
    }

    /// Writes records that belong to no transaction.
    ///
    /// # Errors
    /// When the store does not respond.
    pub(crate) async fn write(
        &self,
        database: &Database,
        records: &[NewAuditRecord],
    ) -> Result<(), StoreError> {
        retry("audit.write", || async {
            let mut tx = database.begin().await?;
            audit::insert_records(&mut tx, records).await?;
            tx.commit().await
        })
        .await?;
        self.note_written();
        Ok(())
    }
}
