//! The provider: its keys in memory, fetched when they are missing or outdated, but no more often than the settings allow.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jsonwebtoken::{DecodingKey, Header};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::browser_client::{BrowserClient, ClientSecret};
use crate::discovery::Discovery;
use crate::keys::{KeyDocument, KeySet};
use crate::settings::allowed_url;
use crate::token::{self, Person};
use crate::{OidcError, OidcSettings, fetch};

/// Validity of keys without a new fetch: a key that the provider has revoked must not work forever.
const TRUSTED_FOR: Duration = Duration::from_secs(24 * 3600);
/// Timeout of a request that waits for another one's fetch.
const WAIT_LIMIT: Duration = Duration::from_secs(12);

/// Logins of browsers whose codes are exchanged at the same time.
const MAX_EXCHANGES: usize = 16;

#[derive(Clone)]
struct Held {
    keys: Arc<KeySet>,
    discovery: Arc<Discovery>,
    fetched_at: Instant,
}

struct Inner {
    settings: OidcSettings,
    client: reqwest::Client,
    client_secret: Option<ClientSecret>,
    exchanges: Semaphore,
    held: RwLock<Option<Held>>,
    /// The last fetch with its error. Its lock serializes fetches.
    last: Mutex<Option<(Instant, Option<OidcError>)>>,
}

/// An identity provider; cheap to clone.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

impl fmt::Debug for Provider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Provider({})", self.0.settings.issuer)
    }
}

impl Provider {
    /// Creates a provider; nothing is fetched yet.
    ///
    /// # Errors
    /// [`OidcError::Settings`] when the settings are invalid.
    pub fn new(settings: OidcSettings) -> Result<Provider, OidcError> {
        settings.check()?;
        let client = fetch::client(settings.ca_file.as_deref())?;
        let secret = settings.console.as_ref().map(BrowserClient::read_secret).transpose()?;
        Ok(Provider(Arc::new(Inner {
            settings,
            client,
            client_secret: secret.flatten(),
            exchanges: Semaphore::new(MAX_EXCHANGES),
            held: RwLock::default(),
            last: Mutex::default(),
        })))
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &OidcSettings {
        &self.0.settings
    }

    /// Fetches the keys, so that the first login need not wait for them.
    pub async fn prepare(&self) {
        if self.refresh(Instant::now()).await.is_ok() {
            tracing::info!(oidc.issuer = %self.0.settings.issuer, "the identity provider's keys are known");
        }
    }

    /// Verifies a token and returns its subject.
    ///
    /// # Errors
    /// [`OidcError::Refused`] for a token that is not accepted, [`OidcError::Unavailable`] when no keys are known and none can be fetched.
    pub async fn verify(&self, token: &str) -> Result<Person, OidcError> {
        let header = token::read_header(token)?;
        let key = self.key(&header).await?;
        token::verify(token, &header, &key, &self.0.settings)
    }

    /// Returns the client for requests to the provider.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.0.client
    }

    pub(crate) fn client_secret(&self) -> Option<&ClientSecret> {
        self.0.client_secret.as_ref()
    }

    /// Returns the permit to exchange a code, unless too many are being exchanged.
    pub(crate) fn try_exchange(&self) -> Option<SemaphorePermit<'_>> {
        self.0.exchanges.try_acquire().ok()
    }

    /// Returns the discovery document, fetched with the keys.
    pub(crate) async fn discovery(&self) -> Result<Arc<Discovery>, OidcError> {
        if let Some(held) = self.held() {
            return Ok(held.discovery);
        }
        let refreshed = self.refresh(Instant::now()).await;
        self.held().map(|held| held.discovery).ok_or_else(|| unknown(refreshed))
    }

    /// Returns the key that verifies a token with this header.
    pub(crate) async fn key(&self, header: &Header) -> Result<DecodingKey, OidcError> {
        let requested_at = Instant::now();
        let find = |keys: &KeySet| keys.find(header.kid.as_deref(), header.alg);
        if let Some(held) = self.held()
            && let Some(key) = find(&held.keys)
        {
            if held.fetched_at.elapsed() > self.0.settings.key_max_age() {
                // The known key continues to work while new ones are fetched, even if that fails.
                let provider = self.clone();
                tokio::spawn(async move { provider.refresh(requested_at).await });
            }
            return Ok(key);
        }
        let refreshed = self.refresh(requested_at).await;
        match self.held() {
            Some(held) => find(&held.keys).ok_or_else(|| {
                OidcError::refused("it is signed with a key that the provider does not publish")
            }),
            None => Err(unknown(refreshed)),
        }
    }

    /// Returns what was fetched and is not too old.
    fn held(&self) -> Option<Held> {
        let held = self.0.held.read().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().filter(|held| held.fetched_at.elapsed() <= TRUSTED_FOR).cloned()
    }

    /// Fetches the keys, unless a fetch was tried since `requested_at` or too recently. A fetch continues even if the
    /// request that started it is canceled.
    async fn refresh(&self, requested_at: Instant) -> Result<(), OidcError> {
        let provider = self.clone();
        let work = tokio::spawn(async move {
            let mut last = provider.0.last.lock().await;
            if let Some((at, failure)) = last.as_ref()
                && (*at >= requested_at || at.elapsed() < provider.0.settings.key_refresh_min())
            {
                return failure.clone().map_or(Ok(()), Err);
            }
            let fetched = provider.fetch().await;
            *last = Some((Instant::now(), fetched.as_ref().err().cloned()));
            fetched
        });
        match tokio::time::timeout(WAIT_LIMIT, work).await {
            Ok(Ok(outcome)) => outcome,
            _ => Err(OidcError::Unavailable("fetching its keys takes too long".to_owned())),
        }
    }

    async fn fetch(&self) -> Result<(), OidcError> {
        let fetched = self.read_keys().await;
        match &fetched {
            Ok(held) => {
                *self.0.held.write().unwrap_or_else(PoisonError::into_inner) = Some(held.clone());
            }
            Err(error) => {
                let error = error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "the identity provider's keys could not be fetched; known keys keep working"
                );
            }
        }
        fetched.map(|_| ())
    }

    async fn read_keys(&self) -> Result<Held, OidcError> {
        let issuer = &self.0.settings.issuer;
        let unusable =
            |why: String| OidcError::Unavailable(format!("the discovery document of {issuer}: {why}"));
        let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let discovery: Discovery =
            fetch::json(&self.0.client, allowed_url(&address).map_err(unusable)?).await?;
        if discovery.issuer != *issuer {
            return Err(unusable(format!("it is that of '{}'", discovery.issuer)));
        }
        let address = discovery.address("jwks_uri", Some(&discovery.jwks_uri)).map_err(unusable)?;
        let keys = KeySet::of(fetch::json::<KeyDocument>(&self.0.client, address).await?);
        if keys.is_empty() {
            return Err(unusable("no usable key".to_owned()));
        }
        Ok(Held { keys: Arc::new(keys), discovery: Arc::new(discovery), fetched_at: Instant::now() })
    }
}

/// Returns why nothing of the provider is known after an attempt to fetch it.
fn unknown(refreshed: Result<(), OidcError>) -> OidcError {
    refreshed.err().unwrap_or_else(|| OidcError::Unavailable("its keys are not known yet".to_owned()))
}
