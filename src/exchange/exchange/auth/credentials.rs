//! Checked logins in memory, so that a request costs no SQL and no slow hash.
//!
//! An entry holds the identity and a keyed hash of the last good secret under a key of this process. A changed or deleted credential
//! removes its entry: at once here, through the change feed on other exchanges.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_access::{API_KEY_LOGIN, Caller, ROOT_NAME, ROOT_ORG, Role};
use evenkeel_exchange_store::departure;
use evenkeel_exchange_store::identity::{self, Identity, IdentityKind};
use evenkeel_http_server::limit::{FailedLogins, LoginFailure, client_prefix};
use evenkeel_store::{Database, StoreError};
use jiff::Timestamp;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use super::basic::{Login, bad_credentials};
use super::hash::{SecretHasher, is_outdated};
use super::hash_queue::PriorityClass;
use super::remembered::Remembered;
use super::withdrawals::Withdrawals;
use crate::ApiError;
use crate::limit::Limiter;

/// Capacity of each cache of checked logins.
const CAPACITY: u32 = 200_000;
const REMEMBERED_FOR: Duration = Duration::from_secs(5_400);
/// Good secrets that are still recognized when the login itself is no longer cached.
const PROVEN_CAPACITY: u32 = 50_000;
/// Client prefixes from which logins failed recently.
const FAILED_CAPACITY: u32 = 50_000;
/// Time for which a client prefix counts as recently failed.
const FAILED_FOR: Duration = Duration::from_secs(60);
/// Longest wait of a login of root for the end of the start.
const ROOT_TIMEOUT: Duration = Duration::from_secs(10);

/// A login attempt, with what limits it.
struct Attempt<'a> {
    login: &'a Login,
    prefix: Option<IpAddr>,
    limiter: &'a Limiter,
    /// The same secret was good not long ago: failures of others do not delay it.
    is_proven: bool,
    /// Logins from this client prefix failed recently.
    has_failed: bool,
}

impl Attempt<'_> {
    fn check(&self) -> Result<(), ApiError> {
        if self.is_proven {
            return Ok(());
        }
        self.limiter.check_login(self.prefix, self.login.org(), self.login.id())
    }

    fn class(&self) -> PriorityClass {
        match (self.is_proven, self.has_failed) {
            (true, _) => PriorityClass::Known,
            (false, true) => PriorityClass::RecentlyFailed(self.prefix),
            (false, false) => PriorityClass::Unauthenticated(self.prefix),
        }
    }
}

#[derive(Clone)]
struct Checked {
    verifier: [u8; 32],
    caller: Arc<Caller>,
    /// When the API key of the login ends; none if it does not.
    expires_at: Option<Timestamp>,
}

/// Identifies callers by their credentials.
pub struct Credentials {
    database: Database,
    hasher: SecretHasher,
    failed_logins: FailedLogins,
    process_key: [u8; 32],
    /// By `org/id`.
    checked: Remembered<String, Checked>,
    /// API keys, by organization and verifier.
    checked_keys: Remembered<String, Checked>,
    /// Logins known to be wrong: the same wrong secret again costs no slow hash.
    refused: Remembered<[u8; 32], LoginFailure>,
    /// The same of logins as nodes that were deleted.
    refused_departures: Remembered<[u8; 32], ()>,
    /// Logins that succeeded within a day, although they may no longer be in `checked`. This grants no
    /// access: they are checked again, but failed logins from the same address do not block them.
    proven: Remembered<[u8; 32], ()>,
    /// Client prefixes from which logins failed recently.
    recently_failed: Remembered<IpAddr, ()>,
    /// True once the stored password of root is the configured one; until then it is not accepted.
    is_root_settled: watch::Sender<bool>,
    /// Counts removals: a refusal from before one may not be remembered after it.
    removals: AtomicU64,
    withdrawals: Withdrawals,
}

impl Credentials {
    pub(crate) fn new(database: Database, hasher: SecretHasher, failed_logins: FailedLogins) -> Credentials {
        Credentials {
            database,
            hasher,
            failed_logins,
            process_key: rand::random(),
            checked: Remembered::new(CAPACITY, REMEMBERED_FOR),
            checked_keys: Remembered::new(CAPACITY, REMEMBERED_FOR),
            refused: Remembered::new(10_000, Duration::from_secs(10)),
            refused_departures: Remembered::new(10_000, Duration::from_secs(10)),
            proven: Remembered::new(PROVEN_CAPACITY, Duration::from_secs(86_400)),
            recently_failed: Remembered::new(FAILED_CAPACITY, FAILED_FOR),
            is_root_settled: watch::Sender::new(true),
            removals: AtomicU64::new(0),
            withdrawals: Withdrawals::default(),
        }
    }

    /// Returns the hasher for secrets that are to be stored.
    pub fn hasher(&self) -> &SecretHasher {
        &self.hasher
    }

    /// Returns the logins that were withdrawn lately.
    pub(crate) fn withdrawals(&self) -> &Withdrawals {
        &self.withdrawals
    }

    /// Identifies the caller of a login from an address.
    ///
    /// A cached login costs nothing and never waits. Any other costs SQL or a slow hash, and is refused for a while when too many from the
    /// same client prefix have failed.
    ///
    /// # Errors
    /// 401 for wrong or unknown logins; 429 after too many of them; 503 when the store does not respond (never 401: agents unregister on
    /// that).
    pub(crate) async fn identify(
        &self,
        login: Login,
        address: Option<IpAddr>,
        limiter: &Limiter,
    ) -> Result<Arc<Caller>, ApiError> {
        let verifier = self.verifier(&login);
        let key_slot = (login.id() == API_KEY_LOGIN).then(|| format!("{}/{}", login.org(), hex(&verifier)));
        let (checked, slot) = match &key_slot {
            Some(slot) => (&self.checked_keys, slot.as_str()),
            None => (&self.checked, login.who()),
        };
        if let Some(found) = checked.get(slot)
            && found.expires_at.is_none_or(|end| Timestamp::now() < end)
            && bool::from(found.verifier.ct_eq(&verifier))
        {
            return Ok(found.caller);
        }
        let position = self.withdrawals.position();
        // Rare and large: it must not make the path of every request large, too.
        let identity = Box::pin(self.check(&login, verifier, address, limiter)).await?;
        let expires_at = identity.expires_at;
        let caller = Arc::new(caller(login.org(), identity));
        checked.insert(slot.to_owned(), Checked { verifier, caller: caller.clone(), expires_at });
        self.proven.insert(verifier, ());
        if self.withdrawals.concern(&caller, position) {
            checked.forget(slot);
            // Another request may have found it until now.
            self.withdrawals.record(&caller.org, &caller.id);
        }
        Ok(caller)
    }

    /// Checks a login that is not cached.
    async fn check(
        &self,
        login: &Login,
        verifier: [u8; 32],
        address: Option<IpAddr>,
        limiter: &Limiter,
    ) -> Result<Identity, ApiError> {
        let is_api_key = login.id() == API_KEY_LOGIN;
        let is_proven = self.proven.get(&verifier).is_some();
        let prefix = address.map(client_prefix);
        let has_failed = prefix.is_some_and(|prefix| self.recently_failed.get(&prefix).is_some());
        let attempt = Attempt { login, prefix, limiter, is_proven, has_failed };
        let record = |failure| self.failed_logins.record(failure, prefix, login.who());
        attempt.check().inspect_err(|_| record(LoginFailure::Limited))?;
        let count_failure = || {
            limiter.count_failed_login(prefix, (login.org(), login.id()), &verifier);
            if let Some(prefix) = prefix {
                self.recently_failed.insert(prefix, ());
            }
        };
        if let Some(failure) = self.refused.get(&verifier) {
            count_failure();
            record(failure);
            return Err(bad_credentials());
        }
        let removals = self.removals.load(Ordering::SeqCst);
        let found =
            if is_api_key { self.check_api_key(&attempt).await } else { self.check_secret(&attempt).await };
        match found? {
            Ok(identity) => Ok(identity),
            Err(failure) => {
                self.proven.forget(&verifier);
                count_failure();
                record(failure);
                if self.removals.load(Ordering::SeqCst) == removals {
                    self.refused.insert(verifier, failure);
                }
                Err(bad_credentials())
            }
        }
    }

    /// Identifies a node that was deleted while its agent was alive; none when the login is not its.
    ///
    /// # Errors
    /// 429 after too many wrong logins; 503 when the store does not respond.
    pub(crate) async fn identify_departed(
        &self,
        login: &Login,
        address: Option<IpAddr>,
        limiter: &Limiter,
    ) -> Result<Option<Arc<Caller>>, ApiError> {
        let (org, id) = (login.org(), login.id());
        let verifier = self.verifier(login);
        if self.refused_departures.get(&verifier).is_some() {
            return Ok(None);
        }
        let removals = self.removals.load(Ordering::SeqCst);
        let found = self
            .database
            .read(async |connection| departure::find_token_hash(connection, org, id).await)
            .await?;
        let attempt = Attempt {
            login,
            prefix: address.map(client_prefix),
            limiter,
            is_proven: false,
            has_failed: false,
        };
        let (class, secret) = (attempt.class(), login.secret());
        let is_its = match found {
            Some(stored) => self.hasher.verify_in(class, secret, &stored, || attempt.check()).await?,
            // The time must not reveal which nodes were deleted.
            None => {
                self.hasher.refuse_in(class, secret, || attempt.check()).await?;
                false
            }
        };
        if !is_its && self.removals.load(Ordering::SeqCst) == removals {
            self.refused_departures.insert(verifier, ());
        }
        Ok(is_its.then(|| Arc::new(Caller::new(Role::Node, org, id))))
    }

    /// Remembers root, whose password was checked or set a moment ago.
    pub(crate) fn remember_root(&self, password: &str) {
        let login = Login::new(ROOT_ORG, ROOT_NAME, password);
        let caller = Caller::new(Role::Root, ROOT_ORG, ROOT_NAME);
        let checked = Checked { verifier: self.verifier(&login), caller: Arc::new(caller), expires_at: None };
        self.checked.insert(login.who().to_owned(), checked);
    }

    /// Delays logins of root that are not cached, until [`Credentials::release_root`].
    pub(crate) fn hold_root(&self) {
        self.is_root_settled.send_replace(false);
    }

    /// The stored password of root may be believed.
    pub(crate) fn release_root(&self) {
        self.is_root_settled.send_replace(true);
    }

    async fn root_settled(&self) -> Result<(), ApiError> {
        let mut is_settled = self.is_root_settled.subscribe();
        match tokio::time::timeout(ROOT_TIMEOUT, is_settled.wait_for(|is_settled| *is_settled)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StoreError::Contention { name: "exchange.settle_root" }.into()),
        }
    }

    /// Forgets one login; `id` `*` forgets all of the organization, API keys go with any account of theirs.
    pub(crate) fn forget(&self, org: &str, id: &str) {
        self.removals.fetch_add(1, Ordering::SeqCst);
        self.refused.forget_all();
        self.refused_departures.forget_all();
        let is_concerned =
            |checked: &Checked| checked.caller.org == org && (id == "*" || checked.caller.id == id);
        self.checked_keys.forget_where(is_concerned);
        if id == "*" {
            self.checked.forget_where(is_concerned);
        } else {
            self.checked.forget(&format!("{org}/{id}"));
        }
    }

    /// Forgets everything.
    pub(crate) fn forget_all(&self) {
        self.removals.fetch_add(1, Ordering::SeqCst);
        self.checked.forget_all();
        self.checked_keys.forget_all();
        self.refused.forget_all();
        self.refused_departures.forget_all();
    }

    fn verifier(&self, login: &Login) -> [u8; 32] {
        // There is one way to read the text: organization and id end at their first separators.
        *blake3::keyed_hash(&self.process_key, login.text().as_bytes()).as_bytes()
    }

    async fn check_secret(&self, attempt: &Attempt<'_>) -> Result<Result<Identity, LoginFailure>, ApiError> {
        let login = attempt.login;
        if (login.org(), login.id()) == (ROOT_ORG, ROOT_NAME) {
            self.root_settled().await?;
        }
        let found = self
            .database
            .read(async |connection| identity::find_identity(connection, login.org(), login.id()).await)
            .await?;
        let Some(identity) = found else { return self.refuse(attempt, LoginFailure::UnknownName).await };
        let Some(stored) = identity.secret_hash.as_deref() else {
            return self.refuse(attempt, LoginFailure::Disabled).await;
        };
        if !self.hasher.verify_in(attempt.class(), login.secret(), stored, || attempt.check()).await? {
            return Ok(Err(LoginFailure::WrongSecret));
        }
        if is_outdated(stored) && identity.kind == IdentityKind::Account {
            let fresh = self.hasher.hash(login.secret()).await?;
            let (org, id) = (login.org(), login.id());
            self.database
                .read(async |connection| {
                    identity::update_password_hash(connection, org, id, stored, &fresh).await
                })
                .await?;
        }
        Ok(Ok(identity))
    }

    /// Refuses a login that has no secret to compare with, in the time of one that has.
    async fn refuse<T>(
        &self,
        attempt: &Attempt<'_>,
        failure: LoginFailure,
    ) -> Result<Result<T, LoginFailure>, ApiError> {
        self.hasher.refuse_in(attempt.class(), attempt.login.secret(), || attempt.check()).await?;
        Ok(Err(failure))
    }

    async fn check_api_key(&self, attempt: &Attempt<'_>) -> Result<Result<Identity, LoginFailure>, ApiError> {
        let (login, now) = (attempt.login, Timestamp::now());
        let hash = self.hasher.keyed(login.secret());
        let found = self
            .database
            .read(async |connection| identity::find_by_api_key(connection, login.org(), &hash, now).await)
            .await?;
        if let Some(identity) = found {
            return Ok(Ok(identity));
        }
        let imported = self
            .database
            .read(async |connection| identity::list_imported_api_keys(connection, login.org()).await)
            .await?;
        if imported.is_empty() {
            return self.refuse(attempt, LoginFailure::WrongSecret).await;
        }
        for identity in imported {
            let stored = identity.secret_hash.clone().unwrap_or_default();
            if self.hasher.verify_in(attempt.class(), login.secret(), &stored, || attempt.check()).await? {
                return Ok(Ok(identity));
            }
        }
        Ok(Err(LoginFailure::WrongSecret))
    }
}

/// Returns the caller that an identity of an organization is.
pub(crate) fn caller(org: &str, identity: Identity) -> Caller {
    let role = match identity.kind {
        IdentityKind::Node => Role::Node,
        IdentityKind::Agbot if identity.is_approved => Role::Agbot,
        IdentityKind::Agbot => Role::UnapprovedAgbot,
        IdentityKind::Account if identity.is_admin && identity.is_hub_admin => Role::Root,
        IdentityKind::Account if identity.is_hub_admin => Role::HubAdmin,
        IdentityKind::Account if identity.is_admin => Role::OrgAdmin,
        IdentityKind::Account => Role::User,
    };
    let api_key = identity.api_key.map(|id| id.to_string().into());
    let caller = Caller { owner: identity.owner, api_key, ..Caller::new(role, org, &identity.id) };
    caller.limited(identity.role, identity.key_role)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
