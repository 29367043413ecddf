//! Carries out a request of the agbot's API: reads path and input, asks for the permission in the handler's signature, calls the handler.

use std::pin::pin;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Json, extract};
use evenkeel_api::{Content, Documented, Endpoint, RequiredAccess, endpoint};
use evenkeel_http_server::middleware::Client;
use evenkeel_wire::agbot::upgrade::UpgradeRequest;
use evenkeel_wire::exchange::utility::ApiResponse;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::AgbotApi;
use super::audit::Action;
use super::caller::claimed_name;
use super::login::{self, insert_address};
use super::permission::{Permission, Right};
use crate::context::Context;

/// One operation of the agbot.
pub(super) type Operation = Endpoint<MethodRouter<AgbotApi>>;

/// One request of an operation.
pub(super) struct Op<P> {
    pub(super) context: Arc<Context>,
    pub(super) path: P,
}

/// The response to a request that is not carried out.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A status with a message.
    Message(StatusCode, String),
    /// The response of a rejecting extractor.
    Rejection(Box<Response>),
    /// Too many requests or failed logins: try again after so many seconds.
    Limited(String, u64),
}

/// The credentials that are accepted: those of the exchange.
const CHALLENGE: &str = "Basic realm=\"Evenkeel\", charset=\"UTF-8\"";

impl Refusal {
    /// A refusal with the API's body.
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal::Message(status, message.into())
    }

    /// Returns the status of the response.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Refusal::Message(status, _) => *status,
            Refusal::Rejection(response) => response.status(),
            Refusal::Limited(..) => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// The response of a rejecting extractor.
    fn of(rejection: impl IntoResponse) -> Refusal {
        Refusal::Rejection(Box::new(rejection.into_response()))
    }

    /// The response with a code of the given form.
    fn into_response(self, form: CodeForm) -> Response {
        let (status, msg, wait) = match self {
            Refusal::Message(status, message) => (status, message, None),
            Refusal::Limited(message, seconds) => (StatusCode::TOO_MANY_REQUESTS, message, Some(seconds)),
            Refusal::Rejection(response) => return *response,
        };
        let word = if form == CodeForm::Word { code_of(status) } else { None };
        let code = word.map_or_else(|| status.as_u16().to_string(), str::to_owned);
        let mut response = (status, Json(ApiResponse { code, msg })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Format of the code in the body of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeForm {
    /// A word, as in the exchange.
    Word,
    /// The number of the status, which deployed agents know.
    Number,
}

/// The exchange's codes of refusals. Source: orchestration 0.7.
fn code_of(status: StatusCode) -> Option<&'static str> {
    Some(match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => "invalid-input",
        StatusCode::UNAUTHORIZED => "invalid-credentials",
        StatusCode::FORBIDDEN => "access-denied",
        StatusCode::NOT_FOUND => "not-found",
        StatusCode::CONFLICT => "conflict",
        StatusCode::TOO_MANY_REQUESTS => "too busy",
        StatusCode::INTERNAL_SERVER_ERROR => "internal_error",
        StatusCode::SERVICE_UNAVAILABLE => "database-connection-error",
        _ => return None,
    })
}

/// The parameters of a path.
pub(super) trait Names: DeserializeOwned + Send + Sync + 'static {
    /// Format of the codes of refusals.
    const CODES: CodeForm = CodeForm::Word;

    /// The organization.
    fn org(&self) -> Option<&str> {
        None
    }

    /// The bare id of the node.
    fn node(&self) -> Option<&str> {
        None
    }

    /// The bare id of the deployment policy, where rights depend on it.
    fn policy(&self) -> Option<&str> {
        None
    }

    /// Action on the deployment policy.
    fn action(&self) -> Option<&str> {
        None
    }
}

impl Names for () {}

macro_rules! paths {
    ($codes:expr => $($name:ident { $($field:ident),* $(; $node:ident)? }: $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Deserialize)]
        pub(super) struct $name {
            pub(super) organization: String,
            $(pub(super) $field: String,)*
            $(pub(super) $node: String,)?
        }

        impl Names for $name {
            const CODES: CodeForm = $codes;

            fn org(&self) -> Option<&str> {
                Some(&self.organization)
            }

            $(fn node(&self) -> Option<&str> {
                Some(&self.$node)
            })?
        }
    )*};
}

paths! {
    CodeForm::Word =>
    OrgPath {}: "An organization in a path.";
    NodePath {; node}: "A node in a path.";
    GroupPath { hagroup }: "An HA group in a path.";
    MemberPath { hagroup; node }: "A member of an HA group in a path.";
    GroupActionPath { hagroup, action }: "An HA group in a path, and the id of an action on it.";
    RolloutPath { policy, action }: "A deployment policy in a path, and what to do about its rollouts.";
    AgreementPath { agreement }: "An agreement in a path.";
}

// Deployed agents ask with these. Source: agbot 3.3.
paths! {
    CodeForm::Number =>
    UpgradePath {; node}: "A node in the path of its question for an upgrade.";
    ManagementPath { hagroup, nmp; node }: "A management policy for a member of an HA group in a path.";
}

macro_rules! policy_paths {
    ($($name:ident { $policy:ident $(; $field:ident)? $(=> $action:ident)? }: $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Deserialize)]
        pub(super) struct $name {
            pub(super) organization: String,
            pub(super) $policy: String,
            $(pub(super) $field: String,)?
        }

        impl Names for $name {
            fn org(&self) -> Option<&str> {
                Some(&self.organization)
            }

            fn policy(&self) -> Option<&str> {
                Some(&self.$policy)
            }

            $(fn action(&self) -> Option<&str> {
                Some(&self.$action)
            })?
        }
    )*};
}

policy_paths! {
    PolicyPath { policy }: "A deployment policy in a path.";
    WorkloadUnitPath { policy; unit }: "A workload unit of a deployment policy in a path.";
    PolicyActionPath { policy; action => action }: "A deployment policy in a path, and an action on it, or the id of one.";
}

/// The instance of a deployment policy on a node in a path.
#[derive(Deserialize)]
pub(super) struct InstancePath {
    pub(super) organization: String,
    pub(super) policy: String,
    pub(super) node: String,
}

impl Names for InstancePath {
    fn org(&self) -> Option<&str> {
        Some(&self.organization)
    }

    fn node(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn policy(&self) -> Option<&str> {
        Some(&self.policy)
    }
}

/// The parameters and body of a request.
pub(super) trait Input: Sized + Send + 'static {
    /// True if invalid input is rejected before the check of the caller that counts, because that depends on it.
    const IS_CHECKED_FIRST: bool = false;

    /// Reads the request.
    ///
    /// # Errors
    /// 400 when it is not of this shape.
    fn read(request: Request) -> impl Future<Output = Result<Self, Refusal>> + Send;

    /// The query parameters as the API document shows them.
    fn parameters() -> Vec<Parameter> {
        Vec::new()
    }

    /// The body as the API document shows it.
    fn body() -> Content {
        Content::None
    }
}

/// Nothing.
pub(super) struct NoInput;

impl Input for NoInput {
    async fn read(_: Request) -> Result<NoInput, Refusal> {
        Ok(NoInput)
    }
}

/// Query parameters that are refused as a whole when one of them is unknown.
pub(super) trait KnownQuery: DeserializeOwned + IntoParams + Send + 'static {
    /// The text of the refusal.
    const REFUSAL: &'static str;
}

/// The query string.
pub(super) struct Query<T>(pub(super) T);

impl<T: KnownQuery> Input for Query<T> {
    async fn read(request: Request) -> Result<Query<T>, Refusal> {
        let query = extract::Query::<T>::try_from_uri(request.uri());
        let query = query.map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, T::REFUSAL))?;
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

/// Reads a body that may be empty; a refusal has the shape of the API.
pub(super) async fn read_body(request: Request) -> Result<Bytes, Refusal> {
    let body = Bytes::from_request(request, &()).await;
    body.map_err(|rejection| Refusal::new(rejection.status(), rejection.body_text()))
}

impl Input for UpgradeRequest {
    const IS_CHECKED_FIRST: bool = true;

    async fn read(request: Request) -> Result<UpgradeRequest, Refusal> {
        const MESSAGE: &str = "the body must be {\"nmp\": \"org/name of a management policy\"}";
        let body = Bytes::from_request(request, &()).await.map_err(Refusal::of)?;
        let request = Json::<UpgradeRequest>::from_bytes(&body);
        request.map(|Json(request)| request).map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, MESSAGE))
    }

    fn body() -> Content {
        Content::read::<UpgradeRequest>()
    }
}

pub(super) fn get<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::GET, path, name, handler)
}

pub(super) fn post<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::POST, path, name, handler)
}

pub(super) fn delete<A: 'static, H: Handler<A>>(
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    operation(Method::DELETE, path, name, handler)
}

fn operation<A: 'static, H: Handler<A>>(
    method: Method,
    path: &'static str,
    name: &'static str,
    handler: H,
) -> Operation {
    let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
    let route = on(filter, move |State(api): State<AgbotApi>, request: Request| async move {
        let outcome = handler.respond(api, request, name).await;
        outcome.unwrap_or_else(|refusal| refusal.into_response(H::CODES))
    });
    endpoint(method, path, name, H::ACCESS, route)
        .parameters(H::Input::parameters())
        .request(H::Input::body())
        .responses(H::Output::responses())
}

/// A function that carries an operation out; `A` names the types of its arguments.
pub(super) trait Handler<A>: Clone + Send + Sync + 'static {
    type Input: Input;
    type Output: Documented;

    /// The right that the permission in the signature proves.
    const ACCESS: RequiredAccess;

    /// Format of the codes of refusals.
    const CODES: CodeForm;

    /// Carries out a request of the operation of this name.
    fn respond(
        self,
        api: AgbotApi,
        request: Request,
        name: &'static str,
    ) -> impl Future<Output = Result<Response, Refusal>> + Send;
}

impl<F, Fut, P, R, I, O> Handler<(P, R, I)> for F
where
    F: Fn(Op<P>, Permission<R>, I) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, Refusal>> + Send,
    P: Names,
    R: Right,
    I: Input,
    O: Documented,
{
    type Input = I;
    type Output = O;

    const ACCESS: RequiredAccess = R::ACCESS;
    const CODES: CodeForm = P::CODES;

    async fn respond(self, api: AgbotApi, request: Request, name: &'static str) -> Result<Response, Refusal> {
        let Begun { op, headers, client, request } = begin(api, request).await?;
        let action = action::<R, P>(&op, &headers, &request, name);
        let check = || permitted::<R, P>(&op, &headers, client.clone(), action.as_ref());
        let (permission, input) = checked_around(check, I::read(request), I::IS_CHECKED_FIRST).await?;
        let context = op.context.clone();
        recorded(&context, &headers, action, self(op, permission, input)).await
    }
}

impl<F, Fut, P, R, O> Handler<(P, R)> for F
where
    F: Fn(Op<P>, Permission<R>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, Refusal>> + Send,
    P: Names,
    R: Right,
    O: Documented,
{
    type Input = NoInput;
    type Output = O;

    const ACCESS: RequiredAccess = R::ACCESS;
    const CODES: CodeForm = P::CODES;

    async fn respond(self, api: AgbotApi, request: Request, name: &'static str) -> Result<Response, Refusal> {
        let Begun { op, headers, client, request } = begin(api, request).await?;
        let action = action::<R, P>(&op, &headers, &request, name);
        let permission = permitted::<R, P>(&op, &headers, client, action.as_ref()).await?;
        let context = op.context.clone();
        recorded(&context, &headers, action, self(op, permission)).await
    }
}

/// Reads the input of a request between two checks of its caller: no memory is taken for a caller without the right, and a right that
/// was withdrawn while the client held back its body is not used. Input that is there already is read before the only check.
async fn checked_around<T, I, C>(
    check: impl Fn() -> C,
    read: impl Future<Output = Result<I, Refusal>>,
    is_checked_first: bool,
) -> Result<(T, I), Refusal>
where
    C: Future<Output = Result<T, Refusal>>,
{
    let mut read = pin!(read);
    let input = match read.as_mut().now_or_never() {
        Some(input) => input,
        None => {
            check().await?;
            read.await
        }
    };
    if is_checked_first {
        let input = input?;
        return Ok((check().await?, input));
    }
    Ok((check().await?, input?))
}

/// A request whose path was read.
struct Begun<P> {
    op: Op<P>,
    headers: HeaderMap,
    client: Option<Client>,
    request: Request,
}

/// Finds the agbot and reads the path.
async fn begin<P: Names>(api: AgbotApi, request: Request) -> Result<Begun<P>, Refusal> {
    let starting = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the agbot is starting, try again");
    let context = api.0.get().cloned().ok_or_else(starting)?;
    let (mut parts, body) = request.into_parts();
    let path = Path::<P>::from_request_parts(&mut parts, &()).await;
    let Path(path) = path.map_err(|rejection| match P::CODES {
        CodeForm::Word => Refusal::new(rejection.status(), rejection.body_text()),
        CodeForm::Number => Refusal::of(rejection),
    })?;
    insert_address(&mut parts);
    let (headers, client) = (parts.headers.clone(), parts.extensions.get::<Client>().cloned());
    Ok(Begun { op: Op { context, path }, headers, client, request: Request::from_parts(parts, body) })
}

/// Returns the contents of the audit records of a request; none for one that changes nothing, and for reports
/// of nodes about themselves.
fn action<R: Right, P: Names>(
    op: &Op<P>,
    headers: &HeaderMap,
    request: &Request,
    name: &'static str,
) -> Option<Action> {
    let org = op.path.org()?;
    let is_of_node = op.path.node().is_some_and(|node| claimed_name(headers) == format!("{org}/{node}"));
    let is_recorded = R::IS_AUDITED && request.method() != Method::GET && !is_of_node;
    is_recorded.then(|| Action::of(org, name, request.method(), request.uri(), headers))
}

/// Carries out an action between its audit records.
async fn recorded<O: IntoResponse>(
    context: &Context,
    headers: &HeaderMap,
    action: Option<Action>,
    work: impl Future<Output = Result<O, Refusal>>,
) -> Result<Response, Refusal> {
    if let Some(action) = &action {
        action.begin(context, headers).await?;
    }
    let outcome = work.await.map(IntoResponse::into_response);
    let refused = outcome.as_ref().err().map(Refusal::status);
    if let (Some(action), Some(status)) = (action, refused) {
        action.end(context, headers, status).await;
    }
    outcome
}

/// Asks for a permission, within the limits on failed logins.
async fn permitted<R: Right, P: Names>(
    op: &Op<P>,
    headers: &HeaderMap,
    client: Option<Client>,
    action: Option<&Action>,
) -> Result<Permission<R>, Refusal> {
    let guard = op.context.settings.login_guard.as_deref();
    if let Some(guard) = guard {
        login::check(guard, headers)?;
    }
    let outcome = Permission::<R>::of(op, headers).await;
    let is_login = !matches!(R::ACCESS, RequiredAccess::Public);
    if let Some(guard) = guard.filter(|_| is_login) {
        login::count(guard, headers, outcome.as_ref());
    }
    if let Some(client) = client.filter(|_| is_login && outcome.is_ok()) {
        client.note_login();
    }
    if let (Some(action), Err(Refusal::Message(status @ StatusCode::FORBIDDEN, _))) = (action, &outcome) {
        action.end(&op.context, headers, *status).await;
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The steps of a request, the check of whose caller ends as `verdicts` say, in this order.
    async fn steps(is_there: bool, mut verdicts: Vec<bool>) -> (Vec<&'static str>, bool) {
        verdicts.reverse();
        let (log, verdicts) = (RefCell::new(Vec::new()), RefCell::new(verdicts));
        let check = || async {
            log.borrow_mut().push("check");
            let is_allowed = verdicts.borrow_mut().pop().expect("no further check");
            if is_allowed { Ok(()) } else { Err(Refusal::new(StatusCode::UNAUTHORIZED, "")) }
        };
        let read = async {
            if !is_there {
                tokio::task::yield_now().await;
            }
            log.borrow_mut().push("read");
            Ok(())
        };
        let is_done = checked_around(check, read, false).await.is_ok();
        (log.into_inner(), is_done)
    }

    #[tokio::test]
    async fn body_that_is_awaited_is_read_between_two_checks_of_the_caller() {
        assert_eq!(steps(true, vec![true]).await, (vec!["read", "check"], true));
        assert_eq!(steps(false, vec![true, true]).await, (vec!["check", "read", "check"], true));
        assert_eq!(steps(false, vec![false]).await, (vec!["check"], false));
        assert_eq!(steps(false, vec![true, false]).await, (vec!["check", "read", "check"], false));
    }

    async fn body(status: StatusCode, form: CodeForm) -> String {
        let response = Refusal::new(status, "why").into_response(form);
        assert_eq!(response.status(), status);
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a whole body");
        String::from_utf8(bytes.to_vec()).expect("JSON is text")
    }

    #[tokio::test]
    async fn codes_of_refusals_are_words_unless_a_deployed_agent_asks() {
        for (status, code) in [
            (StatusCode::BAD_REQUEST, "invalid-input"),
            (StatusCode::FORBIDDEN, "access-denied"),
            (StatusCode::NOT_FOUND, "not-found"),
            (StatusCode::CONFLICT, "conflict"),
        ] {
            let expected = |code: &str| format!("{{\"code\":\"{code}\",\"msg\":\"why\"}}");
            assert_eq!(body(status, GroupPath::CODES).await, expected(code));
            assert_eq!(body(status, UpgradePath::CODES).await, expected(&status.as_u16().to_string()));
            assert_eq!(body(status, ManagementPath::CODES).await, expected(&status.as_u16().to_string()));
        }
    }
}
