//! Removes old history and old rows of the log of changed records.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::{agreement, change, claim, event, rollout};
use evenkeel_store::{StoreError, retry};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

const PERIOD: Duration = Duration::from_secs(1_800);
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// Minimum retention of rows of the log. An agbot that did not read for longer reads all records.
const LOG_RETENTION: Duration = Duration::from_secs(300);

/// Removes old history until shutdown.
pub(crate) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    repeat(PERIOD, &shutdown, || purge(&context)).await;
}

/// Removes old rows of the log until shutdown.
pub(crate) async fn run_log(context: Arc<Context>, shutdown: CancellationToken) {
    repeat(LOG_PERIOD, &shutdown, || purge_log(&context)).await;
}

async fn repeat<F: Future<Output = Result<(), StoreError>>>(
    period: Duration,
    shutdown: &CancellationToken,
    work: impl Fn() -> F,
) {
    loop {
        if let Err(error) = work().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "old history not removed");
        }
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn purge(context: &Context) -> Result<(), StoreError> {
    let now = context.now();
    let history = before(now, context.settings.history);
    let rollouts = before(now, context.settings.rollout_history);
    let mut connection = context.database.acquire().await?;
    agreement::delete_ended_before(&mut connection, history).await?;
    event::delete_before(&mut connection, history).await?;
    rollout::delete_finished_before(&mut connection, rollouts).await?;
    claim::delete_unused_policies(&mut connection).await?;
    connection.release();
    Ok(())
}

async fn purge_log(context: &Context) -> Result<(), StoreError> {
    retry("agbot_change.delete_old", || async {
        let mut tx = context.database.begin().await?;
        change::delete_old(&mut tx, LOG_RETENTION.as_secs_f64()).await?;
        tx.commit().await
    })
    .await
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    SignedDuration::try_from(age).ok().and_then(|age| now.checked_sub(age).ok()).unwrap_or(Timestamp::MIN)
}
