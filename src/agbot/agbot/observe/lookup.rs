//! Reads records of agreements that the model does not know, although a node reports them or sends a message about them.
//!
//! An agreement may have ended before this agbot started, or may have been recorded by another agbot a moment ago. One without a
//! record belongs to another agbot and is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_agbot_store::change::{self, RecordKey};
use evenkeel_client::RetryDelay;
use evenkeel_ids::AgreementId;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_record::agreement::Agreement;
use evenkeel_runtime::worker::Worker;

use crate::AgbotError;
use crate::context::Context;

/// Time before an agreement that was not found is read again.
const NOT_AGAIN: Duration = Duration::from_secs(5);
/// Pause without requests.
const IDLE_PERIOD: Duration = Duration::from_secs(60);
/// Pause after a failure; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Reads the requested records.
pub(crate) struct RecordReader {
    context: Arc<Context>,
    last_read: BTreeMap<AgreementId, Instant>,
    delay: RetryDelay,
    /// Pause after a failure.
    pause: Option<Duration>,
}

impl RecordReader {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let delay = RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self { context, last_read: BTreeMap::new(), delay, pause: None }
    }
}

impl Worker for RecordReader {
    type Error = AgbotError;
    const NAME: &'static str = "record_reader";

    async fn pass(&mut self) -> Result<(), AgbotError> {
        let context = &self.context;
        self.last_read.retain(|_, at| at.elapsed() < NOT_AGAIN);
        let mut wanted = context.reading.lookup.take_wanted();
        wanted.retain(|id| !self.last_read.contains_key(id));
        match read(context, &wanted).await {
            Ok(events) => {
                let now = Instant::now();
                self.last_read.extend(wanted.into_iter().map(|id| (id, now)));
                context.send_events(events).await;
                self.delay = RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE);
                self.pause = None;
                Ok(())
            }
            Err(error) => {
                context.reading.lookup.want(wanted);
                self.pause = Some(self.delay.next_pause());
                Err(error)
            }
        }
    }

    fn pause(&self) -> Duration {
        self.pause.unwrap_or(IDLE_PERIOD)
    }

    async fn signaled(&mut self) {
        if self.pause.is_some() {
            // Further requests must not make it retry without a pause.
            return std::future::pending().await;
        }
        self.context.reading.lookup.wanted().await;
    }
}

async fn read(context: &Context, wanted: &BTreeSet<AgreementId>) -> Result<Vec<Event>, AgbotError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let keys = wanted.iter().cloned().map(RecordKey::Agreement).collect();
    let records = context
        .database
        .read(async |connection| change::read_records(connection, &keys).await)
        .await?
        .agreements;
    let records = records.into_iter().map(serde_json::from_value).collect::<Result<Vec<Agreement>, _>>()?;
    let recorded = |agreement| Event::AgreementRecorded { agreement: Box::new(agreement) };
    Ok(records.into_iter().map(recorded).collect())
}
