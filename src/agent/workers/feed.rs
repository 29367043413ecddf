//! Polls the change feed, which is also the heartbeat, and keeps the node's record current (agreement protocol 5.3).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use evenkeel_client::ClientError;
use evenkeel_wire::exchange::changes::{ChangesAnswer, ChangesRequest};
use tokio::time::{Instant, sleep};

use super::Signals;
use crate::{
    AgentSettings,
    contact::Contact,
    hub::Hub,
    join::{self, Wanted},
    machine::Machine,
    order::{Ended, Handle, Order},
    step::{Event, ExchangeState},
};

/// Maximum number of changes per response.
const MOST_RECORDS: i64 = 1000;
/// Pause after a failed call; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Silence after which agreements are verified once the hub responds again.
const LONG_SILENCE: Duration = Duration::from_secs(60);
/// A response without changes that came this fast was not parked.
const NOT_PARKED: Duration = Duration::from_millis(300);
/// Interval of full reads, in case a change was missed.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(300);

/// Spreads the pauses of a fleet: all of its agents lose the hub at the same moment.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + rand::random::<f64>() / 2.0)
}

pub(super) struct Feed {
    pub hub: Arc<Hub>,
    pub handle: Handle,
    pub settings: Arc<AgentSettings>,
    pub machine: Arc<Machine>,
    pub pattern: String,
    pub signals: Arc<Signals>,
    /// Polls of the change feed.
    pub polls: Contact,
    /// Reads of the node's record.
    pub reads: Contact,
}

impl Feed {
    /// Runs until canceled or the core ends.
    pub async fn run(self) {
        // The end of the core ends everything; no one is left to notify.
        let _ended = tokio::join!(self.follow(), self.refresh_on_signal());
    }

    async fn follow(&self) -> Result<(), Ended> {
        let mut next = None;
        let mut pause = FIRST_PAUSE;
        let mut silent_since: Option<Instant> = None;
        let mut read_at = Instant::now();
        loop {
            match self.poll_after(silent_since.is_some(), next).await {
                Ok((following, response, took)) => {
                    self.polls.restored();
                    self.handle.order(Order::Heard).await?;
                    let was_silent = silent_since.take().is_some_and(|since| since.elapsed() >= LONG_SILENCE);
                    if was_silent {
                        self.handle.apply(Event::Reconnected).await?;
                    }
                    let is_first = next.is_none();
                    if is_first || was_silent || read_at.elapsed() >= FULL_READ_INTERVAL {
                        read_at = Instant::now();
                        self.signal_all(is_first);
                    }
                    self.signal(&response);
                    next = Some(following);
                    pause = FIRST_PAUSE;
                    if !is_first && response.changes.is_empty() && took < NOT_PARKED {
                        sleep(self.settings.poll_interval).await;
                    }
                }
                Err(error) => {
                    silent_since.get_or_insert_with(Instant::now);
                    self.failed(&self.polls, &error).await?;
                    sleep(jittered(pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Polls. A poll may be parked for long, so after a failure a short call checks first whether the hub responds.
    async fn poll_after(
        &self,
        has_failed: bool,
        next: Option<i64>,
    ) -> Result<(i64, ChangesAnswer, Duration), ClientError> {
        if has_failed && next.is_some() {
            self.polls.watch(self.hub.exchange.max_change_id(), false).await?;
            self.polls.restored();
        }
        self.polls.watch(self.poll(next), next.is_some()).await
    }

    /// The first call only finds the position in the feed: everything before it is read directly.
    async fn poll(&self, next: Option<i64>) -> Result<(i64, ChangesAnswer, Duration), ClientError> {
        let Some(change_id) = next else {
            let latest = self.hub.exchange.max_change_id().await?;
            return Ok((latest + 1, ChangesAnswer::default(), Duration::ZERO));
        };
        let request = ChangesRequest { change_id, max_records: MOST_RECORDS, ..ChangesRequest::default() };
        let (response, took) =
            self.hub.exchange.wait_for_changes(&self.hub.org, &request, self.settings.park).await?;
        // An exchange restored from an older state counts from there again.
        let following =
            if response.most_recent_change_id > 0 { response.most_recent_change_id + 1 } else { change_id };
        Ok((following, response, took))
    }

    fn signal(&self, response: &ChangesAnswer) {
        for change in &response.changes {
            let is_own = change.id == self.hub.id && change.org_id == self.hub.org;
            match change.resource.as_str() {
                "nodemsgs" if is_own => self.signals.mail.notify_one(),
                "node" | "nodepolicies" | "services_configstate" if is_own => self.signals.node.notify_one(),
                "org" => self.signals.node.notify_one(),
                "nodemgmtpolstatus" if is_own => self.signals.management.notify_one(),
                "mgmtpolicy" | "agentfileversion" => self.signals.management.notify_one(),
                _ => {}
            }
        }
    }

    /// Messages are read only once the node's record is known: it is needed to judge proposals.
    fn signal_all(&self, is_first: bool) {
        self.signals.node.notify_one();
        if !is_first {
            self.signals.mail.notify_one();
            self.signals.management.notify_one();
        }
    }

    async fn refresh_on_signal(&self) -> Result<(), Ended> {
        let mut is_first = true;
        loop {
            self.signals.node.notified().await;
            let mut pause = FIRST_PAUSE;
            while let Err(error) = self.refresh(is_first).await? {
                self.failed(&self.reads, &error).await?;
                sleep(jittered(pause)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            self.reads.restored();
            if is_first {
                self.signals.mail.notify_one();
                is_first = false;
            }
            // A new pattern or policy may match other management policies.
            self.signals.management.notify_one();
        }
    }

    async fn refresh(&self, is_first: bool) -> Result<Result<(), ClientError>, Ended> {
        let wanted = Wanted {
            machine: &self.machine,
            software_version: &self.settings.software_version,
            pattern: &self.pattern,
        };
        if is_first && let Err(error) = self.reconcile_agreements().await? {
            return Ok(Err(error));
        }
        match join::join(&self.hub, &wanted).await {
            Ok(facts) => {
                self.handle.apply(Event::Joined(Box::new(facts))).await?;
                if is_first {
                    tracing::info!(
                        node.id = format!("{}/{}", self.hub.org, self.hub.id),
                        "node is registered"
                    );
                    self.handle.apply(Event::Reconnected).await?;
                }
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Compares the agreements in the exchange with the journal: unknown ones are removed there, lost ones are
    /// recorded again.
    async fn reconcile_agreements(&self) -> Result<Result<(), ClientError>, Ended> {
        let recorded = match self.hub.exchange.list_node_agreements(&self.hub.org, &self.hub.id).await {
            Ok(agreements) => agreements.into_keys().collect::<BTreeSet<String>>(),
            Err(error) => return Ok(Err(error)),
        };
        let present = recorded.clone();
        let known = self
            .handle
            .with(move |journal| {
                for agreement in journal.state.agreements.values_mut() {
                    if !present.contains(&agreement.id) {
                        agreement.recorded = ExchangeState::Absent;
                    }
                }
                journal.state.agreements.keys().cloned().collect::<BTreeSet<_>>()
            })
            .await?;
        for unknown in recorded.difference(&known) {
            tracing::info!(
                agreement.id = unknown,
                "agreement of a lost journal is removed from the exchange"
            );
            if let Err(error) =
                self.hub.exchange.delete_node_agreement(&self.hub.org, &self.hub.id, unknown).await
            {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    async fn failed(&self, contact: &Contact, error: &ClientError) -> Result<(), Ended> {
        contact.failed(error);
        if error.is_unauthorized() {
            self.handle.order(Order::Refused).await?;
        }
        Ok(())
    }
}
