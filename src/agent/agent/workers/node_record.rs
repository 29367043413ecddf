//! Keeps the node's record in the exchange current, and reads the facts about the node that decisions need.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use evenkeel_client::HealthSubject;
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::agbot::health::HealthReport;

use super::{
    FIRST_PAUSE, LONGEST_PAUSE, PassError, SIGNAL_ONLY, Signals, canceled_if_ended, failed, jittered,
    presence,
};
use crate::{
    AgentSettings,
    contact::Contact,
    hub::Hub,
    join::{self, Wanted},
    machine::Machine,
    order::{Ended, Handle},
    step::{Event, ExchangeState},
};

/// Time for which the hub shows that a journal was lost, in seconds.
const LOSS_SHOWN_SECS: u64 = 24 * 3600;

/// Dependencies of the worker.
pub(super) struct Parts {
    pub contact: Contact,
    pub hub: Arc<Hub>,
    pub handle: Handle,
    pub settings: Arc<AgentSettings>,
    pub machine: Arc<Machine>,
    pub pattern: String,
    pub signals: Arc<Signals>,
}

/// Reads and writes the record when signaled that it may have changed.
pub(super) struct NodeRecord {
    parts: Parts,
    is_due: bool,
    is_first: bool,
    /// Pause before the next attempt, after a failure.
    retry: Option<Duration>,
    backoff: Duration,
}

impl Worker for NodeRecord {
    type Error = Infallible;
    const NAME: &'static str = "node_record";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        if self.is_due {
            let result = self.refresh_or_retry().await;
            canceled_if_ended(result).await;
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.retry.unwrap_or(SIGNAL_ONLY)
    }

    async fn signaled(&mut self) {
        if self.retry.is_some() {
            // Further signals must not make it retry without a pause.
            return std::future::pending().await;
        }
        self.parts.signals.node.notified().await;
        self.is_due = true;
    }
}

impl NodeRecord {
    pub fn new(parts: Parts) -> Self {
        Self { parts, is_due: false, is_first: true, retry: None, backoff: FIRST_PAUSE }
    }

    async fn refresh_or_retry(&mut self) -> Result<(), Ended> {
        match self.refresh().await {
            Ok(()) => {
                self.parts.contact.restored();
                self.is_due = false;
                self.retry = None;
                self.backoff = FIRST_PAUSE;
                if std::mem::take(&mut self.is_first) {
                    self.parts.signals.is_joined.store(true, Ordering::Relaxed);
                    self.parts.signals.presence.notify_one();
                    self.parts.signals.mail.notify_one();
                }
                // A new pattern or policy may match other management policies.
                self.parts.signals.management.notify_one();
                Ok(())
            }
            Err(PassError::Hub(error)) => {
                self.retry = Some(jittered(self.backoff));
                self.backoff = (self.backoff * 2).min(LONGEST_PAUSE);
                failed(&self.parts.contact, &self.parts.handle, &error).await
            }
            Err(PassError::Ended(ended)) => Err(ended),
        }
    }

    async fn refresh(&self) -> Result<(), PassError> {
        let wanted = Wanted {
            machine: &self.parts.machine,
            software_version: &self.parts.settings.software_version,
            pattern: &self.parts.pattern,
        };
        let Parts { hub, handle, .. } = &self.parts;
        if self.is_first {
            // Before the key makes the node visible: nothing is to be placed on it, and moved away again, until it has joined.
            presence::announce(hub, handle).await?;
            self.reconcile_agreements().await?;
        }
        let facts = join::join(hub, &wanted).await?;
        handle.apply(Event::Joined(Box::new(facts))).await?;
        if self.is_first {
            self.report_loss().await?;
            tracing::info!(node.id = %hub.node, "node is registered");
            handle.apply(Event::Reconnected).await?;
        }
        Ok(())
    }

    /// Reports that an earlier journal was lost. Hubs without health reports are not notified.
    async fn report_loss(&self) -> Result<(), PassError> {
        let Parts { hub, handle, .. } = &self.parts;
        let Some(text) = handle.with(|journal| journal.loss.clone()).await? else { return Ok(()) };
        let subject =
            HealthSubject::Node { org: hub.node.org().to_owned(), node: hub.node.name().to_owned() };
        let report = HealthReport {
            source_id: "Agent".to_owned(),
            property: "Journal".to_owned(),
            health_state: "Warning".to_owned(),
            ttl_seconds: Some(LOSS_SHOWN_SECS),
            remove_when_expired: Some(true),
            description: Some(text),
            ..HealthReport::default()
        };
        match hub.agbot.report_health(&subject, &report).await {
            Err(error) if error.is_retryable() => return Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "the hub does not accept the report that the journal was lost");
            }
            Ok(_) => {}
        }
        handle.with(|journal| journal.loss = None).await?;
        Ok(())
    }

    /// Compares the agreements in the exchange with the journal: unknown ones are removed there, lost ones are
    /// recorded again.
    async fn reconcile_agreements(&self) -> Result<(), PassError> {
        let Parts { hub, handle, .. } = &self.parts;
        let agreements = hub.exchange.list_node_agreements(&hub.node).await?;
        let recorded: BTreeSet<String> = agreements.into_keys().map(|id| id.to_string()).collect();
        let present = recorded.clone();
        let known = handle
            .with(move |journal| {
                for agreement in journal.state.agreements.values_mut() {
                    // The list may have been read before the record was written.
                    if !present.contains(&agreement.id) && agreement.recorded.known().is_some() {
                        agreement.recorded.succeed(ExchangeState::Absent);
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
            hub.exchange.delete_node_agreement(&hub.node, unknown).await?;
        }
        Ok(())
    }
}
