//! Orders to the core: how the workers and the API reach the task that owns the journal.

use std::sync::Arc;

use evenkeel_ids::NodeId;
use tokio::sync::{mpsc, oneshot};

use crate::{
    hub::Hub,
    journal::{Journal, Registration},
    step::Event,
    upgrade::Replacement,
};

/// An order to the core.
pub(crate) enum Order {
    /// Apply an event; the reply is sent when it is on disk.
    Apply(Box<Event>, Option<oneshot::Sender<()>>),
    /// Read or change the journal; the reply is sent when it is on disk.
    With(Box<dyn FnOnce(&mut Journal) + Send>, oneshot::Sender<()>),
    /// A command was carried out or failed.
    Done(String, Box<Result<Option<Event>, String>>),
    /// The hub responded.
    Heard,
    /// The hub recorded a heartbeat, not before this time in milliseconds since the boot.
    HeartbeatSent(u64),
    /// The state of the guardian has changed; the next request to the hub reports it.
    GuardianChanged,
    /// The hub refused the credentials.
    Refused,
    /// The hub refuses this agent, because another one has the identity of its node.
    Superseded(String),
    /// Register as a node.
    Register(Registration, String, oneshot::Sender<()>),
    /// Complete the registration.
    Configure(oneshot::Sender<()>),
    /// Return the hub of the registered node.
    Hub(oneshot::Sender<Option<Arc<Hub>>>),
    /// End the workers that communicate with the hub; done when the last call of each has returned.
    Hush(oneshot::Sender<()>),
    /// Remove the registration and everything that belongs to it; with `true` the hub waits for the report that everything has stopped.
    Forget(bool, oneshot::Sender<()>),
    /// The hub has confirmed that everything has stopped on a node that it deleted, or no longer requires it.
    Departed(NodeId),
    /// Report the monitor state again if it has changed.
    Announce,
    /// Let another program take over.
    Replace(Replacement),
}

/// The handle of the core.
#[derive(Clone)]
pub(crate) struct Handle {
    orders: mpsc::Sender<Order>,
}

/// The core has ended.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the agent is ending")]
pub(crate) struct Ended;

impl Handle {
    pub fn new() -> (Self, mpsc::Receiver<Order>) {
        let (orders, receiver) = mpsc::channel(64);
        (Self { orders }, receiver)
    }

    /// Applies an event and waits until it is on disk.
    pub async fn apply(&self, event: Event) -> Result<(), Ended> {
        let (done, wait) = oneshot::channel();
        self.order(Order::Apply(Box::new(event), Some(done))).await?;
        wait.await.map_err(|_| Ended)
    }

    /// Reads or changes the journal and waits until changes are on disk.
    pub async fn with<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Journal) -> R + Send + 'static,
    ) -> Result<R, Ended> {
        let (give, take) = oneshot::channel();
        let (done, wait) = oneshot::channel();
        // The caller may have stopped waiting for the result.
        let work = Box::new(move |journal: &mut Journal| drop(give.send(change(journal))));
        self.order(Order::With(work, done)).await?;
        wait.await.map_err(|_| Ended)?;
        take.await.map_err(|_| Ended)
    }

    pub async fn order(&self, order: Order) -> Result<(), Ended> {
        self.orders.send(order).await.map_err(|_| Ended)
    }
}
