//! The transport of requests to the hub: over HTTP, or by a direct call into a router of the same process.

use std::{
    fmt,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use evenkeel_domain::causes::chain;
use futures_util::{StreamExt, stream::BoxStream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tower::ServiceExt;

use crate::ClientError;

/// Maximum size of a response; a larger one is refused instead of filling the memory.
const MAX_RESPONSE_BYTES: usize = 256 * 1024 * 1024;

/// Maximum size of a response of one request, in its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxResponse(pub usize);

fn max_response(request: &Request<Bytes>) -> usize {
    request.extensions().get().map_or(MAX_RESPONSE_BYTES, |MaxResponse(bytes)| *bytes)
}

/// The body of a response, as it arrives.
pub type Pieces = BoxStream<'static, Result<Bytes, ClientError>>;

/// Time between two warnings that an address does not respond.
const WARNING_PERIOD: Duration = Duration::from_secs(60);

/// Settings of an HTTP connection.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Address of the server, such as `https://hub.example:8443`, without the base path of the API.
    pub url: String,
    /// Further addresses of the same server or of others on the same database: the next one is used while one does not respond.
    pub further_urls: Vec<String>,
    /// PEM text of the only certificate authorities to trust; `None` trusts those of the system.
    pub ca_pem: Option<Vec<u8>>,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Default timeout of a complete response.
    pub timeout: Duration,
}

impl HttpSettings {
    /// Default settings for a server: 10 s to connect, 45 s for a response.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            further_urls: Vec::new(),
            ca_pem: None,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(45),
        }
    }
}

/// Returns whether requests to an address cross a network without encryption, with the credentials in them.
#[must_use]
pub fn is_plain_off_loopback(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_local = match address {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    url.scheme() == "http" && !is_local
}

/// Sees every call of a transport.
pub trait Observer: Send + Sync {
    /// Returns the response to a request that must not be sent.
    fn intercept(&self, request: &Request<Bytes>) -> Option<Response<Bytes>>;

    /// Learns how a request ended that was sent.
    fn observe(&self, method: &Method, path: &str, outcome: Result<&Response<Bytes>, &ClientError>);
}

/// The way to a hub. Cloning shares connections.
#[derive(Clone)]
pub struct Transport {
    way: Way,
    observer: Option<Arc<dyn Observer>>,
}

#[derive(Clone)]
enum Way {
    Http { client: reqwest::Client, urls: Arc<Urls>, timeout: Duration },
    Router(axum::Router),
}

/// The addresses of a server. One of them is used until it does not respond.
struct Urls {
    all: Vec<String>,
    current: AtomicUsize,
    warned_at: Mutex<Option<Instant>>,
}

impl Urls {
    /// Checks the addresses.
    fn new(all: impl Iterator<Item = String>) -> Result<Self, ClientError> {
        let all: Vec<String> = all.map(|url| url.trim_end_matches('/').to_owned()).collect();
        let is_http = |url: &&String| url.starts_with("http://") || url.starts_with("https://");
        match all.iter().find(|url| !is_http(url)) {
            Some(url) => {
                Err(ClientError::Request(format!("\"{url}\" is not an http:// or https:// address")))
            }
            None => Ok(Self { all, current: AtomicUsize::new(0), warned_at: Mutex::default() }),
        }
    }

    /// Returns the address to use, with its number.
    fn current(&self) -> (usize, &str) {
        let number = self.current.load(Ordering::Relaxed) % self.all.len();
        (number, &self.all[number])
    }

    /// Lets the next calls use another address than this one.
    fn leave(&self, number: usize) {
        let next = (number + 1) % self.all.len();
        let is_left =
            self.current.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !is_left || next == number {
            return;
        }
        let (url, next) = (&self.all[number], &self.all[next]);
        if self.is_warning_due() {
            tracing::warn!(url, next, "the hub does not respond; its next address is used");
        } else {
            tracing::debug!(url, next, "the hub does not respond; its next address is used");
        }
    }

    /// Limits the warnings while no address responds.
    fn is_warning_due(&self) -> bool {
        // The value of a poisoned lock is consistent: a change is a single assignment.
        let mut warned_at = self.warned_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = warned_at.is_none_or(|at| at.elapsed() >= WARNING_PERIOD);
        if is_due {
            *warned_at = Some(Instant::now());
        }
        is_due
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Way::Http { urls, .. } => write!(formatter, "Transport({})", urls.current().1),
            Way::Router(_) => formatter.write_str("Transport(in process)"),
        }
    }
}

impl Transport {
    /// A pool of kept-alive HTTP connections.
    ///
    /// # Errors
    /// [`ClientError::Request`] for an address that is no HTTP URL or certificates that cannot be read.
    pub fn http(settings: HttpSettings) -> Result<Self, ClientError> {
        let urls = Urls::new(std::iter::once(settings.url).chain(settings.further_urls))?;
        let plain = urls.all.iter().all(|url| url.starts_with("http://"));
        let mut builder = reqwest::Client::builder()
            .connect_timeout(settings.connect_timeout)
            .pool_idle_timeout(Duration::from_secs(90))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")));
        if let Some(pem) = &settings.ca_pem {
            let roots = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| {
                ClientError::Request(format!("the CA file cannot be read: {}", chain(&error)))
            })?;
            builder = builder.tls_certs_only(roots);
        } else if plain {
            // Without TLS the system's certificates would only cost memory.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| ClientError::Request(chain(&error)))?;
        Ok(Self {
            way: Way::Http { client, urls: Arc::new(urls), timeout: settings.timeout },
            observer: None,
        })
    }

    /// Returns a transport with the same connections and an observer of the calls.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Direct calls into a router of this process.
    pub fn router(router: axum::Router) -> Self {
        Self { way: Way::Router(router), observer: None }
    }

    /// Sends one request whose URI is a path; `timeout` overrides the default timeout.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        timeout: Option<Duration>,
    ) -> Result<Response<Bytes>, ClientError> {
        let Some(observer) = &self.observer else { return self.exchange(request, timeout).await };
        if let Some(response) = observer.intercept(&request) {
            return Ok(response);
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let outcome = self.exchange(request, timeout).await;
        observer.observe(&method, &path, outcome.as_ref());
        outcome
    }

    /// Sends one request whose URI is a path, and returns the response as soon as its head has arrived.
    pub(crate) async fn open(&self, request: Request<Bytes>) -> Result<Response<Pieces>, ClientError> {
        match &self.way {
            Way::Http { client, urls, .. } => {
                let (parts, body) = request.into_parts();
                let url = format!("{}{}", urls.current().1, parts.uri);
                let sent = client.request(parts.method, url).headers(parts.headers).body(body).send().await;
                let received = sent.map_err(broken)?;
                let status = received.status();
                let pieces = received.bytes_stream().map(|piece| piece.map_err(broken)).boxed();
                let mut response = Response::new(pieces);
                *response.status_mut() = status;
                Ok(response)
            }
            Way::Router(router) => {
                let Ok(response) = router.clone().oneshot(request.map(axum::body::Body::from)).await;
                let pieces = |body: axum::body::Body| {
                    body.into_data_stream().map(|piece| piece.map_err(|error| lost(error.to_string())))
                };
                Ok(response.map(|body| pieces(body).boxed()))
            }
        }
    }

    async fn exchange(
        &self,
        request: Request<Bytes>,
        timeout: Option<Duration>,
    ) -> Result<Response<Bytes>, ClientError> {
        match &self.way {
            Way::Http { client, urls, timeout: usual } => {
                let (number, url) = urls.current();
                let outcome = send_http(client, url, request, timeout.unwrap_or(*usual)).await;
                if does_not_respond(&outcome) {
                    urls.leave(number);
                }
                outcome
            }
            Way::Router(router) => send_in_process(router.clone(), request).await,
        }
    }
}

/// Returns whether the call may succeed with another address.
fn does_not_respond(outcome: &Result<Response<Bytes>, ClientError>) -> bool {
    match outcome {
        Ok(response) => matches!(response.status().as_u16(), 502..=504),
        Err(error) => matches!(error, ClientError::Transport { retryable: true, .. }),
    }
}

async fn send_http(
    client: &reqwest::Client,
    url: &str,
    request: Request<Bytes>,
    timeout: Duration,
) -> Result<Response<Bytes>, ClientError> {
    let max_bytes = max_response(&request);
    let (parts, body) = request.into_parts();
    let received = client
        .request(parts.method, format!("{url}{}", parts.uri))
        .headers(parts.headers)
        .timeout(timeout)
        .body(body)
        .send()
        .await
        .map_err(broken)?;
    let status = received.status();
    let headers = received.headers().clone();
    let mut body = Vec::with_capacity(received.content_length().unwrap_or(0).min(1 << 20) as usize);
    let mut pieces = received.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(broken)?;
        if body.len() + piece.len() > max_bytes {
            return Err(too_large(max_bytes));
        }
        body.extend_from_slice(&piece);
    }
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

async fn send_in_process(
    router: axum::Router,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, ClientError> {
    let max_bytes = max_response(&request);
    let Ok(response) = router.oneshot(request.map(axum::body::Body::from)).await;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, max_bytes).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { too_large(max_bytes) } else { lost(error.to_string()) }
    })?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

fn broken(error: reqwest::Error) -> ClientError {
    ClientError::Transport { retryable: !error.is_builder(), reason: chain(&error.without_url()) }
}

fn lost(reason: String) -> ClientError {
    ClientError::Transport { retryable: true, reason }
}

fn too_large(max_bytes: usize) -> ClientError {
    ClientError::Decode(format!("the response is larger than {} MiB", max_bytes >> 20))
}
