//! Removes old history and old rows of the log of changed records.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_store::agbot::{agreement, change, event};
use evenkeel_store::{StoreError, retry};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

const PERIOD: Duration = Duration::from_secs(1_800);
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// How long rows of the log are kept at least. An agbot that did not read for longer reads all records.
const LOG_RETENTION: Duration = Duration::from_secs(300);

/// Removes old history until shutdown.
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

/// Removes old rows of the log until shutdown.
pub(crate) async fn run_log(context: Arc<Context>, shutdown: CancellationToken) {
    loop {
        if let Err(error) = purge_log(&context).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "old rows of agbot_change could not be removed"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(LOG_PERIOD) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn purge(context: &Context) -> Result<(), StoreError> {
    let now = context.now();
    let history = before(now, context.settings.history);
    let mut connection = context.database.acquire().await?;
    agreement::delete_ended_before(&mut connection, history).await?;
    event::delete_before(&mut connection, history).await?;
    connection.release();
    Ok(())
}

async fn purge_log(context: &Context) -> Result<u64, StoreError> {
    retry("agbot_change.delete_old", || async {
        let mut tx = context.database.begin().await?;
        let count = change::delete_old(&mut tx, LOG_RETENTION.as_secs_f64()).await?;
        tx.commit().await?;
        Ok(count)
    })
    .await
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    SignedDuration::try_from(age).ok().and_then(|age| now.checked_sub(age).ok()).unwrap_or(Timestamp::MIN)
}
