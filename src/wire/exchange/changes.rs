//! The change feed on the wire; see the exchange contract section 5.

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
    /// Most changes wanted; 0 or absent: none.
    #[serde(default, deserialize_with = "lenient::int")]
    pub max_records: i64,
    /// Organizations a multi-tenant agbot wants; `*` is all.
    #[serde(default, deserialize_with = "org_list", skip_serializing_if = "Option::is_none")]
    pub org_list: Option<Vec<String>>,
}

/// Entries that name no organization are left out.
fn org_list<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<String>>, D::Error> {
    let Some(entries) = Option::<Vec<Value>>::deserialize(input)? else { return Ok(None) };
    let named: Vec<Value> = entries.into_iter().filter(|entry| !entry.is_null()).collect();
    lenient::optional_texts(Value::Array(named)).map_err(serde::de::Error::custom)
}

/// Changes, grouped by resource.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesAnswer {
    /// Changed resources, in no particular order.
    pub changes: Vec<ChangedResource>,
    /// The next poll asks for this number plus one.
    pub most_recent_change_id: i64,
    /// There may be more right away.
    pub hit_max_records: bool,
    /// Version of the API.
    pub exchange_version: String,
}

/// One resource that changed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedResource {
    /// Organization of the resource.
    pub org_id: String,
    /// Kind of resource.
    pub resource: String,
    /// Bare id.
    pub id: String,
    /// What happened last.
    pub operation: String,
    /// Each change, ascending.
    pub resource_changes: Vec<NumberedAt>,
}

/// One change of a resource.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NumberedAt {
    /// Its number.
    pub change_id: i64,
    /// When it happened.
    pub last_updated: String,
}

/// The last number of the feed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaxChangeId {
    /// The number.
    pub max_change_id: i64,
}

/// Which changes to remove.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanupRequest {
    /// Numbers; none: all of the organization.
    #[serde(default)]
    pub resources: Vec<i64>,
}
