//! Management policies on the wire. Source: exchange-api 4.9.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::shared::OneProperty;
use super::{lenient, response};

/// Publishes or replaces a management policy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostManagementPolicy {
    /// Display name.
    #[serde(deserialize_with = "lenient::text")]
    pub label: String,
    /// Description; the label if absent.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Properties.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub properties: Option<Vec<OneProperty>>,
    /// Constraint expressions that select nodes; not together with `patterns`.
    #[serde(default, deserialize_with = "lenient::optional_texts")]
    pub constraints: Option<Vec<String>>,
    /// Patterns whose nodes are selected; not together with `constraints`.
    #[serde(default, deserialize_with = "lenient::optional_texts")]
    pub patterns: Option<Vec<String>>,
    /// True if nodes execute the policy.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub enabled: bool,
    /// When it starts: an instant, or `now`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub start: Option<String>,
    /// Seconds after the start over which nodes spread; a negative number counts as 0.
    #[serde(default, deserialize_with = "lenient::long")]
    pub start_window: i64,
    /// Upgrade of the agents.
    #[serde(default, deserialize_with = "lenient::optional_object")]
    pub agent_upgrade_policy: Option<AgentUpgradePolicy>,
}

/// Upgrade of agents to the versions of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentUpgradePolicy {
    /// True if an older version may be installed.
    #[serde(deserialize_with = "lenient::flag")]
    pub allow_downgrade: bool,
    /// Name of the manifest.
    #[serde(deserialize_with = "lenient::text_or_empty")]
    pub manifest: String,
    /// True if a node of an HA group is drained before its agent is upgraded; left out when false.
    #[serde(deserialize_with = "lenient::flag", skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
}

response! {
    /// A management policy.
    pub struct ManagementPolicyResponse {
        /// Upgrade of the agents.
        #[schema(value_type = AgentUpgradePolicy)]
        agent_upgrade_policy: Value,
        /// Constraint expressions.
        #[schema(value_type = Vec<String>)]
        constraints: Value,
        /// When it was published.
        created: String,
        /// Description.
        description: String,
        /// True if nodes execute the policy.
        enabled: bool,
        /// Display name.
        label: String,
        /// When it was changed last.
        last_updated: String,
        /// Account that owns it.
        owner: String,
        /// Patterns whose nodes are selected.
        #[schema(value_type = Vec<String>)]
        patterns: Value,
        /// Properties.
        #[schema(value_type = Vec<OneProperty>)]
        properties: Value,
        /// When it starts.
        start: String,
        /// Seconds after the start over which nodes spread.
        start_window: i64,
    }
}

impl ManagementPolicyResponse {
    /// Returns the agent upgrade of the policy; `None` when it has none.
    ///
    /// # Errors
    /// When the response of the exchange has another shape.
    pub fn agent_upgrade_policy(&self) -> Result<Option<AgentUpgradePolicy>, serde_json::Error> {
        let stored = &self.agent_upgrade_policy;
        if stored.is_null() { Ok(None) } else { response::part_of(stored.clone()).map(Some) }
    }

    /// Returns the constraint expressions.
    ///
    /// # Errors
    /// As those of [`ManagementPolicyResponse::agent_upgrade_policy`].
    pub fn constraints(&self) -> Result<Vec<String>, serde_json::Error> {
        response::part_of(self.constraints.clone())
    }

    /// Returns the patterns whose nodes are meant.
    ///
    /// # Errors
    /// As those of [`ManagementPolicyResponse::agent_upgrade_policy`].
    pub fn patterns(&self) -> Result<Vec<String>, serde_json::Error> {
        response::part_of(self.patterns.clone())
    }
}

response! {
    /// Management policies by `org/id`.
    pub struct ManagementPoliciesResponse {
        /// The policies.
        management_policy: BTreeMap<String, ManagementPolicyResponse>,
        /// Always 0.
        last_index: i64,
    }
}

/// Filters of the list; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct ManagementPoliciesQuery {
    /// Id as `org/id`.
    pub idfilter: Option<String>,
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Display name.
    pub label: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Name of the manifest.
    pub manifest: Option<String>,
}
