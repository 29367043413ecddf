//! Deployment policies and patterns (exchange API 4.7, 4.8).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::or_default;

/// A deployment policy; fields that this version does not know are kept in `other`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPolicy {
    /// Owner, `org/user`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Display name.
    #[serde(default, deserialize_with = "or_default")]
    pub label: String,
    /// Text for people.
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    /// The service and its versions.
    #[serde(default, deserialize_with = "or_default")]
    pub service: Value,
    /// Properties.
    #[serde(default, deserialize_with = "or_default")]
    pub properties: Vec<Value>,
    /// Constraints.
    #[serde(default, deserialize_with = "or_default")]
    pub constraints: Vec<String>,
    /// User input for services.
    #[serde(default, deserialize_with = "or_default")]
    pub user_input: Vec<Value>,
    /// Secret bindings.
    #[serde(default, deserialize_with = "or_default")]
    pub secret_binding: Vec<Value>,
    /// Where its service runs and how it is updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestration: Option<Value>,
    /// Creation.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Last change.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub last_updated: String,
    /// Further fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeploymentPolicyMap {
    #[serde(default)]
    pub business_policy: BTreeMap<String, DeploymentPolicy>,
}

#[derive(Deserialize, Default)]
pub(crate) struct PatternMap {
    #[serde(default)]
    pub patterns: BTreeMap<String, Value>,
}
