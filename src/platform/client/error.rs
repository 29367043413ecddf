//! Errors of a call.

use evenkeel_wire::exchange::agent_run::SUPERSEDED;
use http::StatusCode;

/// The reason why a call did not give the expected response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The request could not be sent: invalid address or certificate file.
    #[error("the request cannot be sent: {0}")]
    Request(String),
    /// No response was received.
    #[error("no response from the hub: {reason}")]
    Transport {
        /// True if the same call may succeed later.
        retryable: bool,
        /// The error, without address parameters or credentials.
        reason: String,
    },
    /// The response has an unexpected status.
    #[error("the hub responded with {status}{}", detail(.code, .msg))]
    Status {
        /// HTTP status.
        status: u16,
        /// `code` of the response, empty when it has none.
        code: String,
        /// `msg` of the response, or its text.
        msg: String,
        /// Seconds to wait before the next attempt, when the response names them.
        retry_after: Option<u64>,
    },
    /// The response does not have the expected shape.
    #[error("the hub's response cannot be read: {0}")]
    Decode(String),
}

impl From<serde_json::Error> for ClientError {
    fn from(error: serde_json::Error) -> Self {
        Self::Decode(error.to_string())
    }
}

fn detail(code: &str, msg: &str) -> String {
    match (code.is_empty(), msg.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(": {msg}"),
        (false, _) => format!(": {code}, {msg}"),
    }
}

impl ClientError {
    /// Returns whether the same call may succeed later.
    ///
    /// # Source
    /// Agreement-protocol 1.3 (connection failures, 408, 429, 502, 503, 504, and 500 whose text contains "timed out").
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transport { retryable, .. } => *retryable,
            Self::Status { status: 408 | 429 | 502 | 503 | 504, .. } => true,
            Self::Status { status: 500, msg, .. } => msg.contains("timed out"),
            _ => false,
        }
    }

    /// Returns the HTTP status of the response, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns whether the hub rejects the credentials; for a node this means that it was deleted.
    pub fn is_unauthorized(&self) -> bool {
        self.status() == Some(StatusCode::UNAUTHORIZED.as_u16())
    }

    /// Returns whether the state of an object forbids the call, for instance because its name is taken.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(StatusCode::CONFLICT.as_u16())
    }

    /// Returns whether another agent with the identity of the node has taken the caller's place.
    pub fn is_superseded(&self) -> bool {
        matches!(self, Self::Status { code, .. } if code == SUPERSEDED)
    }

    /// Returns whether the requested object does not exist or is not visible.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND.as_u16())
    }
}
