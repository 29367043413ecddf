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
use crate::request::ApiRequest;
use crate::{
    BodyKind, Documented, Endpoint, Input, Parameters, PathParameters, Refusal, RequiredAccess, endpoint,
};

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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::StatusCode;

    use super::*;
    use crate::{NoContent, ResourcePath};

    /// A request that logs its steps; the checks of its caller end as the verdicts say, the last one first.
    #[derive(Default)]
    struct Logged {
        log: Arc<Mutex<Vec<&'static str>>>,
        verdicts: Mutex<Vec<bool>>,
    }

    impl Logged {
        fn log(&self, step: &'static str) {
            self.log.lock().expect("no panic before").push(step);
        }
    }

    impl ApiRequest for Logged {
        type Refusal = Refusal;
        /// Whether the input has arrived.
        type Incoming = bool;
        type Sent = ();

        async fn receive(&self, _: BodyKind, has_arrived: bool) -> Result<(), Refusal> {
            if !has_arrived {
                tokio::task::yield_now().await;
            }
            self.log("receive");
            Ok(())
        }

        async fn begin(&self) -> Result<(), Refusal> {
            self.log("begin");
            Ok(())
        }
    }

    struct Allowed;

    impl<P: PathParameters> Authorized<Logged, P> for Allowed {
        const ACCESS: RequiredAccess = RequiredAccess::Right("Test");

        async fn ask<Q: Sync>(op: &Op<Logged, P, Q>) -> Result<Self, Refusal> {
            op.log("ask");
            let is_allowed = op.verdicts.lock().expect("no panic before").pop().expect("no further check");
            if is_allowed { Ok(Allowed) } else { Err(Refusal::new(StatusCode::UNAUTHORIZED, "no")) }
        }
    }

    struct Wrong<const PRECEDES_PERMISSION: bool>;

    impl<const FIRST: bool> Input<Logged> for Wrong<FIRST> {
        const KIND: BodyKind = BodyKind::Raw;
        const PRECEDES_PERMISSION: bool = FIRST;

        fn read((): ()) -> Result<Self, Refusal> {
            Err(Refusal::invalid_input("it is wrong"))
        }
    }

    struct Right;

    impl Input<Logged> for Right {
        const KIND: BodyKind = BodyKind::Raw;

        fn read((): ()) -> Result<Self, Refusal> {
            Ok(Right)
        }
    }

    async fn handle<I>(op: Op<Logged, ResourcePath>, _: Allowed, _: I) -> Result<NoContent, Refusal> {
        tokio::task::yield_now().await;
        op.log("handle");
        Ok(NoContent)
    }

    async fn handle_nothing(op: Op<Logged>, _: Allowed) -> Result<NoContent, Refusal> {
        tokio::task::yield_now().await;
        op.log("handle");
        Ok(NoContent)
    }

    /// The steps of a request whose path has these values, and the status of its response.
    async fn steps<T: 'static>(
        handler: impl Handler<Logged, T>,
        path: &[&str],
        has_arrived: bool,
        mut verdicts: Vec<bool>,
    ) -> (Vec<&'static str>, u16) {
        verdicts.reverse();
        let request = Logged { verdicts: Mutex::new(verdicts), ..Logged::default() };
        let log = request.log.clone();
        let row: Endpoint<Arc<dyn Run<Logged>>> = post("/x", "act", handler);
        let path = PathValues::Decoded(path.iter().map(ToString::to_string).collect());
        let (parts, ()) = http::Request::new(()).into_parts();
        let outcome = row.handler().run(Call { request, path, parts, incoming: has_arrived }).await;
        let status = outcome.into_response().status().as_u16();
        let log = log.lock().expect("no panic before").clone();
        (log, status)
    }

    #[tokio::test]
    async fn input_that_is_awaited_is_received_between_two_checks_of_the_caller() {
        let path = &["o", "n"][..];
        let all = ["receive", "ask", "begin", "handle"];
        assert_eq!(steps(handle::<Right>, path, true, vec![true]).await, (all.to_vec(), 204));
        let awaited = ["ask", "receive", "ask", "begin", "handle"];
        assert_eq!(steps(handle::<Right>, path, false, vec![true, true]).await, (awaited.to_vec(), 204));
        assert_eq!(steps(handle::<Right>, path, false, vec![false]).await, (vec!["ask"], 401));
        let withdrawn = ["ask", "receive", "ask"];
        assert_eq!(steps(handle::<Right>, path, false, vec![true, false]).await, (withdrawn.to_vec(), 401));
    }

    #[tokio::test]
    async fn wrong_input_is_refused_to_callers_with_the_right_only_unless_the_right_depends_on_it() {
        let path = &["o", "n"][..];
        for (verdict, status) in [(true, 400), (false, 401)] {
            let outcome = steps(handle::<Wrong<false>>, path, true, vec![verdict]).await;
            assert_eq!(outcome, (vec!["receive", "ask"], status));
        }
        assert_eq!(steps(handle::<Wrong<true>>, path, true, vec![]).await, (vec!["receive"], 400));
    }

    #[tokio::test]
    async fn handler_without_input_receives_nothing_and_a_path_of_another_length_reaches_none() {
        assert_eq!(
            steps(handle_nothing, &[], false, vec![true]).await,
            (vec!["ask", "begin", "handle"], 204)
        );
        assert_eq!(steps(handle_nothing, &["o"], true, vec![]).await, (vec![], 500));
    }
}
