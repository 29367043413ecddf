//! Reports the statistics of the machine, and whether its container engine responds, with a heartbeat (orchestration 1.7).
//!
//! The usual heartbeat is the poll of the change feed. Statistics are sent with a heartbeat of their own, and only when
//! they have changed or the last ones are about to become too old, so that an idle node sends few.

use std::{convert::Infallible, sync::Arc, time::Duration};

use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::node_report::{
    EngineState, EngineStatus, NodeEngine, NodeStatistics, PutNodeReport,
};
use tokio::time::Instant;

use super::{
    FIRST_PAUSE, LONGEST_PAUSE, SIGNAL_ONLY, Signals, canceled_if_ended, failed, jittered, tasks::TaskReader,
};
use crate::{
    address::Addresses,
    contact::Contact,
    drivers::Driver,
    hub::Hub,
    order::{Ended, Handle},
    statistics,
};

/// Interval between two checks of the container engine.
const ENGINE_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between two reads of the statistics.
const READ_INTERVAL: Duration = Duration::from_secs(60);
/// Age at which unchanged statistics are reported again. Together with the interval it is well below the five minutes
/// for which the hub uses them by default.
const LONGEST_AGE: Duration = Duration::from_secs(90);

/// Dependencies of the worker.
pub(super) struct Parts {
    pub contact: Contact,
    pub hub: Arc<Hub>,
    pub handle: Handle,
    pub signals: Arc<Signals>,
    pub reader: Arc<TaskReader>,
    pub driver: Arc<dyn Driver>,
    /// The addresses of this machine.
    pub addresses: Arc<Addresses>,
}

/// Reports statistics.
pub(super) struct Statistics {
    parts: Parts,
    reported: Option<(NodeStatistics, Instant)>,
    reported_engine: Option<(EngineState, Instant)>,
    read_at: Option<Instant>,
    /// True if the exchange refuses statistics with all addresses: older versions do not know them.
    omits_addresses: bool,
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
        self.parts.signals.statistics.notified().await;
        // The hub may have forgotten what was reported.
        (self.read_at, self.reported_engine) = (None, None);
    }
}

impl Statistics {
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            reported: None,
            reported_engine: None,
            read_at: None,
            omits_addresses: false,
            pause: SIGNAL_ONLY,
            backoff: FIRST_PAUSE,
        }
    }

    /// Returns what differs from the last report.
    async fn news(&mut self) -> PutNodeReport {
        let now = Instant::now();
        let is_up = self.parts.driver.is_engine_up().await;
        let state = if is_up { EngineState::Up } else { EngineState::Down };
        let is_known = |(known, at): &(EngineState, Instant)| *known == state && at.elapsed() < LONGEST_AGE;
        let engine = NodeEngine { state, status: EngineStatus::Enabled, at: None };
        let engine = (!self.reported_engine.as_ref().is_some_and(is_known)).then_some(engine);
        let mut report = PutNodeReport { engine, ..PutNodeReport::default() };
        if self.read_at.is_none_or(|at| now - at >= READ_INTERVAL) {
            self.read_at = Some(now);
            let all = self.parts.addresses.refresh().await;
            let addresses = if self.omits_addresses { Vec::new() } else { all };
            let address = self.parts.addresses.main();
            let found = NodeStatistics { address, addresses, ..statistics::current() };
            let is_known = |(known, at): &(NodeStatistics, Instant)| {
                !statistics::differ(&found, known) && at.elapsed() < LONGEST_AGE
            };
            let is_known = self.reported.as_ref().is_some_and(is_known);
            report.stats = Some(found).filter(|found| !is_known && *found != NodeStatistics::default());
        }
        report
    }

    async fn report_or_retry(&mut self) -> Result<(), Ended> {
        self.pause = jittered(ENGINE_INTERVAL);
        // Third-party exchanges know no statistics.
        if !self.parts.reader.is_supported() {
            return Ok(());
        }
        let report = self.news().await;
        if report == PutNodeReport::default() {
            return Ok(());
        }
        match self.parts.hub.exchange.post_heartbeat(&self.parts.hub.node, &report).await {
            Ok(_) => {
                self.parts.contact.restored();
                self.backoff = FIRST_PAUSE;
                let now = Instant::now();
                if let Some(found) = report.stats {
                    self.reported = Some((found, now));
                }
                if let Some(engine) = report.engine {
                    self.reported_engine = Some((engine.state, now));
                }
                Ok(())
            }
            Err(error) => {
                self.omits_addresses |= error.status() == Some(400);
                // A report without a response may have been recorded.
                (self.read_at, self.reported, self.reported_engine) = (None, None, None);
                self.pause = jittered(self.backoff);
                self.backoff = (self.backoff * 2).min(LONGEST_PAUSE);
                failed(&self.parts.contact, &self.parts.handle, &error).await
            }
        }
    }
}
