//! The one task that owns the journal: applies events, saves them, and starts the resulting commands.
//!
//! Decisions are made in `step`; here they only meet time, disk and network. No acknowledgement is sent and no command starts
//! before the journal is on disk.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use evenkeel_client::{Client, Credentials};
use evenkeel_ids::NodeId;
use evenkeel_wire::exchange::node::{AgentState, PatchNode};
use evenkeel_wire::exchange::node_part::PutNodeStatus;
use evenkeel_wire::exchange::node_report::NodeMonitorState;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    AgentError, AgentSettings, clock,
    contact::Outage,
    drivers::{Driver, ServiceSpec},
    effects::{self, Context},
    files,
    hub::Hub,
    journal::{Journal, JournalFile, Registration},
    keyring,
    machine::Machine,
    order::{Handle, Order},
    step::{Command, Event, State},
    upgrade::{self, Replacement},
    workers::{self, Session},
};

/// Number of consecutive refusals of the credentials, over this time, after which the node counts as deleted.
const REFUSALS: u32 = 3;
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// First pause after a failed command; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How often the hub is told that everything has stopped on a node that was deleted there.
const CONFIRMATIONS: u32 = 5;
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Timeout of the driver's adoption of running services.
const LONGEST_TAKE_OVER: Duration = Duration::from_secs(30);
/// Timeout of the last report of an agent that ends.
const LONGEST_REPORT: Duration = Duration::from_secs(5);

/// The backoff of a failed command.
struct Pause {
    until: Instant,
    length: Duration,
    outage: Outage,
}

impl Pause {
    /// Returns whether it is too old to be continued by the next failure.
    fn is_over(&self, now: Instant) -> bool {
        now >= self.until + self.length * 4
    }
}

/// The state of the task.
pub(crate) struct Core {
    settings: Arc<AgentSettings>,
    machine: Arc<Machine>,
    driver: Arc<dyn Driver>,
    journal: Journal,
    file: JournalFile,
    handle: Handle,
    session: Option<Session>,
    /// Commands in flight, each with the service that it starts or stops.
    under_way: BTreeMap<String, Option<String>>,
    pauses: BTreeMap<String, Pause>,
    refusals: u32,
    refused_since: Option<Instant>,
    is_leaving: bool,
    replacement: Option<Replacement>,
    /// Whether the supervising program still has to be notified that this one works.
    owes_confirmation: bool,
    acknowledgements: Vec<oneshot::Sender<()>>,
    /// When the last heartbeat that the hub recorded was sent.
    heartbeat_at: Instant,
}

impl Core {
    pub fn new(
        settings: Arc<AgentSettings>,
        machine: Arc<Machine>,
        driver: Arc<dyn Driver>,
        file: JournalFile,
        journal: Journal,
        handle: Handle,
    ) -> Self {
        let silent_secs = journal.state.heartbeat_at.map_or(0, |at| clock::now_secs().saturating_sub(at));
        let now = Instant::now();
        let heartbeat_at = now.checked_sub(Duration::from_secs(silent_secs)).unwrap_or(now);
        Self {
            heartbeat_at,
            settings,
            machine,
            driver,
            journal,
            file,
            handle,
            session: None,
            under_way: BTreeMap::new(),
            pauses: BTreeMap::new(),
            refusals: 0,
            refused_since: None,
            is_leaving: false,
            replacement: None,
            owes_confirmation: upgrade::is_watched(),
            acknowledgements: Vec::new(),
        }
    }

    /// Runs until canceled, or until another program takes over.
    pub async fn run(
        mut self,
        mut orders: mpsc::Receiver<Order>,
        shutdown: CancellationToken,
    ) -> Result<Option<Replacement>, AgentError> {
        self.prepare().await?;
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(order) = orders.recv() => self.take(order).await?,
                _ = tick.tick() => {
                    self.apply(Event::Tick);
                    self.check_leases();
                }
            }
            self.settle().await?;
            if self.replacement.is_some() {
                break;
            }
        }
        self.end().await?;
        Ok(self.replacement)
    }

    /// Adopts running services before anything else, including calls to the hub.
    async fn prepare(&mut self) -> Result<(), AgentError> {
        if let (None, Some(identity)) = (&self.journal.registration, &self.settings.identity) {
            let registration = Registration {
                org: identity.org.clone(),
                id: identity.id.clone(),
                name: identity.id.clone(),
                is_configured: true,
                changed_at: clock::now_secs(),
                ..Registration::default()
            };
            self.journal.registration = Some(registration);
        }
        self.journal.state.builtin = self.machine.properties();
        self.take_over().await;
        self.file.save(&self.journal)?;
        self.begin_session().await
    }

    /// Keeps services of agreements, ends all others, and restarts those that ended meanwhile, unless they belong to tasks. A service whose start was ordered
    /// just before a crash runs without the journal's knowledge; it is kept, and started in the usual way if it does not run.
    async fn take_over(&self) {
        let state = &self.journal.state;
        let started: Vec<_> = state.started().filter_map(|key| self.spec(key)).collect();
        let starting = state.starting().filter_map(|key| self.spec(&key));
        let may_run: Vec<_> = started.iter().cloned().chain(starting).collect();
        match timeout(LONGEST_TAKE_OVER, self.driver.adopt(&may_run)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "running services cannot be taken over now"),
            Err(_) => {
                tracing::warn!("running services cannot be taken over now: the driver does not respond");
            }
        }
        // A task that has ended is not started again.
        for spec in started.iter().filter(|spec| spec.restarts()) {
            if let Err(error) = self.driver.start(spec).await {
                tracing::warn!(agreement.id = spec.key, %error, "service cannot be started again");
            }
        }
    }

    /// Returns a service ready for a driver; `None` when its deployment is invalid.
    fn spec(&self, key: &str) -> Option<ServiceSpec> {
        let (journal, settings, machine) = (&self.journal, &self.settings, &self.machine);
        let spec = match journal.state.agreements.get(key) {
            Some(agreement) => effects::service_spec(agreement, journal, settings, machine),
            None => {
                let instance = journal.state.instances.get(key)?;
                effects::dependency_spec(key, &instance.dependency, journal, settings, machine)
            }
        };
        spec.ok()
    }

    /// Records a heartbeat; over a restart only while a lease depends on it.
    fn note_heartbeat(&mut self, at: Instant) {
        self.heartbeat_at = at;
        let secs = clock::now_secs().saturating_sub(at.elapsed().as_secs());
        self.journal.state.heartbeat_at = self.journal.state.shortest_lease().map(|_| secs);
    }

    /// Ends the tasks whose lease is over.
    fn check_leases(&mut self) {
        let silent_secs = self.heartbeat_at.elapsed().as_secs();
        if self.journal.state.shortest_lease().is_some_and(|lease| silent_secs >= u64::from(lease)) {
            self.apply(Event::LeaseExpired { silent_secs });
        }
    }

    async fn take(&mut self, order: Order) -> Result<(), AgentError> {
        match order {
            Order::Apply(event, done) => {
                self.apply(*event);
                self.acknowledgements.extend(done);
            }
            Order::With(work, done) => {
                work(&mut self.journal);
                self.acknowledgements.push(done);
            }
            Order::Done(key, outcome) => self.done(key, outcome),
            Order::Heard => {
                self.refusals = 0;
                self.refused_since = None;
                if let Some(registration) = &mut self.journal.registration {
                    registration.was_known = true;
                }
            }
            Order::HeartbeatSent(at) => self.note_heartbeat(at),
            Order::Refused => self.refused(),
            Order::Register(registration, token, done) => {
                self.register(registration, &token).await?;
                self.acknowledgements.push(done);
            }
            Order::Configure(done) => {
                if let Some(registration) = &mut self.journal.registration {
                    registration.is_configured = true;
                    registration.changed_at = clock::now_secs();
                }
                self.begin_session().await?;
                self.acknowledgements.push(done);
            }
            // The caller may have stopped waiting.
            Order::Hub(give) => drop(give.send(self.current_hub().await)),
            Order::Hush(done) => {
                let ended = self.session.take().map(Session::end);
                tokio::spawn(async move {
                    if let Some(ended) = ended {
                        ended.await;
                    }
                    // The caller may have stopped waiting.
                    let _unheard = done.send(());
                });
            }
            Order::Announce => {
                if let Some(session) = &self.session {
                    session.announce();
                }
            }
            Order::Replace(replacement) => self.replacement = Some(replacement),
            Order::Forget(done) => {
                self.forget().await?;
                self.acknowledgements.push(done);
            }
        }
        Ok(())
    }

    fn apply(&mut self, event: Event) {
        let now = clock::now_secs();
        if let Some(note) = self.journal.state.apply(event, now).note {
            tracing::info!("{note}");
            self.journal.note(note, now);
        }
    }

    fn done(&mut self, key: String, outcome: Result<Option<Event>, String>) {
        let service = self.under_way.remove(&key).flatten();
        let error = match outcome {
            Ok(event) => {
                self.pauses.remove(&key);
                event.into_iter().for_each(|event| self.apply(event));
                return;
            }
            Err(error) => error,
        };
        let now = Instant::now();
        let (length, mut outage) = match self.pauses.get(&key) {
            Some(pause) => ((pause.length * 2).min(LONGEST_PAUSE), pause.outage),
            None => (FIRST_PAUSE, Outage::begin(now)),
        };
        match (&service, outage.warning_due(now)) {
            (Some(service), Some(lasted)) => tracing::warn!(
                service.key = service,
                error,
                lasted_secs = lasted.as_secs(),
                "service cannot be started or stopped; it is tried again"
            ),
            _ => tracing::debug!(command = key, error, "command failed"),
        }
        self.pauses.insert(key, Pause { until: now + length, length, outage });
        if let Some(key) = service {
            self.apply(Event::ServiceDelayed { key, error });
        }
    }

    /// Only a node that the hub once knew can have been deleted there.
    fn refused(&mut self) {
        self.refusals += 1;
        let was_known = self.journal.registration.as_ref().is_some_and(|registration| registration.was_known);
        let since = *self.refused_since.get_or_insert_with(Instant::now);
        if self.refusals < REFUSALS || self.is_leaving {
            return;
        }
        if was_known && since.elapsed() >= REFUSED_FOR {
            tracing::warn!("the hub no longer knows this node: it is unregistered");
            self.is_leaving = true;
            self.session = None;
            self.apply(Event::Deleted);
        }
    }

    /// Writes the journal, replies to the waiting callers, and starts commands.
    async fn settle(&mut self) -> Result<(), AgentError> {
        let has_reported = self.journal.state.has_reported();
        let commands = self.journal.state.plan();
        self.journal.state.begin_reports(&commands);
        if let Err(error) = self.file.save(&self.journal) {
            // Without a reply the callers repeat; nothing is done that is not on disk.
            tracing::error!(%error, "the journal cannot be written");
            self.acknowledgements.clear();
            return Ok(());
        }
        for done in self.acknowledgements.drain(..) {
            // The caller may have stopped waiting.
            let _unheard = done.send(());
        }
        if self.owes_confirmation && has_reported {
            upgrade::confirm(&self.settings.data_dir, &self.settings.software_version)?;
            self.owes_confirmation = false;
        }
        self.act(commands);
        if self.is_leaving && self.journal.state.is_stopped() {
            self.is_leaving = false;
            self.confirm_departure().await;
            self.forget().await?;
        }
        Ok(())
    }

    fn act(&mut self, commands: Vec<Command>) {
        let now = Instant::now();
        for command in commands {
            let key = command.key();
            let is_pausing = self.pauses.get(&key).is_some_and(|pause| now < pause.until);
            if is_pausing || self.under_way.contains_key(&key) {
                continue;
            }
            self.under_way.insert(key.clone(), command.service().map(str::to_owned));
            let context = Context {
                driver: self.driver.clone(),
                hub: self.session.as_ref().map(|session| session.hub.clone()),
                settings: self.settings.clone(),
            };
            let work = effects::prepare(&command, &self.journal, &self.machine, context);
            let handle = self.handle.clone();
            tokio::spawn(async move {
                let outcome = work.await;
                // A core that has ended does not need the outcome.
                let _ended = handle.order(Order::Done(key, outcome)).await;
            });
        }
        let under_way = &self.under_way;
        self.pauses.retain(|key, pause| under_way.contains_key(key) || !pause.is_over(now));
    }

    async fn register(&mut self, registration: Registration, token: &str) -> Result<(), AgentError> {
        files::write_atomic(&self.token_path(), token.as_bytes(), 0o600)
            .map_err(|error| AgentError::DataDir(error.to_string()))?;
        self.journal.registration = Some(registration);
        self.file.save(&self.journal)?;
        self.begin_session().await
    }

    /// Tells the hub that everything has stopped on this node, which was deleted there. Until it knows that, nothing that may run once only
    /// starts elsewhere; when it cannot be told it waits for longer.
    async fn confirm_departure(&self) {
        let Some(registration) = &self.journal.registration else { return };
        let Ok(hub) = self.open_hub(registration).await else { return };
        tokio::spawn(async move {
            for attempt in 1..=CONFIRMATIONS {
                let Err(error) = hub.exchange.confirm_departure(&hub.node).await else { return };
                tracing::debug!(%error, "the hub does not know yet that everything has stopped");
                tokio::time::sleep(FIRST_PAUSE * attempt).await;
            }
        });
    }

    /// Resets the node to unregistered; with an identity in the settings it registers again.
    async fn forget(&mut self) -> Result<(), AgentError> {
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
        files::remove(&self.token_path()).map_err(|error| AgentError::DataDir(error.to_string()))?;
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
        files::read_optional(&self.token_path()).map_err(|error| AgentError::DataDir(error.to_string()))
    }

    /// Returns the hub of the registered node. Before the registration is complete no worker uses it, but policy and user input
    /// can already be written.
    async fn current_hub(&self) -> Option<Arc<Hub>> {
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
    async fn begin_session(&mut self) -> Result<(), AgentError> {
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
        let agbot = Client::new(self.settings.agbot_transport()?, "", credentials).map_err(setting)?;
        let node = NodeId::new(&registration.org, &registration.id);
        Ok(Arc::new(Hub::new(node, exchange, agbot, Arc::new(key))))
    }

    /// Ends; services continue unless the settings stop them.
    async fn end(&mut self) -> Result<(), AgentError> {
        let mut hub = None;
        if let Some(session) = self.session.take() {
            hub = Some(session.hub.clone());
            // A worker's last call must not follow the report of the stop.
            session.end().await;
        }
        // Another program continues with the services: the one that takes over, or the supervising one.
        let is_continued = self.replacement.is_some() || upgrade::is_watched();
        if let Some(hub) = &hub {
            let state = if is_continued { NodeMonitorState::Upgrade } else { NodeMonitorState::Maintenance };
            report_absence(hub, state).await;
        }
        if self.settings.stops_services && !is_continued {
            let keys: Vec<String> = self.journal.state.running_keys().collect();
            for outcome in futures_util::future::join_all(keys.iter().map(|key| self.driver.stop(key))).await
            {
                if let Err(error) = outcome {
                    tracing::warn!(%error, "a service cannot be stopped");
                }
            }
            if let Some(hub) = hub {
                report_stop(&hub).await;
            }
        }
        self.file.save(&self.journal)
    }
}

/// Reports to the hub that the agent ends on purpose. It ends all the same if the hub does not hear that.
///
/// # Source
/// Orchestration A10.1.
async fn report_absence(hub: &Hub, state: NodeMonitorState) {
    match timeout(LONGEST_REPORT, workers::report_monitor_state(hub, state)).await {
        Ok(Ok(())) => {}
        // A third-party exchange does not know the state; it detects missing heartbeats.
        Ok(Err(error)) if matches!(error.status(), Some(400 | 403..=405)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the stop of the agent was not announced to the hub"),
        Err(_) => tracing::warn!("the stop of the agent was not announced to the hub: it does not respond"),
    }
}

/// Reports to the hub that the agent ends, and that none of its services runs any more.
async fn report_stop(hub: &Hub) {
    let report = async {
        hub.put_status(&PutNodeStatus::default()).await?;
        let stopped = PatchNode { agent_state: Some(AgentState::Stopped), ..PatchNode::default() };
        hub.exchange.patch_node(&hub.node, &stopped).await
    };
    match timeout(LONGEST_REPORT, report).await {
        Ok(Ok(_)) => {}
        // A third-party exchange does not know the state; it detects missing heartbeats.
        Ok(Err(error)) if error.status() == Some(400) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the stop of the agent was not reported to the hub"),
        Err(_) => tracing::warn!("the stop of the agent was not reported to the hub: it does not respond"),
    }
}
