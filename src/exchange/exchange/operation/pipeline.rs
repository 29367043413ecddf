//! Carries out a request whose operation is known: reads path, parameters and body, asks for the permission, calls the handler and
//! records the outcome.
//!
//! A handler takes an [`Op`], the [`Permission`] that its operation needs, and the body, and returns the type that the API document
//! shows. It is called only with that permission, so it cannot forget to ask for it.

use std::future::ready;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use evenkeel_access::{Access, Caller, Permission, WriteRight};
use evenkeel_api::{Content, Documented, MAX_ID};
use evenkeel_exchange_store::permitted::Permitted;
use evenkeel_store::retry;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use http::request::Parts;
use utoipa::openapi::path::Parameter;

use super::authorize::Grant;
use super::fast_path::Values;
use crate::audit::request::{AuditedOperation, AuditedRequest};
use crate::auth::{self, ClientAddress, PresentedLogin, login_changed};
use crate::extract::{BodyKind, NoBody, Parameters, RequestBody, has_json_type, receive};
use crate::transaction::{Finished, WriteTx};
use crate::{ApiError, Exchange};

/// One request of an operation: who asks, for what, with which parameters.
pub(crate) struct Op<P = (), Q = ()> {
    pub(crate) exchange: Exchange,
    pub(crate) caller: Arc<Caller>,
    /// The credentials of the caller, to be [confirmed](Exchange::confirm) after a wait.
    pub(crate) login: Arc<PresentedLogin>,
    pub(crate) path: P,
    pub(crate) parameters: Q,
    audit: Option<Arc<AuditedRequest>>,
}

impl<P, Q> Op<P, Q> {
    /// Runs one named write of the request in a transaction of its own and [commits](Exchange::commit_write) what it finishes with. The permission
    /// proves that the caller may, and is void when the login was withdrawn before the commit.
    ///
    /// A write that lost against a competing one runs again, so until its end `work` must have no effect but on its transaction.
    ///
    /// The login is confirmed before each attempt, since a slow hash or another attempt may have taken long, and before the commit: nothing
    /// is committed for a login whose withdrawal was acknowledged before.
    ///
    /// # Errors
    /// Those of `work`, of the store and of [`Exchange::confirm`]; 503 when no connection is free in time or the write kept losing.
    pub(crate) async fn write<R: WriteRight, T, F>(
        &self,
        permission: &Permission<R>,
        name: &'static str,
        work: impl Fn(WriteTx<R>) -> F,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<Finished<R, T>, ApiError>>,
    {
        let Op { exchange, caller, login, audit, .. } = self;
        retry(name, || async {
            exchange.confirm(login, caller).await?;
            let write = exchange.begin_write(|tx| Permitted::new(tx, permission), audit.as_ref()).await?;
            let finished = work(write).await?;
            // No identification here: the transaction holds locks.
            if exchange.is_withdrawn(login, caller) {
                return Err(login_changed());
            }
            exchange.commit_write(finished).await
        })
        .await
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

pub(crate) trait PathParameters: Sized + Send + Sync + 'static {
    /// Reads the decoded parameters in their order; `None` when the path has another number of them.
    fn from_values(values: &mut dyn Iterator<Item = &str>) -> Option<Self>;

    /// The organization.
    fn org(&self) -> Option<&str> {
        None
    }

    /// The bare id of the resource.
    fn id(&self) -> Option<&str> {
        None
    }
}

impl PathParameters for () {
    fn from_values(_: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        Some(())
    }
}

impl PathParameters for OrgPath {
    fn from_values(values: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        Some(OrgPath { org: values.next()?.to_owned() })
    }

    fn org(&self) -> Option<&str> {
        Some(&self.org)
    }
}

impl PathParameters for ResourcePath {
    fn from_values(values: &mut dyn Iterator<Item = &str>) -> Option<Self> {
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
    fn from_values(values: &mut dyn Iterator<Item = &str>) -> Option<Self> {
        let mut next = || values.next().map(str::to_owned);
        Some(PartPath { org: next()?, id: next()?, part: next()? })
    }

    fn org(&self) -> Option<&str> {
        Some(&self.org)
    }

    fn id(&self) -> Option<&str> {
        Some(&self.id)
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

    /// Asks for the permission and calls the function with it; the body is read only then.
    fn call(
        self,
        op: Op<Self::Path, Self::Parameters>,
        body: Result<Bytes, ApiError>,
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

    async fn call(self, op: Op<P, Q>, body: Result<Bytes, ApiError>) -> Result<O, ApiError> {
        let permission = G::of(&op).await?;
        let body = B::parse(body?)?;
        self(op, permission, body).await
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

    async fn call(self, op: Op<P, Q>, _: Result<Bytes, ApiError>) -> Result<O, ApiError> {
        let permission = G::of(&op).await?;
        self(op, permission).await
    }
}

/// A request with its types, and its body, which is read when the permission was granted.
type Received<P, Q> = (Op<P, Q>, Result<Bytes, ApiError>);

/// A request whose operation and caller are known.
pub(crate) struct Call {
    exchange: Exchange,
    caller: Arc<Caller>,
    login: Arc<PresentedLogin>,
    path: PathValues,
    request: Parts,
    body: Result<Bytes, ApiError>,
    audit: Option<Arc<AuditedRequest>>,
}

impl Call {
    /// Receives the body of a request, and identifies its caller again if the login was changed meanwhile: a client may send the last byte
    /// of a body late.
    ///
    /// # Errors
    /// 401 when the login was withdrawn; those of an identification.
    // It is read before the permission is asked for, so that a refusal leaves nothing of the request on the connection.
    // No async function: that would keep the request twice, and what every request allocates would be too large for the fast part of the
    // allocator.
    pub(super) fn receive(
        kind: BodyKind,
        exchange: Exchange,
        (caller, login): (Arc<Caller>, Arc<PresentedLogin>),
        path: PathValues,
        request: Request,
    ) -> impl Future<Output = Result<Call, ApiError>> + Send {
        let (request, body) = request.into_parts();
        let body = receive(kind, has_json_type(&request.headers), body, exchange.max_body_bytes());
        body.then(move |body| {
            let call = Call { exchange, caller, login, path, request, body, audit: None };
            let is_forwarded = auth::is_by_agbot(&call.request);
            if !is_forwarded && call.exchange.is_confirmed(&call.login, &call.caller) {
                Either::Left(ready(Ok(call)))
            } else {
                // Rare and large.
                Either::Right(call.identified_again().boxed())
            }
        })
    }

    async fn identified_again(mut self) -> Result<Call, ApiError> {
        if !self.login.is_departed() {
            self.caller = self.exchange.identify_again(&self.login).await?;
        }
        auth::confirm_agbot(&self.exchange, &mut self.request).await?;
        Ok(self)
    }

    /// Reads path and parameters.
    ///
    /// # Errors
    /// 400 when the parameters are not of their types.
    fn typed<P: PathParameters, Q: Parameters>(self) -> Result<Received<P, Q>, ApiError> {
        let Call { exchange, caller, login, path, request, body, audit } = self;
        let (path, parameters) = (path.parse(&request)?, Q::read(&request)?);
        Ok((Op { exchange, caller, login, path, parameters, audit }, body))
    }
}

/// The values of the parameters in a path.
pub(super) enum PathValues {
    /// Their positions in a path that needs no decoding.
    Plain(Values),
    Decoded(Vec<String>),
}

impl PathValues {
    fn parse<P: PathParameters>(&self, request: &Parts) -> Result<P, ApiError> {
        let path = match self {
            PathValues::Plain(values) => P::from_values(&mut values.of(request.uri.path())),
            PathValues::Decoded(values) => {
                let mut values = values.iter().map(String::as_str);
                P::from_values(&mut values).filter(|_| values.next().is_none())
            }
        };
        path.ok_or_else(|| ApiError::internal("the handler expects other parameters than its path has"))
    }
}

/// A handler whose types are known only to itself.
///
/// The steps before and after it are compiled once for all operations.
pub(crate) trait Run: Send + Sync {
    /// Returns the kind of body that the handler takes.
    fn body(&self) -> BodyKind;

    /// Carries out a request, from the parameters in its path on.
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Response, ApiError>>;
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
    fn body(&self) -> BodyKind {
        H::Body::KIND
    }

    fn run(&self, call: Call) -> BoxFuture<'static, Result<Response, ApiError>> {
        match call.typed() {
            Ok((op, body)) => carry_out(self.handler.clone(), op, body).boxed(),
            Err(error) => ready(Err(error)).boxed(),
        }
    }
}

/// Calls a handler.
pub(super) async fn carry_out<A, H: Handler<A>>(
    handler: H,
    op: Op<H::Path, H::Parameters>,
    body: Result<Bytes, ApiError>,
) -> Result<Response, ApiError> {
    handler.call(op, body).await.map(IntoResponse::into_response)
}

/// Carries out a request that the router has found an operation for.
pub(super) async fn routed(
    handler: Arc<dyn Run>,
    exchange: Exchange,
    request: Request,
    audited: Option<AuditedOperation>,
) -> Result<Response, ApiError> {
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    let login = request.extensions().get::<Arc<PresentedLogin>>().cloned();
    let unguarded = || ApiError::internal("the route is not behind the authentication");
    let (caller, login) = caller.zip(login).ok_or_else(unguarded)?;
    let (mut parts, body) = request.into_parts();
    let path = read_path(&mut parts).await?;
    let request = Request::from_parts(parts, body);
    let is_recorded = audited.is_none() || exchange.limiter().admits_record(&caller);
    if !is_recorded {
        exchange.auditor().note_left_out();
    }
    let audit = audited.filter(|_| is_recorded).map(|operation| {
        let address = request.extensions().get::<ClientAddress>().and_then(|address| address.0);
        AuditedRequest::new(operation, &request, &path, caller.clone(), address)
    });
    let path = PathValues::Decoded(path);
    let mut call = Call::receive(handler.body(), exchange.clone(), (caller, login), path, request).await?;
    let audit = audit.map(|audit| Arc::new(audit.by(call.caller.clone())));
    call.audit = audit.clone();
    let response = handler.run(call).await;
    match audit {
        Some(audit) => Ok(audit.settle(&exchange, response.into_response()).await),
        None => response,
    }
}

async fn read_path(parts: &mut Parts) -> Result<Vec<String>, ApiError> {
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
    Ok(raw.iter().map(|(_, value)| value.to_owned()).collect())
}
