//! The transaction of a write: begun, audited, reported to the feed and committed in one place.
//!
//! Source: design 3.2; exchange-api 5; docs/adr/0004-writes-are-retried-as-a-whole.md.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_exchange_store::audit_state::{self, AuditedResource, State};
use evenkeel_exchange_store::change::{self, Change};
use evenkeel_exchange_store::permitted::Permitted;
use evenkeel_store::{Database, StoreError, Transaction};
use tokio::sync::OwnedSemaphorePermit;

use crate::audit::request::AuditedRequest;
use crate::permission::decide_again;
use crate::{ApiError, Exchange};

/// Time for which a write waits for a permit; clients give up at 45 seconds.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(40);

/// Returns the number of simultaneous writes: three quarters of the connections, so that reads and the feed always find one.
pub(crate) fn permit_count(database: &Database) -> usize {
    let connections = database.pool().options().get_max_connections() as usize;
    (connections * 3 / 4).max(1)
}

impl Exchange {
    /// Starts a write: decides again whether the caller may, and reads the state of the resource before it.
    ///
    /// # Errors
    /// Those of the permission and of the store; 503 when no connection is free in time.
    // In this order, so that every write locks what others belong to before its parts.
    pub(crate) async fn begin_write<R>(
        &self,
        permit: impl Fn(Transaction) -> Permitted<R>,
        audited: Option<&Arc<AuditedRequest>>,
    ) -> Result<WriteTx<R>, ApiError> {
        let slot = self.write_permit().await?;
        let mut tx = permit(self.database().begin().await?);
        decide_again(&mut tx).await?;
        let Some(request) = audited.cloned() else { return Ok(WriteTx { tx, audited: None, slot }) };
        let subject = request.subject().cloned();
        let state_before = match &subject {
            Some(subject) if !request.finds_nothing() => audit_state::lock(&mut tx, subject).await?,
            _ => State::default(),
        };
        let audited = Audited { request, subject, state_before, is_revised: true };
        Ok(WriteTx { tx, audited: Some(audited), slot })
    }

    /// Commits what a write [finished](WriteTx::finish) with.
    ///
    /// The rows, the changes for the feed and the audit record of the request are committed together. It returns when they are on disk
    /// and polls of this exchange see them: the commit that sequences the changes flushes both.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn commit_write<R, T>(&self, finished: Finished<R, T>) -> Result<T, ApiError> {
        let Finished { write: WriteTx { tx, audited, slot }, changes, value } = finished;
        self.commit_changes(tx.into_transaction(), audited, changes, slot).await?;
        Ok(value)
    }

    /// Waits for a permit. Writes that compete for rows wait for each other while they hold a connection; they must leave some to
    /// everything else.
    async fn write_permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = tokio::time::timeout(PERMIT_TIMEOUT, self.write_permits().clone().acquire_owned());
        let permit = permit.await.ok().and_then(Result::ok);
        Ok(permit.ok_or(StoreError::Contention { name: "write" })?)
    }

    async fn commit_changes(
        &self,
        mut tx: Transaction,
        audited: Option<Audited>,
        changes: Vec<Change>,
        slot: OwnedSemaphorePermit,
    ) -> Result<(), ApiError> {
        let now = self.now();
        match audited {
            Some(Audited { request, subject, state_before: State { hash, document }, is_revised }) => {
                let record = request.record(now, hash);
                let settings = self.settings();
                let revised = subject.as_ref().filter(|_| is_revised);
                let revised = revised.filter(|subject| request.revises(subject, document.is_some()));
                if let Some(subject) = revised {
                    let revision = request.revision(document.as_deref(), &settings.revisions, now);
                    audit_state::insert_revised(&mut tx, &record, (subject, &revision), &changes).await?;
                } else {
                    let subject = subject.filter(|_| !request.leaves_nothing());
                    audit_state::insert_with_changes(&mut tx, &record, subject.as_ref(), &changes).await?;
                }
                tx.commit().await?;
                request.note_recorded();
                self.auditor().note_written();
            }
            None => {
                change::insert_outbox_flushed_by_sequencing(&mut tx, &changes, now).await?;
                tx.commit().await?;
            }
        }
        drop(slot);
        if !changes.is_empty() && !self.feed().publish().await {
            self.database().read(async |connection| change::flush_commits(connection).await).await?;
        }
        Ok(())
    }
}

/// A write in progress, rolled back unless it is finished. It has the right `R`.
pub(crate) struct WriteTx<R> {
    tx: Permitted<R>,
    audited: Option<Audited>,
    slot: OwnedSemaphorePermit,
}

/// Contents of the audit record of a write.
struct Audited {
    request: Arc<AuditedRequest>,
    subject: Option<AuditedResource>,
    state_before: State,
    /// False for a write whose change is no person's.
    is_revised: bool,
}

/// A write that is ready to be committed.
pub(crate) struct Finished<R, T> {
    write: WriteTx<R>,
    changes: Vec<Change>,
    value: T,
}

impl<R> WriteTx<R> {
    /// Sets the audit subject when the path does not name it. To be called before the first change.
    ///
    /// # Errors
    /// The store's errors.
    pub(crate) async fn set_subject(&mut self, subject: AuditedResource) -> Result<(), ApiError> {
        if self.audited.as_ref().is_some_and(|audited| audited.subject.is_none()) {
            let state_before = audit_state::lock(self, &subject).await?;
            if let Some(audited) = &mut self.audited {
                (audited.subject, audited.state_before) = (Some(subject), state_before);
            }
        }
        Ok(())
    }

    /// Returns the document before the write, as JSON; none when there was none.
    pub(crate) fn document_before(&self) -> Option<&str> {
        self.audited.as_ref()?.state_before.document.as_deref()
    }

    /// Adds no revision: what the write changes is no edit by a person.
    pub(crate) fn skip_revision(&mut self) {
        if let Some(audited) = &mut self.audited {
            audited.is_revised = false;
        }
    }

    /// Ends the work of a write with the changes that the feed reports.
    ///
    /// # Errors
    /// Never: it is a result so that it can end the work.
    pub(crate) fn finish(
        self,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<Finished<R, ()>, ApiError> {
        self.finish_with(changes, ())
    }

    /// As [`WriteTx::finish`], with the value that the write returns.
    ///
    /// # Errors
    /// Never: it is a result so that it can end the work.
    #[expect(clippy::unnecessary_wraps, reason = "it ends the work, whose outcome is a result")]
    pub(crate) fn finish_with<T>(
        self,
        changes: impl IntoIterator<Item = Change>,
        value: T,
    ) -> Result<Finished<R, T>, ApiError> {
        Ok(Finished { write: self, changes: changes.into_iter().collect(), value })
    }
}

impl<R> Deref for WriteTx<R> {
    type Target = Permitted<R>;

    fn deref(&self) -> &Permitted<R> {
        &self.tx
    }
}

impl<R> DerefMut for WriteTx<R> {
    fn deref_mut(&mut self) -> &mut Permitted<R> {
        &mut self.tx
    }
}
