//! Serves a router on a listener: HTTP/1.1 and HTTP/2, optional TLS, limits on all resources a client may hold.
//!
//! Each request passes the [`middleware`] first, and carries its remote address and an id; every connection ends in bounded time after shutdown.

mod activity;
mod anonymous;
mod body;
mod connection_limit;
pub mod limit;
pub mod middleware;
mod request;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use activity::{Activity, Ages, Watched};
use anonymous::Connections;
use connection_limit::ConnectionLimit;
use evenkeel_runtime::exit::ExitStatus;
use request::RequestService;
pub use request::{HttpMetrics, RequestHandler};
use tls::TlsSettings;

/// Limits on a client.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Bytes of a request's line and headers.
    pub header_bytes: usize,
    /// Number of a request's headers.
    pub header_count: usize,
    /// From the first byte of a request to the end of its headers; also for a TLS handshake.
    pub header_time: Duration,
    /// From the first wait for a body to its end.
    pub body_time: Duration,
    /// Without a request under way.
    pub idle_time: Duration,
    /// The same for connections without a request with valid credentials.
    pub anonymous_idle_time: Duration,
    /// Time for which a client may leave written data unread.
    pub stall_time: Duration,
    /// Maximum number of connections; further ones wait to be accepted.
    pub connection_count: usize,
    /// Maximum number of connections from one address, 0 for no limit; further ones are closed at once. Connections
    /// from this machine are not limited.
    pub connections_per_address: usize,
    /// Time from shutdown until connections that are still busy are closed.
    pub drain_time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            header_bytes: 64 * 1024,
            header_count: 100,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            idle_time: Duration::from_secs(120),
            anonymous_idle_time: Duration::from_secs(10),
            stall_time: Duration::from_secs(60),
            connection_count: 20_000,
            connections_per_address: 10_000,
            drain_time: Duration::from_secs(4),
        }
    }
}

/// Connections that may wait to be accepted, if the kernel allows as many. A fleet reconnects at once; a client without a free slot retries
/// after a second, then after three.
const BACKLOG: u32 = 4_096;

/// An address could not be listened on.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The text is no address.
    #[error("the listen address {address:?} does not have the form HOST:PORT, such as 127.0.0.1:8080")]
    NoAddress {
        /// As it was given.
        address: String,
    },
    /// Another process listens there.
    #[error("the address {address} is taken by another process")]
    Taken {
        /// As it was given.
        address: String,
    },
    /// Anything else.
    #[error("cannot listen on {address}")]
    Refused {
        /// As it was given.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl ListenError {
    /// The status to end the process with.
    #[must_use]
    pub fn exit_status(&self) -> ExitStatus {
        match self {
            Self::NoAddress { .. } => ExitStatus::Usage,
            Self::Taken { .. } | Self::Refused { .. } => ExitStatus::Address,
        }
    }
}

/// Binds `address` (`HOST:PORT`; port 0 takes a free one).
///
/// # Errors
/// [`ListenError::Taken`] when another process listens there, [`ListenError::NoAddress`] for a text of another form.
pub async fn listen(address: &str) -> Result<TcpListener, ListenError> {
    if !has_host_and_port(address) {
        return Err(ListenError::NoAddress { address: address.to_owned() });
    }
    bind(address).await.map_err(|source| {
        let address = address.to_owned();
        if source.kind() == io::ErrorKind::AddrInUse {
            ListenError::Taken { address }
        } else {
            ListenError::Refused { address, source }
        }
    })
}

fn has_host_and_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

async fn bind(address: &str) -> io::Result<TcpListener> {
    let mut outcome = Err(io::Error::new(io::ErrorKind::InvalidInput, "the name has no address"));
    for address in tokio::net::lookup_host(address).await? {
        outcome = bind_one(address);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// One listener with what it serves.
pub struct HttpServer {
    /// The listener of the connections.
    pub listener: TcpListener,
    /// The request handler.
    pub handler: RequestHandler,
    /// Limits on clients.
    pub limits: HttpLimits,
    /// Certificates, when the listener speaks TLS.
    pub tls: Option<TlsSettings>,
    /// The metrics.
    pub metrics: HttpMetrics,
}

impl HttpServer {
    /// Serves until `shutdown`; returns when the last connection has ended, or was closed after the drain time.
    pub async fn serve(self, shutdown: CancellationToken) {
        let Self { listener, handler, limits, tls, metrics } = self;
        let connections = TaskTracker::new();
        let cut = CancellationToken::new();
        let permits = Arc::new(Semaphore::new(limits.connection_count));
        let per_address = Arc::new(ConnectionLimit::new(limits.connections_per_address));
        let host = Arc::new(Host {
            handler,
            limits,
            tls,
            metrics,
            shutdown: shutdown.clone(),
            cut: cut.clone(),
            open: Arc::default(),
        });
        while let Some((stream, peer, permit)) = accept(&listener, &permits, &host.open, &shutdown).await {
            let Some(address_permit) = per_address.try_acquire(peer.ip()) else {
                tracing::debug!(client.address = %peer, "closing a connection: too many from its address");
                continue;
            };
            let serving = host.clone().serve_stream(stream, peer, permit);
            connections.spawn(async move {
                serving.await;
                drop(address_permit);
            });
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(host.limits.drain_time, connections.wait()).await.is_err() {
            tracing::warn!(connection_count = connections.len(), "closing connections that are still busy");
            cut.cancel();
            connections.wait().await;
        }
    }
}

/// The next connection, or `None` at shutdown.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    open: &Connections,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let next = async {
        let permit = permit(permits, open).await;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return (stream, peer, permit),
                Err(error) => {
                    // The client has already disconnected, or this process has no free file descriptor; both are temporary.
                    tracing::debug!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    };
    shutdown.run_until_cancelled(next).await
}

/// Waits for a permit for another connection. While there is none, connections without a login are closed.
async fn permit(permits: &Arc<Semaphore>, open: &Connections) -> OwnedSemaphorePermit {
    if let Ok(permit) = permits.clone().try_acquire_owned() {
        return permit;
    }
    loop {
        open.evict();
        let free = permits.clone().acquire_owned();
        if let Ok(permit) = tokio::time::timeout(EVICTION_PERIOD, free).await {
            return permit.expect("the semaphore is never closed");
        }
    }
}

/// Interval at which a full listener looks for a connection without a login.
const EVICTION_PERIOD: Duration = Duration::from_millis(100);

/// The state shared by all connections of a listener.
struct Host {
    handler: RequestHandler,
    limits: HttpLimits,
    tls: Option<TlsSettings>,
    metrics: HttpMetrics,
    shutdown: CancellationToken,
    cut: CancellationToken,
    open: Arc<Connections>,
}

/// The signals to a connection besides its requests.
enum Signal {
    /// It ends now.
    Cut,
    /// It takes no more requests.
    Shutdown,
    /// Time to check how long the connection has been waiting for the client.
    Check,
}

impl Host {
    async fn serve_stream(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) {
        let _open = self.metrics.open_connection();
        let _permit = permit;
        // Small responses must not wait for more data. Only a socket that is already closed refuses this option.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve_connection(stream, peer).await };
        let handshake = tokio::time::timeout(self.limits.header_time, tls.acceptor().accept(stream));
        match self.shutdown.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.serve_connection(stream, peer).await,
            Some(Ok(Err(error))) => tracing::debug!(client.address = %peer, "TLS handshake failed: {error}"),
            Some(Err(_)) | None => {}
        }
    }

    async fn serve_connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
    ) {
        let (activity, evicted) = (Arc::new(Activity::new(&self.metrics)), self.cut.child_token());
        let _registered = self.open.register(activity.clone(), evicted.clone());
        let service = RequestService::new(&self.handler, &self.limits, &activity, peer);
        let builder = self.builder();
        let connection =
            builder.serve_connection(TokioIo::new(Watched::new(stream, activity.clone())), service);
        tokio::pin!(connection);
        let mut is_draining = false;
        let mut ages = Ages::new();
        // In a set, the signal is polled only when it is woken and not with every request, because all connections share its locks.
        let mut signals = FuturesUnordered::from_iter([self.signal(false, &evicted)]);
        loop {
            tokio::select! {
                biased;
                ending = connection.as_mut() => {
                    if let Err(error) = ending {
                        tracing::debug!(client.address = %peer, "connection ended: {error}");
                    }
                    return;
                }
                Some(signal) = signals.next() => {
                    match signal {
                        Signal::Cut => return,
                        Signal::Shutdown => connection.as_mut().graceful_shutdown(),
                        Signal::Check => if let Some(reason) = ages.overdue(&activity, &self.limits) {
                            tracing::debug!(client.address = %peer, "closing a connection: {reason}");
                            return;
                        }
                    }
                    is_draining |= matches!(signal, Signal::Shutdown);
                    signals.push(self.signal(is_draining, &evicted));
                }
            }
        }
    }

    /// Waits for events of a connection besides its requests.
    async fn signal(&self, is_draining: bool, cut: &CancellationToken) -> Signal {
        let shortest =
            self.limits.header_time.min(self.limits.idle_time).min(self.limits.anonymous_idle_time);
        let interval = shortest / 4;
        tokio::select! {
            biased;
            () = cut.cancelled() => Signal::Cut,
            () = self.shutdown.cancelled(), if !is_draining => Signal::Shutdown,
            () = tokio::time::sleep(interval) => Signal::Check,
        }
    }

    fn builder(&self) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            // [`Activity`] monitors the times, with one timer per connection instead of one per request.
            .header_read_timeout(None)
            .max_headers(self.limits.header_count)
            .max_buf_size(self.limits.header_bytes);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(self.limits.header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(256)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        builder
    }
}

#[cfg(test)]
mod tests;
