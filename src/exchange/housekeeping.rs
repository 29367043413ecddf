//! Work that nobody asks for: writing signs of life, removing old changes and expired messages, giving space back.

use std::time::Duration;

use evenkeel_exchange_store::{change, message};
use evenkeel_store::StoreError;
use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use crate::Exchange;

const FLUSH_PERIOD: Duration = Duration::from_secs(1);
/// So many changes leave enough rubbish in the outboxes to be felt.
const VACUUM_AFTER: i64 = 2_000;

/// Runs until shutdown, then writes the last signs of life.
pub(crate) async fn run(exchange: Exchange, shutdown: CancellationToken) {
    let mut flush = tokio::time::interval(FLUSH_PERIOD);
    let mut cleanup = tokio::time::interval(exchange.settings().cleanup_period);
    let mut vacuumed_at = exchange.feed().last();
    loop {
        let outcome = tokio::select! {
            _ = flush.tick() => {
                report(exchange.heartbeats().flush().await);
                vacuum(&exchange, &mut vacuumed_at).await
            }
            _ = cleanup.tick() => clean(&exchange).await,
            () = shutdown.cancelled() => break,
        };
        report(outcome);
    }
    report(exchange.heartbeats().flush().await);
}

async fn vacuum(exchange: &Exchange, vacuumed_at: &mut i64) -> Result<(), StoreError> {
    let last = exchange.feed().last();
    if last < *vacuumed_at + VACUUM_AFTER {
        return Ok(());
    }
    *vacuumed_at = last;
    change::vacuum_outboxes(&mut *exchange.database().acquire().await?).await
}

async fn clean(exchange: &Exchange) -> Result<(), StoreError> {
    let now = exchange.now();
    let age =
        SignedDuration::try_from(exchange.settings().change_age).unwrap_or(SignedDuration::from_hours(4));
    let mut connection = exchange.database().acquire().await?;
    let changes = change::delete_before(&mut connection, now.saturating_sub(age).unwrap_or(now)).await?;
    let messages = message::delete_expired(&mut connection, now).await?;
    connection.release();
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

fn report(outcome: Result<(), StoreError>) {
    if let Err(error) = outcome {
        tracing::warn!(error = &error as &dyn std::error::Error, "housekeeping failed, trying again");
    }
}
