//! Periodic work: writes heartbeats, removes old changes and expired messages, gives space back.

use std::time::Duration;

use evenkeel_exchange_store::{api_key, audit, change, departure, document_revision, message, plan_approval};
use evenkeel_runtime::worker::Worker;
use evenkeel_store::StoreError;
use jiff::SignedDuration;

use crate::Exchange;

const FLUSH_PERIOD: Duration = Duration::from_secs(1);
/// Number of changes after which the dead tuples in the outboxes slow reads down.
const VACUUM_AFTER: i64 = 2_000;

/// Time for which an agbot may repeat the record of an action.
const ACTIONS_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// Writes heartbeats, and gives the space of numbered changes back; writes the last heartbeats at the end.
pub(crate) struct HeartbeatWriter {
    exchange: Exchange,
    vacuumed_at: i64,
}

impl HeartbeatWriter {
    pub(crate) fn new(exchange: Exchange) -> Self {
        let vacuumed_at = exchange.feed().last();
        Self { exchange, vacuumed_at }
    }
}

impl Worker for HeartbeatWriter {
    type Error = StoreError;
    const NAME: &'static str = "heartbeat_writer";

    async fn pass(&mut self) -> Result<(), StoreError> {
        let flushed = self.exchange.flush_heartbeats().await;
        vacuum(&self.exchange, &mut self.vacuumed_at).await.and(flushed)
    }

    fn pause(&self) -> Duration {
        FLUSH_PERIOD
    }

    async fn finish(&mut self) {
        if let Err(error) = self.exchange.flush_heartbeats().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the last heartbeats were not written");
        }
    }
}

/// Time for which it is remembered that the agent of a deleted node has not confirmed its end.
const DEPARTURE_AGE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Time for which a request for an approval is kept after it has expired.
const APPROVALS_KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Requests for approvals that one pass removes, at most.
const APPROVALS_AT_ONCE: i64 = 10_000;

/// Revisions that one statement removes, at most: each locks its rows until its end.
const REVISIONS_AT_ONCE: i64 = 1_000;

/// Removes old changes, expired messages and API keys, old audit records, requests for approvals and revisions.
pub(crate) struct Cleanup(pub Exchange);

impl Worker for Cleanup {
    type Error = StoreError;
    const NAME: &'static str = "cleanup";

    async fn pass(&mut self) -> Result<(), StoreError> {
        clean(&self.0).await
    }

    fn pause(&self) -> Duration {
        self.0.settings().cleanup_period
    }
}

async fn vacuum(exchange: &Exchange, vacuumed_at: &mut i64) -> Result<(), StoreError> {
    let last = exchange.feed().last();
    if last < *vacuumed_at + VACUUM_AFTER {
        return Ok(());
    }
    *vacuumed_at = last;
    exchange.database().read(async |connection| change::vacuum_outboxes(connection).await).await
}

async fn clean(exchange: &Exchange) -> Result<(), StoreError> {
    let now = exchange.now();
    let age =
        SignedDuration::try_from(exchange.settings().change_age).unwrap_or(SignedDuration::from_hours(4));
    let delete = exchange.database().read(async |connection| {
        let changes = change::delete_before(connection, now.saturating_sub(age).unwrap_or(now)).await?;
        departure::delete_before(connection, now.saturating_sub(DEPARTURE_AGE).unwrap_or(now)).await?;
        api_key::delete_expired(connection, now).await?;
        Ok::<_, StoreError>((changes, message::delete_expired(connection, now).await?))
    });
    let (changes, messages) = delete.await?;
    let before = now.saturating_sub(ACTIONS_KEPT).unwrap_or(now);
    exchange.database().read(async |connection| audit::delete_actions(connection, before).await).await?;
    if let Some(age) = exchange.settings().audit_age.and_then(|age| SignedDuration::try_from(age).ok()) {
        let records = crate::audit::seal::prune(exchange.database(), now, age).await?;
        if records > 0 {
            tracing::info!(records, "removed old audit records");
        }
    }
    let before = now.saturating_sub(APPROVALS_KEPT).unwrap_or(now);
    let prune = exchange
        .database()
        .read(async |connection| plan_approval::prune(connection, before, APPROVALS_AT_ONCE).await);
    prune.await?;
    let revisions = prune_revisions(exchange).await?;
    if revisions > 0 {
        tracing::info!(revisions, "removed old revisions of documents");
    }
    if changes + messages > 0 {
        tracing::info!(changes, messages, "removed old changes and expired messages");
    }
    Ok(())
}

/// Removes the revisions that are too old, and those of organizations that have too many; returns their number.
async fn prune_revisions(exchange: &Exchange) -> Result<i64, StoreError> {
    let settings = exchange.settings();
    let (before, most) = (settings.revisions.kept_since(exchange.now()), settings.revisions.limits.org_bytes);
    let database = exchange.database();
    let above = database.read(async |connection| {
        document_revision::release_removed(connection).await?;
        document_revision::list_above(connection, most).await
    });
    let above = above.await?;
    let mut removed = 0;
    loop {
        let aged = database.read(async |connection| {
            document_revision::delete_before(connection, before, REVISIONS_AT_ONCE).await
        });
        let count = aged.await?;
        removed += count;
        if count < REVISIONS_AT_ONCE {
            break;
        }
    }
    for org in above {
        removed += prune_organization(exchange, &org, most).await?;
    }
    Ok(removed)
}

/// Removes the oldest revisions of an organization until it has no more bytes of them than it may have; returns their number.
async fn prune_organization(exchange: &Exchange, org: &str, most: i64) -> Result<i64, StoreError> {
    let mut removed = 0;
    loop {
        let surplus = exchange.database().read(async |connection| {
            document_revision::prune_organization(connection, org, most, REVISIONS_AT_ONCE).await
        });
        let count = surplus.await?;
        removed += count;
        if count < REVISIONS_AT_ONCE {
            return Ok(removed);
        }
    }
}
