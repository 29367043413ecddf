//! Carries out a request whose operation is known: reads path, parameters and body, asks for the permission, calls the handler and
//! records the outcome.
//!
//! A handler takes an [`Op`], the [`Permission`] that its operation needs, and the body, and returns the type that the API document
//! shows. It is called only with that permission, so it cannot forget to ask for it.

use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use evenkeel_access::{Access, Caller, Permission, WriteRight};
use evenkeel_api::{Content, Documented, MAX_ID};
use evenkeel_exchange_store::permitted::Permitted;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use http::Method;
use utoipa::openapi::path::Parameter;

use super::audit::{AuditedOperation, AuditedRequest};
use super::authorize::Grant;
use super::fast_path::{Values, respond};
use super::transaction::{Finished, WriteTx};
use crate::extract::{NoBody, Parameters, RequestBody};
use crate::{ApiError, Exchange};

/// One request of an operation: who asks, for what, with which parameters.
pub(crate) struct Op<P = (), Q = ()> {
    pub(crate) exchange: Exchange,
    pub(crate) caller: Arc<Caller>,
    pub(crate) path: P,
    pub(crate) parameters: Q,
    audit: Option<Arc<AuditedRequest>>,
}

impl<P, Q> Op<P, Q> {
    /// Runs one named write: see [`Exchange::write`]. The permission proves that the caller may.
    ///
    /// # Errors
    /// Those of `work` and of the store; 503 when no connection is free in time or the write kept losing.
    pub(crate) async fn write<R: WriteRight, T, F>(
        &self,
        permission: &Permission<R>,
        name: &'static str,
        work: impl Fn(WriteTx<R>) -> F,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<Finished<R, T>, ApiError>>,
    {
        let permit = |tx| Permitted::new(tx, permission);
        self.exchange.write(permit, self.audit.as_ref(), name, work).await
    }
}

/// An organization in a path.
#[derive(Debug, Clone)]
pub(crate) struct OrgPath {
    pub(crate) org: String,
}

/// A resource of an organization in a path.
#[derive(Debug, Clone)]
pub(crate) struct ResourcePath {
    pub(crate) org: String,
    pub(crate) id: String,
}

/// A part of a resource in a path.
#[derive(Debug, Clone)]
pub(crate) struct PartPath {
    pub(crate) org: String,
    pub(crate) id: String,
    pub(crate) part: String,
}

/// The parameters of a path.
pub(crate) trait PathParameters: Sized + Send + Sync + 'static {
    /// Takes the decoded parameters in their order; `None` when the path has another number of them.
    fn take(values: &mut dyn Iterator<Item = &str>) -> Option<Self>;

    /// The organization.
    fn org(&self) -> Option<&str> {
        None
    }

    /// The bare id of the resource.
    fn id(&self) -> Option<&str> {
        None
    }

    /// The part of the resource.
    fn part(&self) -> Option<&str> {
        None
    }
}

impl PathParameters for () {
    fn take(_: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        Some(())
    }
}

impl PathParameters for OrgPath {
    fn take(values: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        Some(OrgPath { org: values.next()?.to_owned() })
    }

    fn org(&self) -> Option<&str> {
        Some(&self.org)
    }
}

impl PathParameters for ResourcePath {
    fn take(values: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        Some(ResourcePath { org: values.next()?.to_owned(), id: values.next()?.to_owned() })
    }

    fn org(&self) -> Option<&str> {
        Some(&self.org)
    }

    fn id(&self) -> Option<&str> {
        Some(&self.id)
    }
}

impl PathParameters for PartPath {
    fn take(values: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        let mut next = || values.next().map(str::to_owned);
        Some(PartPath { org: next()?, id: next()?, part: next()? })
    }

    fn org(&self) -> Option<&str> {
        Some(&self.org)
    }

    fn id(&self) -> Option<&str> {
        Some(&self.id)
    }

    fn part(&self) -> Option<&str> {
        Some(&self.part)
    }
}

/// A function that carries an operation out.
///
/// `A` names the types of its arguments, so that every shape of handler has an implementation of its own.
pub(crate) trait Handler<A>: Clone + Send + Sync + 'static {
    type Path: PathParameters;
    type Parameters: Parameters;
    type Body: RequestBody;
    type Output: Documented;

    /// The right that the permission in the signature proves.
    const ACCESS: Access;

    /// Asks for the permission and calls the function with it; the body is looked at only then.
    // Implementations chain two futures instead of awaiting one after the other: an async function would keep its arguments twice,
    // which makes what every request allocates too large for the fast part of the allocator.
    fn call(
        self,
        op: Op<Self::Path, Self::Parameters>,
        body: Result<Self::Body, ApiError>,
    ) -> impl Future<Output = Result<Self::Output, ApiError>> + Send;

    /// Parameters besides those of the path, as the document shows them.
    fn documented_parameters() -> Vec<Parameter> {
        Self::Parameters::documented()
    }

    /// The body, as the document shows it.
    fn documented_body() -> Content {
        Self::Body::content()
    }

    /// The responses, as the document shows them.
    fn documented_responses() -> Vec<(u16, Content)> {
        Self::Output::responses()
    }
}

impl<F, Fut, P, Q, G, B, O> Handler<(P, Q, G, B)> for F
where
    F: Fn(Op<P, Q>, G, B) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ApiError>> + Send,
    P: PathParameters,
    Q: Parameters,
    G: Grant,
    B: RequestBody,
    O: Documented,
{
    type Path = P;
    type Parameters = Q;
    type Body = B;
    type Output = O;

    const ACCESS: Access = G::ACCESS;

    fn call(
        self,
        op: Op<P, Q>,
        body: Result<B, ApiError>,
    ) -> impl Future<Output = Result<O, ApiError>> + Send {
        let permitted = async move {
            let permission = G::of(&op).await?;
            Ok((op, permission, body?))
        };
        permitted.and_then(move |(op, permission, body)| self(op, permission, body))
    }
}

impl<F, Fut, P, Q, G, O> Handler<(P, Q, G)> for F
where
    F: Fn(Op<P, Q>, G) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ApiError>> + Send,
    P: PathParameters,
    Q: Parameters,
    G: Grant,
    O: Documented,
{
    type Path = P;
    type Parameters = Q;
    type Body = NoBody;
    type Output = O;

    const ACCESS: Access = G::ACCESS;

    fn call(
        self,
        op: Op<P, Q>,
        _: Result<NoBody, ApiError>,
    ) -> impl Future<Output = Result<O, ApiError>> + Send {
        let permitted = async move {
            let permission = G::of(&op).await?;
            Ok((op, permission))
        };
        permitted.and_then(move |(op, permission)| self(op, permission))
    }
}

/// A handler whose types are known only to itself.
pub(crate) trait Run: Send + Sync {
    /// What the router calls.
    fn route(&self, method: &Method, audited: Option<AuditedOperation>) -> MethodRouter<Exchange>;

    /// Carries out a request of the fast path, from the parameters in its path on.
    fn respond(
        &self,
        exchange: Exchange,
        request: Request,
        values: &Values,
        peer: SocketAddr,
    ) -> BoxFuture<'static, Response>;
}

pub(crate) struct Typed<H, A> {
    handler: H,
    arguments: PhantomData<fn(A)>,
}

impl<A, H: Handler<A>> Typed<H, A> {
    pub(crate) fn new(handler: H) -> Self {
        Self { handler, arguments: PhantomData }
    }
}

impl<A: 'static, H: Handler<A>> Run for Typed<H, A> {
    fn route(&self, method: &Method, audited: Option<AuditedOperation>) -> MethodRouter<Exchange> {
        let handler = self.handler.clone();
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        on(filter, move |State(exchange): State<Exchange>, request: Request| {
            routed(handler.clone(), exchange, request, audited)
        })
    }

    fn respond(
        &self,
        exchange: Exchange,
        request: Request,
        values: &Values,
        peer: SocketAddr,
    ) -> BoxFuture<'static, Response> {
        let path = H::Path::take(&mut values.of(request.uri().path()));
        respond::<A, H>(self.handler.clone(), exchange, request, path, peer).boxed()
    }
}

/// Carries out a request that the router has found an operation for.
async fn routed<A, H: Handler<A>>(
    handler: H,
    exchange: Exchange,
    request: Request,
    audited: Option<AuditedOperation>,
) -> Result<Response, ApiError> {
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    let caller = caller.ok_or_else(|| ApiError::internal("the route is not behind the authentication"))?;
    let address = audited.and_then(|_| client_address(&exchange, &request));
    let (mut parts, body) = request.into_parts();
    let path = read_path::<H::Path>(&mut parts).await?;
    let request = Request::from_parts(parts, body);
    let Some(operation) = audited else {
        let (op, body) = receive::<A, H>(exchange, caller, path, request, None)?.await;
        return handler.call(op, body).await.map(IntoResponse::into_response);
    };
    let audit = Arc::new(AuditedRequest::new(operation, &request, &path, caller.clone(), address));
    let response = match receive::<A, H>(exchange.clone(), caller, path, request, Some(audit.clone())) {
        Ok(received) => {
            let (op, body) = received.await;
            handler.call(op, body).await.into_response()
        }
        Err(error) => error.into_response(),
    };
    Ok(audit.settle(&exchange, response).await)
}

fn client_address(exchange: &Exchange, request: &Request) -> Option<IpAddr> {
    exchange.trusted_proxies().client(request.extensions(), request.headers())
}

/// A request of an operation and its body.
type Received<H, A> =
    (Op<<H as Handler<A>>::Path, <H as Handler<A>>::Parameters>, Result<<H as Handler<A>>::Body, ApiError>);

/// Reads the parameters and receives the body of a request.
// The body is read before the permission is asked for, so that a refusal leaves nothing of the request on the connection.
pub(super) fn receive<A, H: Handler<A>>(
    exchange: Exchange,
    caller: Arc<Caller>,
    path: H::Path,
    request: Request,
    audit: Option<Arc<AuditedRequest>>,
) -> Result<impl Future<Output = Received<H, A>> + Send, ApiError> {
    let parameters = H::Parameters::read(&request)?;
    let body = H::Body::receive(request, exchange.max_body_bytes());
    let op = Op { exchange, caller, path, parameters, audit };
    Ok(body.map(move |body| (op, body)))
}

async fn read_path<P: PathParameters>(parts: &mut http::request::Parts) -> Result<P, ApiError> {
    let raw = RawPathParams::from_request_parts(parts, &())
        .await
        .map_err(|_| ApiError::invalid_input("the path is not valid percent-encoded UTF-8"))?;
    for (name, value) in &raw {
        if value.contains('\0') {
            return Err(ApiError::invalid_input(format!("{name} in the path contains a NUL character")));
        }
        if value.len() > MAX_ID {
            return Err(ApiError::invalid_input(format!("{name} in the path is longer than {MAX_ID} bytes")));
        }
    }
    let mut values = raw.iter().map(|(_, value)| value);
    match (P::take(&mut values), values.next()) {
        (Some(path), None) => Ok(path),
        _ => Err(ApiError::internal("the handler expects other parameters than its path has")),
    }
}
