//! Receives a request of the agbot's API, and records its outcome; what lies between is the pipeline of `evenkeel_api`.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{self, FromRequest, FromRequestParts, RawPathParams, Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use evenkeel_agbot::Context;
use evenkeel_api::{
    ApiRequest, AuditedOperation, BodyKind, Call, CodeForm, Endpoint, Input, PathValues, Refusal, Run,
};
use evenkeel_domain::orchestration::MembersError;
use evenkeel_http_server::middleware::Client;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::action_notes::ActionNotes;
use super::audit::Action;
use super::event_stream::NewestEvents;
use super::kept::{self, KeptResponses};
use super::login::insert_address;
use super::{AgbotApi, LoginGuard};

/// One operation of the agbot.
pub(super) type Operation = Endpoint<Arc<dyn Run<AgbotRequest>>>;

/// One request of an operation.
pub(super) type Op<P = (), Q = ()> = evenkeel_api::Op<AgbotRequest, P, Q>;

/// What the agbot knows of a request. The caller is known only to the exchange, which is asked with the credentials in the headers.
pub(super) struct AgbotRequest {
    pub(super) context: Arc<Context>,
    pub(super) notes: Arc<ActionNotes>,
    pub(super) newest_events: Arc<NewestEvents>,
    pub(super) kept: Arc<KeptResponses>,
    pub(super) login_guard: Option<Arc<LoginGuard>>,
    pub(super) headers: HeaderMap,
    /// The other end of the connection.
    pub(super) client: Option<Client>,
    codes: CodeForm,
    action: Option<Arc<Action>>,
}

/// What an input is read from.
pub(super) struct Sent {
    pub(super) uri: Uri,
    /// Empty unless the input has a body.
    pub(super) body: Bytes,
}

impl Sent {
    /// Reads a JSON body member by member.
    ///
    /// # Errors
    /// 400 when it is not JSON, or with the first member that breaks a rule.
    pub(super) fn members<T>(
        &self,
        read: impl FnOnce(Value) -> Result<T, MembersError>,
    ) -> Result<T, Refusal> {
        let body = serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::invalid_input(format!("the body is not JSON: {error}")))?;
        read(body).map_err(|error| Refusal::invalid_input(error.to_string()))
    }

    /// Reads a JSON body of a type; `noun`: what it is, with its article.
    ///
    /// # Errors
    /// 400 when it is something else.
    pub(super) fn document<T: DeserializeOwned>(&self, noun: &str) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::invalid_input(format!("the body is not {noun}: {error}")))
    }
}

impl ApiRequest for AgbotRequest {
    type Refusal = Refusal;

    /// Yet to be received: the caller is not known before its permission is asked for.
    type Incoming = Request;

    type Sent = Sent;

    async fn receive(&self, kind: BodyKind, request: Request) -> Result<Sent, Refusal> {
        let uri = request.uri().clone();
        if kind == BodyKind::None {
            return Ok(Sent { uri, body: Bytes::new() });
        }
        let body = Bytes::from_request(request, &()).await;
        let body = body.map_err(|rejection| malformed(self.codes, rejection.status(), rejection.body_text()));
        Ok(Sent { uri, body: body? })
    }

    async fn begin(&self) -> Result<(), Refusal> {
        match &self.action {
            Some(action) => action.begin().await,
            None => Ok(()),
        }
    }
}

/// Query parameters that are refused as a whole when one of them is unknown.
pub(super) trait KnownQuery: DeserializeOwned + IntoParams + Send + 'static {
    /// The text of the refusal.
    const REFUSAL: &'static str;
}

/// The query string.
pub(super) struct Query<T>(pub(super) T);

impl<T: KnownQuery> Input<AgbotRequest> for Query<T> {
    const KIND: BodyKind = BodyKind::None;

    fn read(sent: Sent) -> Result<Query<T>, Refusal> {
        let query = extract::Query::<T>::try_from_uri(&sent.uri);
        let query = query.map_err(|_| Refusal::invalid_input(T::REFUSAL))?;
        Ok(Query(query.0))
    }

    fn parameters() -> Vec<Parameter> {
        T::into_params(|| Some(ParameterIn::Query))
    }
}

/// Returns the refusal when the agbot's records cannot be read.
pub(super) fn unreadable(error: &(dyn std::error::Error + 'static)) -> Refusal {
    tracing::warn!(error, "the agbot's records could not be read");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the agbot's database does not respond; try again")
}

/// The route of an operation.
pub(super) fn route(operation: &Operation) -> MethodRouter<AgbotApi> {
    let filter = MethodFilter::try_from(operation.method.clone()).unwrap_or(MethodFilter::GET);
    let (handler, codes) = (operation.handler().clone(), operation.codes);
    let audited = AuditedOperation::of(operation);
    on(filter, move |State(api): State<AgbotApi>, request: Request| {
        let response = respond(handler.clone(), api, request, (audited, codes));
        response.map(move |outcome| outcome.unwrap_or_else(|refusal| refused(refusal, codes)))
    })
}

/// Carries out a request that the router has found an operation for.
async fn respond(
    handler: Arc<dyn Run<AgbotRequest>>,
    api: AgbotApi,
    request: Request,
    (audited, codes): (Option<AuditedOperation>, CodeForm),
) -> Result<Response, Refusal> {
    let starting = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the agbot is starting, try again");
    let running = api.running.get().ok_or_else(starting)?;
    let (mut parts, body) = request.into_parts();
    let path = RawPathParams::from_request_parts(&mut parts, &()).await.map_err(|rejection| {
        malformed(codes, rejection.status(), format!("Invalid URL: {}", rejection.body_text()))
    })?;
    insert_address(&mut parts);
    let action = audited.and_then(|operation| Action::of(running, operation, &parts, &path)).map(Arc::new);
    let request = AgbotRequest {
        context: running.context.clone(),
        notes: running.notes.clone(),
        newest_events: running.newest_events.clone(),
        kept: if kept::are_accepted(&parts.headers) { running.kept.clone() } else { Arc::default() },
        login_guard: api.login_guard.clone(),
        headers: parts.headers.clone(),
        client: parts.extensions.get::<Client>().cloned(),
        codes,
        action: action.clone(),
    };
    let path = PathValues::Decoded(path.iter().map(|(_, value)| value.to_owned()).collect());
    let incoming = Request::from_parts(parts.clone(), body);
    let outcome = handler.run(Call { request, path, parts, incoming }).await;
    let refused = outcome.as_ref().err().map(Refusal::status);
    if let (Some(action), Some(status)) = (action, refused) {
        action.settle(status).await;
    }
    outcome
}

/// The refusal of a request that is malformed. Deployed agents get it in plain text.
///
/// # Source
/// Agbot 3.3.
fn malformed(codes: CodeForm, status: StatusCode, message: String) -> Refusal {
    match codes {
        CodeForm::Word => Refusal::new(status, message),
        CodeForm::Number => Refusal::plain(status, message),
    }
}

/// The response to a request that is not carried out.
fn refused(refusal: Refusal, codes: CodeForm) -> Response {
    /// The credentials that are accepted: those of the exchange.
    const CHALLENGE: &str = "Basic realm=\"Evenkeel\", charset=\"UTF-8\"";
    let is_unauthenticated = refusal.is_unauthorized();
    let mut response = refusal.respond(codes);
    if is_unauthenticated {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    response
}
