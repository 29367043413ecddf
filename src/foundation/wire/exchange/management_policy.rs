//! Management policies on the wire. Source: exchange-api 4.9.

use std::collections::BTreeMap;

use evenkeel_domain::policy::{ConstraintList, PropertyList};
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

    /// Returns the properties.
    ///
    /// # Errors
    /// As those of [`ManagementPolicyResponse::agent_upgrade_policy`].
    pub fn properties(&self) -> Result<PropertyList, serde_json::Error> {
        response::part_of(self.properties.clone())
    }

    /// Returns what cannot be read of the policy. With such a part it selects no node.
    pub fn errors(&self) -> Vec<String> {
        let constraints = match self.constraints() {
            Ok(texts) => ConstraintList::from(texts).errors().iter().map(ToString::to_string).collect(),
            Err(error) => vec![format!("constraints: {error}")],
        };
        let members = [
            ("patterns", self.patterns().err()),
            ("properties", self.properties().err()),
            ("agentUpgradePolicy", self.agent_upgrade_policy().err()),
        ];
        let members = members.into_iter().filter_map(|(member, error)| Some(format!("{member}: {}", error?)));
        constraints.into_iter().chain(members).collect()
    }
}

response! {
    /// Management policies by `org/id`.
    pub struct ManagementPoliciesResponse {
        /// The policies.
        management_policy: BTreeMap<String, ManagementPolicyResponse>,
        /// Always 0.
        last_index: i64,
        paged
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(document: Value) -> Vec<String> {
        serde_json::from_value::<ManagementPolicyResponse>(document).expect("a response").errors()
    }

    #[test]
    fn each_part_that_cannot_be_read_is_named() {
        let unnamed = json!([{"value": 1}, {"name": "a", "value": null, "type": null}]);
        for readable in [
            json!({}),
            json!({"constraints": null, "patterns": null, "properties": null, "agentUpgradePolicy": null}),
            json!({"constraints": ["a == b"], "properties": unnamed, "agentUpgradePolicy": {"manifest": null}}),
        ] {
            assert_eq!(errors(readable.clone()), [""; 0], "{readable}");
        }
        for (part, member) in [
            (json!({"constraints": "a == b"}), "constraints: "),
            (json!({"constraints": ["a =="]}), "constraint 0"),
            (json!({"patterns": [1]}), "patterns: "),
            (json!({"properties": [1]}), "properties: "),
            (json!({"agentUpgradePolicy": {"manifest": [1]}}), "agentUpgradePolicy: "),
            (json!({"agentUpgradePolicy": "m"}), "agentUpgradePolicy: "),
        ] {
            let found = errors(part.clone());
            assert!(found.len() == 1 && found[0].starts_with(member), "{part}: {found:?}");
        }
    }
}
