//! Deployment policies on the wire. Source: exchange-api 4.8.

use std::collections::BTreeMap;

use evenkeel_domain::orchestration::Orchestration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::shared::{OneProperty, OneSecretBinding, int_map, text_map};
use super::user_input::UserInputService;
use super::{lenient, query, response};

/// Options of the removal of a deployment policy.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct RemovalQuery {
    /// The instances stop although workloads in `orchestration.children` are up.
    #[serde(deserialize_with = "query::optional_flag")]
    pub force: Option<bool>,
}

/// Publishes or replaces a deployment policy.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostDeploymentPolicy {
    /// Display name.
    #[serde(deserialize_with = "lenient::text")]
    pub label: String,
    /// Description; the label if absent.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// The deployed service.
    #[serde(deserialize_with = "lenient::object")]
    pub service: DeployedService,
    /// Values for variables of services.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub user_input: Option<Vec<UserInputService>>,
    /// Sources of secrets.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub secret_binding: Option<Vec<OneSecretBinding>>,
    /// Properties.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub properties: Option<Vec<OneProperty>>,
    /// Constraint expressions.
    #[serde(default, deserialize_with = "lenient::optional_texts")]
    pub constraints: Option<Vec<String>>,
    /// Placement and update of the service; the settings of the hub by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Orchestration>)]
    pub orchestration: Option<Value>,
}

/// Changes one attribute of a deployment policy: the first member present counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PatchDeploymentPolicy {
    /// Constraint expressions.
    #[serde(deserialize_with = "lenient::optional_texts")]
    pub constraints: Option<Vec<String>>,
    /// Description.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub label: Option<String>,
    /// Properties.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub properties: Option<Vec<OneProperty>>,
    /// Sources of secrets.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub secret_binding: Option<Vec<OneSecretBinding>>,
    /// The deployed service.
    #[serde(deserialize_with = "lenient::optional_object")]
    pub service: Option<DeployedService>,
    /// Values for variables of services.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub user_input: Option<Vec<UserInputService>>,
    /// Placement and update of the service; `null` removes it.
    #[serde(deserialize_with = "lenient::given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Orchestration>)]
    pub orchestration: Option<Option<Value>>,
    /// The `lastUpdated` of the policy on which the change is based: the change is rejected if the policy was
    /// written since.
    #[serde(deserialize_with = "lenient::optional_text", skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<String>,
}

/// The service that a deployment policy deploys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeployedService {
    /// Url.
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// Organization.
    #[serde(deserialize_with = "lenient::text")]
    pub org: String,
    /// Architecture; `*` or the empty text is any.
    #[serde(deserialize_with = "lenient::text")]
    pub arch: String,
    /// Versions to choose from, at least one.
    #[serde(deserialize_with = "lenient::objects")]
    pub service_versions: Vec<DeployedServiceVersion>,
    /// When a silent node counts as lost, in seconds.
    #[serde(default, deserialize_with = "int_map")]
    #[schema(value_type = Option<BTreeMap<String, i32>>)]
    pub node_health: Option<Map<String, Value>>,
    /// Namespace on cluster nodes.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub cluster_namespace: Option<String>,
}

/// A version that a deployment policy may choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeployedServiceVersion {
    /// Version, exactly.
    #[serde(deserialize_with = "lenient::text")]
    pub version: String,
    /// Order in which versions are tried.
    #[serde(default, deserialize_with = "int_map")]
    #[schema(value_type = Option<BTreeMap<String, i32>>)]
    pub priority: Option<Map<String, Value>>,
    /// Rule for upgrades to a newer version.
    #[serde(default, deserialize_with = "text_map")]
    #[schema(value_type = Option<BTreeMap<String, Option<String>>>)]
    pub upgrade_policy: Option<Map<String, Value>>,
    /// Environment variables that replace those of the service's deployment, as patterns have them; an extension.
    #[serde(
        rename = "deployment_overrides",
        default,
        deserialize_with = "lenient::optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub deployment_overrides: Option<String>,
    /// Signature of `deployment_overrides`.
    #[serde(
        rename = "deployment_overrides_signature",
        default,
        deserialize_with = "lenient::optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub deployment_overrides_signature: Option<String>,
}

response! {
    /// A deployment policy.
    pub struct DeploymentPolicyResponse {
        /// Constraint expressions.
        #[schema(value_type = Vec<String>)]
        constraints: Value,
        /// When it was published.
        created: String,
        /// Description.
        description: String,
        /// Display name.
        label: String,
        /// When it was changed last.
        last_updated: String,
        /// Placement and update of the service; only when the policy contains it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Orchestration>)]
        orchestration: Option<Value>,
        /// Account that owns it.
        owner: String,
        /// Properties.
        #[schema(value_type = Vec<OneProperty>)]
        properties: Value,
        /// Sources of secrets.
        #[schema(value_type = Vec<OneSecretBinding>)]
        secret_binding: Value,
        /// The deployed service.
        #[schema(value_type = DeployedService)]
        service: Value,
        /// Values for variables of services.
        #[schema(value_type = Vec<UserInputService>)]
        user_input: Value,
    }
}

impl DeploymentPolicyResponse {
    /// Returns the deployed service.
    ///
    /// # Errors
    /// When the response of the exchange has another shape.
    pub fn service(&self) -> Result<DeployedService, serde_json::Error> {
        response::part_of(self.service.clone())
    }
}

response! {
    /// Deployment policies by `org/id`.
    pub struct DeploymentPoliciesResponse {
        /// The policies.
        business_policy: BTreeMap<String, DeploymentPolicyResponse>,
        /// Always 0.
        last_index: i64,
        paged
    }
}

/// Filters of the list; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct DeploymentPoliciesQuery {
    /// Id as `org/id`.
    pub idfilter: Option<String>,
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Display name.
    pub label: Option<String>,
    /// Description.
    pub description: Option<String>,
}
