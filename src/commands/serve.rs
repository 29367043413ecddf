//! Serves routers on listeners until the process is told to stop.

use std::net::SocketAddr;

use evenkeel_http_server::tls::TlsSettings;
use evenkeel_http_server::{HttpLimits, HttpMetrics, HttpServer, RequestHandler};
use evenkeel_runtime::health::Health;
use evenkeel_runtime::metrics::Metrics;
use evenkeel_runtime::{ExitStatus, Failure, Lifecycle};
use evenkeel_store::Database;
use tokio::net::TcpListener;

/// What a serving process shows of itself.
pub struct ServerSetup {
    /// The process's dependencies; roles add theirs.
    pub health: Health,
    /// What `/metrics` shows; roles add theirs.
    pub metrics: Metrics,
    http_metrics: HttpMetrics,
    tls: Option<TlsSettings>,
    limits: HttpLimits,
}

impl ServerSetup {
    /// A front that watches the database and serves with TLS when there is a certificate.
    pub fn new(
        lifecycle: &Lifecycle,
        database: &Database,
        tls: Option<TlsSettings>,
        limits: HttpLimits,
    ) -> Self {
        let metrics = Metrics::default();
        let health = Health::new(env!("CARGO_PKG_VERSION"), lifecycle.shutdown(), metrics.clone());
        super::metrics::observe_database(&metrics, database);
        let database = database.clone();
        health.depend("database", move || {
            let database = database.clone();
            // Taking a connection proves that it answers.
            async move { database.acquire().await.map(drop).map_err(|error| error.to_string()) }
        });
        Self { health, http_metrics: HttpMetrics::new(&metrics), metrics, tls, limits }
    }

    /// The URL of an address that this front serves.
    pub fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// Serves `handler` on `listener` as a tracked task.
    pub fn serve(&self, lifecycle: &Lifecycle, listener: TcpListener, handler: impl Into<RequestHandler>) {
        let server = HttpServer {
            listener,
            handler: handler.into(),
            limits: self.limits.clone(),
            tls: self.tls.clone(),
            metrics: self.http_metrics.clone(),
        };
        lifecycle.tasks().spawn(server.serve(lifecycle.shutdown()));
    }
}

/// Binds an address, before anything expensive is started; answers also the address that it got.
pub async fn listen(address: &str) -> Result<(TcpListener, SocketAddr), Failure> {
    let listener = evenkeel_http_server::listen(address)
        .await
        .map_err(|error| Failure::from_error(error.exit_status(), &error))?;
    let bound = listener.local_addr().map_err(|error| Failure::from_error(ExitStatus::Address, &error))?;
    Ok((listener, bound))
}

/// Starts to listen for signals.
pub fn lifecycle() -> Result<Lifecycle, Failure> {
    Lifecycle::listen().map_err(|error| Failure::from_error(ExitStatus::Failure, &error))
}
