//! Organisations, users, HA groups and searches over nodes (exchange API 4.2, 4.3, 6, 7).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HeartbeatIntervals;

tolerant! {
    /// An organisation.
    pub struct Org {
        /// Kind of organisation, usually empty.
        org_type: String,
        /// Display name.
        label: String,
        /// Text for people.
        description: String,
        /// Tags.
        tags: Option<Value>,
        /// Limits such as `maxNodes`.
        limits: Option<Value>,
        /// Polling intervals of its nodes.
        heartbeat_intervals: HeartbeatIntervals,
        /// Last change.
        last_updated: String,
    }
}

tolerant! {
    /// A user.
    pub struct User {
        /// Whether the user administrates the organisation.
        admin: bool,
        /// Whether the user administrates the hub.
        hub_admin: bool,
        /// E-mail address.
        email: String,
        /// API keys without their values.
        apikeys: Vec<Value>,
        /// Who changed the record last.
        updated_by: String,
        /// Last change.
        last_updated: String,
    }
}

tolerant! {
    /// A group of nodes that must never be down together.
    pub struct HaGroup {
        /// Name.
        name: String,
        /// Text for people.
        description: String,
        /// Node ids without organisation, sorted.
        members: Vec<String>,
        /// Whether an administrator made it.
        admin: bool,
        /// Last change.
        last_updated: String,
    }
}

/// Creates or replaces an HA group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PutHaGroup {
    /// Text for people; absent keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Node ids; absent keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
}

/// Asks for nodes that a deployment policy may be offered to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySearch {
    /// Only nodes changed since, in seconds since 1970; 0 for all.
    pub changed_since: i64,
    /// Organisations of the nodes; absent means that of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_orgids: Option<Vec<String>>,
    /// Page size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_entries: Option<i64>,
    /// Name of the paging session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

tolerant! {
    /// A node found by a search.
    pub struct FoundNode {
        /// `org/node`.
        id: String,
        /// `device` or `cluster`.
        node_type: String,
        /// Messaging key, base64.
        public_key: String,
    }
}

tolerant! {
    /// The nodes found by a search.
    pub struct FoundNodes {
        /// Nodes.
        nodes: Vec<FoundNode>,
        /// Whether the paging session moved on.
        offset_updated: bool,
    }
}

tolerant! {
    /// An agreement in a health search.
    pub struct HealthAgreement {
        /// Last change.
        last_updated: String,
    }
}

tolerant! {
    /// A node in a health search.
    pub struct NodeHealth {
        /// Last heartbeat.
        last_heartbeat: Option<String>,
        /// Agreements by id.
        agreements: BTreeMap<String, HealthAgreement>,
    }
}

#[derive(Deserialize, Default)]
pub(crate) struct OrgMap {
    #[serde(default)]
    pub orgs: BTreeMap<String, Org>,
}

#[derive(Deserialize, Default)]
pub(crate) struct UserMap {
    #[serde(default)]
    pub users: BTreeMap<String, User>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HaGroupList {
    #[serde(default)]
    pub node_groups: Vec<HaGroup>,
}

#[derive(Deserialize, Default)]
pub(crate) struct NodeHealthMap {
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeHealth>,
}
