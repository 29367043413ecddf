//! Reports the statistics of the machine with a heartbeat (orchestration 1.7).
//!
//! The usual heartbeat is the poll of the change feed. The statistics go with one of their own, and only when they have changed or the
//! last ones are about to become too old: an idle node sends few.

use std::{convert::Infallible, sync::Arc, time::Duration};

use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::node_report::{NodeStatistics, PutNodeReport};
use tokio::time::Instant;

use super::{
    FIRST_PAUSE, LONGEST_PAUSE, SIGNAL_ONLY, Signals, canceled_if_ended, failed, jittered, tasks::TaskReader,
};
use crate::{
    contact::Contact,
    hub::Hub,
    order::{Ended, Handle},
    statistics,
};

/// Interval between two looks at the machine.
const READ_INTERVAL: Duration = Duration::from_secs(60);
/// Age from which reported statistics are reported again although they have not changed: with the interval, well below the five minutes
/// that the hub ranks by them unless its settings say otherwise.
const LONGEST_AGE: Duration = Duration::from_secs(90);

/// Reports statistics.
pub(super) struct Statistics {
    contact: Contact,
    hub: Arc<Hub>,
    handle: Handle,
    signals: Arc<Signals>,
    reader: Arc<TaskReader>,
    reported: Option<(NodeStatistics, Instant)>,
    pause: Duration,
    backoff: Duration,
}

impl Worker for Statistics {
    type Error = Infallible;
    const NAME: &'static str = "statistics";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let result = self.report_or_retry().await;
        canceled_if_ended(result).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    /// The change feed signals the first report, when it is known what the exchange understands.
    fn first_pause(&self) -> Duration {
        SIGNAL_ONLY
    }

    async fn signaled(&mut self) {
        if self.backoff > FIRST_PAUSE {
            // Further signals must not make it retry without a pause.
            return std::future::pending().await;
        }
        self.signals.statistics.notified().await;
    }
}

impl Statistics {
    pub fn new(
        contact: Contact,
        hub: Arc<Hub>,
        handle: Handle,
        signals: Arc<Signals>,
        reader: Arc<TaskReader>,
    ) -> Self {
        Self {
            contact,
            hub,
            handle,
            signals,
            reader,
            reported: None,
            pause: SIGNAL_ONLY,
            backoff: FIRST_PAUSE,
        }
    }

    async fn report_or_retry(&mut self) -> Result<(), Ended> {
        self.pause = jittered(READ_INTERVAL);
        // Third-party exchanges know no statistics.
        if !self.reader.is_supported() {
            return Ok(());
        }
        let found = statistics::current();
        let is_known = self
            .reported
            .as_ref()
            .is_some_and(|(known, at)| !statistics::differ(&found, known) && at.elapsed() < LONGEST_AGE);
        if is_known || found == NodeStatistics::default() {
            return Ok(());
        }
        let report = PutNodeReport { stats: Some(found.clone()), ..PutNodeReport::default() };
        match self.hub.exchange.post_heartbeat(&self.hub.node, &report).await {
            Ok(_) => {
                self.contact.restored();
                self.backoff = FIRST_PAUSE;
                self.reported = Some((found, Instant::now()));
                Ok(())
            }
            Err(error) => {
                self.pause = jittered(self.backoff);
                self.backoff = (self.backoff * 2).min(LONGEST_PAUSE);
                failed(&self.contact, &self.handle, &error).await
            }
        }
    }
}
