//! The calls on which all resources are built: one method per HTTP method, with the statuses that the API defines.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_wire::agent::refusal::RefusalResponse;
use evenkeel_wire::exchange::agent_run::AGENT_RUN_HEADER;
use evenkeel_wire::exchange::forwarded::{CLIENT_ADDRESS, FORWARDED_BY};
use evenkeel_wire::exchange::revision::REASON;
use evenkeel_wire::exchange::utility::ApiResponse;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};

use crate::transport::MaxResponse;
use crate::{ClientError, Credentials, Path, Pieces, RunHeader, Transport};

/// A client of one API with one caller's credentials. Cloning shares connections.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Transport,
    base: String,
    authorization: Option<HeaderValue>,
    /// Organization of a token's user who has roles in several organizations.
    organization: Option<HeaderValue>,
    /// The run of the agent that calls.
    run: Option<Arc<RunHeader>>,
    forwarded: Option<Forwarded>,
    /// Reason for the writes, which is recorded with the revisions of documents.
    reason: Option<HeaderValue>,
    /// Age in seconds up to which a response to a read will do.
    max_age_secs: Option<u32>,
}

/// Origin of a request that is made with the credentials of a caller.
#[derive(Debug, Clone)]
struct Forwarded {
    /// Address of the caller, when it is known.
    address: Option<HeaderValue>,
    /// Credentials of the agbot, which prove that the address is true; none inside the process.
    by: Option<HeaderValue>,
}

/// A response as received.
#[derive(Debug, Clone)]
pub struct RawResponse {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// Body of the response.
    pub body: Bytes,
}

/// Outcome of a write that creates or replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The resource is new.
    Created,
    /// It was there before.
    Replaced,
}

/// Reason why a resource was neither created nor replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The last attempt.
    pub attempt: Written,
    /// The failure of it.
    pub error: ClientError,
}

/// Bytes of a refused response that are read.
const MAX_REFUSAL: usize = 65_536;

/// Sets the organization of a token's user.
const ORGANIZATION: HeaderName = HeaderName::from_static("x-organization");
/// Names the run of an agent.
const AGENT_RUN: HeaderName = HeaderName::from_static(AGENT_RUN_HEADER);

impl Client {
    /// Creates a client that calls below `base` (`/v1` for exchanges, empty for an agbot's own API).
    ///
    /// # Errors
    /// [`ClientError::Request`] when the credentials do not fit a header.
    pub fn new(transport: Transport, base: &str, credentials: Credentials) -> Result<Self, ClientError> {
        let authorization = Some(credentials.header()?);
        let organization = credentials.organization_header()?;
        Ok(Self {
            transport,
            base: clean(base),
            authorization,
            organization,
            forwarded: None,
            run: None,
            reason: None,
            max_age_secs: None,
        })
    }

    /// A client without credentials, for the few public calls.
    pub fn anonymous(transport: Transport, base: &str) -> Self {
        Self {
            transport,
            base: clean(base),
            authorization: None,
            organization: None,
            forwarded: None,
            run: None,
            reason: None,
            max_age_secs: None,
        }
    }

    /// Adds the run of the agent to each request from now on.
    #[must_use]
    pub fn of_run(self, run: Arc<RunHeader>) -> Self {
        Self { run: Some(run), ..self }
    }

    /// Takes responses to reads from now on that are up to so many seconds old, which the hub may have kept for other callers.
    #[must_use]
    pub fn with_max_age(self, secs: u32) -> Self {
        Self { max_age_secs: Some(secs), ..self }
    }

    /// Adds the reason to each write from now on.
    ///
    /// # Errors
    /// [`ClientError::Request`] when it has characters that a header cannot have.
    pub fn with_reason(self, reason: &str) -> Result<Self, ClientError> {
        let reason = HeaderValue::from_bytes(reason.as_bytes())
            .map_err(|_| ClientError::Request("the reason has control characters".to_owned()))?;
        Ok(Self { reason: Some(reason), ..self })
    }

    /// The same connections and base with other credentials.
    ///
    /// # Errors
    /// [`ClientError::Request`] when the credentials do not fit a header.
    pub fn with_credentials(&self, credentials: Credentials) -> Result<Self, ClientError> {
        Self::new(self.transport.clone(), &self.base, credentials)
    }

    /// Returns a client with the same connections and base for a caller whose headers `Authorization` and, where there is one, `X-Organization` are passed
    /// on as they came, with the caller's address and the own credentials as the proof of it.
    #[must_use]
    pub fn with_authorization(
        &self,
        mut value: HeaderValue,
        organization: Option<HeaderValue>,
        address: Option<HeaderValue>,
    ) -> Self {
        value.set_sensitive(true);
        let (transport, base) = (self.transport.clone(), self.base.clone());
        let forwarded = self.authorization.clone().map(|by| Forwarded { address, by: Some(by) });
        let authorization = Some(value);
        Self {
            transport,
            base,
            authorization,
            organization,
            forwarded,
            run: None,
            reason: None,
            max_age_secs: None,
        }
    }

    /// Returns a client that calls, inside the process, for a client at this address.
    #[must_use]
    pub fn of_client_at(self, address: HeaderValue) -> Self {
        Self { forwarded: Some(Forwarded { address: Some(address), by: None }), ..self }
    }

    /// Reads JSON; `None` for status 404.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200 and 404.
    pub async fn get<T: DeserializeOwned>(&self, path: Path) -> Result<Option<T>, ClientError> {
        let response = self.send(Method::GET, &path, None).await?;
        match response.status {
            StatusCode::OK => decode(&response.body).map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(unexpected(&response)),
        }
    }

    /// Reads JSON that must exist.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200.
    pub async fn get_existing<T: DeserializeOwned>(&self, path: Path) -> Result<T, ClientError> {
        let response = self.send(Method::GET, &path, None).await?;
        match response.status {
            StatusCode::OK => decode(&response.body),
            _ => Err(unexpected(&response)),
        }
    }

    /// Reads text; `None` for status 404.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200 and 404.
    pub async fn get_text(&self, path: Path) -> Result<Option<String>, ClientError> {
        let response = self.send(Method::GET, &path, None).await?;
        match response.status {
            StatusCode::OK => Ok(Some(String::from_utf8_lossy(&response.body).into_owned())),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(unexpected(&response)),
        }
    }

    /// Reads a response that does not end by itself, such as a stream of events. It has no timeout.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200.
    pub async fn follow(&self, path: &Path) -> Result<Pieces, ClientError> {
        let request = self.request(Method::GET, path, None, HeaderMap::new())?;
        let (parts, mut pieces) = self.transport.open(request).await?.into_parts();
        if parts.status == StatusCode::OK {
            return Ok(pieces);
        }
        let mut body = Vec::new();
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece?);
            if body.len() > MAX_REFUSAL {
                break;
            }
        }
        Err(unexpected(&RawResponse { status: parts.status, headers: parts.headers, body: body.into() }))
    }

    /// Replaces or creates a resource.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200, 201 and 204.
    pub async fn put<B: Serialize + ?Sized>(&self, path: Path, body: &B) -> Result<ApiResponse, ClientError> {
        self.write(Method::PUT, &path, Some(encode(body)?)).await
    }

    /// Creates a resource, or replaces it when a response with status `exists` reports that it exists.
    ///
    /// # Errors
    /// The refusal of the last attempt; that of the creation when there is nothing to replace (404), because then it was
    /// refused for another reason.
    pub async fn create_or_replace<B: Serialize + ?Sized>(
        &self,
        path: Path,
        body: &B,
        exists: StatusCode,
    ) -> Result<Written, Refusal> {
        let Err(refused) = self.post(path.clone(), body).await else { return Ok(Written::Created) };
        if refused.status() != Some(exists.as_u16()) {
            return Err(Refusal { attempt: Written::Created, error: refused });
        }
        match self.put(path, body).await {
            Ok(_) => Ok(Written::Replaced),
            Err(error) if error.is_not_found() => Err(Refusal { attempt: Written::Created, error: refused }),
            Err(error) => Err(Refusal { attempt: Written::Replaced, error }),
        }
    }

    /// Creates a resource or starts an action.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200, 201 and 204.
    pub async fn post<B: Serialize + ?Sized>(
        &self,
        path: Path,
        body: &B,
    ) -> Result<ApiResponse, ClientError> {
        self.write(Method::POST, &path, Some(encode(body)?)).await
    }

    /// Starts an action that takes no body.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200, 201 and 204.
    pub async fn post_empty(&self, path: Path) -> Result<ApiResponse, ClientError> {
        self.write(Method::POST, &path, None).await
    }

    /// Changes attributes of a resource.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200, 201 and 204.
    pub async fn patch<B: Serialize + ?Sized>(
        &self,
        path: Path,
        body: &B,
    ) -> Result<ApiResponse, ClientError> {
        self.write(Method::PATCH, &path, Some(encode(body)?)).await
    }

    /// Removes a resource; false if it did not exist (404).
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200, 204 and 404.
    pub async fn delete(&self, path: Path) -> Result<bool, ClientError> {
        let response = self.send(Method::DELETE, &path, None).await?;
        match response.status {
            StatusCode::OK | StatusCode::NO_CONTENT => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => Err(unexpected(&response)),
        }
    }

    /// Sends a query by POST; `None` for status 404.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200, 201 and 404.
    pub async fn search<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: Path,
        body: &B,
    ) -> Result<Option<T>, ClientError> {
        let response = self.send(Method::POST, &path, Some(encode(body)?)).await?;
        match response.status {
            StatusCode::OK | StatusCode::CREATED => decode(&response.body).map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(unexpected(&response)),
        }
    }

    /// Sends a JSON body, or none, and returns the response regardless of its status.
    ///
    /// # Errors
    /// [`ClientError::Transport`] without a response.
    pub async fn send(
        &self,
        method: Method,
        path: &Path,
        json: Option<Bytes>,
    ) -> Result<RawResponse, ClientError> {
        self.send_with(method, path, json, HeaderMap::new(), None).await
    }

    /// Like [`Client::send`], with further headers and another timeout.
    ///
    /// # Errors
    /// [`ClientError::Transport`] without a response.
    pub async fn send_with(
        &self,
        method: Method,
        path: &Path,
        body: Option<Bytes>,
        headers: HeaderMap,
        timeout: Option<Duration>,
    ) -> Result<RawResponse, ClientError> {
        let request = self.request(method.clone(), path, body, headers)?;
        let response = self.transport.send(request, timeout).await?;
        tracing::trace!(%method, path = path.shown(), status = response.status().as_u16(), "call");
        let (parts, body) = response.into_parts();
        Ok(RawResponse { status: parts.status, headers: parts.headers, body })
    }

    fn request(
        &self,
        method: Method,
        path: &Path,
        body: Option<Bytes>,
        headers: HeaderMap,
    ) -> Result<Request<Bytes>, ClientError> {
        let is_read = method == Method::GET;
        let mut request = Request::builder()
            .method(method)
            .uri(path.text(&self.base))
            .body(body.clone().unwrap_or_default())
            .map_err(|error| ClientError::Request(error.to_string()))?;
        if let Some(bytes) = path.max_response {
            request.extensions_mut().insert(MaxResponse(bytes));
        }
        *request.headers_mut() = headers;
        let target = request.headers_mut();
        if body.is_some() && !target.contains_key(header::CONTENT_TYPE) {
            target.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(authorization) = &self.authorization {
            target.insert(header::AUTHORIZATION, authorization.clone());
        }
        if let Some(organization) = &self.organization {
            target.insert(ORGANIZATION, organization.clone());
        }
        if let Some(Forwarded { address, by }) = &self.forwarded {
            if let Some(address) = address {
                target.insert(HeaderName::from_static(CLIENT_ADDRESS), address.clone());
            }
            if let Some(by) = by {
                target.insert(HeaderName::from_static(FORWARDED_BY), by.clone());
            }
        }
        if let Some(reason) = self.reason.as_ref().filter(|_| !is_read) {
            target.insert(HeaderName::from_static(REASON), reason.clone());
        }
        if let Some(secs) = self.max_age_secs.filter(|_| is_read) {
            let value = HeaderValue::try_from(format!("max-age={secs}"));
            target.extend(value.ok().map(|value| (header::CACHE_CONTROL, value)));
        }
        if let Some(run) = self.run.as_ref().and_then(|run| run.value()) {
            target.insert(AGENT_RUN, run);
        }
        Ok(request)
    }

    async fn write(
        &self,
        method: Method,
        path: &Path,
        body: Option<Bytes>,
    ) -> Result<ApiResponse, ClientError> {
        let response = self.send(method, path, body).await?;
        response.accepted()
    }
}

impl RawResponse {
    /// Decodes the body as JSON.
    ///
    /// # Errors
    /// [`ClientError::Decode`] when it has another shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        decode(&self.body)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the response to a write; an absent or malformed body counts as empty.
    ///
    /// # Errors
    /// [`ClientError`] for every status but 200, 201 and 204.
    pub fn accepted(&self) -> Result<ApiResponse, ClientError> {
        match self.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => {
                Ok(self.json().unwrap_or_default())
            }
            _ => Err(unexpected(self)),
        }
    }

    /// Returns the error of a response with an unexpected status.
    pub fn unexpected(&self) -> ClientError {
        unexpected(self)
    }
}

fn clean(base: &str) -> String {
    base.trim_end_matches('/').to_owned()
}

pub(crate) fn encode<B: Serialize + ?Sized>(body: &B) -> Result<Bytes, ClientError> {
    serde_json::to_vec(body).map(Bytes::from).map_err(|error| ClientError::Request(error.to_string()))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    Ok(serde_json::from_slice(body)?)
}

fn unexpected(response: &RawResponse) -> ClientError {
    let ApiResponse { code, msg } = serde_json::from_slice(&response.body).unwrap_or_default();
    // The agent's local API describes errors in another format, and third-party servers in neither.
    let refusal: RefusalResponse = serde_json::from_slice(&response.body).unwrap_or_default();
    let text = || String::from_utf8_lossy(&response.body).chars().take(300).collect();
    let msg = match (code.is_empty() && msg.is_empty(), refusal.error.is_empty()) {
        (false, _) => msg,
        (true, false) => refusal.error,
        (true, true) => text(),
    };
    let retry_after =
        response.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    ClientError::Status { status: response.status.as_u16(), code, msg, retry_after }
}
