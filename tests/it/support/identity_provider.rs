//! A small OpenID Connect provider: discovery document, key set, tokens, and logins of browsers, as the test wants them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use evenkeel_domain::assigned_role::PolicyPatterns;
use evenkeel_exchange::{GroupRole, OidcRole, OidcSettings};
use evenkeel_http_server::tls::TlsSettings;
use evenkeel_http_server::{HttpLimits, HttpMetrics, HttpServer, listen};
use evenkeel_runtime::metrics::Metrics;
use evenkeel_wire::agreement::PrivateKey;
use http::{HeaderMap, StatusCode, header};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::wait::must;

/// Audience that tokens must have.
pub const AUDIENCE: &str = "evenkeel";

/// A signing key of the provider.
#[derive(Clone)]
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

/// The client of browsers, its secret, and the public address of its hub.
pub const CLIENT: &str = AUDIENCE;
pub const CLIENT_SECRET: &str = "secret of the client";
pub const PUBLIC_URL: &str = "https://hub.example";

/// A response of the token endpoint.
#[derive(Clone, Debug, Default)]
pub enum TokenEndpoint {
    /// What the standard says.
    #[default]
    Usual,
    /// The id token has these claims besides or instead of the usual ones.
    With(Value),
    /// Another key than the published one signs.
    Forged,
    /// A response that never ends: pieces follow each other as long as somebody reads.
    Endless,
    /// None.
    Silent,
    /// A redirection.
    To(String),
    /// This status and text.
    Fixed(u16, String),
}

/// A login that waits for its code to be exchanged.
struct Granted {
    client_id: String,
    redirect_address: String,
    challenge: String,
    claims: Value,
}

#[derive(Default)]
struct Published {
    /// Further members of the discovery document.
    discovery: BTreeMap<String, Value>,
    /// The claims of the user who is at the browser; nobody if it is null.
    user: Value,
    granted: BTreeMap<String, Granted>,
    token_endpoint: TokenEndpoint,
    token_requests: usize,
    signing: Option<SigningKey>,
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
            .route("/realms/plant/authorize", get(authorize))
            .route("/realms/plant/token", post(exchange_code))
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

    /// Lets a user with these claims be at the browsers, whose id tokens are signed with a key.
    pub fn sit_down(&self, key: &SigningKey, claims: Value) {
        self.with(|published| (published.user, published.signing) = (claims, Some(key.clone())));
    }

    /// Lets nobody be at the browsers.
    pub fn stand_up(&self) {
        self.with(|published| published.user = Value::Null);
    }

    /// Sets how the token endpoint responds from now on.
    pub fn set_token_endpoint(&self, response: TokenEndpoint) {
        self.with(|published| published.token_endpoint = response);
    }

    /// How often the token endpoint was asked.
    pub fn token_requests(&self) -> usize {
        self.with(|published| published.token_requests)
    }

    /// Sets a member of the discovery document.
    pub fn discover(&self, name: &str, value: Value) {
        self.with(|published| drop(published.discovery.insert(name.to_owned(), value)));
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

    /// Settings of a hub that trusts this provider: `hub-admins`, `plant-admins`, `plant-staff`, `plant-guests` and `plant-shop` have
    /// roles.
    pub fn settings(&self) -> OidcSettings {
        let rule = |group: &str, role, organization: Option<&str>| GroupRole {
            group: group.to_owned(),
            role,
            organization: organization.map(str::to_owned),
            policies: PolicyPatterns::default(),
        };
        let policies = PolicyPatterns::read(&["shop-*".to_owned()]).unwrap_or_default();
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
                rule("plant-guests", OidcRole::Viewer, Some("plant")),
                GroupRole { policies, ..rule("plant-shop", OidcRole::Deployer, Some("plant")) },
            ],
            link_existing_users: false,
            leeway_secs: 5,
            key_refresh_min_secs: 1,
            key_max_age_secs: 3600,
            console: None,
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
    let mut document = json!({
        "issuer": issuer, "jwks_uri": format!("{issuer}/keys"), "response_types_supported": ["code"],
        "authorization_endpoint": format!("{issuer}/authorize"), "token_endpoint": format!("{issuer}/token"),
    });
    for (name, value) in &published.discovery {
        document[name] = value.clone();
    }
    Ok(Json(document))
}

async fn key_set(State(published): Shared) -> Result<Json<Value>, StatusCode> {
    let mut published = published.lock().unwrap_or_else(PoisonError::into_inner);
    published.fetch_count += 1;
    if published.is_up { Ok(Json(json!({"keys": published.keys}))) } else { Err(StatusCode::BAD_GATEWAY) }
}

/// Logs in the user who is at the browser, and sends it back with a code.
async fn authorize(State(published): Shared, Query(asked): Query<BTreeMap<String, String>>) -> Response {
    let mut published = published.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let redirect_address = asked("redirect_uri");
    let is_registered = redirect_address == format!("{PUBLIC_URL}/console/login/oidc/callback");
    if asked("client_id") != CLIENT || !is_registered {
        return (StatusCode::BAD_REQUEST, "the client or its redirect address is unknown").into_response();
    }
    let is_code = asked("response_type") == "code" && asked("code_challenge_method") == "S256";
    let scopes = asked("scope");
    let is_openid = scopes.split(' ').any(|scope| scope == "openid") && !asked("nonce").is_empty();
    let back = |pairs: &[(&str, &str)]| {
        let pairs = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        Redirect::to(&format!("{redirect_address}?{pairs}")).into_response()
    };
    let state = asked("state");
    if !is_code || !is_openid {
        return back(&[("error", "invalid_request"), ("state", &state)]);
    }
    if published.user.is_null() {
        if asked("prompt") == "none" {
            return back(&[("error", "login_required"), ("state", &state)]);
        }
        return back(&[("error", "access_denied"), ("error_description", "<b>no</b>"), ("state", &state)]);
    }
    let mut claims = published.user.clone();
    claims["nonce"] = json!(asked("nonce"));
    claims["aud"] = json!(CLIENT);
    let code = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>());
    let (client_id, challenge) = (asked("client_id"), asked("code_challenge"));
    let issuer = published.issuer.clone();
    let response = back(&[("code", &code), ("state", &state), ("iss", &issuer)]);
    published.granted.insert(code, Granted { client_id, redirect_address, challenge, claims });
    response
}

/// Exchanges a code, once, for the client and the attempt that it was granted to.
async fn exchange_code(State(published): Shared, headers: HeaderMap, body: String) -> Response {
    let sent: BTreeMap<String, String> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let sent = |name: &str| sent.get(name).cloned().unwrap_or_default();
    let (behavior, claims, key) = {
        let mut published = published.lock().unwrap_or_else(PoisonError::into_inner);
        published.token_requests += 1;
        let granted = published.granted.remove(&sent("code"));
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(sent("code_verifier")));
        let login = STANDARD.encode(format!("{CLIENT}:{}", CLIENT_SECRET.replace(' ', "+")));
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let is_client = authorization == Some(format!("Basic {login}").as_str());
        let claims = granted.filter(|granted| {
            is_client
                && sent("grant_type") == "authorization_code"
                && granted.client_id == CLIENT
                && granted.redirect_address == sent("redirect_uri")
                && granted.challenge == challenge
        });
        (published.token_endpoint.clone(), claims.map(|granted| granted.claims), published.signing.clone())
    };
    let (Some(mut claims), Some(mut key)) = (claims, key) else {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    };
    match behavior {
        TokenEndpoint::Usual => {}
        TokenEndpoint::With(further) => {
            let further = further.as_object().cloned().unwrap_or_default();
            claims.as_object_mut().expect("claims are an object").extend(further);
        }
        TokenEndpoint::Forged => key = SigningKey { id: key.id.clone(), ..SigningKey::elliptic("x") },
        TokenEndpoint::Endless => {
            let piece = bytes::Bytes::from(vec![b' '; 64 * 1024]);
            let pieces = futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()));
            return Body::from_stream(pieces).into_response();
        }
        TokenEndpoint::Silent => std::future::pending().await,
        TokenEndpoint::To(address) => return Redirect::temporary(&address).into_response(),
        TokenEndpoint::Fixed(status, text) => {
            return (must(StatusCode::from_u16(status), "a status"), text).into_response();
        }
    }
    let reply = json!({"token_type": "Bearer", "access_token": "not used", "expires_in": 60, "id_token": key.sign(&claims)});
    Json(reply).into_response()
}
