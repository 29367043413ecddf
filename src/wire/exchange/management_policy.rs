//! Management policies on the wire; see the exchange contract 4.9.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::lenient;
use super::shared::OneProperty;

/// Publishes or replaces a management policy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostManagementPolicy {
    /// Name for people.
    #[serde(deserialize_with = "lenient::text")]
    pub label: String,
    /// Words for people; without them the label.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Properties.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub properties: Option<Vec<OneProperty>>,
    /// Constraint expressions that choose nodes; not together with `patterns`.
    #[serde(default, deserialize_with = "lenient::optional_texts")]
    pub constraints: Option<Vec<String>>,
    /// Patterns whose nodes are meant; not together with `constraints`.
    #[serde(default, deserialize_with = "lenient::optional_texts")]
    pub patterns: Option<Vec<String>>,
    /// Whether nodes act on it.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub enabled: bool,
    /// When it starts: an instant, or `now`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub start: Option<String>,
    /// Seconds after the start over which nodes spread; a negative number counts as 0.
    #[serde(default, deserialize_with = "lenient::long")]
    pub start_window: i64,
    /// What agents upgrade to.
    #[serde(default, deserialize_with = "lenient::optional_object")]
    pub agent_upgrade_policy: Option<AgentUpgradePolicy>,
}

/// What agents upgrade to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentUpgradePolicy {
    /// May go to an older version.
    #[serde(deserialize_with = "lenient::flag")]
    pub allow_downgrade: bool,
    /// Name of the manifest.
    #[serde(deserialize_with = "text_or_empty")]
    pub manifest: String,
}

fn text_or_empty<'de, D: serde::Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    Ok(lenient::optional_text(input)?.unwrap_or_default())
}

/// A management policy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagementPolicyAnswer {
    /// What agents upgrade to.
    #[schema(value_type = AgentUpgradePolicy)]
    pub agent_upgrade_policy: Value,
    /// Constraint expressions.
    #[schema(value_type = Vec<String>)]
    pub constraints: Value,
    /// When it was published.
    pub created: String,
    /// Words for people.
    pub description: String,
    /// Whether nodes act on it.
    pub enabled: bool,
    /// Name for people.
    pub label: String,
    /// When it was changed last.
    pub last_updated: String,
    /// Account that owns it.
    pub owner: String,
    /// Patterns whose nodes are meant.
    #[schema(value_type = Vec<String>)]
    pub patterns: Value,
    /// Properties.
    #[schema(value_type = Vec<OneProperty>)]
    pub properties: Value,
    /// When it starts.
    pub start: String,
    /// Seconds after the start over which nodes spread.
    pub start_window: i64,
}

/// Management policies by `org/id`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagementPoliciesAnswer {
    /// The policies.
    pub management_policy: BTreeMap<String, ManagementPolicyAnswer>,
    /// Always 0.
    pub last_index: i64,
}

/// Filters of the list; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct ManagementPoliciesQuery {
    /// Id as `org/id`.
    pub idfilter: Option<String>,
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Name for people.
    pub label: Option<String>,
    /// Words for people.
    pub description: Option<String>,
    /// Name of the manifest.
    pub manifest: Option<String>,
}
