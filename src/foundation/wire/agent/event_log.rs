//! The agent's event log, and the errors that the node reports to the exchange.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ServiceName;

/// An entry of the event log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventLogEntry {
    /// Its number.
    pub record_id: String,
    /// When it was written.
    pub timestamp: u64,
    /// `info`.
    pub severity: String,
    /// Human-readable message.
    pub message: String,
    /// Always empty.
    pub event_code: String,
    /// `agreement`.
    pub source_type: String,
    /// The message in parts, for translation.
    pub message_meta: MessageMeta,
    /// Always empty.
    pub event_source: BTreeMap<String, String>,
}

/// A message in parts, for translation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageMeta {
    /// The message.
    pub message_key: String,
    /// Always empty.
    pub message_args: Vec<String>,
}

/// An error that a node reports to the exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SurfacedError {
    /// Its number.
    pub record_id: String,
    /// Human-readable message.
    pub message: String,
    /// Kind of error.
    pub event_code: String,
    /// True if a user has hidden it.
    pub hidden: bool,
    /// Service that it is about.
    pub workload: ServiceName,
    /// When it happened, as text.
    pub timestamp: String,
}
