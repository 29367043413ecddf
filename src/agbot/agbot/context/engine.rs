//! The engine as the other parts see it: its input queue, its model, and what it has decided last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use evenkeel_explain::placements::{self, Placements};
use evenkeel_ids::{NodeId, PolicyId};
use evenkeel_metrics::Histogram;
use evenkeel_planner_model::command::MessageFate;
use evenkeel_planner_model::event::Event;
use evenkeel_planner_model::model::Model;
use evenkeel_planner_record::report::Placement;
use evenkeel_planner_record::settings::PlannerSettings;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::inert::InertPolicies;

/// Capacity of the engine's input queue; observers wait when it is full.
const QUEUE: usize = 4_096;

/// An input of the engine.
pub enum Input {
    /// Events, in order.
    Events(Vec<Event>),
    /// A message of a node; its fate is sent back.
    Message(Box<Event>, oneshot::Sender<MessageFate>),
    /// Sent back when all earlier events are in the model.
    Marker(oneshot::Sender<()>),
}

/// Reads the clock, the only place where the agbot does, with the precision of the database.
fn clock_time() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// The engine: takes events and messages, and shows the model and the newest placements.
pub struct EngineHandle {
    /// Policies that select nothing.
    pub inert: InertPolicies,
    /// Durations of decisions.
    pub decision_times: Histogram,
    clock: fn() -> Timestamp,
    inputs: mpsc::Sender<Input>,
    model: RwLock<Model>,
    placements: Mutex<Placements>,
}

impl EngineHandle {
    /// An engine with an empty model, and what its task receives.
    pub(super) fn new(settings: PlannerSettings) -> (EngineHandle, mpsc::Receiver<Input>) {
        let (sender, inputs) = mpsc::channel(QUEUE);
        let handle = EngineHandle {
            inert: InertPolicies::default(),
            decision_times: Histogram::default(),
            clock: clock_time,
            inputs: sender,
            model: RwLock::new(Model::new(settings)),
            placements: Mutex::default(),
        };
        (handle, inputs)
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.clock)()
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
    pub async fn apply_events(&self, events: Vec<Event>) {
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

    /// Returns the newest placements of the organization's pairs that were planned and are wanted, at most `limit` in order.
    ///
    /// # Shape
    /// The pairs after the given one; `None` begins with the first.
    #[must_use]
    pub fn placements(
        &self,
        org: &str,
        (after, limit): (Option<&(NodeId, PolicyId)>, usize),
        is_wanted: impl Fn(&(NodeId, PolicyId)) -> bool,
    ) -> Vec<((NodeId, PolicyId), Placement)> {
        let kept = self.kept_placements();
        let found = kept.of_org(org, after).filter(|(pair, _)| is_wanted(pair)).take(limit);
        let found = found.map(|(pair, placement)| (pair.clone(), placement.clone())).collect();
        drop(kept);
        self.as_shown(found)
    }

    /// Returns the number of those placements, at most `most`.
    #[must_use]
    pub fn count_placements(
        &self,
        org: &str,
        most: usize,
        is_wanted: impl Fn(&(NodeId, PolicyId)) -> bool,
    ) -> usize {
        let kept = self.kept_placements();
        kept.of_org(org, None).filter(|(pair, _)| is_wanted(pair)).take(most).count()
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
}
