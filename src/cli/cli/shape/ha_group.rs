//! HA groups.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Ignored;

/// An HA group.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct HaGroupFile {
    /// Not sent: the command or the document names the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<String>>,
    /// Not in the reference; its members have rules of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    orchestration: Option<Value>,
    #[serde(skip_serializing)]
    last_updated: Ignored,
}
