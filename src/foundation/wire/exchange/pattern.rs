//! Patterns on the wire. Source: exchange-api 4.7.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::shared::{OneSecretBinding, flag_or_none, free_map, int_map, optional_text_maps, text_map};
use super::user_input::UserInputService;
use super::{lenient, query, response};

/// Publishes or replaces a pattern.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostPattern {
    /// Display name.
    #[serde(deserialize_with = "lenient::text")]
    pub label: String,
    /// Description; the label if absent.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Readable from every organization; only in organizations of type IBM.
    #[serde(default, deserialize_with = "lenient::json_flag")]
    pub public: bool,
    /// Deployed services, at least one.
    #[serde(deserialize_with = "lenient::objects")]
    pub services: Vec<PatternService>,
    /// Values for variables of services.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub user_input: Option<Vec<UserInputService>>,
    /// Sources of secrets.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub secret_binding: Option<Vec<OneSecretBinding>>,
    /// Objects of texts; without them `[{"name":"Basic"}]`.
    #[serde(default, deserialize_with = "optional_text_maps")]
    #[schema(value_type = Option<Vec<BTreeMap<String, Option<String>>>>)]
    pub agreement_protocols: Option<Vec<Value>>,
    /// Namespace on cluster nodes.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub cluster_namespace: Option<String>,
}

/// Changes one attribute of a pattern: the first member present counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PatchPattern {
    /// Agreement protocols.
    #[serde(deserialize_with = "optional_text_maps")]
    #[schema(value_type = Option<Vec<BTreeMap<String, Option<String>>>>)]
    pub agreement_protocols: Option<Vec<Value>>,
    /// Namespace on cluster nodes.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub cluster_namespace: Option<String>,
    /// Description.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub label: Option<String>,
    /// Readable from every organization.
    #[serde(deserialize_with = "lenient::optional_json_flag")]
    pub public: Option<bool>,
    /// Sources of secrets.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub secret_binding: Option<Vec<OneSecretBinding>>,
    /// Deployed services.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub services: Option<Vec<PatternService>>,
    /// Values for variables of services.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub user_input: Option<Vec<UserInputService>>,
}

/// A service that a pattern deploys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatternService {
    /// Url.
    #[serde(deserialize_with = "lenient::text")]
    pub service_url: String,
    /// Organization.
    #[serde(deserialize_with = "lenient::text")]
    pub service_orgid: String,
    /// Architecture, exactly.
    #[serde(deserialize_with = "lenient::text")]
    pub service_arch: String,
    /// True if it runs without an agreement; any value but a boolean counts as absent.
    #[serde(default, deserialize_with = "flag_or_none")]
    pub agreement_less: Option<bool>,
    /// Versions to choose from, at least one.
    #[serde(deserialize_with = "lenient::objects")]
    pub service_versions: Vec<PatternServiceVersion>,
    /// Data verification, as given.
    #[serde(default, deserialize_with = "free_map")]
    #[schema(value_type = Option<Object>)]
    pub data_verification: Option<Map<String, Value>>,
    /// When a silent node counts as lost, in seconds.
    #[serde(default, deserialize_with = "int_map")]
    #[schema(value_type = Option<BTreeMap<String, i32>>)]
    pub node_health: Option<Map<String, Value>>,
}

/// A version that a pattern may choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatternServiceVersion {
    /// Version, exactly.
    #[serde(deserialize_with = "lenient::text")]
    pub version: String,
    /// Changes to the deployment, as text.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub deployment_overrides: Option<String>,
    /// Signature of `deployment_overrides`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub deployment_overrides_signature: Option<String>,
    /// Order in which versions are tried.
    #[serde(default, deserialize_with = "int_map")]
    #[schema(value_type = Option<BTreeMap<String, i32>>)]
    pub priority: Option<Map<String, Value>>,
    /// Rule for upgrades to a newer version.
    #[serde(default, rename = "upgradePolicy", deserialize_with = "text_map")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub upgrade_policy: Option<Map<String, Value>>,
}

response! {
    /// A pattern.
    pub struct PatternResponse {
        /// Account that owns it.
        owner: String,
        /// Display name.
        label: String,
        /// Description.
        description: String,
        /// Readable from every organization.
        public: bool,
        /// Deployed services.
        #[schema(value_type = Vec<PatternService>)]
        services: Value,
        /// Values for variables of services.
        #[schema(value_type = Vec<UserInputService>)]
        user_input: Value,
        /// Sources of secrets.
        #[schema(value_type = Vec<OneSecretBinding>)]
        secret_binding: Value,
        /// Agreement protocols.
        #[schema(value_type = Vec<BTreeMap<String, Option<String>>>)]
        agreement_protocols: Value,
        /// When it was changed last.
        last_updated: String,
        /// Namespace on cluster nodes.
        cluster_namespace: String,
    }
}

impl PatternResponse {
    /// Returns the services that the pattern deploys.
    ///
    /// # Errors
    /// When the response of the exchange has another shape.
    pub fn services(&self) -> Result<Vec<PatternService>, serde_json::Error> {
        response::part_of(self.services.clone())
    }
}

response! {
    /// Patterns by `org/id`.
    pub struct PatternsResponse {
        /// The patterns.
        patterns: BTreeMap<String, PatternResponse>,
        /// Always 0.
        last_index: i64,
        paged
    }
}

/// Filters of the pattern lists; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct PatternsQuery {
    /// Id as `org/id`.
    pub idfilter: Option<String>,
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Only public patterns, or only others.
    #[serde(deserialize_with = "query::optional_flag")]
    #[param(value_type = Option<bool>)]
    pub public: Option<bool>,
    /// Display name.
    pub label: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Namespace on cluster nodes.
    pub clusternamespace: Option<String>,
}
