//! How a call can fail.

use http::StatusCode;

/// Why a call did not give the expected answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The call could not be made as asked: bad address, bad certificate file.
    #[error("the call cannot be made: {0}")]
    Request(String),
    /// No answer came back.
    #[error("no answer from the hub: {reason}")]
    Transport {
        /// Whether the same call may work later.
        retryable: bool,
        /// What went wrong, without address parameters or credentials.
        reason: String,
    },
    /// The answer has an unexpected status.
    #[error("the hub answered {status}{}", detail(.code, .msg))]
    Status {
        /// HTTP status.
        status: u16,
        /// `code` of the answer, empty when it has none.
        code: String,
        /// `msg` of the answer, or its text.
        msg: String,
    },
    /// The answer is not of the expected shape.
    #[error("the hub's answer cannot be read: {0}")]
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
    /// Tells whether the same call may work later.
    ///
    /// # Source
    /// Agreement protocol 1.3: connection failures, 408, 429, 502, 503, 504, and 500 whose text contains "timed out".
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transport { retryable, .. } => *retryable,
            Self::Status { status: 408 | 429 | 502 | 503 | 504, .. } => true,
            Self::Status { status: 500, msg, .. } => msg.contains("timed out"),
            _ => false,
        }
    }

    /// The HTTP status of the answer, when there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Tells whether the hub does not accept the credentials; for a node this means that it was deleted.
    pub fn is_unauthorized(&self) -> bool {
        self.status() == Some(StatusCode::UNAUTHORIZED.as_u16())
    }

    /// Tells whether the thing asked for does not exist or is not visible.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND.as_u16())
    }
}
