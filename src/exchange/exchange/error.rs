//! The one table from what went wrong to HTTP status and body.
//!
//! Inside text (causes, SQL) goes to the log, never into a response. Source: exchange-api 1.3.

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse, Response};
use evenkeel_api::{PageError, Refusal};
use evenkeel_store::{AsStoreError, StoreError};
use evenkeel_wire::exchange::agbot_approval::UNKNOWN_FENCING;
use evenkeel_wire::exchange::agent_run::SUPERSEDED;
use evenkeel_wire::exchange::plan_approval::APPROVAL_REQUIRED;
use evenkeel_wire::exchange::utility::ApiResponse;
use http::StatusCode;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::json;
use thiserror::Error;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Reason why a request was not carried out.
#[derive(Debug, Error)]
pub enum ApiError {
    /// A response of the contract: status, code, human-readable message.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A response with a body of its own (for instance an empty list with 404).
    #[error("response with status {0}")]
    Body(StatusCode, serde_json::Value),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ApiError {
    fn coded(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        Refusal::coded(status, code, message).into()
    }

    /// 400: malformed or refused input; the text names the field and the rule.
    pub fn invalid_input(message: impl Into<String>) -> ApiError {
        Refusal::invalid_input(message).into()
    }

    /// 413: a part of the request is larger than its limit.
    pub fn too_large(message: impl Into<String>) -> ApiError {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message).into()
    }

    /// 401: no or bad credentials.
    pub fn invalid_credentials(message: impl Into<String>) -> ApiError {
        Refusal::new(StatusCode::UNAUTHORIZED, message).into()
    }

    /// 403: known, but not allowed, or over a limit.
    pub fn access_denied(message: impl Into<String>) -> ApiError {
        Refusal::new(StatusCode::FORBIDDEN, message).into()
    }

    /// 403 `fencing-unknown`: a task under a fencing number that the agbot was not given.
    pub fn unknown_fencing(message: impl Into<String>) -> ApiError {
        Self::coded(StatusCode::FORBIDDEN, UNKNOWN_FENCING, message)
    }

    /// 403 `approval-required`: a write that needs the approval of a second person.
    pub fn approval_required(message: impl Into<String>) -> ApiError {
        Self::coded(StatusCode::FORBIDDEN, APPROVAL_REQUIRED, message)
    }

    /// 403 `already-exists`: services, patterns, deployment and management policies.
    pub fn exists_forbidden(message: impl Into<String>) -> ApiError {
        Self::coded(StatusCode::FORBIDDEN, "already-exists", message)
    }

    /// 409 `already-exists`: organizations, agbot entries, HA groups.
    pub fn conflict(message: impl Into<String>) -> ApiError {
        Self::coded(StatusCode::CONFLICT, "already-exists", message)
    }

    /// 409 `conflict`: the request is valid, but the present state forbids it.
    pub fn state_conflict(message: impl Into<String>) -> ApiError {
        Refusal::new(StatusCode::CONFLICT, message).into()
    }

    /// 409 `agent-superseded`: another agent has the identity of the node.
    pub fn superseded(message: impl Into<String>) -> ApiError {
        Self::coded(StatusCode::CONFLICT, SUPERSEDED, message)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> ApiError {
        Refusal::new(StatusCode::NOT_FOUND, message).into()
    }

    /// 404 with the normal body of an empty list.
    #[must_use]
    pub fn empty(body: serde_json::Value) -> ApiError {
        ApiError::Body(StatusCode::NOT_FOUND, body)
    }

    /// 503: a required external system does not respond.
    pub fn unavailable(message: impl Into<String>) -> ApiError {
        Self::coded(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// 500: a broken invariant of ours.
    pub fn internal(message: impl Into<String>) -> ApiError {
        Refusal::internal(message).into()
    }

    /// 429: too many requests; `retry_after` in seconds.
    pub fn too_many(retry_after: u64, message: impl Into<String>) -> ApiError {
        Refusal::too_many(retry_after, message).into()
    }

    /// Returns true if the error reports wrong or unknown credentials.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, ApiError::Refused(refusal) if refusal.is_unauthorized())
    }

    /// Returns true if the error reports too many requests.
    #[must_use]
    pub fn is_too_many(&self) -> bool {
        matches!(self, ApiError::Refused(Refusal::TooMany { .. }))
    }

    /// Maps a violated constraint of the store to a response: `rules` pairs constraint names with responses.
    #[must_use]
    pub fn explain(self, constraint: &str, response: impl FnOnce() -> ApiError) -> ApiError {
        match &self {
            ApiError::Store(
                StoreError::Conflict { constraint: found } | StoreError::ParentMissing { constraint: found },
            ) if found == constraint => response(),
            _ => self,
        }
    }
}

impl From<PageError> for ApiError {
    fn from(error: PageError) -> ApiError {
        ApiError::internal(error.to_string())
    }
}

impl AsStoreError for ApiError {
    fn as_store_error(&self) -> Option<&StoreError> {
        match self {
            ApiError::Store(error) => Some(error),
            _ => None,
        }
    }
}

fn store_response(error: &StoreError) -> (StatusCode, &'static str, &'static str) {
    match error {
        StoreError::Conflict { .. } => {
            (StatusCode::CONFLICT, "already-exists", "the request collides with a resource that exists")
        }
        StoreError::ParentMissing { .. } => {
            (StatusCode::NOT_FOUND, "not-found", "a resource that the request refers to does not exist")
        }
        StoreError::Unstorable(_) => (
            StatusCode::BAD_REQUEST,
            "invalid-input",
            "a value of the request cannot be stored: NUL character or too long",
        ),
        StoreError::ReadOnly(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "database-read-only",
            "the exchange's database accepts no writes: point the exchange to the primary server, then try again",
        ),
        StoreError::TimedOut(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "database-timeout",
            "the exchange's database did not finish a statement in time, try again later",
        ),
        StoreError::Contention { .. } | StoreError::Unavailable(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "database-connection-error",
            "the exchange is busy, try again later",
        ),
        StoreError::DiskFull(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "disk-full",
            "the disk of the exchange's database is full: free space on it, then try again",
        ),
        StoreError::NewerSchema { .. }
        | StoreError::Migration(_)
        | StoreError::Corrupt { .. }
        | StoreError::Database(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "internal error; see the server log")
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        match self {
            ApiError::Refused(refusal) => refusal.into_response(),
            ApiError::Body(status, body) => (status, Json(body)).into_response(),
            ApiError::Store(error) => {
                let (status, code, message) = store_response(&error);
                if status.is_server_error() {
                    tracing::error!(error = &error as &dyn std::error::Error, "request failed in the store");
                }
                (status, Json(json!({"code": code, "msg": message}))).into_response()
            }
        }
    }
}

/// 201 with the standard body of a successful write, unless another one is named.
pub(crate) type Created<T = Message> = evenkeel_api::Created<T>;

/// The standard body of a successful write; every heartbeat gets one, so it may borrow.
#[derive(Debug)]
pub(crate) struct Message(Cow<'static, str>);

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_struct("ApiResponse", 2)?;
        body.serialize_field("code", "ok")?;
        body.serialize_field("msg", &self.0)?;
        body.end()
    }
}

impl PartialSchema for Message {
    fn schema() -> RefOr<Schema> {
        ApiResponse::schema()
    }
}

impl ToSchema for Message {
    fn name() -> Cow<'static, str> {
        ApiResponse::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ApiResponse::schemas(schemas);
    }
}

/// 201 with the standard body of a successful write.
pub(crate) fn created(message: impl Into<Cow<'static, str>>) -> Created {
    evenkeel_api::Created(Message(message.into()))
}
