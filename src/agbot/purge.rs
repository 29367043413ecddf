//! Removes old history.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_store::StoreError;
use evenkeel_store::agbot::{agreement, event};
use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

const PERIOD: Duration = Duration::from_secs(1_800);

/// Runs until shutdown.
pub(crate) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    loop {
        if let Err(error) = purge(&context).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "old history could not be removed");
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn purge(context: &Context) -> Result<(), StoreError> {
    let age = SignedDuration::try_from(context.settings.history).unwrap_or(SignedDuration::from_hours(24));
    let now = context.now();
    let before = now.saturating_sub(age).unwrap_or(now);
    let mut connection = context.database.acquire().await?;
    agreement::delete_ended_before(&mut connection, before).await?;
    event::delete_before(&mut connection, before).await?;
    Ok(())
}
