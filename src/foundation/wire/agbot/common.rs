//! What failing or selected nodes have in common.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Selection of nodes that are compared with all; without one, the nodes that are down are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(rename_all = "camelCase")]
pub struct CommonCausesQuery {
    /// Only nodes in this state: `up`, `away`, `down` or `never-heard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only nodes with this availability: `active`, `pause` or `drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<String>,
    /// Only members of this HA group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Only nodes whose properties satisfy this constraint, in the language of policies, such as `site == "north"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 4096)]
    pub filter: Option<String>,
    /// Values, 1 to 50; 10 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 50)]
    pub limit: Option<u16>,
}

/// What nodes have in common that is less frequent among all. Only nodes that the caller may read are counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommonCauses {
    /// The nodes: those on which a version failed, or those that were selected.
    #[schema(required = true)]
    pub failing: u64,
    /// All nodes with which they are compared, themselves included.
    #[schema(required = true)]
    pub whole: u64,
    /// The nodes with which they are compared: `attempted` (on which the version runs or failed), `selected` (those that the policy selects)
    /// or `organization`.
    #[schema(required = true)]
    pub reference: String,
    /// Values of these nodes that were examined.
    #[schema(required = true)]
    pub examined: u64,
    /// Names whose values were not examined, because these nodes have too many of them: serial numbers, for instance.
    #[schema(required = true)]
    pub skipped: u64,
    /// The values, the most strongly associated first.
    #[schema(required = true)]
    pub causes: Vec<CommonCause>,
}

/// A value that is more frequent among some nodes than among all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommonCause {
    /// `property`, `arch`, `agent-version`, `node-type`, `ha-group`, `fault-domain`, `upgrade-domain`, `pattern` or `service`.
    #[schema(required = true)]
    pub kind: String,
    /// Name of the property, or the service, `org/url`; left out for other kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The value; of a service its version.
    #[schema(required = true)]
    pub value: String,
    /// Failing nodes with the value.
    #[schema(required = true)]
    pub failing: u64,
    /// Nodes with the value, of all.
    #[schema(required = true)]
    pub whole: u64,
    /// Share of the failing nodes that have the value, relative to the share of all.
    #[schema(required = true)]
    pub lift: f64,
    /// Probability that so many failing nodes have the value if it has nothing to do with failing (Fisher's exact test, one-sided).
    #[schema(required = true)]
    pub probability: f64,
    /// Number of the examined values that chance alone would show as strongly.
    #[schema(required = true)]
    pub by_chance: f64,
    /// Human-readable summary.
    #[schema(required = true)]
    pub text: String,
}
