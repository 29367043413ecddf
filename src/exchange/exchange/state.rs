//! The running exchange: everything handlers share.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_exchange_store::agbot_approval;
use evenkeel_exchange_store::identity;
use evenkeel_exchange_store::secret;
use evenkeel_http_server::limit::{FailedLoginReporter, FailedLogins};
use evenkeel_metrics::Metrics;
use evenkeel_oidc::{OidcError, Provider};
use evenkeel_runtime::worker::Workers;
use evenkeel_store::{Database, StoreError};
use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent_run::KnownRuns;
use crate::audit::Auditor;
use crate::audit::seal::AuditSealer;
use crate::auth::{BearerLogins, Credentials, SecretHasher, Withdrawals};
use crate::conversation::Conversations;
use crate::feed::{Feed, sequencer_tasks};
use crate::heartbeat::Heartbeats;
use crate::housekeeping::{Cleanup, HeartbeatWriter};
use crate::limit::Limiter;
use crate::mailbox_usage::MailboxUsage;
use crate::request_times::RequestTimes;
use crate::settings::ExchangeSettings;
use crate::transaction;
use crate::{ApiError, configuration};

/// Reason why an exchange did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The database does not respond or refuses a statement.
    #[error("the exchange could not read its database")]
    Store(#[from] StoreError),
    /// The first rows could not be made.
    #[error("the exchange could not make its first rows: {0}")]
    Seed(ApiError),
    /// The settings of the identity provider cannot be used.
    #[error(transparent)]
    Oidc(#[from] OidcError),
}

/// Maximum number of unapproved agbots that a start names in the log.
const MOST_NAMED_AGBOTS: i64 = 20;

struct Inner {
    database: Database,
    /// Settings in force; initially those of `configured`.
    settings: RwLock<Arc<ExchangeSettings>>,
    configured: Arc<ExchangeSettings>,
    credentials: Credentials,
    bearer_logins: Option<BearerLogins>,
    feed: Arc<Feed>,
    heartbeats: Heartbeats,
    agent_runs: KnownRuns,
    conversations: Conversations,
    auditor: Auditor,
    limiter: Limiter,
    mailbox_usage: MailboxUsage,
    failed_logins: FailedLogins,
    /// Permits for simultaneous writes, fewer than connections.
    write_permits: Arc<Semaphore>,
    request_times: RequestTimes,
    workers: Workers,
    tasks: TaskTracker,
}

/// The running exchange; cheap to clone.
#[derive(Clone)]
pub struct Exchange(Arc<Inner>);

/// Challenges of a 401 without and with an identity provider.
const BASIC: &str = "Basic realm=\"Evenkeel\", charset=\"UTF-8\"";
const BASIC_AND_BEARER: &str = "Basic realm=\"Evenkeel\", charset=\"UTF-8\", Bearer realm=\"Evenkeel\"";

impl Exchange {
    /// Starts an exchange on a migrated database; its workers end with `shutdown`.
    ///
    /// # Errors
    /// When the database does not respond or cannot be seeded.
    pub async fn start(
        database: Database,
        settings: ExchangeSettings,
        shutdown: CancellationToken,
    ) -> Result<Exchange, StartError> {
        let proposed: [u8; 32] = rand::random();
        let key = database
            .read(async |connection| secret::get_or_insert(connection, "credential", &proposed).await)
            .await?;
        let key: [u8; 32] =
            key.try_into().map_err(|_| StoreError::Corrupt { table: "exchange_secret", column: "value" })?;
        let hasher = SecretHasher::new(key, settings.login_slots);
        let root_password = settings.root_password.as_deref();
        let unsettled = crate::seed::make_missing(&database, &hasher, root_password, Timestamp::now())
            .await
            .map_err(StartError::Seed)?;
        let provider = settings.oidc.clone().map(Provider::new).transpose()?;
        let failed_logins = FailedLogins::default();
        let credentials = Credentials::new(database.clone(), hasher, failed_logins.clone());
        if let Some(password) = &settings.root_password {
            credentials.remember_root(password);
        }
        let configured = Arc::new(settings);
        let exchange = Exchange(Arc::new(Inner {
            credentials,
            bearer_logins: provider.map(BearerLogins::new),
            feed: Arc::new(Feed::load(database.clone()).await?),
            heartbeats: Heartbeats::new(database.clone()),
            agent_runs: KnownRuns::default(),
            conversations: Conversations::default(),
            auditor: Auditor::default(),
            limiter: Limiter::new(configured.rate_limits),
            mailbox_usage: MailboxUsage::default(),
            failed_logins,
            write_permits: Arc::new(Semaphore::new(transaction::permit_count(&database))),
            request_times: RequestTimes::default(),
            workers: Workers::default(),
            tasks: TaskTracker::new(),
            database,
            settings: RwLock::new(configured.clone()),
            configured,
        }));
        if let Some(stored) = unsettled {
            exchange.credentials().hold_root();
            let settling = exchange.clone().settle_root(stored);
            exchange.0.tasks.spawn(shutdown.clone().run_until_cancelled_owned(settling));
        }
        exchange.name_unapproved_agbots().await?;
        if exchange.database().read(async |connection| identity::has_imported(connection).await).await? {
            exchange.credentials().hasher().expect_imported();
        }
        exchange.spawn_workers(shutdown);
        Ok(exchange)
    }

    /// Names the agbots that wait for an administrator: after an upgrade they have fewer rights than before.
    async fn name_unapproved_agbots(&self) -> Result<(), StoreError> {
        let agbots = self
            .database()
            .read(async |connection| agbot_approval::list_unapproved(connection, MOST_NAMED_AGBOTS).await)
            .await?;
        for agbot in agbots {
            tracing::warn!(
                agbot.id = %agbot,
                "agbot `{agbot}` reaches the nodes of its owner only: an administrator approves it with `hzn exchange agbot approve {agbot}`"
            );
        }
        Ok(())
    }

    /// Compares the stored password of root with the configured one beside everything else: a start is not to wait for a slow hash.
    async fn settle_root(self, stored: String) {
        let Some(password) = &self.0.configured.root_password else { return };
        let (database, hasher) = (self.database(), self.credentials().hasher());
        while let Err(error) = crate::seed::settle_root(database, hasher, password, &stored, self.now()).await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "root's password could not be settled, trying again"
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.credentials().release_root();
    }

    fn spawn_workers(&self, shutdown: CancellationToken) {
        let tasks = &self.0.tasks;
        let workers = &self.0.workers;
        sequencer_tasks(self.0.feed.clone(), self.clone(), (workers, tasks), shutdown.clone());
        tasks.spawn(workers.run(AuditSealer::new(self.clone()), shutdown.clone()));
        tasks.spawn(workers.run(HeartbeatWriter::new(self.clone()), shutdown.clone()));
        tasks.spawn(workers.run(FailedLoginReporter(self.0.failed_logins.clone()), shutdown.clone()));
        tasks.spawn(workers.run(Cleanup(self.clone()), shutdown));
        if let Some(logins) = self.bearer_logins() {
            // A provider that is down does not make others wait.
            let provider = logins.provider().clone();
            tokio::spawn(async move { provider.prepare().await });
        }
        tasks.close();
    }

    /// Returns the periodic workers, with how their passes went.
    #[must_use]
    pub fn workers(&self) -> &Workers {
        &self.0.workers
    }

    /// Completes parked polls and ends streams, so that the listeners can drain; other requests continue.
    pub fn drain(&self) {
        self.0.feed.drain();
    }

    /// Waits for the workers to end after the shutdown token was cancelled; cancel it when the listeners have drained.
    pub async fn finish(&self) {
        self.0.tasks.wait().await;
    }

    /// Permits for simultaneous writes.
    pub(crate) fn write_permits(&self) -> &Arc<Semaphore> {
        &self.0.write_permits
    }

    /// Returns the current time. No other code of the exchange reads the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        // The database stores microseconds, and responses must equal what is read back later.
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    /// Writes the heartbeats and reports that are not written yet.
    pub(crate) async fn flush_heartbeats(&self) -> Result<(), StoreError> {
        self.heartbeats().flush(self.now()).await
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.0.database
    }

    /// The settings that hold now.
    #[must_use]
    pub fn settings(&self) -> Arc<ExchangeSettings> {
        self.0.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Largest accepted request body, in bytes, as long as the exchange runs.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.0.configured.max_body_bytes
    }

    /// Changes one setting of this exchange until it ends or reloads them.
    pub(crate) fn change_setting(&self, path: &str, value: &str) {
        let mut settings = (*self.settings()).clone();
        // The value was validated on write; another version of the program may know other settings.
        if configuration::set(&mut settings, path, value).is_ok() {
            *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        }
    }

    /// Takes back all changes of the settings.
    pub(crate) fn reload_settings(&self) {
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = self.0.configured.clone();
    }

    /// Creates the initial contents of an exchange as far as they are missing.
    pub(crate) async fn seed(&self) -> Result<(), ApiError> {
        let password = self.0.configured.root_password.as_deref();
        let (database, hasher) = (self.database(), self.credentials().hasher());
        let unsettled = crate::seed::make_missing(database, hasher, password, self.now()).await?;
        match (password, unsettled) {
            (Some(password), Some(stored)) => {
                crate::seed::settle_root(database, hasher, password, &stored, self.now()).await
            }
            _ => Ok(()),
        }
    }

    /// Checked logins.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.0.credentials
    }

    /// Logins with tokens of an identity provider, when one is configured.
    /// Returns the identity provider, if the settings have one.
    #[must_use]
    pub fn identity_provider(&self) -> Option<Provider> {
        self.bearer_logins().map(|logins| logins.provider().clone())
    }

    pub(crate) fn bearer_logins(&self) -> Option<&BearerLogins> {
        self.0.bearer_logins.as_ref()
    }

    /// Adds how long requests take, and what logins cost, to what a process shows of itself.
    pub fn register(&self, metrics: &Metrics) {
        self.0.request_times.register(metrics);
        self.0.failed_logins.register("exchange_failed_logins_total", metrics);
        let left_out = self.0.auditor.left_out_total().clone();
        let help = "Requests without an audit record: writes of a node that writes without end, and refused requests that were too many";
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        metrics.counted("exchange_unrecorded_requests_total", help, &[], move || left_out.value() as f64);
        let computed = self.0.credentials.hasher().computed().clone();
        let help = "Slow hashes of secrets: of logins that are not in memory, failed ones among them, and of secrets that are stored";
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        metrics.counted("exchange_slow_hashes_total", help, &[], move || computed.value() as f64);
    }

    pub(crate) fn request_times(&self) -> &RequestTimes {
        &self.0.request_times
    }

    /// The change feed.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.0.feed
    }

    /// Nodes that an agbot is talking to.
    pub(crate) fn conversations(&self) -> &Conversations {
        &self.0.conversations
    }

    /// Returns the heartbeats of nodes and agbots.
    #[must_use]
    pub fn heartbeats(&self) -> &Heartbeats {
        &self.0.heartbeats
    }

    /// The runs of agents that were heard.
    pub(crate) fn agent_runs(&self) -> &KnownRuns {
        &self.0.agent_runs
    }

    /// Audit records that are not in the database yet.
    pub(crate) fn auditor(&self) -> &Auditor {
        &self.0.auditor
    }

    /// Counts of requests and failed logins.
    pub(crate) fn limiter(&self) -> &Limiter {
        &self.0.limiter
    }

    /// Returns the usage of the mailboxes of agbots.
    pub(crate) fn mailbox_usage(&self) -> &MailboxUsage {
        &self.0.mailbox_usage
    }

    /// The log and the counts of failed logins.
    pub(crate) fn failed_logins(&self) -> &FailedLogins {
        &self.0.failed_logins
    }

    /// Logins that were withdrawn lately.
    pub(crate) fn withdrawals(&self) -> &Withdrawals {
        self.credentials().withdrawals()
    }

    /// Forgets a login that was withdrawn or changed; `id` `*` forgets all of the organization, `org` `*` all.
    pub(crate) fn forget(&self, org: &str, id: &str) {
        self.withdrawals().record(org, id);
        self.forget_cached(org, id);
        // What was found in a cache until now counts as withdrawn, too.
        self.withdrawals().record(org, id);
    }

    fn forget_cached(&self, org: &str, id: &str) {
        if org == "*" {
            self.0.credentials.forget_all();
            self.0.bearer_logins.iter().for_each(BearerLogins::forget_all);
            self.0.agent_runs.forget("*", "*");
        } else {
            self.0.credentials.forget(org, id);
            self.0.bearer_logins.iter().for_each(|logins| logins.forget(org, id));
            self.0.heartbeats.forget(org, id);
            self.0.agent_runs.forget(org, id);
        }
    }

    /// The kinds of credentials that are accepted, as a 401 names them.
    pub(crate) fn challenge(&self) -> &'static str {
        if self.bearer_logins().is_some() { BASIC_AND_BEARER } else { BASIC }
    }
}
