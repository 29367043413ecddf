//! The session with the hub: registration, workers, and the end of the registration by the hub.

use std::{sync::Arc, time::Duration};

use evenkeel_client::{Client, Credentials};
use evenkeel_ids::NodeId;
use tokio::time::Instant;

use super::{Core, FIRST_PAUSE};
use crate::{
    AgentError, clock,
    departure::Departure,
    files,
    hub::Hub,
    journal::{Journal, Registration},
    keyring,
    order::{Handle, Order},
    step::{Event, State},
    workers,
};

/// Number of consecutive refusals of the credentials, over this time, after which the node counts as deleted.
const REFUSALS: u32 = 3;
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Number of attempts to report to the hub that everything has stopped on a node that was deleted there.
const CONFIRMATIONS: u32 = 5;
/// Log line for a report that the hub did not accept.
const UNCONFIRMED: &str = "the hub has no confirmation that everything has stopped: instances that may run only once start elsewhere when the node counts as down, or when an administrator confirms the stop";
/// Pause before the next check whether another agent still reports for the node.
const RETURN_PAUSE: Duration = Duration::from_secs(30);

/// Reports that everything has stopped on a node that was deleted at the hub; after a restart of the agent again, if the hub does not respond.
async fn confirm_departure(client: Client, node: NodeId, handle: Handle) {
    for attempt in 1..=CONFIRMATIONS {
        match client.confirm_departure(&node).await {
            Err(error) if !error.is_unauthorized() => {
                tracing::debug!(%error, "the hub has not confirmed yet that everything has stopped");
                tokio::time::sleep(FIRST_PAUSE * attempt).await;
            }
            // If the hub does not know the node at all, nothing waits for the report.
            Ok(_) | Err(_) => {
                // A core that has ended reports it again.
                let _ended = handle.order(Order::Departed(node)).await;
                return;
            }
        }
    }
    tracing::warn!(%node, "{UNCONFIRMED}");
}

impl Core {
    /// Only a node that the hub once knew can have been deleted there.
    pub(super) fn refused(&mut self) {
        self.refusals += 1;
        let was_known = self.journal.registration.as_ref().is_some_and(|registration| registration.was_known);
        let since = *self.refused_since.get_or_insert_with(Instant::now);
        if self.refusals < REFUSALS || self.is_leaving {
            return;
        }
        if was_known && since.elapsed() >= REFUSED_FOR {
            tracing::warn!("this node no longer exists on the hub: it is unregistered");
            self.is_leaving = true;
            self.session = None;
            self.apply(Event::Deleted);
        }
    }

    /// Stops reporting, because another agent reports for the node. Services continue; those with a lease end with it.
    pub(super) fn give_way(&mut self, why: &str) {
        if self.session.take().is_none() {
            // Several calls are refused at once.
            return;
        }
        if self.return_at.is_none() {
            let text = format!("stopped reporting to the hub: {why}");
            tracing::error!(why, "another agent has the identity of this node: this one no longer reports");
            self.journal.log_event(text, clock::now_secs());
        }
        self.journal.superseded = Some(why.to_owned());
        self.journal.state.doubt_reports();
        self.return_at = Some(Instant::now() + RETURN_PAUSE);
    }

    /// Reports again when the other agent is gone.
    pub(super) async fn try_to_return(&mut self) -> Result<(), AgentError> {
        let is_due = self.return_at.is_some_and(|at| Instant::now() >= at);
        if is_due && self.session.is_none() {
            self.begin_session().await?;
        }
        Ok(())
    }

    pub(super) async fn register(
        &mut self,
        registration: Registration,
        token: &str,
    ) -> Result<(), AgentError> {
        files::write_atomic(&self.token_path(), token.as_bytes(), 0o600)?;
        self.journal.registration = Some(registration);
        self.file.save(&self.journal)?;
        self.begin_session().await
    }

    /// Records that the hub must receive a report when everything has stopped on this node, which was deleted there.
    /// Until then, instances that may run only once do not start elsewhere.
    pub(super) fn depart(&mut self) -> Result<(), AgentError> {
        let Some(registration) = self.journal.registration.clone() else { return Ok(()) };
        if let Some(token) = self.token(&registration)? {
            self.departures.begin(Departure { org: registration.org, id: registration.id, token });
        }
        Ok(())
    }

    /// Reports to the hub the nodes, deleted there, on which nothing runs any longer.
    pub(super) fn confirm_departures(&mut self) {
        if !self.journal.state.leftovers.is_empty() {
            return;
        }
        for departure in self.departures.begin_reports() {
            let node = NodeId::new(&departure.org, &departure.id);
            match self.client_of(departure) {
                Ok(client) => drop(tokio::spawn(confirm_departure(client, node, self.handle.clone()))),
                Err(error) => tracing::warn!(%node, %error, "{UNCONFIRMED}"),
            }
        }
    }

    fn client_of(&self, departure: Departure) -> Result<Client, AgentError> {
        let Departure { org, id, token } = departure;
        let credentials = Credentials::new(&org, &id, token);
        Client::new(self.settings.hub_transport()?, "/v1", credentials)
            .map_err(|error| AgentError::Setting(error.to_string()))
    }

    /// Resets the node to unregistered; with an identity in the settings it registers again.
    pub(super) async fn forget(&mut self) -> Result<(), AgentError> {
        self.session = None;
        let log = std::mem::take(&mut self.journal.log);
        let kept = std::mem::take(&mut self.journal);
        let state = State { leftovers: kept.state.unstopped_keys().collect(), ..State::default() };
        self.journal = Journal {
            state,
            agent: kept.agent,
            hardware_id: kept.hardware_id,
            next_entry: kept.next_entry,
            first_entry: kept.next_entry,
            log,
            ..Journal::default()
        };
        self.refusals = 0;
        self.refused_since = None;
        self.pauses.clear();
        keyring::remove(&self.settings.data_dir)?;
        files::remove(&self.token_path())?;
        self.prepare().await
    }

    fn token_path(&self) -> std::path::PathBuf {
        self.settings.data_dir.join("registration-token")
    }

    fn token(&self, registration: &Registration) -> Result<Option<String>, AgentError> {
        if let Some(identity) = &self.settings.identity
            && (&identity.org, &identity.id) == (&registration.org, &registration.id)
        {
            return Ok(Some(identity.token.clone()));
        }
        Ok(files::read_optional(&self.token_path())?)
    }

    /// Returns the hub of the registered node. Before the registration is complete no worker uses it, but policy and user input
    /// can already be written.
    pub(super) async fn current_hub(&self) -> Option<Arc<Hub>> {
        if let Some(session) = &self.session {
            return Some(session.hub.clone());
        }
        let registration = self.journal.registration.as_ref().filter(|one| !one.is_configured)?;
        self.open_hub(registration)
            .await
            .inspect_err(|error| tracing::warn!(%error, "the hub cannot be used for the registration"))
            .ok()
    }

    /// Starts the workers that use the hub, when the registration is complete.
    pub(super) async fn begin_session(&mut self) -> Result<(), AgentError> {
        self.session = None;
        let Some(registration) =
            self.journal.registration.clone().filter(|registration| registration.is_configured)
        else {
            return Ok(());
        };
        let hub = self.open_hub(&registration).await?;
        self.journal.state.node = format!("{}/{}", registration.org, registration.id);
        self.file.save(&self.journal)?;
        self.session = Some(workers::begin(
            self.driver.clone(),
            hub,
            self.handle.clone(),
            self.settings.clone(),
            self.machine.clone(),
            registration.pattern,
        ));
        Ok(())
    }

    async fn open_hub(&self, registration: &Registration) -> Result<Arc<Hub>, AgentError> {
        let Some(token) = self.token(registration)? else {
            return Err(AgentError::Setting(format!(
                "no token for node {}/{}",
                registration.org, registration.id
            )));
        };
        let directory = self.settings.data_dir.clone();
        let key = tokio::task::spawn_blocking(move || keyring::load_or_create(&directory))
            .await
            .map_err(|error| AgentError::Setting(error.to_string()))??;
        let credentials = Credentials::new(&registration.org, &registration.id, token);
        let setting = |error: evenkeel_client::ClientError| AgentError::Setting(error.to_string());
        let exchange =
            Client::new(self.settings.hub_transport()?, "/v1", credentials.clone()).map_err(setting)?;
        let exchange = exchange.of_run(self.run.clone());
        let agbot = Client::new(self.settings.agbot_transport()?, "", credentials).map_err(setting)?;
        let node = NodeId::new(&registration.org, &registration.id);
        Ok(Arc::new(Hub::new(node, exchange, agbot, Arc::new(key))))
    }
}
