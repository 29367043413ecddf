//! Maintenance of the node, announced by its operator on the machine.

use serde::{Deserialize, Serialize};

/// Begins maintenance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PutMaintenance {
    /// Time after which it ends, in seconds; none: when it is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<u64>,
    /// True if the node is being upgraded: instances that leave it meanwhile return afterwards.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub upgrade: bool,
}

/// Maintenance state of the node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenanceResponse {
    /// True if the node is in maintenance.
    pub is_on: bool,
    /// True if the node is being upgraded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub upgrade: bool,
    /// When it ends, in seconds since 1970; none: when it is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}
