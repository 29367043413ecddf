//! Services on the wire. Source: exchange-api 4.6.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::shared::{OneProperty, free_map, optional_text_maps};
use super::{lenient, query, response};

/// Publishes or replaces a service.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostService {
    /// Display name.
    #[serde(deserialize_with = "lenient::text")]
    pub label: String,
    /// Description; the label if absent.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Readable from every organization.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub public: bool,
    /// Url of a page about the service.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub documentation: Option<String>,
    /// Url that names the service.
    #[serde(deserialize_with = "lenient::text")]
    pub url: String,
    /// Version: `n`, `n.n` or `n.n.n`.
    #[serde(deserialize_with = "lenient::text")]
    pub version: String,
    /// Architecture.
    #[serde(deserialize_with = "lenient::text")]
    pub arch: String,
    /// `exclusive`, `single`, `singleton` or `multiple`.
    #[serde(deserialize_with = "lenient::text")]
    pub sharable: String,
    /// Hardware that the service requires, as given.
    #[serde(default, deserialize_with = "free_map")]
    #[schema(value_type = Option<Object>)]
    pub match_hardware: Option<Map<String, Value>>,
    /// Required services.
    #[serde(default, deserialize_with = "lenient::optional_objects")]
    pub required_services: Option<Vec<RequiredService>>,
    /// Variables of the service: objects of texts, as given.
    #[serde(default, deserialize_with = "optional_text_maps")]
    #[schema(value_type = Option<Vec<BTreeMap<String, Option<String>>>>)]
    pub user_input: Option<Vec<Value>>,
    /// Deployment on devices, as text.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub deployment: Option<String>,
    /// Signature of `deployment`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub deployment_signature: Option<String>,
    /// Deployment on clusters, as text.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub cluster_deployment: Option<String>,
    /// Signature of `clusterDeployment`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub cluster_deployment_signature: Option<String>,
    /// Source of the images, as given.
    #[serde(default, deserialize_with = "free_map")]
    #[schema(value_type = Option<Object>)]
    pub image_store: Option<Map<String, Value>>,
}

/// Changes one attribute of a service: the first member present counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PatchService {
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub label: Option<String>,
    /// Description.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Readable from every organization.
    #[serde(deserialize_with = "lenient::optional_json_flag")]
    pub public: Option<bool>,
    /// Url of a page about the service.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub documentation: Option<String>,
    /// Refused: part of the id.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub url: Option<String>,
    /// Refused: part of the id.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub version: Option<String>,
    /// Refused: part of the id.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub arch: Option<String>,
    /// `exclusive`, `single`, `singleton` or `multiple`.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub sharable: Option<String>,
    /// Hardware that the service requires, as given.
    #[serde(deserialize_with = "free_map")]
    #[schema(value_type = Option<Object>)]
    pub match_hardware: Option<Map<String, Value>>,
    /// Required services.
    #[serde(deserialize_with = "lenient::optional_objects")]
    pub required_services: Option<Vec<RequiredService>>,
    /// Variables of the service.
    #[serde(deserialize_with = "optional_text_maps")]
    #[schema(value_type = Option<Vec<BTreeMap<String, Option<String>>>>)]
    pub user_input: Option<Vec<Value>>,
    /// Deployment on devices.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub deployment: Option<String>,
    /// Signature of `deployment`.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub deployment_signature: Option<String>,
    /// Refused: changed by replacing the service.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub cluster_deployment: Option<String>,
    /// Refused: changed by replacing the service.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub cluster_deployment_signature: Option<String>,
    /// Source of the images, as given.
    #[serde(deserialize_with = "free_map")]
    #[schema(value_type = Option<Object>)]
    pub image_store: Option<Map<String, Value>>,
}

/// A service that another one requires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequiredService {
    /// Url.
    #[serde(deserialize_with = "lenient::text")]
    pub url: String,
    /// Organization.
    #[serde(deserialize_with = "lenient::text")]
    pub org: String,
    /// Older name of `versionRange`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub version: Option<String>,
    /// Compatible versions.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub version_range: Option<String>,
    /// Architecture: that of the service itself.
    #[serde(deserialize_with = "lenient::text")]
    pub arch: String,
}

response! {
    /// A service.
    pub struct ServiceResponse {
        /// Architecture.
        arch: String,
        /// Deployment on clusters.
        cluster_deployment: String,
        /// Signature of `clusterDeployment`.
        cluster_deployment_signature: String,
        /// Deployment on devices.
        deployment: String,
        /// Signature of `deployment`.
        deployment_signature: String,
        /// Description.
        description: String,
        /// Url of a page about the service.
        documentation: String,
        /// Source of the images.
        #[schema(value_type = Object)]
        image_store: Value,
        /// Display name.
        label: String,
        /// When it was changed last.
        last_updated: String,
        /// Hardware that the service requires.
        #[schema(value_type = Object)]
        match_hardware: Value,
        /// Organization.
        organization: String,
        /// Account that owns it.
        owner: String,
        /// Readable from every organization.
        public: bool,
        /// Required services.
        #[schema(value_type = Vec<RequiredService>)]
        required_services: Value,
        /// Sharing of an instance by agreements.
        sharable: String,
        /// Url that names the service.
        url: String,
        /// Variables of the service.
        #[schema(value_type = Vec<Object>)]
        user_input: Value,
        /// Version.
        version: String,
    }
}

impl ServiceResponse {
    /// Returns the services that this one needs.
    ///
    /// # Errors
    /// When the response of the exchange has another shape.
    pub fn required_services(&self) -> Result<Vec<RequiredService>, serde_json::Error> {
        response::part_of(self.required_services.clone())
    }

    /// Returns the variables of the service, one object for each.
    ///
    /// # Errors
    /// As those of [`ServiceResponse::required_services`].
    pub fn user_input(&self) -> Result<Vec<Value>, serde_json::Error> {
        response::part_of(self.user_input.clone())
    }
}

response! {
    /// Services by `org/id`.
    pub struct ServicesResponse {
        /// The services.
        services: BTreeMap<String, ServiceResponse>,
        /// Always 0.
        last_index: i64,
        paged
    }
}

/// Filters of the service lists; texts are patterns with `%` and `_`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct ServicesQuery {
    /// Owner as `org/name`.
    pub owner: Option<String>,
    /// Only public services, or only others.
    #[serde(deserialize_with = "query::optional_flag")]
    #[param(value_type = Option<bool>)]
    pub public: Option<bool>,
    /// Url.
    pub url: Option<String>,
    /// Version, exactly.
    pub version: Option<String>,
    /// Architecture.
    pub arch: Option<String>,
    /// `device` (has a deployment) or `cluster` (has a cluster deployment).
    pub nodetype: Option<String>,
    /// URL of a required service.
    pub requiredurl: Option<String>,
}

/// Replaces the policy of a service.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PutServicePolicy {
    /// Display name.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub label: Option<String>,
    /// Description; the label if absent.
    #[serde(deserialize_with = "lenient::optional_text")]
    pub description: Option<String>,
    /// Properties.
    #[serde(deserialize_with = "lenient::objects")]
    pub properties: Vec<OneProperty>,
    /// Constraint expressions.
    #[serde(deserialize_with = "lenient::texts")]
    pub constraints: Vec<String>,
}

response! {
    /// The policy of a service.
    pub struct ServicePolicyResponse {
        /// Display name.
        label: String,
        /// Description.
        description: String,
        /// Properties.
        #[schema(value_type = Vec<OneProperty>)]
        properties: Value,
        /// Constraint expressions.
        #[schema(value_type = Vec<String>)]
        constraints: Value,
        /// When it was changed last.
        last_updated: String,
    }
}

/// Credentials for a registry.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutDockAuth {
    /// Host of the registry.
    #[serde(deserialize_with = "lenient::text")]
    pub registry: String,
    /// Name to log in with; without it `token`.
    #[serde(default, deserialize_with = "lenient::optional_text")]
    pub username: Option<String>,
    /// Secret to log in with.
    #[serde(deserialize_with = "lenient::text")]
    pub token: String,
}

response! {
    /// Credentials for a registry as stored.
    pub struct DockAuthResponse {
        /// Its number.
        dock_auth_id: i32,
        /// Host of the registry.
        registry: String,
        /// Name to log in with.
        username: String,
        /// Secret to log in with.
        token: String,
        /// When it was changed last.
        last_updated: String,
    }
}
