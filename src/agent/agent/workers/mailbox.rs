//! Reads the node's mailbox: opens envelopes, reads the facts that proposals need, sends messages to the core, and removes
//! them when the core has saved the effects (agreement protocol 1.2, 1.3, 2.6).

use std::{convert::Infallible, sync::Arc, time::Duration};

use evenkeel_client::{ClientError, MessagePage, RetryDelay};
use evenkeel_domain::policy::internal::InternalPolicy;
use evenkeel_ids::ServiceId;
use evenkeel_runtime::worker::Worker;
use evenkeel_wire::{
    agreement::{
        envelope::{self, EnvelopeError, ReplayGuard},
        message::{Body, Message, PROTOCOL},
    },
    base64_text,
    exchange::{message::NodeMessage, service::ServiceResponse},
};
use futures_util::future::join_all;

use super::{PassError, SIGNAL_ONLY, Signals, canceled_if_ended, tasks::TaskReader};
use crate::{
    AgentSettings, environment,
    hub::Hub,
    keyring, offered,
    order::{Ended, Handle},
    step::{
        AgbotStanding, Dependency, DependencyFacts, Event, ProposalFacts, PublishedDeployment, WorkloadName,
        dependency,
    },
};

/// Number of envelopes remembered to detect replays.
const REMEMBERED: usize = 500;
/// Size of the part of the mailbox that is read at once. Senders can fill the mailbox, so memory must not grow with it.
const FIRST_PAGE: MessagePage = MessagePage { after: 0, messages: 64, bytes: 1024 * 1024 };
/// A page with this much space left ends with the newest message.
const LARGEST: usize = 128 * 1024;
/// Maximum number of messages prepared concurrently.
const CONCURRENCY: usize = 8;
/// Pause before messages that could not be judged are retried; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of services whose definition and keys are read for one proposal.
const MOST_KEYS: usize = 50;

/// Handles messages of agbots.
pub(super) struct Mailbox {
    hub: Arc<Hub>,
    handle: Handle,
    settings: Arc<AgentSettings>,
    signals: Arc<Signals>,
    reader: Arc<TaskReader>,
    seen: ReplayGuard,
    dropped: u64,
    is_due: bool,
    /// Pause before messages are retried.
    retry: Option<Duration>,
    delay: RetryDelay,
}

/// The fate of a message in the mailbox.
enum Fate {
    Delete,
    Keep,
}

/// A message prepared for the core.
enum Prepared {
    /// An event.
    Event(Box<Event>),
    /// Its facts cannot be read now.
    NotYet,
    /// Unusable, for this reason.
    Useless(String),
}

impl Worker for Mailbox {
    type Error = Infallible;
    const NAME: &'static str = "mailbox";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        if self.is_due {
            let result = self.read_or_retry().await;
            canceled_if_ended(result).await;
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.retry.unwrap_or(SIGNAL_ONLY)
    }

    /// Waits for a notification. One that arrives while messages are read is kept, and triggers another read.
    async fn signaled(&mut self) {
        self.signals.mail.notified().await;
        self.is_due = true;
    }
}

impl Mailbox {
    pub fn new(
        hub: Arc<Hub>,
        handle: Handle,
        settings: Arc<AgentSettings>,
        signals: Arc<Signals>,
        reader: Arc<TaskReader>,
    ) -> Self {
        Self {
            hub,
            handle,
            settings,
            signals,
            reader,
            seen: ReplayGuard::new(REMEMBERED),
            dropped: 0,
            is_due: false,
            retry: None,
            delay: RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }

    async fn read_or_retry(&mut self) -> Result<(), Ended> {
        self.is_due = !self.read_all().await?;
        if self.is_due {
            self.retry = Some(self.delay.next_pause());
        } else {
            self.retry = None;
            self.delay = RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE);
        }
        Ok(())
    }

    /// Handles every message once, page by page; returns false if some have to be retried.
    async fn read_all(&mut self) -> Result<bool, Ended> {
        let (mut is_done, mut page) = (true, FIRST_PAGE);
        loop {
            let mut messages = match self.hub.exchange.list_node_messages(&self.hub.node, page).await {
                Ok(messages) => messages,
                Err(error) => {
                    tracing::debug!(%error, "the mailbox cannot be read");
                    return Ok(false);
                }
            };
            let bytes: usize = messages.iter().map(|one| one.message.len() + one.agbot_pub_key.len()).sum();
            let is_last =
                (messages.len() as u64) < u64::from(page.messages) && bytes + LARGEST < page.bytes as usize;
            // The reference's exchange lists from the oldest message on, including those that were kept.
            messages.retain(|message| message.msg_id > page.after);
            let Some(last) = messages.iter().map(|message| message.msg_id).max() else { return Ok(is_done) };
            let kept_count = self.handle_all(&messages).await?;
            is_done &= kept_count == 0;
            if is_last {
                return Ok(is_done);
            }
            page = MessagePage { after: last, messages: page.messages.saturating_add(kept_count), ..page };
        }
    }

    /// Handles messages once; returns how many have to be retried.
    ///
    /// Several are prepared concurrently; the core gets them in order.
    async fn handle_all(&mut self, messages: &[NodeMessage]) -> Result<u32, Ended> {
        let mut kept_count = 0;
        for batch in messages.chunks(CONCURRENCY) {
            let mut prepared = join_all(batch.iter().map(|message| self.prepare(message))).await;
            self.read_tasks(&mut prepared).await?;
            let mut finished = Vec::new();
            for (message, prepared) in batch.iter().zip(prepared) {
                match self.finish(message, prepared).await? {
                    Fate::Keep => kept_count += 1,
                    Fate::Delete => finished.push(message),
                }
            }
            let deleted = join_all(finished.into_iter().map(|message| self.delete(message))).await;
            kept_count += deleted.into_iter().map(|is_deleted| u32::from(!is_deleted)).sum::<u32>();
        }
        Ok(kept_count)
    }

    /// Reads the tasks before proposals, because a task is written before the proposal of its agreement. Without them, proposals wait.
    async fn read_tasks(&self, prepared: &mut [Prepared]) -> Result<(), Ended> {
        let is_proposal = |one: &Prepared| matches!(one, Prepared::Event(event) if matches!(**event, Event::Proposal { .. }));
        if !prepared.iter().any(is_proposal) {
            return Ok(());
        }
        match self.reader.read().await {
            Ok(()) => Ok(()),
            Err(PassError::Ended(ended)) => Err(ended),
            Err(PassError::Hub(error)) => {
                tracing::debug!(%error, "proposals wait for the tasks of the node");
                prepared.iter_mut().filter(|one| is_proposal(one)).for_each(|one| *one = Prepared::NotYet);
                Ok(())
            }
        }
    }

    async fn delete(&self, message: &NodeMessage) -> bool {
        match self.hub.exchange.delete_node_message(&self.hub.node, message.msg_id).await {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, message.id = message.msg_id, "message cannot be removed");
                !error.is_retryable()
            }
        }
    }

    /// Opens a message and reads the facts that the core needs to judge it.
    async fn prepare(&self, entry: &NodeMessage) -> Prepared {
        let message = match self.open(entry).await {
            Ok(message) => message,
            Err(reason) => return Prepared::Useless(reason),
        };
        let from = entry.agbot_id.clone();
        Prepared::Event(Box::new(match &message.body {
            Body::Proposal { terms, .. } => match self.read_facts(&from, terms).await {
                Ok(facts) => Event::Proposal { from, message, facts: Box::new(facts) },
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "proposal waits for its service's keys");
                    return Prepared::NotYet;
                }
                Err(error) => {
                    let id = message.agreement_id.as_str();
                    tracing::warn!(agbot = from, agreement.id = id, %error, "the facts of a proposal cannot be read");
                    let unreadable = Some(error.to_string());
                    let facts = Box::new(ProposalFacts { unreadable, ..ProposalFacts::default() });
                    Event::Proposal { from, message, facts }
                }
            },
            _ => Event::Message { from, message },
        }))
    }

    /// Sends a message to the core, which has saved its effects when this returns.
    async fn finish(&mut self, entry: &NodeMessage, prepared: Prepared) -> Result<Fate, Ended> {
        // A duplicate may have been prepared concurrently.
        let prepared = match self.seen.check(&entry.message) {
            Err(error) => Prepared::Useless(error.to_string()),
            Ok(()) => prepared,
        };
        match prepared {
            Prepared::NotYet => return Ok(Fate::Keep),
            Prepared::Useless(reason) => {
                self.dropped += 1;
                tracing::warn!(agbot = entry.agbot_id, reason, dropped = self.dropped, "message is dropped");
            }
            Prepared::Event(event) => {
                self.handle.apply(*event).await?;
                self.seen.record(&entry.message);
            }
        }
        Ok(Fate::Delete)
    }

    async fn open(&self, entry: &NodeMessage) -> Result<Message, String> {
        let sender = base64_text::decode(&entry.agbot_pub_key).map_err(|error| error.to_string())?;
        let (key, text) = (self.hub.key.clone(), entry.message.clone());
        let opened: Result<Vec<u8>, EnvelopeError> =
            tokio::task::spawn_blocking(move || envelope::open(&text, &key, &sender, &mut rand::rng()))
                .await
                .map_err(|error| error.to_string())?;
        let plain = opened.map_err(|error| error.to_string())?;
        let message = Message::parse(&String::from_utf8_lossy(&plain)).map_err(|error| error.to_string())?;
        if message.protocol == PROTOCOL {
            Ok(message)
        } else {
            Err(format!("protocol {:?} is not supported", message.protocol))
        }
    }

    /// Reads the standing of the agbot, signing keys, the user input of the service, and its dependencies.
    async fn read_facts(&self, agbot: &str, terms: &str) -> Result<ProposalFacts, ClientError> {
        let standing = self.standing(agbot).await?;
        if standing == AgbotStanding::NotApproved {
            // Messages of senders that may not propose are not parsed.
            return Ok(ProposalFacts::default());
        }
        let Ok(terms) = InternalPolicy::from_text(terms) else { return Ok(ProposalFacts::default()) };
        let Some(workload) = terms.workloads.first() else { return Ok(ProposalFacts::default()) };
        let exchange = &self.hub.exchange;
        let arch = Some(workload.arch.as_str()).filter(|arch| !arch.is_empty() && *arch != "*");
        let found =
            exchange.find_services(&workload.org, &workload.url, Some(&workload.version), arch).await?;
        let trusted = self.trusted_keys().await;
        // Without an architecture several definitions match; the proposed one is used.
        let proposed = found.iter().position(|(_, service)| service.deployment == workload.deployment);
        let Some((service_id, service)) = found.into_iter().nth(proposed.unwrap_or_default()) else {
            return Ok(ProposalFacts { standing, trusted_keys: trusted, ..ProposalFacts::default() });
        };
        let mut keys = trusted.clone();
        keys.extend(self.publisher_keys(&service_id).await?);
        keys.extend(self.pattern_keys(&terms.pattern_id).await?);
        let node = exchange.node(&self.hub.node).await?.unwrap_or_default();
        let pattern_services = self.pattern_services(&node.pattern).await?;
        let policy_input: Vec<serde_json::Value> =
            terms.user_input.iter().filter_map(|entry| serde_json::to_value(entry).ok()).collect();
        let node_input = node.user_input()?;
        let sources: [&[serde_json::Value]; 2] = [&policy_input, &node_input];
        let name = WorkloadName {
            url: workload.url.clone(),
            org: workload.org.clone(),
            version: workload.version.clone(),
            arch: service.arch.clone(),
        };
        let inputs = environment::user_inputs(&service.user_input()?, &sources, &name);
        let published = PublishedDeployment {
            text: service.deployment.clone(),
            signature: service.deployment_signature.clone(),
        };
        let facts = ProposalFacts {
            standing,
            published: Some(published),
            pattern_services,
            trusted_keys: keys,
            service_id: service_id.to_string(),
            inputs,
            ..ProposalFacts::default()
        };
        Ok(match self.needed(&service, &trusted, &sources).await? {
            Ok(dependencies) => ProposalFacts { dependencies, ..facts },
            Err(why) => ProposalFacts { unresolved: Some(why), ..facts },
        })
    }

    /// Returns whether an agbot may make agreements with this node, according to the exchange.
    async fn standing(&self, agbot: &str) -> Result<AgbotStanding, ClientError> {
        let named = match self.hub.exchange.list_node_agbots(&self.hub.node).await {
            // A third-party exchange names none.
            Err(error) if matches!(error.status(), Some(400 | 403 | 405)) => None,
            named => named?,
        };
        Ok(match named {
            None => AgbotStanding::Unknown,
            Some(named) if named.iter().any(|one| one == agbot) => AgbotStanding::Approved,
            Some(_) => AgbotStanding::NotApproved,
        })
    }

    /// Returns the services of a pattern; `None` for a node without a pattern.
    async fn pattern_services(&self, pattern: &str) -> Result<Option<Vec<(String, String)>>, ClientError> {
        let Some((org, name)) = pattern.split_once('/') else { return Ok(None) };
        let found = self.hub.exchange.pattern(org, name).await?.unwrap_or_default();
        let services = found.services()?.into_iter();
        Ok(Some(services.map(|service| (service.service_orgid, service.service_url)).collect()))
    }

    async fn pattern_keys(&self, pattern: &str) -> Result<Vec<String>, ClientError> {
        let mut keys = Vec::new();
        let Some((org, id)) = pattern.split_once('/').filter(|_| !self.settings.trusted_keys_only) else {
            return Ok(keys);
        };
        for name in self.hub.exchange.list_pattern_keys(org, id).await?.into_iter().take(MOST_KEYS) {
            keys.extend(self.hub.exchange.pattern_key(org, id, &name).await?);
        }
        Ok(keys)
    }

    /// Reads the keys that the publisher stored beside a service; none when only keys on this machine are trusted.
    async fn publisher_keys(&self, service: &ServiceId) -> Result<Vec<String>, ClientError> {
        let exchange = &self.hub.exchange;
        let mut keys = Vec::new();
        if self.settings.trusted_keys_only {
            return Ok(keys);
        }
        let (org, id) = (service.org(), service.name());
        for name in exchange.list_service_keys(org, id).await?.into_iter().take(MOST_KEYS) {
            keys.extend(exchange.service_key(org, id, &name).await?);
        }
        Ok(keys)
    }

    /// Reads the dependencies of a service, in start order; the inner error is the reason why they cannot be resolved.
    async fn needed(
        &self,
        service: &ServiceResponse,
        trusted: &[String],
        sources: &[&[serde_json::Value]],
    ) -> Result<Result<Vec<DependencyFacts>, String>, ClientError> {
        let definitions = offered::definitions(&self.hub.exchange, service).await?;
        let order = match dependency::in_order(&service.required_services()?, &service.arch, &definitions) {
            Ok(order) => order,
            Err(why) => return Ok(Err(why)),
        };
        let mut needed = Vec::new();
        for (id, service) in order {
            let name = WorkloadName {
                url: service.url.clone(),
                org: id.org().to_owned(),
                version: service.version.clone(),
                arch: service.arch.clone(),
            };
            let mut trusted_keys = trusted.to_vec();
            trusted_keys.extend(self.publisher_keys(id).await?);
            let dependency = Dependency {
                inputs: environment::user_inputs(&service.user_input()?, sources, &name),
                service: name,
                service_id: id.to_string(),
                deployment: service.deployment.clone(),
                is_shared: matches!(service.sharable.as_str(), "singleton" | "single" | "exclusive"),
            };
            let signature = service.deployment_signature.clone();
            needed.push(DependencyFacts { dependency, signature, trusted_keys });
        }
        Ok(Ok(needed))
    }

    async fn trusted_keys(&self) -> Vec<String> {
        let directories = self.settings.key_directories();
        tokio::task::spawn_blocking(move || keyring::trusted_keys(&directories)).await.unwrap_or_default()
    }
}
