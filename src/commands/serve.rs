//! Serves routers on listeners until shutdown.

use std::net::SocketAddr;

use evenkeel_http_server::middleware::Middleware;
use evenkeel_http_server::tls::TlsSettings;
use evenkeel_http_server::{HttpLimits, HttpMetrics, HttpServer, RequestHandler};
use evenkeel_runtime::health::Health;
use evenkeel_runtime::memory::FreedMemory;
use evenkeel_runtime::metrics::Metrics;
use evenkeel_runtime::worker::Workers;
use evenkeel_runtime::{ExitStatus, Failure, Lifecycle, Secret};
use evenkeel_store::{Database, StoreError};
use tokio::net::TcpListener;

use super::limits::{ClientOptions, HttpOptions};
use super::settings::ExchangeOptions;

/// The shared parts of a server process: health, metrics, TLS and limits.
pub struct ServerSetup {
    /// The process's dependencies; roles add theirs.
    pub health: Health,
    /// The metrics; roles add theirs.
    pub metrics: Metrics,
    http_metrics: HttpMetrics,
    tls: Option<TlsSettings>,
    limits: HttpLimits,
    middleware: Middleware,
}

/// Options shared by all listeners of a process.
pub struct ListenerOptions {
    limits: HttpLimits,
    middleware: Middleware,
    metrics_token: Option<Secret<String>>,
}

impl ListenerOptions {
    /// Reads the settings.
    pub fn of(http: &HttpOptions, clients: &ClientOptions) -> Result<Self, Failure> {
        Ok(Self {
            limits: http.limits()?,
            middleware: clients.middleware()?,
            metrics_token: clients.metrics_token()?,
        })
    }

    /// Reads the settings of listeners that receive the bodies of an exchange, before anything is started.
    pub fn of_exchange(
        http: &HttpOptions,
        clients: &ClientOptions,
        exchange: &ExchangeOptions,
    ) -> Result<Self, Failure> {
        clients.check_body_memory(exchange.max_body_bytes())?;
        Self::of(http, clients)
    }
}

impl ServerSetup {
    /// Creates the parts; the database is a dependency of the health check.
    pub fn new(
        lifecycle: &Lifecycle,
        database: &Database,
        tls: Option<TlsSettings>,
        options: ListenerOptions,
    ) -> Self {
        let ListenerOptions { limits, middleware, metrics_token } = options;
        let metrics = Metrics::default();
        let health = Health::new(env!("CARGO_PKG_VERSION"), lifecycle.shutdown(), metrics.clone());
        let health = health.with_metrics_token(metrics_token);
        super::metrics::observe_database(&metrics, database);
        super::metrics::observe_certificate(&metrics, tls.as_ref());
        let database = database.clone();
        health.depend("database", move || {
            let database = database.clone();
            // Opening a connection, without a statement, shows that the database responds.
            async move { database.read(async |_| Ok(())).await.map_err(|error: StoreError| error.to_string()) }
        });
        Self { health, http_metrics: HttpMetrics::new(&metrics), metrics, tls, limits, middleware }
    }

    /// Returns true if its listeners use TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the URL of a served address.
    pub fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// Serves `handler` on `listener` as a tracked task.
    pub fn serve(&self, lifecycle: &Lifecycle, listener: TcpListener, handler: impl Into<RequestHandler>) {
        if self.tls.is_none()
            && let Ok(address) = listener.local_addr()
            && !address.ip().to_canonical().is_loopback()
        {
            tracing::warn!(
                %address,
                "listening without TLS beyond this machine, so others on the network can read credentials: set tls, or let only a proxy with \
                 TLS reach this address"
            );
        }
        let server = HttpServer {
            listener,
            handler: handler.into().behind(self.middleware.clone()),
            limits: self.limits.clone(),
            tls: self.tls.clone(),
            metrics: self.http_metrics.clone(),
        };
        lifecycle.tasks().spawn(server.serve(lifecycle.shutdown()));
    }
}

/// Binds an address, before anything expensive is started; also returns the bound address.
pub async fn listen(address: &str) -> Result<(TcpListener, SocketAddr), Failure> {
    let listener = evenkeel_http_server::listen(address)
        .await
        .map_err(|error| Failure::from_error(error.exit_status(), &error))?;
    let bound = listener.local_addr().map_err(|error| Failure::from_error(ExitStatus::Address, &error))?;
    Ok((listener, bound))
}

/// Starts to listen for signals, and to return freed memory.
pub fn lifecycle() -> Result<Lifecycle, Failure> {
    let lifecycle = Lifecycle::listen().map_err(|error| Failure::from_error(ExitStatus::Failure, &error))?;
    let returned = Workers::default().run(FreedMemory::default(), lifecycle.shutdown());
    lifecycle.tasks().spawn(returned);
    Ok(lifecycle)
}
