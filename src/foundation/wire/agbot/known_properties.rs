//! Names, values and operators of the properties of nodes, to complete a constraint.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Selection of properties.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
pub struct KnownPropertiesQuery {
    /// Only properties whose name begins with this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(max_length = 256)]
    pub prefix: Option<String>,
    /// Properties, 1 to 200; 50 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 200)]
    pub limit: Option<u16>,
}

/// The properties of the nodes of an organization that the caller may read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct KnownProperties {
    /// The properties that most nodes have, and then by name.
    #[schema(required = true)]
    pub properties: Vec<KnownProperty>,
    /// True if there are more.
    #[schema(required = true)]
    pub more: bool,
}

/// A property of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct KnownProperty {
    /// Its name.
    #[schema(required = true)]
    pub name: String,
    /// Nodes that have it; of a name with more than 500 values, those with one of the values that were counted.
    #[schema(required = true)]
    pub nodes: u64,
    /// The operators that fit its values.
    #[schema(required = true)]
    pub operators: Vec<String>,
    /// Its most frequent values, at most 20.
    #[schema(required = true)]
    pub values: Vec<KnownValue>,
    /// True if it has more values.
    #[schema(required = true)]
    pub more: bool,
}

/// A value of a property.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct KnownValue {
    /// The value in words.
    #[schema(required = true)]
    pub value: String,
    /// Nodes that have it.
    #[schema(required = true)]
    pub nodes: u64,
}
