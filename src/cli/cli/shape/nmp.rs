//! Management policies.

use serde::{Deserialize, Serialize};

use super::Ignored;
use super::policy::PropertyFile;

/// A management policy.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct NmpFile {
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Excludes `patterns`, even if one of them is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    constraints: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<Vec<PropertyFile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patterns: Option<Vec<String>>,
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_window: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_upgrade_policy: Option<AgentUpgradeFile>,
    #[serde(skip_serializing)]
    owner: Ignored,
    #[serde(skip_serializing)]
    created: Ignored,
    #[serde(skip_serializing)]
    last_updated: Ignored,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct AgentUpgradeFile {
    manifest: String,
    allow_downgrade: bool,
    /// An addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    drain: Option<bool>,
}
