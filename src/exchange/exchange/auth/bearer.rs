//! People who log in with a token of the identity provider.
//!
//! The provider authenticates a user, the configuration maps the user's groups to a role, and a local account
//! is created at the first login and follows the provider from then on, so that nodes, services and policies
//! have an owner. A verified token costs neither SQL nor a signature check until it ends. Source:
//! exchange-api 2.2.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_access::{AssignedRole, Caller, LoginKind, Role, is_reserved_name, is_root};
use evenkeel_exchange_store::identity::{self, IdentityKind};
use evenkeel_exchange_store::permitted::{Login, Permitted};
use evenkeel_exchange_store::provided_account::{self, ProvidedAccount, Subject};
use evenkeel_http_server::limit::{LoginFailure, client_prefix};
use evenkeel_oidc::{GroupRole, MAX_TOKEN_BYTES, OidcError, Person, Provider};
use evenkeel_store::{StoreError, retry};
use http::HeaderValue;
use uuid::Uuid;

use super::demotion::withdraw_rights;
use super::remembered::Remembered;
use crate::audit::request::AuditedRequest;
use crate::notice::forget_login;
use crate::transaction::{Finished, WriteTx};
use crate::{ApiError, Exchange};

/// Header that names the organization for users with roles in several.
pub(super) const ORGANIZATION: &str = "x-organization";
const SCHEME: &str = "bearer";
/// The login that failed logins with tokens count for: their account is unknown.
const UNKNOWN: (&str, &str) = ("", SCHEME);
/// Names that stand for something else in a login.
const CAPACITY: u32 = 20_000;
/// After this time a token is checked again, also when it has not ended: its key may have been revoked.
const REMEMBERED_FOR: Duration = Duration::from_secs(300);

/// A token and the organization that was asked for.
pub(crate) struct Token<'r> {
    text: &'r str,
    org: Option<&'r str>,
}

/// Reads `Authorization: Bearer …` and the organization that was asked for; `None` for other schemes.
pub(crate) fn token<'r>(
    authorization: &'r HeaderValue,
    organization: Option<&'r HeaderValue>,
) -> Option<Token<'r>> {
    let (scheme, text) = authorization.to_str().ok()?.split_once(' ')?;
    let org = organization.and_then(|org| org.to_str().ok()).filter(|org| !org.is_empty());
    scheme.eq_ignore_ascii_case(SCHEME).then(|| Token { text: text.trim(), org })
}

/// Returns whether a header holds a token.
pub(super) fn is_token(authorization: &HeaderValue) -> bool {
    token(authorization, None).is_some()
}

#[derive(Clone)]
struct Known {
    caller: Arc<Caller>,
    /// Seconds since 1970.
    expires_at: i64,
}

/// Maps tokens to accounts.
pub(crate) struct BearerLogins {
    provider: Provider,
    process_key: [u8; 32],
    known: Remembered<[u8; 32], Known>,
}

impl BearerLogins {
    pub(crate) fn new(provider: Provider) -> BearerLogins {
        let known = Remembered::new(CAPACITY, REMEMBERED_FOR);
        BearerLogins { provider, process_key: rand::random(), known }
    }

    pub(crate) fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Finds out whose token this is.
    ///
    /// # Errors
    /// 401 for a token that is not accepted, 429 after too many of them, 403 for a person without a role here, 503 when the provider's keys or the store cannot be
    /// reached.
    pub(crate) async fn identify(
        &self,
        exchange: &Exchange,
        token: &Token<'_>,
        address: Option<IpAddr>,
    ) -> Result<Arc<Caller>, ApiError> {
        if token.text.len() > MAX_TOKEN_BYTES {
            return Err(ApiError::invalid_credentials(format!(
                "the bearer token is not accepted: it has more than {MAX_TOKEN_BYTES} bytes"
            )));
        }
        let slot = self.slot(token);
        if let Some(known) = self.known.get(&slot)
            && exchange.now().as_second() < known.expires_at
        {
            return Ok(known.caller);
        }
        let position = exchange.withdrawals().position();
        let person = self.verify(exchange, token, address).await?;
        let rule = self.provider.settings().choose_role(&person.groups, token.org);
        let rule = rule.ok_or_else(|| {
            ApiError::access_denied(format!("none of the groups of '{}' has a role here", person.name))
        })?;
        let caller = Arc::new(self.caller(exchange, &person, rule, address).await?);
        self.known.insert(slot, Known { caller: caller.clone(), expires_at: person.expires_at });
        if exchange.withdrawals().concern(&caller, position) {
            self.known.forget(&slot);
            // Another request may have found it until now.
            exchange.withdrawals().record(&caller.org, &caller.id);
        }
        Ok(caller)
    }

    /// Checks a token that is not cached, unless too many from the same client prefix were bad.
    async fn verify(
        &self,
        exchange: &Exchange,
        token: &Token<'_>,
        address: Option<IpAddr>,
    ) -> Result<Person, ApiError> {
        let ((org, id), prefix) = (UNKNOWN, address.map(client_prefix));
        let record = |failure| exchange.failed_logins().record(failure, prefix, "");
        exchange.limiter().check_login(prefix, org, id).inspect_err(|_| record(LoginFailure::Limited))?;
        self.provider.verify(token.text).await.map_err(|error| {
            if matches!(error, OidcError::Refused(_)) {
                exchange.limiter().count_failed_login(prefix, (org, id), &self.slot(token));
                record(LoginFailure::Token);
            }
            refused(error)
        })
    }

    /// Forgets the tokens of an account; `id` `*` forgets all of the organization.
    pub(crate) fn forget(&self, org: &str, id: &str) {
        let is_of = |known: &Known| known.caller.org == org && (id == "*" || known.caller.id == id);
        self.known.forget_where(is_of);
    }

    /// Forgets everything.
    pub(crate) fn forget_all(&self) {
        self.known.forget_all();
    }

    fn slot(&self, token: &Token<'_>) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.process_key);
        for part in [token.org.unwrap_or_default(), token.text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    /// The person's account here, made or brought up to date when that is needed.
    async fn caller(
        &self,
        exchange: &Exchange,
        person: &Person,
        rule: &GroupRole,
        address: Option<IpAddr>,
    ) -> Result<Caller, ApiError> {
        let (org, who) = (rule.organization(), subject(person));
        let role = role(rule.role);
        let found = exchange
            .database()
            .read(async |connection| provided_account::find_by_subject(connection, org, who).await)
            .await?;
        let wanted = wanted(person, rule, found.as_ref());
        let caller = Caller::new(role, org, &wanted.name).limited(wanted.role.clone(), None);
        if found.as_ref() != Some(&wanted) {
            let may_link = self.provider.settings().link_existing_users;
            let audited = Arc::new(AuditedRequest::of_login(caller.clone(), address));
            let provided = retry("account.provide", || async {
                let write = exchange.begin_write(Permitted::of_login, Some(&audited)).await?;
                exchange.commit_write(provide(exchange, write, &wanted, who, may_link).await?).await
            });
            provided.await.map_err(|error: ApiError| {
                error.explain("account_org_fk", || {
                    ApiError::access_denied(format!("organization '{org}' of your role does not exist"))
                })
            })?;
            tracing::info!(account.org = org, account.name = %wanted.name, role = ?role, "an account follows the identity provider");
        }
        Ok(caller)
    }
}

fn subject(person: &Person) -> Subject<'_> {
    Subject { identity_provider: &person.issuer, subject: &person.subject }
}

/// The account as the provider wants it. Its name stays what it was at the first login: what the person owns hangs on it.
fn wanted(person: &Person, rule: &GroupRole, found: Option<&ProvidedAccount>) -> ProvidedAccount {
    let known_email = found.map(|found| found.email.clone()).unwrap_or_default();
    ProvidedAccount {
        org: rule.organization().to_owned(),
        name: found.map_or_else(|| person.name.clone(), |found| found.name.clone()),
        email: person.email.clone().unwrap_or(known_email),
        is_admin: matches!(rule.role, evenkeel_oidc::Role::Root | evenkeel_oidc::Role::OrgAdmin),
        is_hub_admin: matches!(rule.role, evenkeel_oidc::Role::Root | evenkeel_oidc::Role::HubAdmin),
        role: assigned_role(rule),
    }
}

/// Returns the role that limits the members of a group. The settings were checked when the provider was set up.
fn assigned_role(rule: &GroupRole) -> Option<AssignedRole> {
    match rule.role {
        evenkeel_oidc::Role::Viewer => Some(AssignedRole::Viewer),
        evenkeel_oidc::Role::Deployer => Some(AssignedRole::Deployer(rule.policies.clone())),
        evenkeel_oidc::Role::Root
        | evenkeel_oidc::Role::HubAdmin
        | evenkeel_oidc::Role::OrgAdmin
        | evenkeel_oidc::Role::User => None,
    }
}

fn role(role: evenkeel_oidc::Role) -> Role {
    match role {
        evenkeel_oidc::Role::Root => Role::Root,
        evenkeel_oidc::Role::HubAdmin => Role::HubAdmin,
        evenkeel_oidc::Role::OrgAdmin => Role::OrgAdmin,
        // Of the last two, their assigned role is the limit.
        evenkeel_oidc::Role::User | evenkeel_oidc::Role::Viewer | evenkeel_oidc::Role::Deployer => Role::User,
    }
}

async fn provide(
    exchange: &Exchange,
    mut tx: WriteTx<Login>,
    wanted: &ProvidedAccount,
    who: Subject<'_>,
    may_link: bool,
) -> Result<Finished<Login, ()>, ApiError> {
    identity::lock_name(&mut tx, &wanted.org, &wanted.name).await?;
    match provided_account::find_by_subject(&mut tx, &wanted.org, who).await? {
        Some(_) => provided_account::update_provided(&mut tx, wanted, exchange.now()).await?,
        None => take_name(&mut tx, exchange, wanted, who, may_link).await?,
    }
    let mut changes = vec![forget_login(&wanted.org, &wanted.name)];
    let is_administrator = wanted.is_admin || wanted.is_hub_admin;
    changes.extend(withdraw_rights(&mut tx, (&wanted.org, &wanted.name), is_administrator).await?);
    tx.finish(changes)
}

/// Assigns a name at the first login of a user: a free one, or that of a local account if so configured.
async fn take_name(
    tx: &mut WriteTx<Login>,
    exchange: &Exchange,
    wanted: &ProvidedAccount,
    who: Subject<'_>,
    may_link: bool,
) -> Result<(), ApiError> {
    let (org, name) = (wanted.org.as_str(), wanted.name.as_str());
    let taken = || {
        ApiError::access_denied(format!(
            "the user name '{org}/{name}' belongs to another account here; ask an administrator of the hub"
        ))
    };
    if is_root(org, name) || is_reserved_name(LoginKind::Account, name) {
        return Err(taken());
    }
    match identity::find_identity(tx, org, name).await?.map(|identity| identity.kind) {
        None => {
            match provided_account::insert_provided(tx, wanted, Uuid::now_v7(), who, exchange.now()).await {
                // The same person logged in at another exchange or under another name meanwhile: read again.
                Err(StoreError::Conflict { .. }) => {
                    Err(StoreError::Contention { name: "account.provide" }.into())
                }
                outcome => Ok(outcome?),
            }
        }
        Some(IdentityKind::Account)
            if may_link && provided_account::link_local(tx, org, name, who).await? =>
        {
            Ok(provided_account::update_provided(tx, wanted, exchange.now()).await?)
        }
        Some(_) => Err(taken()),
    }
}

fn refused(error: OidcError) -> ApiError {
    match error {
        OidcError::Refused(_) => ApiError::invalid_credentials(error.to_string()),
        // The cause is in the log since the fetch failed.
        OidcError::Unavailable(_) | OidcError::Settings(_) => {
            ApiError::unavailable("the identity provider does not respond, try again later")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bearer_scheme_is_a_token() {
        let with = |value: &'static str| {
            token(&HeaderValue::from_static(value), None).map(|token| token.text.to_owned())
        };
        assert_eq!(with("bEARER  a.b.c"), Some("a.b.c".to_owned()));
        assert_eq!(with("Basic a"), None);
        assert_eq!(with("Bearer"), None);
    }
}
