//! One pipeline for every API of the program: it reads path and parameters, asks for the permission that the handler names in its
//! signature, reads the input and calls the handler.
//!
//! A handler takes an [`Op`], the permission that its operation needs, and the input, and returns the type that the API document shows. It
//! is called only with that permission, so it cannot forget to ask for it. Who decides about a right is a matter of the API: the permission
//! table, or another server that is asked with the caller's credentials.

use std::future::ready;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Method;
use http::request::Parts;

use crate::input::NoInput;
use crate::path::PathValues;
use crate::{
    BodyKind, Documented, Endpoint, Input, Parameters, PathParameters, Refusal, RequiredAccess, endpoint,
};

/// One request as its API knows it: the state that handlers work with, and who asks.
pub trait ApiRequest: Sized + Send + Sync + 'static {
    /// The response to a request that is not carried out.
    type Refusal: From<Refusal> + IntoResponse + Send + 'static;

    /// Input as it arrives: received already, or yet to be received.
    type Incoming: Send + 'static;

    /// Input as it was received.
    type Sent: Send;

    /// Receives the input.
    ///
    /// # Errors
    /// Those of the transfer: too large, broken off, of another type.
    fn receive(
        &self,
        kind: BodyKind,
        incoming: Self::Incoming,
    ) -> impl Future<Output = Result<Self::Sent, Self::Refusal>> + Send;

    /// Called with each request that is about to be carried out, when its permission is granted and its input is read.
    ///
    /// # Errors
    /// When the request must not be carried out.
    fn begin(&self) -> impl Future<Output = Result<(), Self::Refusal>> + Send {
        ready(Ok(()))
    }
}

/// One request of an operation: what its API knows of it, and its parameters.
#[derive(Debug)]
pub struct Op<A, P = (), Q = ()> {
    /// What its API knows of it.
    pub request: A,
    /// The parameters in its path.
    pub path: P,
    /// The parameters besides.
    pub parameters: Q,
}

impl<A, P, Q> Deref for Op<A, P, Q> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.request
    }
}

/// The argument by which a handler names the right that its operation needs: a value that only a check of the caller makes.
///
/// Who decides about rights of the API `A` to what the path `P` names implements it.
pub trait Authorized<A: ApiRequest, P>: Sized + Send {
    /// The right.
    const ACCESS: RequiredAccess;

    /// Asks for it before the handler is called.
    ///
    /// # Errors
    /// When the caller has not the right, or that cannot be decided.
    fn ask<Q: Sync>(op: &Op<A, P, Q>) -> impl Future<Output = Result<Self, A::Refusal>> + Send;
}

/// A function that carries an operation out.
///
/// `T` names the types of its arguments, so that every shape of handler has an implementation of its own.
pub trait Handler<A: ApiRequest, T>: Clone + Send + Sync + 'static {
    /// The parameters in the path.
    type Path: PathParameters;
    /// The parameters besides.
    type Parameters: Parameters;
    /// What is read once the permission is granted.
    type Input: Input<A>;
    /// What is returned.
    type Output: Documented;

    /// The right that the permission in the signature proves.
    const ACCESS: RequiredAccess;

    /// Asks for the permission, reads the input and calls the function with them.
    fn call(
        self,
        op: Op<A, Self::Path, Self::Parameters>,
        incoming: A::Incoming,
    ) -> impl Future<Output = Result<Self::Output, A::Refusal>> + Send;
}

impl<A, F, Fut, P, Q, G, I, O> Handler<A, (P, Q, G, I)> for F
where
    A: ApiRequest,
    F: Fn(Op<A, P, Q>, G, I) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, A::Refusal>> + Send,
    P: PathParameters,
    Q: Parameters,
    G: Authorized<A, P>,
    I: Input<A>,
    O: Documented,
{
    type Path = P;
    type Parameters = Q;
    type Input = I;
    type Output = O;

    const ACCESS: RequiredAccess = G::ACCESS;

    async fn call(self, op: Op<A, P, Q>, incoming: A::Incoming) -> Result<O, A::Refusal> {
        let (permission, input) = admit(&op, incoming).await?;
        op.begin().await?;
        self(op, permission, input).await
    }
}

impl<A, F, Fut, P, Q, G, O> Handler<A, (P, Q, G)> for F
where
    A: ApiRequest,
    F: Fn(Op<A, P, Q>, G) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, A::Refusal>> + Send,
    P: PathParameters,
    Q: Parameters,
    G: Authorized<A, P>,
    O: Documented,
{
    type Path = P;
    type Parameters = Q;
    type Input = NoInput;
    type Output = O;

    const ACCESS: RequiredAccess = G::ACCESS;

    async fn call(self, op: Op<A, P, Q>, _: A::Incoming) -> Result<O, A::Refusal> {
        let permission = G::ask(&op).await?;
        op.begin().await?;
        self(op, permission).await
    }
}

/// Asks for the permission and reads the input of a request.
///
/// Input that has arrived is read after the only check of the caller. Input that is awaited is received between two checks: no memory is
/// taken for a caller without the right, and a right that was withdrawn while the client held back its body is not used.
async fn admit<A, P, Q, G, I>(op: &Op<A, P, Q>, incoming: A::Incoming) -> Result<(G, I), A::Refusal>
where
    A: ApiRequest,
    P: PathParameters,
    Q: Parameters,
    G: Authorized<A, P>,
    I: Input<A>,
{
    let mut sent = pin!(op.receive(I::KIND, incoming));
    let sent = match sent.as_mut().now_or_never() {
        Some(sent) => sent,
        None => {
            G::ask(op).await?;
            sent.await
        }
    };
    if I::PRECEDES_PERMISSION {
        let input = I::read(sent?)?;
        return Ok((G::ask(op).await?, input));
    }
    let permission = G::ask(op).await?;
    Ok((permission, I::read(sent?)?))
}

/// A request whose operation is known.
pub struct Call<A: ApiRequest> {
    /// What its API knows of it.
    pub request: A,
    /// The parameters in its path.
    pub path: PathValues,
    /// Its line and headers.
    pub parts: Parts,
    /// Its input.
    pub incoming: A::Incoming,
}

/// A handler whose types are known only to itself.
///
/// The steps before and after it are compiled once for all operations of an API.
pub trait Run<A: ApiRequest>: Send + Sync {
    /// Returns the kind of body that the handler takes.
    fn body(&self) -> BodyKind;

    /// Carries out a request, from the parameters in its path on.
    fn run(&self, call: Call<A>) -> BoxFuture<'static, Result<Response, A::Refusal>>;
}

struct Typed<H, T> {
    handler: H,
    arguments: PhantomData<fn(T)>,
}

impl<A: ApiRequest, T: 'static, H: Handler<A, T>> Run<A> for Typed<H, T> {
    fn body(&self) -> BodyKind {
        H::Input::KIND
    }

    fn run(&self, call: Call<A>) -> BoxFuture<'static, Result<Response, A::Refusal>> {
        let Call { request, path, parts, incoming } = call;
        match typed(&path, &parts) {
            Ok((path, parameters)) => {
                carry_out(self.handler.clone(), Op { request, path, parameters }, incoming).boxed()
            }
            Err(refusal) => ready(Err(refusal.into())).boxed(),
        }
    }
}

/// Reads path and parameters.
///
/// # Errors
/// 400 when the parameters are not of their types.
fn typed<P: PathParameters, Q: Parameters>(path: &PathValues, parts: &Parts) -> Result<(P, Q), Refusal> {
    Ok((path.parse(parts.uri.path())?, Q::read(parts)?))
}

/// Calls a handler.
pub async fn carry_out<A: ApiRequest, T, H: Handler<A, T>>(
    handler: H,
    op: Op<A, H::Path, H::Parameters>,
    incoming: A::Incoming,
) -> Result<Response, A::Refusal> {
    handler.call(op, incoming).await.map(IntoResponse::into_response)
}

/// The row of an operation with its handler, in the form in which the API keeps it.
fn row<A, T, H, C>(method: Method, path: &'static str, name: &'static str, handler: H) -> Endpoint<C>
where
    A: ApiRequest,
    T: 'static,
    H: Handler<A, T>,
    C: From<Arc<dyn Run<A>>>,
{
    let handler: Arc<dyn Run<A>> = Arc::new(Typed { handler, arguments: PhantomData::<fn(T)> });
    endpoint(method, path, name, H::ACCESS, C::from(handler))
        .parameters(H::Parameters::documented())
        .parameters(H::Input::parameters())
        .request(H::Input::body())
        .responses(H::Output::responses())
}

macro_rules! rows {
    ($($name:ident $method:ident;)*) => {$(
        #[doc = concat!("Starts the row of a ", stringify!($method), " with its handler.")]
        pub fn $name<A, T, H, C>(path: &'static str, name: &'static str, handler: H) -> Endpoint<C>
        where
            A: ApiRequest,
            T: 'static,
            H: Handler<A, T>,
            C: From<Arc<dyn Run<A>>>,
        {
            row(Method::$method, path, name, handler)
        }
    )*};
}

rows! {
    get GET;
    post POST;
    put PUT;
    patch PATCH;
    delete DELETE;
}
