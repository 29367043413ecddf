//! One request to the router: its id, remote address, time limits and count.

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::response::IntoResponse;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, Version};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tower::Service;

use super::HttpLimits;
use super::activity::{Activity, RequestInFlight};
use super::body::{HeldBody, LimitedBody, ResponseMemory};
use super::middleware::{Admitted, Client, Middleware, no_memory, unread_responses};
use evenkeel_runtime::metrics::{Counter, Metrics};
use evenkeel_runtime::request_id::{REQUEST_ID, RequestId};

/// The metrics of a process's listeners.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    classes: Arc<[Counter; 5]>,
    opened: Counter,
    closed: Counter,
}

impl HttpMetrics {
    /// Registers the counters in `metrics`.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let class = |label| {
            metrics.counter("http_requests_total", "Requests by class of the response", &[("class", label)])
        };
        let (opened, closed) = (Counter::default(), Counter::default());
        let open = (opened.clone(), closed.clone());
        #[expect(clippy::cast_precision_loss, reason = "open connections are far fewer than 2^53")]
        metrics.gauge("http_connections", "Open connections", &[], move || {
            open.0.value().saturating_sub(open.1.value()) as f64
        });
        Self { classes: Arc::new(["1xx", "2xx", "3xx", "4xx", "5xx"].map(class)), opened, closed }
    }

    pub(super) fn open_connection(&self) -> OpenConnection {
        self.opened.increment();
        OpenConnection(self.closed.clone())
    }

    pub(super) fn count(&self, status: StatusCode) {
        if let Some(counter) = self.classes.get(usize::from(status.as_u16() / 100).wrapping_sub(1)) {
            counter.increment();
        }
    }
}

/// Counts a connection as open while it lives.
#[derive(Debug)]
pub(super) struct OpenConnection(Counter);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.increment();
    }
}

/// A response in progress.
type PendingResponse = BoxFuture<'static, Response<Body>>;

/// Handles a request before the router: breaks with the response, or continues to the router.
type Shortcut = dyn Fn(Request<Body>, &Client) -> ControlFlow<PendingResponse, Request<Body>> + Send + Sync;

/// The request handler: a middleware, then a router, optionally preceded by a function.
#[derive(Clone)]
pub struct RequestHandler {
    middleware: Middleware,
    shortcut: Option<Arc<Shortcut>>,
    router: Router,
}

impl RequestHandler {
    /// Lets requests pass this middleware first.
    #[must_use]
    pub fn behind(self, middleware: Middleware) -> Self {
        Self { middleware, ..self }
    }

    /// Handles certain requests with a function before the router. The function gets them unchanged.
    #[must_use]
    pub fn with_shortcut(
        self,
        shortcut: impl Fn(Request<Body>, &Client) -> ControlFlow<PendingResponse, Request<Body>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { shortcut: Some(Arc::new(shortcut)), ..self }
    }

    /// Responds to a request as if it came over a connection from `peer`.
    pub async fn respond_to(&self, request: Request<Body>, peer: SocketAddr) -> Response<Body> {
        let id = RequestId::from_number(0);
        match self.middleware.admit(&request, peer, &Arc::default()) {
            Ok(admitted) => {
                let response = self.respond(request, peer, &admitted.client, &id).await;
                admitted.finish(&self.middleware, response)
            }
            Err(response) => *response,
        }
    }

    fn respond(
        &self,
        request: Request<Body>,
        peer: SocketAddr,
        client: &Client,
        id: &RequestId,
    ) -> PendingResponse {
        let mut request = match &self.shortcut {
            Some(shortcut) => match shortcut(request, client) {
                ControlFlow::Break(response) => return response,
                ControlFlow::Continue(request) => request,
            },
            None => request,
        };
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(client.clone());
        // The handlers do not depend on this crate: they find the id in the header in which clients send it.
        request.headers_mut().insert(REQUEST_ID.clone(), id.header());
        self.router.clone().call(request).map(|Ok(response)| response).boxed()
    }
}

impl From<Router> for RequestHandler {
    fn from(router: Router) -> Self {
        Self { middleware: Middleware::default(), shortcut: None, router }
    }
}

/// The handler as used by one connection.
pub struct RequestService {
    handler: RequestHandler,
    body_time: Duration,
    activity: Arc<Activity>,
    peer: SocketAddr,
}

impl RequestService {
    pub fn new(
        handler: &RequestHandler,
        limits: &HttpLimits,
        activity: &Arc<Activity>,
        peer: SocketAddr,
    ) -> Self {
        Self { handler: handler.clone(), body_time: limits.body_time, activity: activity.clone(), peer }
    }
}

impl hyper::service::Service<Request<Incoming>> for RequestService {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = RequestUnderWay;

    fn call(&self, request: Request<Incoming>) -> RequestUnderWay {
        let in_flight = self.activity.begin_request(request.version() == Version::HTTP_2);
        let id = RequestId::from_client(request.headers())
            .unwrap_or_else(|| RequestId::from_number(in_flight.number()));
        let middleware = &self.handler.middleware;
        match middleware.admit(&request, self.peer, self.activity.has_logged_in()) {
            Ok(admitted) => {
                let (head, body) = request.into_parts();
                let held = || middleware.hold_body(&admitted.client);
                let (body, held) = LimitedBody::wrap(body, self.body_time, held);
                let request = Request::from_parts(head, body);
                let response = self.handler.respond(request, self.peer, &admitted.client, &id);
                let admitted = Some((middleware.clone(), admitted));
                RequestUnderWay { response, admitted, held, id, in_flight: Some(in_flight) }
            }
            Err(response) => {
                let response = ready(*response).boxed();
                RequestUnderWay { response, admitted: None, held: None, id, in_flight: Some(in_flight) }
            }
        }
    }
}

/// A request in flight.
pub struct RequestUnderWay {
    response: PendingResponse,
    /// Admission that is completed with the response; taken once the response exists.
    admitted: Option<(Middleware, Admitted)>,
    /// The memory of its body, held until the response exists.
    held: Option<Arc<HeldBody>>,
    id: RequestId,
    /// Moved into the response.
    in_flight: Option<RequestInFlight>,
}

impl Future for RequestUnderWay {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let poll = || catch_unwind(AssertUnwindSafe(|| this.response.as_mut().poll(context)));
        let mut response = match this.id.scope(poll) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(response)) => response,
            // The panic itself has been reported by the panic hook.
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        };
        if this.held.take().is_some_and(|held| held.is_refused()) {
            response = no_memory();
        }
        let mut memory = None;
        if let Some((middleware, admitted)) = this.admitted.take() {
            let of_client = middleware.response_memory(&admitted.client);
            if !of_client.has_room(response.body()) {
                response = unread_responses();
            }
            memory = Some(of_client);
            response = admitted.finish(&middleware, response);
        }
        response.headers_mut().insert(REQUEST_ID.clone(), this.id.header());
        let in_flight = this.in_flight.take();
        if let Some(request) = &in_flight {
            request.count(response.status());
        }
        Poll::Ready(Ok(response.map(|body| TrackedBody { body, memory, _in_flight: in_flight })))
    }
}

/// The body of a response; the request is in flight until it is sent or dropped.
#[derive(Debug)]
pub struct TrackedBody {
    body: Body,
    memory: Option<ResponseMemory>,
    _in_flight: Option<RequestInFlight>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else { return Poll::Pending };
        Poll::Ready(match (&self.memory, frame) {
            (Some(memory), Some(Ok(part))) => Some(memory.hold(part)),
            (_, frame) => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
