//! The one task that owns the journal: applies events, saves them, and starts the resulting commands.
//!
//! Decisions are made in `step`; this module adds clock, disk and network. No acknowledgement is sent and no command starts
//! before the journal is on disk.

mod ending;
mod session;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use evenkeel_client::RunHeader;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    AgentError, AgentSettings, clock,
    contact::Outage,
    departure::Departures,
    drivers::{Driver, ServiceSpec},
    effects::{self, Context},
    installed,
    journal::{Journal, JournalFile, Registration},
    machine::Machine,
    order::{Handle, Order},
    step::{Command, Event, LeasedTask},
    upgrade::{self, Replacement},
    workers::Session,
};

/// Uptime after which an installed program counts as started although the hub does not respond.
const GOT_GOING: Duration = Duration::from_secs(60);
/// First pause after a failed command; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Timeout of the driver's adoption of running services.
const LONGEST_TAKE_OVER: Duration = Duration::from_secs(30);

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

/// Parts that the task is built from.
pub(crate) struct Parts {
    pub settings: Arc<AgentSettings>,
    pub machine: Arc<Machine>,
    pub driver: Arc<dyn Driver>,
    pub file: JournalFile,
    pub journal: Journal,
    pub handle: Handle,
    /// The run of this agent, which every request to the hub names.
    pub run: Arc<RunHeader>,
    /// Signals that the set of tasks that need a lease has changed.
    pub leases_changed: Arc<Notify>,
    /// Nodes whose end the hub is to know.
    pub departures: Departures,
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
    /// Time of the next check whether this agent may report for its node, while another one does.
    return_at: Option<Instant>,
    is_leaving: bool,
    departures: Departures,
    replacement: Option<Replacement>,
    began: Instant,
    /// True until this program has shown that it works.
    is_new: bool,
    /// True until the supervising program has been notified that this one works.
    owes_confirmation: bool,
    acknowledgements: Vec<oneshot::Sender<()>>,
    run: Arc<RunHeader>,
    leases_changed: Arc<Notify>,
    leases: Vec<LeasedTask>,
}

impl Core {
    pub fn new(parts: Parts) -> Self {
        let Parts { settings, machine, driver, file, journal, handle, run, leases_changed, departures } =
            parts;
        Self {
            run,
            leases_changed,
            leases: Vec::new(),
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
            return_at: None,
            is_leaving: false,
            departures,
            replacement: None,
            began: Instant::now(),
            is_new: true,
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
                Some(order) = orders.recv() => self.handle_order(order).await?,
                _ = tick.tick() => {
                    self.apply(Event::Tick);
                    self.record_silence();
                    self.try_to_return().await?;
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
    fn record_heartbeat(&mut self, ms: u64) {
        self.journal.record_heartbeat(ms);
        self.record_silence();
    }

    /// Ends the tasks whose leases have expired.
    fn record_silence(&mut self) {
        let secs = clock::uptime_ms().saturating_sub(self.journal.heartbeat_ms()) / 1_000;
        self.apply(Event::Silent { secs });
    }

    async fn handle_order(&mut self, order: Order) -> Result<(), AgentError> {
        match order {
            Order::Apply(event, done) => {
                self.apply(*event);
                self.acknowledgements.extend(done);
            }
            Order::With(work, done) => {
                work(&mut self.journal);
                self.acknowledgements.push(done);
            }
            Order::Done(key, outcome) => self.done(key, *outcome),
            Order::Heard => {
                self.refusals = 0;
                self.refused_since = None;
                self.return_at = None;
                if self.journal.superseded.take().is_some() {
                    tracing::info!("the other agent has stopped reporting: this one reports again");
                    self.journal.log_event("reports to the hub again".to_owned(), clock::now_secs());
                }
                if let Some(registration) = &mut self.journal.registration {
                    registration.was_known = true;
                }
            }
            Order::HeartbeatSent(ms) => self.record_heartbeat(ms),
            Order::GuardianChanged => {
                if let Some(session) = &self.session {
                    session.report_guardian();
                }
            }
            Order::Refused => self.refused(),
            Order::Superseded(why) => self.give_way(&why),
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
            Order::Departed(node) => self.departures.end(&node),
            Order::Forget(departs, done) => {
                if departs {
                    self.depart()?;
                }
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
            self.journal.log_event(note, now);
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
                "service cannot be started or stopped; retrying"
            ),
            _ => tracing::debug!(command = key, error, "command failed"),
        }
        self.pauses.insert(key, Pause { until: now + length, length, outage });
        if let Some(key) = service {
            self.apply(Event::ServiceDelayed { key, error });
        }
    }

    /// Writes the journal, replies to the waiting callers, and starts commands.
    async fn settle(&mut self) -> Result<(), AgentError> {
        let leases = self.journal.state.leases();
        if leases != self.leases {
            self.leases = leases;
            self.leases_changed.notify_one();
        }
        let has_reported = self.journal.state.has_reported();
        let commands = self.journal.state.plan();
        self.journal.state.begin_reports(&commands);
        if let Err(error) = self.file.save(&self.journal) {
            // Without a reply the callers retry; nothing is done that is not on disk.
            tracing::error!(%error, "the journal cannot be written");
            self.acknowledgements.clear();
            return Ok(());
        }
        for done in self.acknowledgements.drain(..) {
            // The caller may have stopped waiting.
            let _unheard = done.send(());
        }
        let works = has_reported || self.began.elapsed() >= GOT_GOING;
        if works && std::mem::take(&mut self.is_new) {
            installed::record_success(&self.settings.data_dir);
        }
        if self.owes_confirmation && has_reported {
            upgrade::confirm(&self.settings.data_dir, &self.settings.software_version)?;
            self.owes_confirmation = false;
        }
        self.act(commands);
        if self.is_leaving && self.journal.state.is_stopped() {
            self.is_leaving = false;
            self.depart()?;
            self.forget().await?;
        }
        self.confirm_departures();
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
                let _ended = handle.order(Order::Done(key, Box::new(outcome))).await;
            });
        }
        let under_way = &self.under_way;
        self.pauses.retain(|key, pause| under_way.contains_key(key) || !pause.is_over(now));
    }
}
