//! The agent's connection to the hub: calls with the node's credentials, and sealed messages to agbots.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use evenkeel_client::{Client, ClientError};
use evenkeel_ids::NodeId;
use evenkeel_wire::agreement::{
    envelope,
    keys::{PrivateKey, PublicKey},
};
use evenkeel_wire::exchange::message::PostMessage;
use evenkeel_wire::exchange::node_part::PutNodeStatus;

/// Seconds that an undelivered message stays in an agbot's mailbox.
const MESSAGE_TTL_SECS: i64 = 1800;
/// Time for which an agbot's key is cached.
const KEY_AGE: Duration = Duration::from_secs(60);

/// The hub, called with the node's credentials.
pub struct Hub {
    /// The node.
    pub node: NodeId,
    /// Calls to the exchange.
    pub exchange: Client,
    /// Calls to the agbot's own API.
    pub agbot: Client,
    /// The node's messaging key.
    pub key: Arc<PrivateKey>,
    keys: Mutex<BTreeMap<String, (Instant, PublicKey)>>,
}

/// The outcome of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the mailbox.
    Delivered,
    /// The agbot does not exist or has no key.
    NoReceiver,
}

impl Hub {
    /// Creates the connection.
    pub fn new(node: NodeId, exchange: Client, agbot: Client, key: Arc<PrivateKey>) -> Self {
        Self { node, exchange, agbot, key, keys: Mutex::default() }
    }

    /// Seals a message for an agbot (`org/id`) and puts it into its mailbox.
    ///
    /// # Errors
    /// [`ClientError`] when the exchange cannot be reached or refuses.
    pub async fn send(&self, agbot: &str, text: &str) -> Result<Delivery, ClientError> {
        let Some((org, id)) = agbot.split_once('/') else { return Ok(Delivery::NoReceiver) };
        let Some(receiver) = self.agbot_key(org, id).await? else { return Ok(Delivery::NoReceiver) };
        let (key, text) = (self.key.clone(), text.to_owned());
        let sealed = tokio::task::spawn_blocking(move || {
            envelope::seal(text.as_bytes(), &key, &receiver, &mut rand::rng())
        })
        .await
        .map_err(|error| ClientError::Request(error.to_string()))?
        .map_err(|error| ClientError::Request(error.to_string()))?;
        let message = PostMessage { message: sealed, ttl: MESSAGE_TTL_SECS };
        match self.exchange.send_to_agbot(org, id, &message).await {
            Ok(_) => Ok(Delivery::Delivered),
            Err(error) if error.is_not_found() => Ok(Delivery::NoReceiver),
            Err(error) => Err(error),
        }
    }

    /// Writes the node's status. Third-party exchanges refuse unknown members: these get the status without the failures of
    /// services.
    ///
    /// # Errors
    /// [`ClientError`] when the exchange cannot be reached or refuses.
    pub async fn put_status(&self, status: &PutNodeStatus) -> Result<(), ClientError> {
        let outcome = self.exchange.put_node_status(&self.node, status).await;
        let is_refused = outcome.as_ref().is_err_and(|error| error.status() == Some(400));
        if !is_refused || status.failures.is_empty() {
            return outcome.map(drop);
        }
        let plain = PutNodeStatus { failures: Vec::new(), ..status.clone() };
        self.exchange.put_node_status(&self.node, &plain).await.map(drop)
    }

    async fn agbot_key(&self, org: &str, id: &str) -> Result<Option<PublicKey>, ClientError> {
        let name = format!("{org}/{id}");
        let known = self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if let Some((since, key)) = known
            && since.elapsed() < KEY_AGE
        {
            return Ok(Some(key));
        }
        let Some(agbot) = self.exchange.agbot(org, id).await? else { return Ok(None) };
        let Ok(key) = PublicKey::from_base64(&agbot.public_key) else { return Ok(None) };
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.insert(name, (Instant::now(), key.clone()));
        Ok(Some(key))
    }
}
