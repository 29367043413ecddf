//! The agent itself: configuration and workers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::RawJson;

/// Configuration of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStatus {
    /// Its configuration.
    pub configuration: Configuration,
    /// Always null.
    pub live_health: Option<RawJson>,
    /// Reason for reporting nothing to the hub while another agent has the identity of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded: Option<String>,
}

/// Configuration of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// Address of the exchange.
    pub exchange_api: String,
    /// Version of the exchange; empty while the node is not registered.
    pub exchange_version: String,
    /// Oldest exchange version that the agent supports.
    pub required_minimum_exchange_version: String,
    /// Exchange version that the agent prefers.
    pub preferred_exchange_version: String,
    /// Always empty.
    pub mms_api: String,
    /// Architecture of the machine.
    pub architecture: String,
    /// Version of the agent.
    pub horizon_version: String,
    /// Always empty.
    pub cert_file_version: String,
    /// Always empty.
    pub config_file_version: String,
}

/// Attributes of the node, which agents of this contract do not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// Always empty.
    pub attributes: Vec<String>,
}

/// Workers of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkersStatus {
    /// The workers by name.
    pub workers: BTreeMap<String, WorkerStatus>,
    /// Changes of their states.
    pub worker_status_log: Vec<String>,
}

/// State of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerStatus {
    /// Its name.
    pub name: String,
    /// `initialized`, or `waiting` until the node is registered.
    pub status: String,
    /// States of its parts.
    pub subworker_status: BTreeMap<String, String>,
}
