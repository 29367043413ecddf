//! A small OpenID Connect provider: discovery document, key set, tokens, as the test wants them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_exchange::{GroupRole, OidcRole, OidcSettings};
use evenkeel_http_server::tls::TlsSettings;
use evenkeel_http_server::{HttpLimits, HttpMetrics, HttpServer, listen};
use evenkeel_runtime::metrics::Metrics;
use evenkeel_wire::agreement::PrivateKey;
use http::StatusCode;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::wait::must;

/// Audience that tokens must have.
pub const AUDIENCE: &str = "evenkeel";

/// A signing key of the provider.
pub struct SigningKey {
    pub id: String,
    pub algorithm: Algorithm,
    pub key: EncodingKey,
}

impl SigningKey {
    /// A new RSA key.
    pub fn rsa(id: &str) -> SigningKey {
        let key = must(PrivateKey::generate(&mut rand::rng(), 2048), "a key");
        let pem = must(key.to_pkcs1_pem(), "PEM");
        let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let key = EncodingKey::from_rsa_der(&must(STANDARD.decode(body), "base64"));
        SigningKey { id: id.to_owned(), algorithm: Algorithm::RS256, key }
    }

    /// A new elliptic-curve key.
    pub fn elliptic(id: &str) -> SigningKey {
        let key = must(rcgen::KeyPair::generate(), "a key");
        let key = EncodingKey::from_ec_der(&key.serialize_der());
        SigningKey { id: id.to_owned(), algorithm: Algorithm::ES256, key }
    }

    /// The public half, as it stands in the key set.
    pub fn published(&self) -> Value {
        let mut jwk = must(Jwk::from_encoding_key(&self.key, self.algorithm), "a public key");
        jwk.common.key_id = Some(self.id.clone());
        must(serde_json::to_value(jwk), "JSON")
    }

    /// Signs claims.
    pub fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.clone());
        must(jsonwebtoken::encode(&header, claims, &self.key), "a token")
    }
}

#[derive(Default)]
struct Published {
    issuer: String,
    keys: Vec<Value>,
    is_up: bool,
    fetch_count: usize,
    refused_count: usize,
}

/// A running provider; it ends with the value.
pub struct IdentityProvider {
    /// Its address, and the issuer of its tokens.
    pub issuer: String,
    published: Arc<Mutex<Published>>,
    _shutdown: DropGuard,
}

impl IdentityProvider {
    /// Starts a provider that publishes these keys.
    pub async fn start(keys: &[&SigningKey]) -> IdentityProvider {
        Self::start_with(keys, None).await
    }

    /// The same behind TLS, by the name `localhost`.
    pub async fn start_with(keys: &[&SigningKey], tls: Option<TlsSettings>) -> IdentityProvider {
        let listener = must(listen("127.0.0.1:0").await, "a listener");
        let port = must(listener.local_addr(), "an address").port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let issuer = format!("{scheme}://localhost:{port}/realms/plant");
        let published =
            Arc::new(Mutex::new(Published { issuer: issuer.clone(), is_up: true, ..Published::default() }));
        let router = Router::new()
            .route("/realms/plant/.well-known/openid-configuration", get(discovery))
            .route("/realms/plant/keys", get(key_set))
            .with_state(published.clone());
        let shutdown = CancellationToken::new();
        let (limits, metrics) = (HttpLimits::default(), HttpMetrics::new(&Metrics::default()));
        tokio::spawn(
            HttpServer { listener, handler: router.into(), limits, tls, metrics }.serve(shutdown.clone()),
        );
        let provider = IdentityProvider { issuer, published, _shutdown: shutdown.drop_guard() };
        provider.publish(keys);
        provider
    }

    /// Publishes other keys from now on.
    pub fn publish(&self, keys: &[&SigningKey]) {
        self.with(|published| published.keys = keys.iter().map(|key| key.published()).collect());
    }

    /// Sets whether the provider responds.
    pub fn set_up(&self, is_up: bool) {
        self.with(|published| published.is_up = is_up);
    }

    /// How often the keys were fetched.
    pub fn fetch_count(&self) -> usize {
        self.with(|published| published.fetch_count)
    }

    /// How often it was asked while it was down.
    pub fn refused_count(&self) -> usize {
        self.with(|published| published.refused_count)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Published) -> T) -> T {
        work(&mut self.published.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Claims of a person in groups, good for an hour.
    pub fn claims(&self, name: &str, groups: &[&str]) -> Value {
        let now = jiff::Timestamp::now().as_second();
        json!({
            "iss": self.issuer, "aud": [AUDIENCE, "account"], "sub": format!("subject-of-{name}"), "iat": now,
            "nbf": now, "exp": now + 3600, "preferred_username": name, "email": format!("{name}@plant.example"),
            "realm_access": {"roles": groups},
        })
    }

    /// Settings of a hub that trusts this provider: `hub-admins`, `plant-admins` and `plant-staff` have roles.
    pub fn settings(&self) -> OidcSettings {
        let rule = |group: &str, role, organization: Option<&str>| GroupRole {
            group: group.to_owned(),
            role,
            organization: organization.map(str::to_owned),
        };
        OidcSettings {
            issuer: self.issuer.clone(),
            audiences: vec![AUDIENCE.to_owned()],
            ca_file: None::<PathBuf>,
            user_claim: "preferred_username".to_owned(),
            groups_claim: "realm_access.roles".to_owned(),
            roles: vec![
                rule("roots", OidcRole::Root, None),
                rule("hub-admins", OidcRole::HubAdmin, None),
                rule("plant-admins", OidcRole::OrgAdmin, Some("plant")),
                rule("plant-staff", OidcRole::User, Some("plant")),
                rule("lab-staff", OidcRole::User, Some("lab")),
            ],
            link_existing_users: false,
            leeway_secs: 5,
            key_refresh_min_secs: 1,
            key_max_age_secs: 3600,
        }
    }
}

type Shared = State<Arc<Mutex<Published>>>;

async fn discovery(State(published): Shared) -> Result<Json<Value>, StatusCode> {
    let mut published = published.lock().unwrap_or_else(PoisonError::into_inner);
    if !published.is_up {
        published.refused_count += 1;
        return Err(StatusCode::BAD_GATEWAY);
    }
    let issuer = &published.issuer;
    let document =
        json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys"), "response_types_supported": ["code"]});
    Ok(Json(document))
}

async fn key_set(State(published): Shared) -> Result<Json<Value>, StatusCode> {
    let mut published = published.lock().unwrap_or_else(PoisonError::into_inner);
    published.fetch_count += 1;
    if published.is_up { Ok(Json(json!({"keys": published.keys}))) } else { Err(StatusCode::BAD_GATEWAY) }
}
