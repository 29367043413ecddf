//! The change feed (exchange API 5).

use serde::{Deserialize, Serialize};

/// Asks for changes from a number on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangesRequest {
    /// First number wanted; 0 reads from the beginning.
    pub change_id: i64,
    /// Most changes in one answer; 0 returns none.
    pub max_records: i64,
    /// Organisations wanted, `*` for all (agbots that serve several only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org_list: Option<Vec<String>>,
}

tolerant! {
    /// One number at which a resource changed.
    pub struct ChangeMoment {
        /// Number of the change.
        change_id: i64,
        /// When.
        last_updated: String,
    }
}

tolerant! {
    /// The changes of one resource.
    pub struct ResourceChange {
        /// Organisation.
        org_id: String,
        /// Kind, such as `nodemsgs`.
        resource: String,
        /// Id without organisation.
        id: String,
        /// Latest operation.
        operation: String,
        /// Each change.
        resource_changes: Vec<ChangeMoment>,
    }
}

tolerant! {
    /// An answer of the change feed.
    pub struct ChangesAnswer {
        /// Changes grouped by resource, in no order.
        changes: Vec<ResourceChange>,
        /// Number after which to go on.
        most_recent_change_id: i64,
        /// Whether more is waiting.
        hit_max_records: bool,
        /// Version of the exchange.
        exchange_version: String,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MaxChangeId {
    #[serde(default)]
    pub max_change_id: i64,
}
