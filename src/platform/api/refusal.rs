//! Responses to requests that are not carried out.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use thiserror::Error;

/// Code of a refusal for too many requests.
const TOO_MANY: &str = "too busy";

/// The response to a request that is not carried out.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The body of the API: a machine-readable code and a human-readable message.
    #[error("{code}: {message}")]
    Coded {
        /// HTTP status.
        status: StatusCode,
        /// Symbol of the contract.
        code: &'static str,
        /// Human-readable message.
        message: String,
    },
    /// Plain text, from the layers that know only HTTP.
    #[error("{message}")]
    Plain {
        /// HTTP status.
        status: StatusCode,
        /// Text of the body.
        message: String,
    },
    /// Too many requests: try again after so many seconds.
    #[error("{message}")]
    TooMany {
        /// Seconds to wait.
        retry_after: u64,
        /// Human-readable message.
        message: String,
    },
}

/// Format of the codes in the bodies of an operation's refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeForm {
    /// A word of the contract.
    Word,
    /// The number of the status.
    Number,
}

impl Refusal {
    /// A refusal with the usual code of its status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal::coded(status, code_of(status), message)
    }

    /// A refusal with a code of its own.
    pub fn coded(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::Coded { status, code, message: message.into() }
    }

    /// A refusal in plain text.
    pub fn plain(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal::Plain { status, message: message.into() }
    }

    /// 400: malformed or refused input; the text names the field and the rule.
    pub fn invalid_input(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }

    /// 429: too many requests; `retry_after` in seconds.
    pub fn too_many(retry_after: u64, message: impl Into<String>) -> Refusal {
        Refusal::TooMany { retry_after, message: message.into() }
    }

    /// 500: a broken invariant of ours.
    pub fn internal(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Coded { status, .. } | Refusal::Plain { status, .. } => *status,
            Refusal::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Returns the human-readable message.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Refusal::Coded { message, .. }
            | Refusal::Plain { message, .. }
            | Refusal::TooMany { message, .. } => message,
        }
    }

    /// Returns true for 401: wrong or unknown credentials.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.status() == StatusCode::UNAUTHORIZED
    }

    /// Returns true for 403: known, but not allowed.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.status() == StatusCode::FORBIDDEN
    }

    /// Returns the response with a code of the given form.
    #[must_use]
    pub fn respond(self, form: CodeForm) -> Response {
        let (status, code, message, retry_after) = match self {
            Refusal::Plain { status, message } => return (status, message).into_response(),
            Refusal::Coded { status, code, message } => (status, code, message, None),
            Refusal::TooMany { retry_after, message } => {
                (StatusCode::TOO_MANY_REQUESTS, TOO_MANY, message, Some(retry_after))
            }
        };
        let code = match form {
            CodeForm::Word => code,
            CodeForm::Number => status.as_str(),
        };
        let mut response = (status, Json(json!({"code": code, "msg": message}))).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.respond(CodeForm::Word)
    }
}

/// The usual code of a status. Source: exchange-api 1.3; orchestration 0.7.
fn code_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "invalid-credentials",
        StatusCode::FORBIDDEN => "access-denied",
        StatusCode::NOT_FOUND => "not-found",
        StatusCode::CONFLICT => "conflict",
        StatusCode::TOO_MANY_REQUESTS => TOO_MANY,
        StatusCode::SERVICE_UNAVAILABLE => "database-connection-error",
        status if status.is_client_error() => "invalid-input",
        _ => "internal_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn body(refusal: Refusal, form: CodeForm) -> String {
        let bytes = axum::body::to_bytes(refusal.respond(form).into_body(), usize::MAX).await;
        String::from_utf8(bytes.expect("a whole body").to_vec()).expect("a text")
    }

    #[tokio::test]
    async fn codes_of_refusals_are_words_or_the_number_of_the_status() {
        for (status, code) in [
            (StatusCode::BAD_REQUEST, "invalid-input"),
            (StatusCode::PAYLOAD_TOO_LARGE, "invalid-input"),
            (StatusCode::FORBIDDEN, "access-denied"),
            (StatusCode::NOT_FOUND, "not-found"),
            (StatusCode::CONFLICT, "conflict"),
            (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        ] {
            let expected = |code: &str| format!("{{\"code\":\"{code}\",\"msg\":\"why\"}}");
            assert_eq!(body(Refusal::new(status, "why"), CodeForm::Word).await, expected(code));
            assert_eq!(body(Refusal::new(status, "why"), CodeForm::Number).await, expected(status.as_str()));
        }
        assert_eq!(body(Refusal::plain(StatusCode::BAD_REQUEST, "why"), CodeForm::Number).await, "why");
    }

    #[test]
    fn too_many_requests_are_to_be_repeated_later() {
        let response = Refusal::too_many(7, "why").into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    }
}
