//! Removes old history and old rows of the log of changed records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_agbot_store::{
    acknowledgement, agreement, approval, change, claim, event, health, history, rollout,
};
use evenkeel_runtime::worker::Worker;
use evenkeel_store::{StoreError, retry};
use jiff::{SignedDuration, Timestamp};

use crate::context::Context;

const PERIOD: Duration = Duration::from_secs(1_800);
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// Minimum retention of rows of the log. An agbot that did not read for longer reads all records.
const LOG_RETENTION: Duration = Duration::from_secs(300);

const ACKNOWLEDGEMENT_PERIOD: Duration = Duration::from_secs(30);
/// Minimum age of an acknowledgement that is removed: the agbot may not know yet of a problem that another one knows of.
const ACKNOWLEDGEMENT_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// Retention of what is recorded about a request for an approval after its time is over: longer than that of the request in the exchange, so
/// that no step is recorded again.
const APPROVAL_RETENTION: Duration = Duration::from_secs(100 * 86_400);

/// Expired health events that are removed at once.
const EXPIRED_EVENTS: i64 = 1_000;

/// Removes ended agreements, finished rollouts and old events.
pub(crate) struct HistoryPurge(pub Arc<Context>);

impl Worker for HistoryPurge {
    type Error = StoreError;
    const NAME: &'static str = "history_purge";

    async fn pass(&mut self) -> Result<(), StoreError> {
        purge(&self.0).await
    }

    fn pause(&self) -> Duration {
        PERIOD
    }
}

/// Removes old rows of the log, health events that have disappeared, events beyond what organizations keep, and old states.
pub(crate) struct LogPurge(pub Arc<Context>);

impl Worker for LogPurge {
    type Error = StoreError;
    const NAME: &'static str = "log_purge";

    async fn pass(&mut self) -> Result<(), StoreError> {
        purge_log(&self.0).await?;
        purge_health(&self.0).await?;
        purge_events(&self.0).await?;
        purge_states(&self.0).await
    }

    fn pause(&self) -> Duration {
        LOG_PERIOD
    }
}

/// Removes the acknowledgements of problems that are gone: when one comes back, it is a new one.
pub(crate) struct AcknowledgementPurge {
    pub(crate) context: Arc<Context>,
    /// Returns the ids of the problems of an organization; none while some of them may be unknown.
    pub(crate) problems: fn(&Context, &str) -> Option<BTreeSet<String>>,
}

impl Worker for AcknowledgementPurge {
    type Error = StoreError;
    const NAME: &'static str = "acknowledgement_purge";

    async fn pass(&mut self) -> Result<(), StoreError> {
        let database = &self.context.database;
        let orgs = database.read(async |connection| acknowledgement::list_orgs(connection).await).await?;
        for org in orgs {
            let Some(problems) = (self.problems)(&self.context, &org) else { continue };
            let now = self.context.now();
            let made_before = now - ACKNOWLEDGEMENT_GRACE;
            database
                .read(async |connection| {
                    let rows = acknowledgement::list_acknowledgements(connection, &org, now).await?;
                    let gone = rows.iter().filter(|row| !problems.contains(&row.matter));
                    let gone: Vec<&str> = gone.map(|row| row.matter.as_str()).collect();
                    if !gone.is_empty() {
                        acknowledgement::delete_acknowledgements(connection, &org, &gone, made_before)
                            .await?;
                    }
                    Ok::<_, StoreError>(())
                })
                .await?;
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        ACKNOWLEDGEMENT_PERIOD
    }
}

async fn purge(context: &Context) -> Result<(), StoreError> {
    let now = context.now();
    let agreements = before(now, context.settings.ended_agreements);
    let events = before(now, context.settings.history);
    let rollouts = before(now, context.settings.rollout_history);
    let approvals = before(now, APPROVAL_RETENTION);
    context
        .database
        .read(async |connection| {
            agreement::delete_ended_before(connection, agreements).await?;
            event::delete_before(connection, events).await?;
            rollout::delete_finished_before(connection, rollouts).await?;
            claim::delete_unused_policies(connection).await?;
            acknowledgement::delete_expired(connection, now).await?;
            approval::delete_before(connection, approvals).await?;
            Ok(())
        })
        .await
}

async fn purge_log(context: &Context) -> Result<(), StoreError> {
    retry("agbot_change.delete_old", || async {
        let mut tx = context.database.begin().await?;
        change::delete_old(&mut tx, LOG_RETENTION.as_secs_f64()).await?;
        tx.commit().await
    })
    .await
}

/// Removes health events that have disappeared, some at a time: each statement is one change of the log.
async fn purge_health(context: &Context) -> Result<(), StoreError> {
    loop {
        let now = context.now();
        let count = context
            .database
            .read(async |connection| health::delete_expired(connection, now, EXPIRED_EVENTS).await)
            .await?;
        if count < EXPIRED_EVENTS.unsigned_abs() {
            return Ok(());
        }
    }
}

async fn purge_events(context: &Context) -> Result<(), StoreError> {
    let orgs = context.database.read(async |connection| event::list_orgs(connection).await).await?;
    for org in orgs {
        let kept = context.model().org_settings(org.as_str()).event_retention();
        let kept = i64::try_from(kept).unwrap_or(i64::MAX);
        context.database.read(async |connection| event::delete_surplus(connection, &org, kept).await).await?;
    }
    Ok(())
}

async fn purge_states(context: &Context) -> Result<(), StoreError> {
    let (kept, most_bytes) = (context.settings.history, context.settings.history_bytes);
    let removed =
        context.database.read(async |connection| history::delete_old(connection, kept, most_bytes).await);
    match removed.await? {
        0 => {}
        segments => tracing::info!(segments, "old states were removed from the history"),
    }
    Ok(())
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    SignedDuration::try_from(age).ok().and_then(|age| now.checked_sub(age).ok()).unwrap_or(Timestamp::MIN)
}
