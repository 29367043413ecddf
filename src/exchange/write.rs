//! Writes: few enough at a time, audited, told to the feed.
//!
//! Source: design 3; exchange contract section 5.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_exchange_store::audit::{self, Subject};
use evenkeel_exchange_store::change::{self, Change};
use evenkeel_store::{Database, PgConnection, StoreError, Transaction};
use tokio::sync::OwnedSemaphorePermit;

use crate::audit::request::AuditedRequest;
use crate::{ApiError, Exchange};

/// How long a write waits for its turn; clients give up at 45 seconds.
const WRITE_PATIENCE: Duration = Duration::from_secs(40);

/// Simultaneous writes: three quarters of the connections, so that reads and the feed always find one.
pub(crate) fn places(database: &Database) -> usize {
    let connections = database.pool().options().get_max_connections() as usize;
    (connections * 3 / 4).max(1)
}

impl Exchange {
    /// Begins a write. Run it inside [`evenkeel_store::retry`] and end it with [`WriteTx::commit`].
    ///
    /// # Errors
    /// 503 when the database does not answer.
    pub async fn begin(&self) -> Result<WriteTx<'_>, ApiError> {
        // Writes that fight over rows wait for each other while they hold a connection. They must leave some to everybody else.
        let place = tokio::time::timeout(WRITE_PATIENCE, self.write_places().clone().acquire_owned());
        let place = place.await.ok().and_then(Result::ok).ok_or(StoreError::Contention { name: "write" })?;
        let mut write =
            WriteTx { exchange: self, tx: self.database().begin().await?, _place: place, audited: None };
        if let Some(request) = AuditedRequest::current() {
            let subject = request.subject().cloned();
            let state_before = match &subject {
                Some(subject) if !request.finds_nothing() => audit::lock_state(&mut write, subject).await?,
                _ => None,
            };
            write.audited = Some(Audited { request, subject, state_before });
        }
        Ok(write)
    }
}

/// A write in progress; dropped without a commit nothing of it stays.
pub struct WriteTx<'e> {
    exchange: &'e Exchange,
    tx: Transaction,
    _place: OwnedSemaphorePermit,
    audited: Option<Audited>,
}

/// What the audit record of a write will say.
struct Audited {
    request: Arc<AuditedRequest>,
    subject: Option<Subject>,
    state_before: Option<Vec<u8>>,
}

impl WriteTx<'_> {
    /// Says which resource the write is about, when the path does not. To be called before the first change.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn concern(&mut self, subject: Subject) -> Result<(), ApiError> {
        if self.audited.as_ref().is_some_and(|audited| audited.subject.is_none()) {
            let state_before = audit::lock_state(self, &subject).await?;
            if let Some(audited) = &mut self.audited {
                (audited.subject, audited.state_before) = (Some(subject), state_before);
            }
        }
        Ok(())
    }

    /// Commits the rows together with what the feed shall tell of them and with the audit record of the request, and returns when they are on disk and polls of this exchange
    /// see them: the commit that numbers them flushes both.
    ///
    /// # Errors
    /// The store's errors; a retryable one when the write lost against a competing one.
    pub async fn commit(self, changes: &[Change]) -> Result<(), ApiError> {
        let WriteTx { exchange, mut tx, _place: place, audited } = self;
        let now = exchange.now();
        match audited {
            Some(Audited { request, subject, state_before }) => {
                let record = request.record(now, state_before);
                let subject = subject.filter(|_| !request.leaves_nothing());
                audit::insert_with_changes(&mut tx, &record, subject.as_ref(), changes).await?;
                tx.commit().await?;
                request.note_recorded();
                exchange.auditor().note_written();
            }
            None => {
                change::insert_outbox_flushed_by_sequencing(&mut tx, changes, now).await?;
                tx.commit().await?;
            }
        }
        drop(place);
        if !changes.is_empty() && !exchange.feed().publish().await {
            change::flush_commits(&mut *exchange.database().acquire().await?).await?;
        }
        Ok(())
    }
}

impl Deref for WriteTx<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl DerefMut for WriteTx<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}
