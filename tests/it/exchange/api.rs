//! An exchange in this process, called without sockets.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_exchange::{Exchange, ExchangeSettings};
use evenkeel_http_server::RequestHandler;
use evenkeel_http_server::middleware::{Middleware, MiddlewareSettings};
use evenkeel_store::Database;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use crate::support::TestDatabase;
use crate::support::wait::must;

const ROOT_PASSWORD: &str = "root password";
/// The login of root.
pub const ROOT: &str = "root/root:root password";

/// A running exchange, called without sockets; cheap to clone.
#[derive(Clone)]
pub struct Api {
    router: Router,
    /// Handler that requests from an address pass.
    listener: RequestHandler,
    /// Its database.
    pub database: Database,
    _shutdown: Arc<DropGuard>,
}

/// Two exchanges on one database, with an organization `o`.
pub async fn two_exchanges() -> (TestDatabase, [Api; 2]) {
    let database = TestDatabase::new().await;
    let first = Api::start(&database).await;
    first.make_org("o").await;
    let second = Api::start(&database).await;
    (database, [first, second])
}

impl Api {
    /// Starts an exchange on the database; several may run on one.
    pub async fn start(database: &TestDatabase) -> Self {
        Self::start_with(database, Self::settings()).await
    }

    /// The settings of an exchange that nothing special is asked of.
    pub fn settings() -> ExchangeSettings {
        ExchangeSettings { root_password: Some(ROOT_PASSWORD.to_owned()), ..ExchangeSettings::default() }
    }

    /// The same with settings; the password of root is always that of the tests.
    pub async fn start_with(database: &TestDatabase, settings: ExchangeSettings) -> Self {
        let database = must(Database::connect(database.url(), 16).await, "connecting to the test's database");
        let settings = ExchangeSettings { root_password: Some(ROOT_PASSWORD.to_owned()), ..settings };
        let (shutdown, rate) = (CancellationToken::new(), settings.rate_limits.address);
        let exchange =
            must(Exchange::start(database.clone(), settings, shutdown.clone()).await, "the exchange");
        let middleware = Middleware::new(MiddlewareSettings {
            address_rate: rate,
            trusted_proxies: must("10.0.0.0/8".parse(), "a network"),
            ..MiddlewareSettings::default()
        });
        let listener =
            RequestHandler::from(exchange.router()).with_shortcut(exchange.fast_path()).behind(middleware);
        Self { router: exchange.router(), listener, database, _shutdown: Arc::new(shutdown.drop_guard()) }
    }

    /// Its routes.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Sends a request below `/v1` as `org/id:secret` or with `Bearer token`, with extra headers.
    pub async fn send(
        &self,
        login: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Response<Body> {
        self.send_from(None, login, method, path, headers, body).await
    }

    /// The same as if it came over a connection from this address; clients at `10.0.0.0/8` are trusted proxies.
    #[expect(clippy::too_many_arguments, reason = "the parts of a request")]
    pub async fn send_from(
        &self,
        peer: Option<IpAddr>,
        login: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Response<Body> {
        let authorization = match login.starts_with("Bearer ") {
            true => login.to_owned(),
            false => format!("Basic {}", STANDARD.encode(login)),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/v1{path}"))
            .header("authorization", authorization)
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = must(request.body(body), "a request");
        if let Some(peer) = peer {
            return self.listener.respond_to(request, SocketAddr::new(peer, 4711)).await;
        }
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(impossible) => match impossible {},
        }
    }

    /// The same without headers; returns status and JSON (`null` without).
    pub async fn call(&self, login: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        read_response(self.send(login, method, path, &[], &body).await).await
    }

    /// A call whose response must have this status; returns the body.
    pub async fn expect(&self, status: u16, login: &str, method: &str, path: &str, body: Value) -> Value {
        let (found, body) = self.call(login, method, path, body).await;
        assert_eq!(found, status, "{method} {path} as {login}: {body}");
        body
    }

    /// Returns the warnings of a write that must succeed.
    pub async fn warnings_of(&self, login: &str, method: &str, path: &str, body: Value) -> Vec<String> {
        let response = self.send(login, method, path, &[], &body).await;
        assert!(response.status().is_success(), "{method} {path} as {login}: {}", response.status());
        let warnings = response.headers().get_all("warning").iter();
        warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned()).collect()
    }

    /// A service `s` of user `u`, and a deployment policy for it with this orchestration; returns the warnings about the policy.
    pub async fn make_policy(&self, org: &str, policy: &str, orchestration: Value) -> Vec<String> {
        let login = format!("{org}/u:pu");
        let service =
            json!({"label": "s", "url": "s", "version": "1.0.0", "arch": "amd64", "sharable": "multiple"});
        self.call(&login, "POST", &format!("/orgs/{org}/services"), service).await;
        let body = json!({
            "label": policy, "orchestration": orchestration,
            "service": {"name": "s", "org": org, "arch": "*", "serviceVersions": [{"version": "1.0.0"}]},
        });
        self.warnings_of(&login, "POST", &format!("/orgs/{org}/business/policies/{policy}"), body).await
    }

    /// An organization with an administrator `admin:pa` and users `u:pu` and `v:pv`.
    pub async fn make_org(&self, org: &str) {
        self.expect(201, ROOT, "POST", &format!("/orgs/{org}"), json!({"label": "", "description": ""}))
            .await;
        for (name, is_admin) in [("admin", true), ("u", false), ("v", false)] {
            let body = json!({"password": format!("p{}", &name[..1]), "email": "e", "admin": is_admin});
            self.expect(201, ROOT, "POST", &format!("/orgs/{org}/users/{name}"), body).await;
        }
    }

    /// A device that belongs to the user, with the token `token-<name>`.
    pub async fn make_node(&self, login: &str, org: &str, node: &str) {
        let body = json!({"token": format!("token-{node}"), "name": node, "pattern": "", "publicKey": ""});
        let path = format!("/orgs/{org}/nodes/{node}");
        loop {
            let (status, found) = self.call(login, "PUT", &path, body.clone()).await;
            // A busy machine refuses logins that waited too long for their hash; clients try again.
            if status != 429 {
                assert_eq!(status, 201, "{found}");
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Status and JSON (`null` without) of a response.
pub async fn read_response(response: Response<Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    let bytes = must(response.into_body().collect().await, "a body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}
