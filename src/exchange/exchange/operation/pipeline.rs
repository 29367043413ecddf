//! Receives a request whose operation is known, and records its outcome; what lies between is the pipeline of `evenkeel_api`.

use std::future::ready;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use evenkeel_access::{Caller, Permission, WriteRight};
use evenkeel_api::{ApiRequest, AuditedOperation, BodyKind, Call, MAX_ID, PathValues, Run};
use evenkeel_exchange_store::permitted::Permitted;
use evenkeel_store::retry;
use futures_util::FutureExt;
use futures_util::future::Either;
use http::request::Parts;

use crate::audit::request::AuditedRequest;
use crate::auth::{self, ClientAddress, PresentedLogin, login_changed};
use crate::extract::{has_json_type, receive};
use crate::transaction::{Finished, WriteTx};
use crate::{ApiError, Exchange};

/// One request of an operation: who asks, for what, with which parameters.
pub(crate) type Op<P = (), Q = ()> = evenkeel_api::Op<ExchangeRequest, P, Q>;

/// What the exchange knows of a request.
pub(crate) struct ExchangeRequest {
    pub(crate) exchange: Exchange,
    pub(crate) caller: Arc<Caller>,
    /// The credentials of the caller, to be [confirmed](Exchange::confirm) after a wait.
    pub(crate) login: Arc<PresentedLogin>,
    audit: Option<Arc<AuditedRequest>>,
}

impl ApiRequest for ExchangeRequest {
    type Refusal = ApiError;

    /// The whole body: it is received before the permission is asked for, so that a refusal leaves nothing of the request on the connection.
    type Incoming = Result<Bytes, ApiError>;

    type Sent = Bytes;

    fn receive(
        &self,
        _: BodyKind,
        body: Result<Bytes, ApiError>,
    ) -> impl Future<Output = Result<Bytes, ApiError>> + Send {
        ready(body)
    }
}

impl ExchangeRequest {
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
        let ExchangeRequest { exchange, caller, login, audit } = self;
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

/// Receives the body of a request, and identifies its caller again if the login was changed meanwhile: a client may send the last byte
/// of a body late.
///
/// # Errors
/// 401 when the login was withdrawn; those of an identification.
// No async function: that would keep the request twice, and what every request allocates would be too large for the fast part of the
// allocator.
pub(super) fn received(
    kind: BodyKind,
    exchange: Exchange,
    (caller, login): (Arc<Caller>, Arc<PresentedLogin>),
    path: PathValues,
    request: Request,
) -> impl Future<Output = Result<Call<ExchangeRequest>, ApiError>> + Send {
    let (parts, body) = request.into_parts();
    let body = receive(kind, has_json_type(&parts.headers), body, exchange.max_body_bytes());
    body.then(move |incoming| {
        let request = ExchangeRequest { exchange, caller, login, audit: None };
        let call = Call { request, path, parts, incoming };
        let is_forwarded = auth::is_by_agbot(&call.parts);
        if !is_forwarded && call.request.exchange.is_confirmed(&call.request.login, &call.request.caller) {
            Either::Left(ready(Ok(call)))
        } else {
            // Rare and large.
            Either::Right(identified_again(call).boxed())
        }
    })
}

async fn identified_again(mut call: Call<ExchangeRequest>) -> Result<Call<ExchangeRequest>, ApiError> {
    let request = &mut call.request;
    if !request.login.is_departed() {
        request.caller = request.exchange.identify_again(&request.login).await?;
    }
    auth::confirm_agbot(&request.exchange, &mut call.parts).await?;
    Ok(call)
}

/// Carries out a request that the router has found an operation for.
pub(super) async fn routed(
    handler: Arc<dyn Run<ExchangeRequest>>,
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
    let address = request.extensions().get::<ClientAddress>().and_then(|address| address.0);
    let audit = audited
        .filter(|_| is_recorded)
        .map(|operation| AuditedRequest::new(operation, &request, &path, caller.clone(), address))
        .transpose()?;
    let path = PathValues::Decoded(path);
    let mut call = received(handler.body(), exchange.clone(), (caller, login), path, request).await?;
    let audit = audit.map(|audit| Arc::new(audit.by(call.request.caller.clone())));
    call.request.audit = audit.clone();
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
