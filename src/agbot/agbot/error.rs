//! Errors of an agbot's effects.

use evenkeel_client::ClientError;
use evenkeel_planner_record::lease::Lease;
use evenkeel_store::{AsStoreError, StoreError};
use evenkeel_wire::agreement::{EnvelopeError, KeyError};
use thiserror::Error;

/// The error of an effect.
#[derive(Debug, Error)]
pub enum AgbotError {
    /// The exchange.
    #[error(transparent)]
    Exchange(#[from] ClientError),
    /// The agbot's own database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The messaging key.
    #[error("the messaging key cannot be used")]
    Key(#[from] KeyError),
    /// The messaging key's file.
    #[error("the messaging key file {path} cannot be used")]
    KeyFile {
        /// Its path.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A message could not be sealed.
    #[error("a message cannot be sealed")]
    Envelope(#[from] EnvelopeError),
    /// A record cannot be put into its stored form.
    #[error("a record of the agbot cannot be written")]
    Record(#[from] serde_json::Error),
    /// A row of the agbot's database has an unexpected shape. Nothing may be decided without it.
    #[error("the agbot's record of {record} cannot be read; is it of a newer version?")]
    UnreadableRecord {
        /// The kind and the key of the record.
        record: String,
        /// The parse error.
        source: serde_json::Error,
    },
    /// No administrator has approved this agbot.
    #[error(
        "agbot `{0}` has no rights before an administrator of its organization approves it: hzn exchange agbot approve {0}"
    )]
    Unapproved(String),
    /// A precondition no longer holds; nothing was done.
    #[error("{0}")]
    Refused(String),
}

impl AgbotError {
    /// The refusal of a command whose lease has passed to another agbot.
    pub(crate) fn lease_lost(lease: Lease) -> Self {
        AgbotError::Refused(format!("partition {} belongs to another agbot by now", lease.partition))
    }
}

impl AsStoreError for AgbotError {
    fn as_store_error(&self) -> Option<&StoreError> {
        match self {
            AgbotError::Store(error) => Some(error),
            _ => None,
        }
    }
}
