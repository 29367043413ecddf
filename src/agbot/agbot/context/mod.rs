//! The state that the workers of an agbot share.

mod lookup;
mod outbox;
mod record_log;
mod unread;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use evenkeel_client::Client;
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_metrics::Histogram;
use evenkeel_planner::command::MessageFate;
use evenkeel_planner::event::Event;
use evenkeel_planner::model::Model;
use evenkeel_planner::placements::{self, Placements};
use evenkeel_planner::report::Placement;
use evenkeel_planner::settings::PlannerSettings;
use evenkeel_store::Database;
use evenkeel_wire::agreement::{PrivateKey, PublicKey};
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

use lookup::Lookup;
use outbox::Outbox;
use record_log::RecordLog;
use unread::UnreadOrgs;

use crate::AgbotError;
use crate::backlog::{Backlog, Counted};
use crate::claim_batch::ClaimBatches;
use crate::inert::InertPolicies;
use crate::settings::AgbotSettings;

/// Capacity of the engine's input queue; observers wait when it is full.
const QUEUE: usize = 4_096;
const KEY_BITS: usize = 2_048;

/// An input of the engine.
pub enum Input {
    /// Events, in order.
    Events(Vec<Event>),
    /// A message of a node; its fate is sent back.
    Message(Box<Event>, oneshot::Sender<MessageFate>),
    /// Sent back when all earlier events are in the model.
    Marker(oneshot::Sender<()>),
}

/// The state that the workers of an agbot share.
pub struct Context {
    /// Settings.
    pub settings: AgbotSettings,
    /// The exchange, with the agbot's credentials.
    pub client: Client,
    /// The agbot's own records.
    pub database: Database,
    /// Identity of this process among the agbots of the database.
    pub instance: Uuid,
    /// Grants and releases claims.
    pub claims: ClaimBatches,
    /// The log of the records of all agbots.
    pub records: RecordLog,
    /// Key that opens messages.
    pub key: PrivateKey,
    /// Its public half.
    pub public_key: PublicKey,
    /// Durations of decisions.
    pub decision_times: Histogram,
    /// Checks of health that were broken themselves.
    pub broken_checks: AtomicU64,
    /// Policies that select nothing.
    pub inert: InertPolicies,
    /// Organizations whose newest state is not known.
    pub unread: UnreadOrgs,
    /// Notified when the mailbox may hold messages.
    pub mail: Notify,
    /// Notified when messages that were left in the mailbox are to be handled again.
    pub retry_messages: Notify,
    /// Records to be read.
    pub(crate) lookup: Lookup,
    /// Effects to be delivered to the exchange.
    pub(crate) outbox: Outbox,
    /// Notified when everything is to be compared with the exchange.
    pub reload: Notify,
    inputs: mpsc::Sender<Input>,
    model: RwLock<Model>,
    placements: Mutex<Placements>,
    /// When all heartbeats were read last.
    heartbeats_read_at: RwLock<Option<Instant>>,
    dropped_messages: AtomicU64,
    mailbox_backlog: Mutex<Counted>,
    is_loaded: AtomicBool,
    /// The exchange no longer has the fencing numbers of the leases: they must be acquired again.
    pub(crate) leases_refused: AtomicBool,
}

impl Context {
    /// Reads or creates the messaging key and builds the context.
    ///
    /// # Errors
    /// When the key cannot be read, created or stored.
    pub fn new(
        settings: AgbotSettings,
        client: Client,
        database: Database,
    ) -> Result<(Context, mpsc::Receiver<Input>), AgbotError> {
        let key = load_or_make_key(&settings.key_file)?;
        let (sender, inputs) = mpsc::channel(QUEUE);
        let instance = Uuid::new_v4();
        let context = Context {
            public_key: key.public_key()?,
            key,
            client,
            claims: ClaimBatches::new(database.clone(), settings.planner.clone(), instance),
            records: RecordLog::default(),
            database,
            instance,
            decision_times: Histogram::default(),
            broken_checks: AtomicU64::new(0),
            inert: InertPolicies::default(),
            unread: UnreadOrgs::default(),
            mail: Notify::new(),
            retry_messages: Notify::new(),
            lookup: Lookup::default(),
            outbox: Outbox::default(),
            reload: Notify::new(),
            inputs: sender,
            model: RwLock::new(Model::new(PlannerSettings {
                lease_secs: settings.lease_time.as_secs().max(1),
                ..settings.planner.clone()
            })),
            placements: Mutex::default(),
            heartbeats_read_at: RwLock::default(),
            dropped_messages: AtomicU64::new(0),
            mailbox_backlog: Mutex::default(),
            is_loaded: AtomicBool::new(false),
            leases_refused: AtomicBool::new(false),
            settings,
        };
        Ok((context, inputs))
    }

    /// Returns the current time: the only place where the agbot reads the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    /// Records that all heartbeats were read, by requests that began at this instant.
    pub(crate) fn note_heartbeats(&self, began: Instant) {
        *self.heartbeats_read_at.write().unwrap_or_else(PoisonError::into_inner) = Some(began);
    }

    /// Returns how long ago all heartbeats were read; `None` before the first time.
    pub(crate) fn age_of_heartbeats(&self) -> Option<Duration> {
        self.heartbeats_read_at.read().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// Returns the agbot's id, `org/id`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.settings.org, self.settings.id)
    }

    /// Sends events to the engine, waiting while its queue is full.
    pub async fn send_events(&self, events: Vec<Event>) {
        if !events.is_empty() {
            self.inert.apply(&events);
            // A closed channel means that the engine has ended with the process.
            let _ = self.inputs.send(Input::Events(events)).await;
        }
    }

    /// Waits until all events that were sent before are in the model, or the engine has ended.
    pub(crate) async fn events_applied(&self) {
        let (sender, applied) = oneshot::channel();
        if self.inputs.send(Input::Marker(sender)).await.is_ok() {
            // The engine that drops it has ended.
            let _ = applied.await;
        }
    }

    /// Sends events to the engine, and waits until they are in the model.
    pub(crate) async fn apply_events(&self, events: Vec<Event>) {
        self.send_events(events).await;
        self.events_applied().await;
    }

    /// Sends a message to the engine and waits for its fate; it stays in the mailbox when the engine has ended.
    pub async fn send_message(&self, event: Event) -> MessageFate {
        let (sender, fate) = oneshot::channel();
        if self.inputs.send(Input::Message(Box::new(event), sender)).await.is_err() {
            return MessageFate::Leave;
        }
        fate.await.unwrap_or(MessageFate::Leave)
    }

    /// Returns the model for reading.
    pub fn model(&self) -> RwLockReadGuard<'_, Model> {
        self.model.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the model for writing, for the engine.
    pub(crate) fn model_mut(&self) -> RwLockWriteGuard<'_, Model> {
        self.model.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the placements of a decision.
    pub(crate) fn keep_placements(&self, newer: BTreeMap<(NodeId, PolicyId), Placement>) {
        self.kept_placements().note(newer, self.now());
    }

    /// Drops the placements of a policy or node that is gone.
    pub(crate) fn forget_placements(&self, event: &Event) {
        self.kept_placements().forget(event);
    }

    fn kept_placements(&self) -> MutexGuard<'_, Placements> {
        self.placements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns since when a pair has waited for the same rule; none when this agbot does not decide about it.
    pub(crate) fn waiting_since(&self, node: &NodeId, policy: &PolicyId) -> Option<Timestamp> {
        self.kept_placements().waiting_since(node, policy)
    }

    /// Returns the nodes on which something waits.
    pub(crate) fn waiting_nodes(&self) -> BTreeSet<NodeId> {
        self.kept_placements().waiting_nodes()
    }

    /// Returns the newest placements of the organization's pairs that were planned, at most `limit` in order.
    ///
    /// # Shape
    /// The pairs after the given one; `None` begins with the first.
    #[must_use]
    pub fn placements(
        &self,
        org: &str,
        after: Option<&(NodeId, PolicyId)>,
        limit: usize,
    ) -> Vec<((NodeId, PolicyId), Placement)> {
        let kept = self.kept_placements();
        let found = kept.of_org(org, after).take(limit);
        let found = found.map(|(pair, placement)| (pair.clone(), placement.clone())).collect();
        drop(kept);
        self.as_shown(found)
    }

    /// Returns the newest placements of one node.
    #[must_use]
    pub fn placements_of(&self, node: &NodeId) -> Vec<(PolicyId, Placement)> {
        let kept = self.kept_placements();
        let found = kept.of_node(node).map(|(pair, placement)| (pair.clone(), placement.clone())).collect();
        drop(kept);
        let found = self.as_shown(found);
        found.into_iter().map(|((_, policy), placement)| (policy, placement)).collect()
    }

    /// Returns the placements as they are shown. The model holds the records of all agbots, so that each can report the state of every pair,
    /// even while the agbot that decides is down.
    fn as_shown(
        &self,
        mut found: Vec<((NodeId, PolicyId), Placement)>,
    ) -> Vec<((NodeId, PolicyId), Placement)> {
        let (model, now) = (self.model(), self.now());
        for (pair, placement) in &mut found {
            *placement = placements::shown(&model, pair, placement.clone(), now);
        }
        found
    }

    /// Returns the number of inputs that wait for the engine.
    pub(crate) fn queue_length(&self) -> usize {
        self.inputs.max_capacity() - self.inputs.capacity()
    }

    /// Counts a message that could not be used.
    pub(crate) fn count_dropped_message(&self) {
        self.dropped_messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of messages that could not be used: tampered with, replayed, or from a wrong sender.
    #[must_use]
    pub fn dropped_messages(&self) -> u64 {
        self.dropped_messages.load(Ordering::Relaxed)
    }

    pub(crate) fn set_mailbox_backlog(&self, count: u64, oldest_at: Option<Timestamp>) {
        *self.mailbox_backlog.lock().unwrap_or_else(PoisonError::into_inner) = Counted { count, oldest_at };
    }

    /// Returns the backlog of node messages, as far as the mailbox was read.
    #[must_use]
    pub fn mailbox_backlog(&self) -> Backlog {
        self.mailbox_backlog.lock().unwrap_or_else(PoisonError::into_inner).at(self.now())
    }

    /// Returns the backlog of committed effects that are not delivered yet, of all agbots of the database.
    #[must_use]
    pub fn outbox_backlog(&self) -> Backlog {
        self.outbox.counted().at(self.now())
    }

    pub(crate) fn set_loaded(&self) {
        self.is_loaded.store(true, Ordering::Release);
    }

    /// Returns whether everything it serves has been read at least once.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }
}

fn load_or_make_key(path: &Path) -> Result<PrivateKey, AgbotError> {
    let unusable = |source| AgbotError::KeyFile { path: path.display().to_string(), source };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(PrivateKey::from_pem(&text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = PrivateKey::generate(&mut rand::rng(), KEY_BITS)?;
            write_secret(path, &key.to_pkcs1_pem()?).map_err(unusable)?;
            // Another instance may have been faster: the key in the file is shared by all.
            let text = std::fs::read_to_string(path).map_err(unusable)?;
            Ok(PrivateKey::from_pem(&text)?)
        }
        Err(error) => Err(unusable(error)),
    }
}

/// Writes a new file readable by its owner only; an existing file is kept.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let temporary = path.with_extension(format!("new-{}", Uuid::new_v4()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&temporary, path);
    std::fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
