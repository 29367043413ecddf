//! Periodic work: writes heartbeats, removes old changes and expired messages, gives space back.

use std::time::Duration;

use evenkeel_exchange_store::{audit, change, departure, message};
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

/// Removes old changes, expired messages and old audit records.
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
    if changes + messages > 0 {
        tracing::info!(changes, messages, "removed old changes and expired messages");
    }
    Ok(())
}
