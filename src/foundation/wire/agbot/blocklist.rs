//! The node blocklist: nodes on which a service version is blocked because it keeps failing there.
//!
//! Source: orchestration D4.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A node that is blocked for a service version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BlocklistEntry {
    /// The node.
    #[schema(required = true)]
    pub node: String,
    /// The service, as `org/url`.
    #[schema(required = true)]
    pub service: String,
    /// Its version.
    #[schema(required = true)]
    pub version: String,
    /// Failures that led to the block, and those during it.
    #[schema(required = true)]
    pub failures: u32,
    /// Consecutive blocks; each is longer than the one before.
    #[schema(required = true)]
    pub blocks: u32,
    /// Since when the node is blocked.
    #[schema(required = true)]
    pub since: String,
    /// Until when the node is blocked.
    #[schema(required = true)]
    pub until: String,
    /// The text of the last failure.
    #[schema(required = true)]
    pub last_failure: String,
}

/// The node blocklist of an organization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BlocklistResponse {
    /// The entries, by node and service.
    #[schema(required = true)]
    pub entries: Vec<BlocklistEntry>,
}

/// Selection of entries.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
pub struct BlocklistQuery {
    /// Only entries of this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only entries of this service, as `org/url`; the organization may be left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}
