//! The change feed on the wire. Source: exchange-api 5.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::lenient;

/// Asks for changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangesRequest {
    /// First number wanted; 0 or less: from the beginning.
    #[serde(default, deserialize_with = "lenient::long")]
    pub change_id: i64,
    /// Only used without a number: instant to start from.
    #[serde(default, deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<String>,
    /// Maximum number of changes; 0 or absent: none.
    #[serde(default, deserialize_with = "lenient::int")]
    pub max_records: i64,
    /// Organizations a multi-tenant agbot wants; `*` is all.
    #[serde(default, deserialize_with = "org_list", skip_serializing_if = "Option::is_none")]
    pub org_list: Option<Vec<String>>,
    /// True to receive records that the reference does not have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extensions: bool,
}

/// Entries that name no organization are left out.
fn org_list<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<String>>, D::Error> {
    let Some(entries) = Option::<Vec<Value>>::deserialize(input)? else { return Ok(None) };
    let named: Vec<Value> = entries.into_iter().filter(|entry| !entry.is_null()).collect();
    lenient::optional_texts(Value::Array(named)).map_err(serde::de::Error::custom)
}

response! {
    /// Changes, grouped by resource.
    pub struct ChangesResponse {
        /// Changed resources, in no particular order.
        changes: Vec<ChangedResource>,
        /// The next poll asks for this number plus one.
        most_recent_change_id: i64,
        /// True if more changes may be available now.
        hit_max_records: bool,
        /// Version of the API.
        exchange_version: String,
    }
}

response! {
    /// One resource that changed.
    pub struct ChangedResource {
        /// Organization of the resource.
        org_id: String,
        /// Kind of resource.
        resource: String,
        /// Bare id.
        id: String,
        /// The latest operation.
        operation: String,
        /// Each change, ascending.
        resource_changes: Vec<NumberedAt>,
    }
}

response! {
    /// One change of a resource.
    pub struct NumberedAt {
        /// Its number.
        change_id: i64,
        /// When it happened.
        last_updated: String,
    }
}

response! {
    /// The last number of the feed.
    pub struct MaxChangeId {
        /// The number.
        max_change_id: i64,
    }
}

/// Selection of changes to remove.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanupRequest {
    /// Numbers; none: all of the organization.
    #[serde(default)]
    pub resources: Vec<i64>,
}
