//! Reads records of agreements that the model does not know, although a node reports them or sends a message about them.
//!
//! An agreement may have ended before this agbot started, or may have been recorded by another agbot a moment ago. One without a
//! record belongs to another agbot and is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_agbot_store::change::{self, RecordKey};
use evenkeel_client::RetryDelay;
use evenkeel_ids::AgreementId;
use evenkeel_planner::agreement::Agreement;
use evenkeel_planner::event::Event;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::AgbotError;
use crate::context::Context;

/// Time before an agreement that was not found is read again.
const NOT_AGAIN: Duration = Duration::from_secs(5);
/// Pause after a failure; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Agreements to be read.
#[derive(Default)]
pub(crate) struct Lookup {
    wanted: Mutex<BTreeSet<AgreementId>>,
    wake: Notify,
}

impl Lookup {
    /// Requests the records of agreements.
    pub(crate) fn want(&self, ids: impl IntoIterator<Item = AgreementId>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.extend(ids);
        if !wanted.is_empty() {
            self.wake.notify_one();
        }
    }

    fn take(&self) -> BTreeSet<AgreementId> {
        std::mem::take(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs until shutdown.
pub(crate) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let mut delay = RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut last_read: BTreeMap<AgreementId, Instant> = BTreeMap::new();
    loop {
        tokio::select! {
            () = context.lookup.wake.notified() => {}
            () = shutdown.cancelled() => return,
        }
        last_read.retain(|_, at| at.elapsed() < NOT_AGAIN);
        let mut wanted = context.lookup.take();
        wanted.retain(|id| !last_read.contains_key(id));
        match read(&context, &wanted).await {
            Ok(events) => {
                let now = Instant::now();
                last_read.extend(wanted.into_iter().map(|id| (id, now)));
                context.send_events(events).await;
                delay = RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE);
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "records of agreements not read");
                tokio::select! {
                    () = tokio::time::sleep(delay.next_pause()) => {}
                    () = shutdown.cancelled() => return,
                }
                context.lookup.want(wanted);
            }
        }
    }
}

async fn read(context: &Context, wanted: &BTreeSet<AgreementId>) -> Result<Vec<Event>, AgbotError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let keys = wanted.iter().map(|id| RecordKey::Agreement(id.as_str().to_owned())).collect();
    let mut connection = context.database.acquire().await?;
    let records = change::read_records(&mut connection, &keys).await?.agreements;
    connection.release();
    let records = records.into_iter().map(serde_json::from_value).collect::<Result<Vec<Agreement>, _>>()?;
    let recorded = |agreement| Event::AgreementRecorded { agreement: Box::new(agreement) };
    Ok(records.into_iter().map(recorded).collect())
}
