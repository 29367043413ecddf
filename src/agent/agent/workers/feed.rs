//! Polls the change feed, which is also the heartbeat (agreement protocol 5.3).

use std::{convert::Infallible, sync::Arc, time::Duration};

use evenkeel_client::ClientError;
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::exchange::changes::{ChangesRequest, ChangesResponse};
use tokio::time::Instant;

use super::{
    FIRST_PAUSE, LONGEST_PAUSE, PassError, Signals, canceled_if_ended, failed, jittered, tasks::TaskReader,
};
use crate::{
    AgentSettings, clock,
    contact::Contact,
    hub::Hub,
    order::{Ended, Handle, Order},
    step::Event,
};

/// Maximum number of changes per response.
const MOST_RECORDS: i64 = 1000;
/// Silence after which agreements are verified once the hub responds again.
const LONG_SILENCE: Duration = Duration::from_secs(60);
/// A response without changes that arrives faster than this was not parked.
const NOT_PARKED: Duration = Duration::from_millis(300);
/// Interval of full reads, in case a change was missed.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(300);

/// Dependencies of the worker.
pub(super) struct Parts {
    pub contact: Contact,
    pub hub: Arc<Hub>,
    pub handle: Handle,
    pub settings: Arc<AgentSettings>,
    pub signals: Arc<Signals>,
    pub reader: Arc<TaskReader>,
}

/// The outcome of a poll.
struct Polled {
    /// The position after it.
    following: i64,
    response: ChangesResponse,
    took: Duration,
    /// When it was sent, in milliseconds since the boot.
    sent_ms: u64,
}

/// Follows the change feed.
pub(super) struct ChangeFeed {
    parts: Parts,
    /// The position in the feed, once it is known.
    next: Option<i64>,
    silent_since: Option<Instant>,
    read_at: Instant,
    backoff: Duration,
    pause: Duration,
}

impl Worker for ChangeFeed {
    type Error = Infallible;
    const NAME: &'static str = "change_feed";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let result = self.follow().await;
        canceled_if_ended(result).await;
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.pause
    }
}

impl ChangeFeed {
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            next: None,
            silent_since: None,
            read_at: Instant::now(),
            backoff: FIRST_PAUSE,
            pause: Duration::ZERO,
        }
    }

    /// Polls once.
    async fn follow(&mut self) -> Result<(), Ended> {
        if self.next.is_none() {
            // The first parked poll depends on whether the exchange has tasks. A failure counts as a failure of the poll.
            if let Err(PassError::Ended(ended)) = self.parts.reader.read().await {
                return Err(ended);
            }
        }
        match self.poll_after(self.silent_since.is_some(), self.next).await {
            Ok(Polled { following, response, took, sent_ms }) => {
                self.parts.contact.restored();
                self.parts.handle.order(Order::Heard).await?;
                // A poll counts as a heartbeat when the hub receives it, not when it responds.
                if self.next.is_some() {
                    self.parts.handle.order(Order::HeartbeatSent(sent_ms)).await?;
                }
                let was_silent =
                    self.silent_since.take().is_some_and(|since| since.elapsed() >= LONG_SILENCE);
                if was_silent {
                    self.parts.handle.apply(Event::Reconnected).await?;
                }
                let is_first = self.next.is_none();
                if is_first || was_silent || self.read_at.elapsed() >= FULL_READ_INTERVAL {
                    self.read_at = Instant::now();
                    self.signal_all(is_first);
                }
                self.signal(&response);
                self.next = Some(following);
                self.backoff = FIRST_PAUSE;
                let was_parked = is_first || !response.changes.is_empty() || took >= NOT_PARKED;
                self.pause = if was_parked { Duration::ZERO } else { self.parts.settings.poll_interval };
            }
            Err(error) => {
                self.silent_since.get_or_insert_with(Instant::now);
                failed(&self.parts.contact, &self.parts.handle, &error).await?;
                self.pause = jittered(self.backoff);
                self.backoff = (self.backoff * 2).min(LONGEST_PAUSE);
            }
        }
        Ok(())
    }

    /// Polls. A poll may be parked for long, so after a failure a short call checks first whether the hub responds.
    async fn poll_after(&self, has_failed: bool, next: Option<i64>) -> Result<Polled, ClientError> {
        if has_failed && next.is_some() {
            self.parts.contact.watch(self.parts.hub.exchange.max_change_id(), false).await?;
            self.parts.contact.restored();
        }
        self.parts.contact.watch(self.poll(next), next.is_some()).await
    }

    /// The first call only finds the position in the feed: everything before it is read directly.
    async fn poll(&self, next: Option<i64>) -> Result<Polled, ClientError> {
        let sent_ms = clock::uptime_ms();
        let Some(change_id) = next else {
            let latest = self.parts.hub.exchange.max_change_id().await?;
            let response = ChangesResponse::default();
            return Ok(Polled { following: latest + 1, response, took: Duration::ZERO, sent_ms });
        };
        let request = ChangesRequest {
            change_id,
            max_records: MOST_RECORDS,
            // Third-party exchanges refuse unknown members.
            extensions: self.parts.reader.is_supported(),
            ..ChangesRequest::default()
        };
        let (response, took) = self
            .parts
            .hub
            .exchange
            .wait_for_changes(self.parts.hub.node.org(), &request, self.parts.settings.park)
            .await?;
        // An exchange that was restored from a backup continues from its older position.
        let following =
            if response.most_recent_change_id > 0 { response.most_recent_change_id + 1 } else { change_id };
        Ok(Polled { following, response, took, sent_ms })
    }

    fn signal(&self, response: &ChangesResponse) {
        for change in &response.changes {
            let is_own =
                change.id == self.parts.hub.node.name() && change.org_id == self.parts.hub.node.org();
            match change.resource.as_str() {
                "nodemsgs" if is_own => self.parts.signals.mail.notify_one(),
                "node" | "nodepolicies" | "services_configstate" if is_own => {
                    self.parts.signals.node.notify_one();
                }
                "org" => self.parts.signals.node.notify_one(),
                "nodetasks" if is_own => self.parts.signals.tasks.notify_one(),
                "nodemgmtpolstatus" if is_own => self.parts.signals.management.notify_one(),
                "mgmtpolicy" | "agentfileversion" => self.parts.signals.management.notify_one(),
                _ => {}
            }
        }
    }

    /// Messages are read only once the node's record is known: it is needed to judge proposals.
    fn signal_all(&self, is_first: bool) {
        self.parts.signals.node.notify_one();
        self.parts.signals.tasks.notify_one();
        self.parts.signals.statistics.notify_one();
        self.parts.signals.presence.notify_one();
        if !is_first {
            self.parts.signals.mail.notify_one();
            self.parts.signals.management.notify_one();
        }
    }
}
