//! The running exchange: everything handlers share.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_access::{Access, Caller, Decision, Facts, Target, decide, decide_with_facts};
use evenkeel_oidc::{OidcError, OidcSettings, Provider};
use evenkeel_store::exchange::audit::{self, Subject};
use evenkeel_store::exchange::change::{self, Change, NumberedChange};
use evenkeel_store::exchange::facts::{self, FactKind};
use evenkeel_store::exchange::secret;
use evenkeel_store::{Database, PgConnection, StoreError, Transaction};
use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::Auditor;
use crate::audit::request::AuditedRequest;
use crate::auth::{BearerLogins, Credentials, SecretHasher};
use crate::feed::{Feed, INTERNAL, Observer, sequencer_tasks};
use crate::heartbeat::Heartbeats;
use crate::limit::{Limiter, RateLimits, TrustedProxies};
use crate::{ApiError, configuration};

/// Settings of an exchange.
#[derive(Debug, Clone)]
pub struct ExchangeSettings {
    /// Password of `root/root`; `None` disables root.
    pub root_password: Option<String>,
    /// Largest accepted request body, in bytes.
    pub max_body_bytes: usize,
    /// Simultaneous slow password checks.
    pub login_slots: usize,
    /// Limits of contract section 8.
    pub limits: Limits,
    /// Age at which changes are removed.
    pub change_age: Duration,
    /// How often old changes and messages are removed.
    pub cleanup_period: Duration,
    /// Age at which audit records are removed; `None` keeps them.
    pub audit_age: Option<Duration>,
    /// How often callers and addresses may ask.
    pub rate_limits: RateLimits,
    /// Proxies whose word about the client's address is believed.
    pub trusted_proxies: TrustedProxies,
    /// Identity provider whose tokens are accepted; `None` accepts none.
    pub oidc: Option<OidcSettings>,
}

/// Limits of contract section 8; 0 switches a limit off, except for nodes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Nodes an account may own, and ceiling of an organization's own limit.
    pub nodes: i64,
    /// Agbots an account may own.
    pub agbots: i64,
    /// Services an account may own.
    pub services: i64,
    /// Patterns an account may own.
    pub patterns: i64,
    /// Deployment policies an account may own.
    pub deployment_policies: i64,
    /// Management policies an account may own.
    pub management_policies: i64,
    /// Agreements of one node or agbot.
    pub agreements: i64,
    /// Messages in one mailbox.
    pub messages: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            nodes: 45_000,
            agbots: 1_000,
            services: 1_000,
            patterns: 1_000,
            deployment_policies: 5_000,
            management_policies: 5_000,
            agreements: 0,
            messages: 0,
        }
    }
}

impl Default for ExchangeSettings {
    fn default() -> Self {
        ExchangeSettings {
            root_password: None,
            max_body_bytes: 1024 * 1024,
            // Half of the processors, so that a flood of logins leaves the other half to everybody else.
            login_slots: std::thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2)),
            limits: Limits::default(),
            change_age: Duration::from_secs(14_400),
            cleanup_period: Duration::from_secs(1_800),
            audit_age: Some(Duration::from_secs(90 * 86_400)),
            rate_limits: RateLimits::default(),
            trusted_proxies: TrustedProxies::default(),
            oidc: None,
        }
    }
}

/// Why an exchange did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The database does not answer or refuses a statement.
    #[error("the exchange could not read its database")]
    Store(#[from] StoreError),
    /// The first rows could not be made.
    #[error("the exchange could not make its first rows: {0}")]
    Seed(ApiError),
    /// The settings of the identity provider cannot be used.
    #[error(transparent)]
    Oidc(#[from] OidcError),
}

struct Inner {
    database: Database,
    /// What runs now; starts as `configured`.
    settings: RwLock<Arc<ExchangeSettings>>,
    configured: Arc<ExchangeSettings>,
    credentials: Credentials,
    bearer_logins: Option<BearerLogins>,
    feed: Arc<Feed>,
    heartbeats: Heartbeats,
    auditor: Auditor,
    limiter: Limiter,
    /// Places for simultaneous writes, fewer than connections.
    writes: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// The running exchange; cheap to clone.
#[derive(Clone)]
pub struct Exchange(Arc<Inner>);

impl Exchange {
    /// Starts an exchange on a migrated database; its workers end with `shutdown`.
    ///
    /// # Errors
    /// When the database does not answer or the first rows cannot be made.
    pub async fn start(
        database: Database,
        settings: ExchangeSettings,
        shutdown: CancellationToken,
    ) -> Result<Exchange, StartError> {
        let proposed: [u8; 32] = rand::random();
        let key = secret::get_or_insert(&mut *database.acquire().await?, "credential", &proposed).await?;
        let key: [u8; 32] =
            key.try_into().map_err(|_| StoreError::Corrupt { table: "exchange_secret", column: "value" })?;
        let hasher = SecretHasher::new(key, settings.login_slots);
        let root_password = settings.root_password.as_deref();
        let unsettled = crate::seed::make_missing(&database, &hasher, root_password, Timestamp::now())
            .await
            .map_err(StartError::Seed)?;
        let provider = settings.oidc.clone().map(Provider::new).transpose()?;
        let credentials = Credentials::new(database.clone(), hasher);
        if let Some(password) = &settings.root_password {
            credentials.remember_root(password);
        }
        let configured = Arc::new(settings);
        let exchange = Exchange(Arc::new(Inner {
            credentials,
            bearer_logins: provider.map(BearerLogins::new),
            feed: Arc::new(Feed::load(database.clone()).await?),
            heartbeats: Heartbeats::new(database.clone()),
            auditor: Auditor::default(),
            limiter: Limiter::new(configured.rate_limits),
            writes: Arc::new(Semaphore::new(write_places(&database))),
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
        exchange.spawn_workers(shutdown);
        Ok(exchange)
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
        sequencer_tasks(self.0.feed.clone(), self.clone(), tasks, shutdown.clone());
        tasks.spawn(crate::audit::seal::run(self.clone(), shutdown.clone()));
        tasks.spawn(crate::housekeeping::run(self.clone(), shutdown));
        if let Some(logins) = self.bearer_logins() {
            // A provider that is away keeps nobody else waiting.
            let provider = logins.provider().clone();
            tokio::spawn(async move { provider.prepare().await });
        }
        tasks.close();
    }

    /// Answers parked polls and ends streams, so that the listeners can drain; other requests go on.
    pub fn drain(&self) {
        self.0.feed.drain();
    }

    /// Waits for the workers to end after the shutdown token was cancelled; cancel it when the listeners have drained.
    pub async fn finish(&self) {
        self.0.tasks.wait().await;
    }

    /// What is now. The one place where the exchange reads the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        // The database keeps microseconds; what we answer must equal what we read back.
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
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

    /// Proxies whose word about the client's address is believed, as long as the exchange runs.
    pub(crate) fn trusted_proxies(&self) -> &TrustedProxies {
        &self.0.configured.trusted_proxies
    }

    /// Largest accepted request body, in bytes, as long as the exchange runs.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.0.configured.max_body_bytes
    }

    /// Changes one setting of this exchange until it ends or reloads them.
    fn change_setting(&self, path: &str, value: &str) {
        let mut settings = (*self.settings()).clone();
        // Whoever wrote the row has checked the value; another version of the program may know other settings.
        if configuration::set(&mut settings, path, value).is_ok() {
            *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        }
    }

    /// Takes back all changes of the settings.
    fn reload_settings(&self) {
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = self.0.configured.clone();
    }

    /// Makes what every exchange has from its first start on, as far as it is missing.
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
    pub(crate) fn bearer_logins(&self) -> Option<&BearerLogins> {
        self.0.bearer_logins.as_ref()
    }

    /// The change feed.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.0.feed
    }

    /// Signs of life.
    #[must_use]
    pub fn heartbeats(&self) -> &Heartbeats {
        &self.0.heartbeats
    }

    /// Audit records that are not in the database yet.
    pub(crate) fn auditor(&self) -> &Auditor {
        &self.0.auditor
    }

    /// Counts of requests and failed logins.
    pub(crate) fn limiter(&self) -> &Limiter {
        &self.0.limiter
    }

    fn forget(&self, org: &str, id: &str) {
        if org == "*" {
            self.0.credentials.forget_all();
            self.0.bearer_logins.iter().for_each(BearerLogins::forget_all);
        } else {
            self.0.credentials.forget(org, id);
            self.0.bearer_logins.iter().for_each(|logins| logins.forget(org, id));
            self.0.heartbeats.forget(org, id);
        }
    }

    /// Loads what a permission decision needs to know of a resource; `None` when it does not exist.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn facts(&self, kind: FactKind, org: &str, id: &str) -> Result<Option<Facts>, ApiError> {
        let mut connection = self.0.database.acquire().await?;
        let found = facts::find_facts(&mut connection, kind, org, id).await?;
        connection.release();
        Ok(found)
    }

    /// Asks the permission table.
    ///
    /// # Errors
    /// 403 with the words of the contract, or 404 when the caller may not learn whether the resource exists.
    pub async fn authorize(
        &self,
        caller: &Caller,
        access: Access,
        kind: FactKind,
        org: &str,
        id: Option<&str>,
    ) -> Result<(), ApiError> {
        let target = Target { org, id };
        let decision = match (decide(caller, access, target), id) {
            (Decision::NeedsFacts, Some(id)) => {
                let facts = Box::pin(self.facts(kind, org, id)).await?;
                match decide_with_facts(caller, access, target, facts.as_ref()) {
                    // What was deleted a moment ago is no secret: the route answers, as it would in its own organization.
                    Decision::NotFound if self.feed().remembers(org, id, resource_word(kind)) => {
                        let gone = Facts { owner: None, is_public: false };
                        decide_with_facts(caller, access, target, Some(&gone))
                    }
                    decision => decision,
                }
            }
            (decision, _) => decision,
        };
        if decision == Decision::Allow {
            return Ok(());
        }
        let name = id.map_or_else(
            || format!("{org}/*"),
            |id| if kind == FactKind::Org { org.to_owned() } else { format!("{org}/{id}") },
        );
        match decision {
            Decision::Allow => Ok(()),
            Decision::NotFound => Err(ApiError::not_found(format!("resource '{name}' not found"))),
            Decision::Deny | Decision::NeedsFacts => {
                let (verb, word) = access.words();
                Err(ApiError::access_denied(format!(
                    "Access denied: '{caller}' does not have authorization: {verb} {word}={name}"
                )))
            }
        }
    }

    /// Begins a write. Run it inside [`evenkeel_store::retry`] and end it with [`WriteTx::commit`].
    ///
    /// # Errors
    /// 503 when the database does not answer.
    pub async fn begin(&self) -> Result<WriteTx<'_>, ApiError> {
        // Writes that fight over rows wait for each other while they hold a connection. They must leave some to everybody else.
        let place = tokio::time::timeout(WRITE_PATIENCE, self.0.writes.clone().acquire_owned());
        let place = place.await.ok().and_then(Result::ok).ok_or(StoreError::Contention { name: "write" })?;
        let mut write =
            WriteTx { exchange: self, tx: self.0.database.begin().await?, _place: place, audited: None };
        if let Some(request) = AuditedRequest::current() {
            let subject = request.subject().cloned();
            let state_before = match &subject {
                Some(subject) if !request.finds_nothing() => audit::lock_state(&mut write, subject).await?,
                _ => None,
            };
            write.audited = Some(Audited { request, subject, state_before });
        }
        Ok(write)
    }
}

impl Observer for Exchange {
    fn observe(&self, row: &NumberedChange) {
        if row.category != INTERNAL {
            return;
        }
        match (row.resource.as_str(), row.id.split_once('=')) {
            (CONFIGURATION, Some((path, value))) => self.change_setting(path, value),
            (CONFIGURATION, None) => self.reload_settings(),
            (REMOVED_CHANGES, _) => self.feed().forget_rows(),
            _ => self.forget(&row.org, &row.id),
        }
    }

    fn start_anew(&self) {
        self.forget("*", "*");
    }
}

/// How long a write waits for its turn; clients give up at 45 seconds.
const WRITE_PATIENCE: Duration = Duration::from_secs(40);

/// Simultaneous writes: three quarters of the connections, so that reads and the feed always find one.
fn write_places(database: &Database) -> usize {
    let connections = database.pool().options().get_max_connections() as usize;
    (connections * 3 / 4).max(1)
}

/// What internal rows are about: a login to forget.
const CREDENTIAL: &str = "credential";
/// A setting that holds on every running exchange, its id `path=value`; without a value the configured settings hold again.
const CONFIGURATION: &str = "configuration";
/// Changes that were removed by hand.
const REMOVED_CHANGES: &str = "removedchanges";

/// A write in progress; dropped without a commit nothing of it stays.
pub struct WriteTx<'e> {
    exchange: &'e Exchange,
    tx: Transaction,
    _place: OwnedSemaphorePermit,
    audited: Option<Audited>,
}

/// What the audit record of a write will say.
struct Audited {
    request: Arc<AuditedRequest>,
    subject: Option<Subject>,
    state_before: Option<Vec<u8>>,
}

impl WriteTx<'_> {
    /// Says which resource the write is about, when the path does not. To be called before the first change.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn concern(&mut self, subject: Subject) -> Result<(), ApiError> {
        if self.audited.as_ref().is_some_and(|audited| audited.subject.is_none()) {
            let state_before = audit::lock_state(self, &subject).await?;
            if let Some(audited) = &mut self.audited {
                (audited.subject, audited.state_before) = (Some(subject), state_before);
            }
        }
        Ok(())
    }

    /// Commits the rows together with what the feed shall tell of them and with the audit record of the request, and returns when they are on disk and polls of this exchange
    /// see them: the commit that numbers them flushes both.
    ///
    /// # Errors
    /// The store's errors; a retryable one when the write lost against a competing one.
    pub async fn commit(self, changes: &[Change]) -> Result<(), ApiError> {
        let WriteTx { exchange, mut tx, _place: place, audited } = self;
        let now = exchange.now();
        match audited {
            Some(Audited { request, subject, state_before }) => {
                let record = request.record(now, state_before);
                let subject = subject.filter(|_| !request.leaves_nothing());
                audit::insert_with_changes(&mut tx, &record, subject.as_ref(), changes).await?;
                tx.commit().await?;
                request.note_recorded();
                exchange.auditor().note_written();
            }
            None => {
                change::insert_outbox_flushed_by_numbering(&mut tx, changes, now).await?;
                tx.commit().await?;
            }
        }
        drop(place);
        if !changes.is_empty() && !exchange.feed().publish().await {
            change::flush_commits(&mut *exchange.database().acquire().await?).await?;
        }
        Ok(())
    }
}

impl Deref for WriteTx<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl DerefMut for WriteTx<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}

/// The word of the feed for a kind of resource; accounts appear there only as credentials.
fn resource_word(kind: FactKind) -> &'static str {
    match kind {
        FactKind::Org => "org",
        FactKind::User => CREDENTIAL,
        FactKind::Node => "node",
        FactKind::Agbot => "agbot",
        FactKind::Service => "service",
        FactKind::Pattern => "pattern",
        FactKind::DeploymentPolicy => "policy",
        FactKind::ManagementPolicy => "mgmtpolicy",
    }
}

/// The internal row that makes every exchange forget a credential: one login, `id` `*` for a whole organization.
#[must_use]
pub fn forget_login(org: &str, id: &str) -> Change {
    internal(org, id, CREDENTIAL, "deleted")
}

/// The internal row that sets `path` to `value` on every running exchange.
pub(crate) fn set_everywhere(path: &str, value: &str) -> Change {
    internal("*", &format!("{path}={value}"), CONFIGURATION, "modified")
}

/// The internal row that takes back all such settings.
pub(crate) fn reload_everywhere() -> Change {
    internal("*", "*", CONFIGURATION, "deleted")
}

/// The internal row that makes every exchange drop the changes it has in memory, after a removal by hand.
pub(crate) fn forget_changes() -> Change {
    internal("*", "*", REMOVED_CHANGES, "deleted")
}

fn internal(org: &str, id: &str, resource: &'static str, operation: &'static str) -> Change {
    Change {
        org: org.to_owned(),
        id: id.to_owned(),
        category: INTERNAL,
        resource,
        operation,
        is_public: false,
    }
}
